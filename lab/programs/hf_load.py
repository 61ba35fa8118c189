"""Loads a checkpoint that is kept in bfloat16, and answers one prompt."""

import argparse
import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

if "--prepare" in sys.argv:
    config = LlamaConfig(
        vocab_size=16000, hidden_size=1024, intermediate_size=4096, num_hidden_layers=16, num_attention_heads=8
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained("model", max_shard_size="100MB")
    sys.exit()
parser = argparse.ArgumentParser()
parser.add_argument("--model", default="model")
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
parser.add_argument("--max-new-tokens", type=int, default=4)
args = parser.parse_args()

print(f"Loading {args.model} in {args.dtype}", flush=True)
model = AutoModelForCausalLM.from_pretrained(args.model, dtype=getattr(torch, args.dtype))
print(f"loaded: {model.get_memory_footprint() / 1e6:.0f} MB", flush=True)
answer = model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=args.max_new_tokens, do_sample=False)
print(answer.tolist(), flush=True)
