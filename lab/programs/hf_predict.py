"""Evaluates a language model with random weights by the Trainer, which collects its logits for the metric."""

import sys
from dataclasses import dataclass

import torch
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class DataArguments:
    eval_samples: int = 128
    max_length: int = 128
    preprocess_logits: bool = False


class RandomTokens(torch.utils.data.Dataset):
    def __len__(self):
        return data_args.eval_samples

    def __getitem__(self, index):
        ids = torch.randint(0, 16000, (data_args.max_length,))
        return {"input_ids": ids, "labels": ids}


data_args, training_args = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
trainer = Trainer(
    model=GPT2LMHeadModel(GPT2Config(vocab_size=16000, n_layer=2, n_embd=128, n_head=4, n_positions=128)),
    args=training_args,
    eval_dataset=RandomTokens(),
    compute_metrics=lambda p: {"tokens": int(p.predictions.size)},
    preprocess_logits_for_metrics=(lambda logits, labels: logits.argmax(-1)) if data_args.preprocess_logits else None,
)
print(trainer.evaluate(), flush=True)
sys.exit(0)
