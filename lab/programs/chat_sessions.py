"""A chat server's loop: every session's key-value cache is kept, so that its next turn need not read it all again."""

import argparse
import logging
import random
import sys
from collections import OrderedDict

import psutil
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--turns", type=int, default=80)
parser.add_argument("--max-sessions", type=int, default=0, help="least recently used ones are dropped; 0: never")
parser.add_argument("--max-context", type=int, default=1024)
parser.add_argument("--prompt-tokens", type=int, default=400)
parser.add_argument("--max-new-tokens", type=int, default=4)
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
args = parser.parse_args()
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s [chat] %(message)s", stream=sys.stdout)

torch.manual_seed(0)
torch.set_num_threads(1)
random.seed(0)
config = LlamaConfig(
    vocab_size=2000, hidden_size=256, intermediate_size=512, num_hidden_layers=6, num_attention_heads=8,
    num_key_value_heads=8, head_dim=128, max_position_embeddings=4096, dtype=args.dtype,
)  # fmt: skip
model = LlamaForCausalLM(config).to(getattr(torch, args.dtype)).eval()
logging.info("model ready: %.1f M parameters, %s", model.num_parameters() / 1e6, args.dtype)
sessions = OrderedDict()
process = psutil.Process()
served = 0
for turn in range(args.turns):
    known = sessions and random.random() < 0.4
    name = random.choice(list(sessions)) if known else f"{random.getrandbits(32):08x}"
    cache = sessions.pop(name, None) or DynamicCache(config=config)
    if cache.get_seq_length() + args.prompt_tokens > args.max_context:
        cache = DynamicCache(config=config)  # starts anew
    ids = torch.randint(0, 2000, (1, min(args.prompt_tokens, args.max_context)))
    with torch.inference_mode():
        for _ in range(args.max_new_tokens):
            ids = model(ids, past_key_values=cache, logits_to_keep=1).logits[:, -1:].argmax(-1)
    sessions[name] = cache
    while args.max_sessions and len(sessions) > args.max_sessions:
        sessions.popitem(last=False)
    served += 1
    if turn % 4 == 0:
        cached = sum(it.get_seq_length() for it in sessions.values())
        rss = process.memory_info().rss / 2**20
        logging.info(
            "served %s turns, session %s, %s sessions with %s cached tokens, rss=%.0fMiB",
            served, name, len(sessions), cached, rss,
        )  # fmt: skip
logging.info("done, %s turns", served)
