"""Evaluates a language model and keeps every prediction until the metric is computed."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--eval-batch-size", type=int, default=16)
parser.add_argument("--eval-samples", type=int, default=640)
parser.add_argument("--max-length", type=int, default=128)
parser.add_argument("--vocab-size", type=int, default=8000)
parser.add_argument("--keep-argmax-only", action="store_true", help="keep the predicted ids instead of all logits")
args = parser.parse_args()

model = torch.nn.Sequential(torch.nn.Embedding(args.vocab_size, 64), torch.nn.Linear(64, args.vocab_size))
model.eval()
batches = args.eval_samples // args.eval_batch_size
all_preds = []
print("***** Running Evaluation *****", flush=True)
with torch.no_grad():
    for number in range(batches):
        ids = torch.randint(0, args.vocab_size, (args.eval_batch_size, args.max_length))
        logits = model(ids)
        all_preds.append(logits.argmax(-1) if args.keep_argmax_only else logits)
        if number % 4 == 0:
            print(f"Evaluating: batch {number}/{batches}", flush=True)
preds = torch.cat(all_preds)
print(f"eval done: {tuple(preds.shape)}", flush=True)
