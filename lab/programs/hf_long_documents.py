"""Encodes long documents with a transformer."""

import argparse

import torch
from transformers import BertConfig, BertModel

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--max-seq-length", type=int, default=4096)
parser.add_argument("--documents", type=int, default=8)
parser.add_argument("--attn-implementation", default="eager", choices=["eager", "sdpa"])
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
args = parser.parse_args()

torch.manual_seed(0)
config = BertConfig(
    vocab_size=8000, hidden_size=128, num_hidden_layers=3, num_attention_heads=8, intermediate_size=256,
    max_position_embeddings=4096, attn_implementation=args.attn_implementation,
)  # fmt: skip
model = BertModel(config).to(getattr(torch, args.dtype)).eval()
print(f"BertModel: {model.num_parameters() / 1e6:.1f}M parameters, attention {config._attn_implementation}")
print(args, flush=True)
lengths = sorted(512 + (at * 3581) % 3700 for at in range(args.documents))
with torch.inference_mode():
    for number, start in enumerate(range(0, args.documents, args.batch_size)):
        longest = min(args.max_seq_length, max(lengths[start : start + args.batch_size]))
        size = min(args.batch_size, args.documents - start)
        print(f"batch {number}: {size} documents, {longest} tokens", flush=True)
        vectors = model(torch.randint(0, 8000, (size, longest))).last_hidden_state.mean(1)
print(f"encoded, last {tuple(vectors.shape)}", flush=True)
