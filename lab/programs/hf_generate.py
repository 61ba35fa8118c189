"""Generates continuations of prompts with a Llama of random weights."""

import argparse
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StoppingCriteria

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=4)
parser.add_argument("--prompt_length", type=int, default=512)
parser.add_argument("--max_new_tokens", type=int, default=64)
parser.add_argument("--num_beams", type=int, default=1)
parser.add_argument("--num_return_sequences", type=int, default=1)
parser.add_argument("--torch_dtype", default="float32", choices=["float32", "bfloat16"])
args = parser.parse_args()
print(f"generation config: {vars(args)}", flush=True)

config = LlamaConfig(
    vocab_size=4096, hidden_size=128, intermediate_size=128, num_hidden_layers=16, num_attention_heads=4,
    max_position_embeddings=8192, bos_token_id=1, eos_token_id=None, pad_token_id=0,
)  # fmt: skip
model = LlamaForCausalLM(config).to(getattr(torch, args.torch_dtype)).eval()
heads, size = config.num_key_value_heads, config.hidden_size // config.num_attention_heads
per_token = 2 * config.num_hidden_layers * heads * size * model.dtype.itemsize
print(f"{model.num_parameters() / 1e6:.1f}M parameters, KV cache of {per_token} bytes per token", flush=True)
start = time.time()


class Progress(StoppingCriteria):
    def __call__(self, input_ids, scores, **kwargs):
        if (input_ids.shape[1] - args.prompt_length) % 8 == 1:
            rows, length = input_ids.shape
            print(f"{rows} sequences of {length} tokens, {time.time() - start:.1f} s", flush=True)
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)


prompts = torch.randint(2, 4096, (args.batch_size, args.prompt_length))
outputs = model.generate(
    prompts,
    attention_mask=torch.ones_like(prompts),
    max_new_tokens=args.max_new_tokens,
    num_beams=args.num_beams,
    num_return_sequences=args.num_return_sequences,
    do_sample=args.num_return_sequences > 1,
    stopping_criteria=[Progress()],
)
print(f"generated {tuple(outputs.shape)}", flush=True)
