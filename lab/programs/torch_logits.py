"""A language model's head over a big vocabulary: the loss is taken of all tokens at once."""

import argparse

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--micro-batch-size", type=int, default=8)
parser.add_argument("--seq-len", type=int, default=512)
parser.add_argument("--vocab-size", type=int, default=128256)
parser.add_argument("--hidden-size", type=int, default=128)
parser.add_argument("--logits-chunk-size", type=int, default=0)
parser.add_argument("--steps", type=int, default=2)
args = parser.parse_args()

embed = torch.nn.Embedding(args.vocab_size, args.hidden_size)
lm_head = torch.nn.Linear(args.hidden_size, args.vocab_size, bias=False)
lm_head.weight = embed.weight
optimizer = torch.optim.SGD(embed.parameters(), lr=1e-3)


def compute_loss(hidden, labels):
    logits = lm_head(hidden)
    log_probs = F.log_softmax(logits.float(), dim=-1)
    return F.nll_loss(log_probs.reshape(-1, args.vocab_size), labels.reshape(-1), reduction="sum")


for step in range(args.steps):
    ids = torch.randint(0, args.vocab_size, (args.micro_batch_size, args.seq_len))
    hidden = torch.tanh(embed(ids))
    length = args.logits_chunk_size or args.seq_len
    total = 0.0
    for start in range(0, args.seq_len, length):
        loss = compute_loss(hidden[:, start : start + length], ids[:, start : start + length]) / ids.numel()
        loss.backward(retain_graph=True)
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {total:.4f}", flush=True)
