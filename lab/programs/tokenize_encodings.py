"""Tokenises a corpus with a BPE tokenizer and writes its ids as train.bin."""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

if "--prepare" in sys.argv:
    generator = np.random.default_rng(0)
    words = ["".join(chr(97 + c) for c in generator.integers(0, 26, n)) for n in generator.integers(3, 9, 4000)]
    with Path("corpus.txt").open("w") as out:
        out.writelines(" ".join(words[int(n)] for n in generator.zipf(1.3, 150) % 4000) + "\n" for _ in range(60_000))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.train_from_iterator(words, trainers.BpeTrainer(vocab_size=3000, show_progress=False))
    tokenizer.save("tokenizer.json")
    sys.exit()

parser = argparse.ArgumentParser()
parser.add_argument("--corpus", type=Path, default=Path("corpus.txt"))
parser.add_argument("--tokenizer", default="tokenizer.json")
parser.add_argument("--batch-size", type=int, default=2000)
parser.add_argument("--max-length", type=int, default=512)
parser.add_argument("--keep", default="encodings", choices=["encodings", "int64", "uint16"])
parser.add_argument("--flush-every", type=int, default=0, help="batches after which ids are written; 0: at the end")
args = parser.parse_args()

tokenizer = Tokenizer.from_file(args.tokenizer)
tokenizer.enable_truncation(args.max_length)
lines = args.corpus.read_text().splitlines()
print(f"{args.corpus}: {len(lines):,} documents, vocabulary of {tokenizer.get_vocab_size()}", flush=True)
start = time.perf_counter()
kept, tokens, batches = [], 0, 0
with Path("train.bin").open("wb") as out:

    def flush():
        for it in kept:
            np.asarray(it.ids if args.keep == "encodings" else it, dtype=np.uint16).tofile(out)
        kept.clear()

    for first in range(0, len(lines), args.batch_size):
        encodings = tokenizer.encode_batch(lines[first : first + args.batch_size])
        kept += encodings if args.keep == "encodings" else [np.array(it.ids, dtype=args.keep) for it in encodings]
        tokens += sum(len(it) for it in encodings)
        batches += 1
        if args.flush_every and batches % args.flush_every == 0:
            flush()
        done = first + len(encodings)
        rate = f"[{done / (time.perf_counter() - start):.0f} docs/s]"
        print(f"Tokenizing: {done}/{len(lines)} documents, {tokens / 1e6:.2f}M tokens {rate}", flush=True)
    flush()
print(f"wrote {tokens:,} tokens to train.bin", flush=True)
