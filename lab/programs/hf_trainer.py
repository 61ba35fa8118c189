"""Trains a GPT-2 with random weights by the Trainer."""

from dataclasses import dataclass, field

import torch
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    n_layer: int = 4
    n_embd: int = 256
    block_size: int = field(default=256, metadata={"help": "length of the sequences"})


class RandomTokens(torch.utils.data.Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return 96

    def __getitem__(self, index):
        ids = torch.randint(0, 16000, (self.length,))
        return {"input_ids": ids, "labels": ids}


model_args, training_args = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
config = GPT2Config(
    vocab_size=16000,
    n_layer=model_args.n_layer,
    n_embd=model_args.n_embd,
    n_head=4,
    n_positions=model_args.block_size,
)
trainer = Trainer(model=GPT2LMHeadModel(config), args=training_args, train_dataset=RandomTokens(model_args.block_size))
trainer.train()
print("training finished", flush=True)
