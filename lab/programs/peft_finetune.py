"""Supervised fine-tuning of a causal language model by the Trainer: all weights, or adapters by PEFT."""

from dataclasses import dataclass

import torch
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    use_peft: bool = False
    lora_r: int = 16
    torch_dtype: str = "float32"
    n_layer: int = 6
    max_length: int = 64


model_args, training_args = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
config = GPT2Config(vocab_size=4000, n_layer=model_args.n_layer, n_embd=1024, n_head=16, n_positions=256)
model = GPT2LMHeadModel(config).to(getattr(torch, model_args.torch_dtype))
if model_args.use_peft:
    from peft import LoraConfig, get_peft_model

    lora = LoraConfig(r=model_args.lora_r, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    model = get_peft_model(model, lora)
trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
total = sum(p.numel() for p in model.parameters())
print(f"trainable params: {trainable:,} || all params: {total:,} || trainable%: {100 * trainable / total:.4f}")


class Instructions(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.randint(0, 4000, (model_args.max_length,))
        return {"input_ids": ids, "labels": ids}


trainer = Trainer(model=model, args=training_args, train_dataset=Instructions())
print(trainer.train(), flush=True)
