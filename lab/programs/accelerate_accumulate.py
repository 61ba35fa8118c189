"""Fine-tunes a small BERT classifier with Accelerate and accumulates over micro batches."""

import argparse
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

parser = argparse.ArgumentParser()
parser.add_argument("--per_device_train_batch_size", type=int, default=8)
parser.add_argument("--gradient_accumulation_steps", type=int, default=8)
parser.add_argument("--max_seq_length", type=int, default=256)
parser.add_argument("--num_hidden_layers", type=int, default=4)
parser.add_argument("--gradient_checkpointing", action="store_true")
parser.add_argument("--mixed_precision", choices=["no", "bf16"], default="no")
parser.add_argument("--backward_every_micro_batch", action="store_true")
parser.add_argument("--max_train_steps", type=int, default=3)
parser.add_argument("--learning_rate", type=float, default=5e-5)
args = parser.parse_args()

set_seed(42)
accelerator = Accelerator(mixed_precision=args.mixed_precision, cpu=True)
config = BertConfig(
    vocab_size=8000,
    hidden_size=256,
    intermediate_size=1024,
    num_attention_heads=4,
    num_hidden_layers=args.num_hidden_layers,
    max_position_embeddings=512,
    num_labels=3,
)
model = BertForSequenceClassification(config)
if args.gradient_checkpointing:
    model.gradient_checkpointing_enable()
samples = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.max_train_steps
dataset = [
    {"input_ids": torch.randint(0, 8000, (args.max_seq_length,)), "labels": torch.tensor(number % 3)}
    for number in range(samples)
]
loader = torch.utils.data.DataLoader(dataset, batch_size=args.per_device_train_batch_size, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
scheduler = get_linear_schedule_with_warmup(optimizer, 1, args.max_train_steps)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

accelerator.print("***** Running training *****")
accelerator.print(f"  Num examples = {len(dataset)}")
accelerator.print(f"  Instantaneous batch size per device = {args.per_device_train_batch_size}")
accelerator.print(f"  Gradient Accumulation steps = {args.gradient_accumulation_steps}")
accelerator.print(f"  Total optimization steps = {args.max_train_steps}", flush=True)
model.train()
total, step, began = 0.0, 0, time.time()
for number, batch in enumerate(loader, start=1):
    loss = model(**batch).loss / args.gradient_accumulation_steps
    if args.backward_every_micro_batch:
        accelerator.backward(loss)
        total += loss.item()
    else:
        total = total + loss
    accelerator.print(
        f"  micro batch {number} forward: loss {loss.item() * args.gradient_accumulation_steps:.4f}", flush=True
    )
    if number % args.gradient_accumulation_steps == 0:
        if not args.backward_every_micro_batch:
            accelerator.backward(total)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        step += 1
        accelerator.print(
            f"step {step}/{args.max_train_steps} loss {float(total):.4f} {time.time() - began:.1f}s", flush=True
        )
        total = 0.0
accelerator.end_training()
accelerator.print("training done", flush=True)
