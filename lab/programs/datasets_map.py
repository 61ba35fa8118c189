"""Tokenizes a corpus with several processes of datasets.map."""

import argparse
from pathlib import Path

from datasets import Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--preprocessing-num-workers", type=int, default=4)
parser.add_argument("--map-batch-size", type=int, default=4000)
parser.add_argument("--writer-batch-size", type=int, default=1000)
args = parser.parse_args()


def tokenize(batch):
    return {"input_ids": [[hash(word) % 50000 for word in text.split()] * 20 for text in batch["text"]]}


if __name__ == "__main__":
    Path("cache").mkdir(exist_ok=True)
    corpus = Dataset.from_dict({"text": ["the quick brown fox jumps over the lazy dog " * 8] * 32000})
    tokens = corpus.map(
        tokenize,
        batched=True,
        batch_size=args.map_batch_size,
        writer_batch_size=args.writer_batch_size,
        num_proc=args.preprocessing_num_workers or None,
        remove_columns=["text"],
        desc="Running tokenizer on dataset",
        cache_file_name="cache/tokens.arrow",
        load_from_cache_file=False,
    )
    print(tokens, flush=True)
