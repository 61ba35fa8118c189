"""Turns recordings into log-mel features for Whisper with datasets.map."""

import argparse
from pathlib import Path

import numpy as np
from datasets import Dataset
from transformers import WhisperFeatureExtractor

parser = argparse.ArgumentParser()
parser.add_argument("--num-proc", type=int, default=1)
parser.add_argument("--writer-batch-size", type=int, default=1000)
parser.add_argument("--chunk-length", type=int, default=30)
parser.add_argument("--recordings", type=int, default=600)
parser.add_argument("--dtype", default="float32", choices=["float32", "float16"])
parser.add_argument("--on-the-fly", action="store_true", help="compute features while training instead")
args = parser.parse_args()

extractor = WhisperFeatureExtractor(feature_size=80, chunk_length=args.chunk_length)


def prepare(recording):
    sound = np.random.default_rng(recording["seed"]).standard_normal(16000).astype(np.float32)
    features = extractor(sound, sampling_rate=16000, return_tensors="np").input_features[0]
    return {"input_features": features.astype(args.dtype), "labels": [recording["seed"] % 50] * 8}


def prepare_all(batch):
    rows = [prepare({"seed": seed}) for seed in batch["seed"]]
    return {name: [row[name] for row in rows] for name in rows[0]}


if __name__ == "__main__":
    Path("cache").mkdir(exist_ok=True)
    recordings = Dataset.from_dict({"seed": list(range(args.recordings))})
    print(recordings, flush=True)
    if args.on_the_fly:
        recordings.set_transform(prepare_all)
        features = recordings
    else:
        features = recordings.map(
            prepare,
            writer_batch_size=args.writer_batch_size,
            num_proc=args.num_proc if args.num_proc > 1 else None,
            remove_columns=["seed"],
            desc="Extracting features",
            cache_file_name="cache/features.arrow",
            load_from_cache_file=False,
        )
    for step in range(5):
        batch = features[step * 8 : step * 8 + 8]
        print(f"step {step} shape {np.shape(batch['input_features'])}", flush=True)
