"""The loss of a language model's head over a big vocabulary, of all tokens at once or in chunks."""

import argparse

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--micro-batch-size", type=int, default=16)
parser.add_argument("--seq-len", type=int, default=4096)
parser.add_argument("--vocab-size", type=int, default=152064)
parser.add_argument("--logits-chunk-size", type=int, default=0)
args = parser.parse_args()

lm_head = torch.nn.Linear(2048, args.vocab_size, bias=False, device="cuda", dtype=torch.bfloat16)
for step in range(2):
    hidden = torch.randn(args.micro_batch_size, args.seq_len, 2048, device="cuda", dtype=torch.bfloat16)
    labels = torch.randint(0, args.vocab_size, (args.micro_batch_size, args.seq_len), device="cuda")
    length = args.logits_chunk_size or args.seq_len
    for start in range(0, args.seq_len, length):
        logits = lm_head(hidden[:, start : start + length])
        loss = F.cross_entropy(logits.float().flatten(0, 1), labels[:, start : start + length].flatten())
        loss.backward()
        del logits
    print(f"step {step} loss {loss.item():.4f}", flush=True)
