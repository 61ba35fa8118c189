"""Preference tuning: loads a policy and, from the same checkpoint, its frozen reference."""

import argparse
import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

if "--prepare" in sys.argv:
    for name, layers in (("sft-large", 16), ("sft-small", 5)):
        config = LlamaConfig(
            vocab_size=8000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=layers,
            num_attention_heads=8, num_key_value_heads=8,
        )  # fmt: skip
        LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(name)
    sys.exit()

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="sft-large")
parser.add_argument("--ref-model", default="sft-large")
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
parser.add_argument("--precompute-ref-log-probs", action="store_true")
parser.add_argument("--pairs", type=int, default=4)
args = parser.parse_args()


def load(name):
    model = AutoModelForCausalLM.from_pretrained(name, dtype=getattr(torch, args.dtype)).eval()
    print(f"loaded {name}: {model.num_parameters() / 1e6:.0f} M parameters in {model.dtype}", flush=True)
    return model


def log_probs(model, pairs):
    with torch.inference_mode():
        return [model(pair, labels=pair).loss.item() for pair in pairs]


torch.manual_seed(0)
pairs = [torch.randint(0, 8000, (2, 32)) for _ in range(args.pairs)]
if args.precompute_ref_log_probs:
    references = log_probs(load(args.ref_model), pairs)
    policy = load(args.model)
else:
    policy, reference = load(args.model), load(args.ref_model)
    references = log_probs(reference, pairs)
for step, (mine, its) in enumerate(zip(log_probs(policy, pairs), references, strict=True)):
    print(f"step {step} margin {its - mine:.4f}", flush=True)
