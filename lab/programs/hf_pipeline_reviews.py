"""Classifies customer reviews with a transformers pipeline."""

import argparse
import random
import sys

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

WORDS = [f"word{n}" for n in range(2000)]

if "--prepare" in sys.argv:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import DistilBertConfig, DistilBertForSequenceClassification, PreTrainedTokenizerFast

    vocabulary = {word: n for n, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=8192,
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained("reviews-model")  # fmt: skip
    config = DistilBertConfig(
        vocab_size=len(vocabulary), dim=256, n_layers=2, n_heads=4, hidden_dim=1024, max_position_embeddings=8192
    )
    DistilBertForSequenceClassification(config).save_pretrained("reviews-model")
    sys.exit()

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="reviews-model")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--max-length", type=int, default=8192)
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
parser.add_argument("--reviews", type=int, default=96)
args = parser.parse_args()

random.seed(3)
reviews = [" ".join(random.choices(WORDS, k=random.randint(20, 200))) for _ in range(args.reviews)]
for number in random.sample(range(32, args.reviews), 1):
    reviews[number] = " ".join(random.choices(WORDS, k=3000))

model = AutoModelForSequenceClassification.from_pretrained(args.model, dtype=getattr(torch, args.dtype))
classify = pipeline("text-classification", model=model, tokenizer=AutoTokenizer.from_pretrained(args.model))
print(f"{len(reviews)} reviews, batch size {args.batch_size}, truncated to {args.max_length} tokens", flush=True)
answers = classify((it for it in reviews), batch_size=args.batch_size, truncation=True, max_length=args.max_length)
positive = 0
for number, answer in enumerate(answers):
    positive += answer["label"] == "LABEL_1"
    if number % args.batch_size == args.batch_size - 1:
        print(f"batch {number // args.batch_size} positive {positive}", flush=True)
print(f"{positive} of {len(reviews)} are positive", flush=True)
