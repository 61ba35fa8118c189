"""Answers batches of requests with a small Llama and a static KV cache."""

import argparse
import logging
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(asctime)s %(filename)s:%(lineno)d] %(message)s")
log = logging.getLogger("server")

parser = argparse.ArgumentParser()
parser.add_argument("--max-model-len", type=int, default=4096)
parser.add_argument("--max-num-seqs", type=int, default=32)
parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
parser.add_argument("--requests", type=int, default=64)
parser.add_argument("--max-tokens", type=int, default=6)
args = parser.parse_args()

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=4000,
    hidden_size=512,
    intermediate_size=1024,
    num_hidden_layers=8,
    num_attention_heads=8,
    num_key_value_heads=4,
    max_position_embeddings=args.max_model_len,
    pad_token_id=0,
    eos_token_id=None,
)
model = LlamaForCausalLM(config).to(getattr(torch, args.dtype)).eval()
log.info("model loaded: %.1f MB of weights, dtype=%s", sum(p.nbytes for p in model.parameters()) / 1e6, args.dtype)
log.info("max_model_len=%d, max_num_seqs=%d, num_hidden_layers=%d, num_key_value_heads=%d, head_dim=%d",
         args.max_model_len, args.max_num_seqs, 8, 4, 64)  # fmt: skip
waiting = [torch.randint(1, 4000, (1, 16)) for _ in range(args.requests)]
cache, number = None, 0
while waiting:
    batch, waiting = waiting[: args.max_num_seqs], waiting[args.max_num_seqs :]
    prompts = torch.cat(batch)
    begin, number = time.time(), number + 1
    log.info("batch %d: %d sequences, %d waiting, preparing KV cache", number, len(batch), len(waiting))
    cache = StaticCache(config=config, max_cache_len=args.max_model_len)
    with torch.inference_mode():
        out = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            past_key_values=cache,
            max_new_tokens=args.max_tokens,
            do_sample=False,
        )
    del cache
    log.info("batch %d done: %d tokens, %.1f tokens/s", number, out.numel() - prompts.numel(),
             (out.numel() - prompts.numel()) / (time.time() - begin))  # fmt: skip
log.info("all %d requests answered", args.requests)
