"""Embeds documents with a BERT of random weights; nothing is trained."""

import argparse

import torch
from transformers import BertConfig, BertModel

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--max-length", type=int, default=512)
parser.add_argument("--documents", type=int, default=128)
parser.add_argument("--attn-implementation", default="eager", choices=["eager", "sdpa"])
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
args = parser.parse_args()

config = BertConfig(vocab_size=8000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256)
config._attn_implementation = args.attn_implementation
model = BertModel(config).eval().to(getattr(torch, args.dtype))
print(f"encoding {args.documents} documents", flush=True)
vectors = []
with torch.inference_mode():
    for start in range(0, args.documents, args.batch_size):
        count = min(args.batch_size, args.documents - start)
        ids = torch.randint(0, 8000, (count, args.max_length))
        vectors.append(model(input_ids=ids).pooler_output.clone())
        print(f"batch {start // args.batch_size} of {args.documents // args.batch_size}", flush=True)
print(torch.cat(vectors).shape, flush=True)
