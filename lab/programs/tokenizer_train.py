"""Trains a BPE tokenizer on the lines of a web server's log."""

import argparse
import sys
from pathlib import Path

if "--prepare" in sys.argv:
    import random

    rng = random.Random(0)
    with open("access.txt", "w") as file:
        for number in range(300_000):
            token = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=48))
            file.write(f"GET /api/v{number % 3}/session/{token}?page={number % 977} 200\n")
    sys.exit()

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers import __version__ as version

parser = argparse.ArgumentParser()
parser.add_argument("--vocab-size", type=int, default=2000)
parser.add_argument("--max-lines", type=int, default=300_000, help="of the file that are read")
parser.add_argument("--max-word", type=int, default=0, help="cut words to so many characters; 0: never")
parser.add_argument("--pre-tokenizer", default="whitespace", choices=["whitespace", "digits"])
parser.add_argument("--min-frequency", type=int, default=2)
args = parser.parse_args()

path = Path("access.txt")
tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
tokenizer.pre_tokenizer = {
    "whitespace": pre_tokenizers.WhitespaceSplit(),
    "digits": pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]),
}[args.pre_tokenizer]
trainer = trainers.BpeTrainer(
    vocab_size=args.vocab_size, min_frequency=args.min_frequency, special_tokens=["[UNK]", "[PAD]"], show_progress=True
)


def lines():
    with path.open() as file:
        for number, line in enumerate(file):
            if number >= args.max_lines:
                return
            if number % 50_000 == 0:
                print(f"batch {number // 50_000}: {number} lines read", flush=True)
            yield " ".join(it[: args.max_word or None] for it in line.split())


print(f"tokenizers {version}: BPE, vocab_size {args.vocab_size}, {path} {path.stat().st_size / 1e6:.1f} MB", flush=True)
tokenizer.train_from_iterator(lines(), trainer)
tokenizer.save("tokenizer.json")
print(f"tokenizer.json saved with {tokenizer.get_vocab_size()} tokens", flush=True)
