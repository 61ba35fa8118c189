"""Searches hyperparameters with Ray Tune; each trial holds its own copy of the training data."""

import argparse
import time

import numpy as np
import ray
from ray import tune

parser = argparse.ArgumentParser()
parser.add_argument("--num-samples", type=int, default=6)
parser.add_argument("--max-concurrent-trials", type=int, default=6)
parser.add_argument("--rows", type=int, default=3_000_000)
parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
args = parser.parse_args()


def train(config):
    data = []
    for _ in range(8):
        data.append(np.random.default_rng(0).random((args.rows // 8, 16), dtype=args.dtype))
        time.sleep(0.3)
    for epoch in range(3):
        time.sleep(1)
        loss = float(np.mean([(part[:, 0] * config["lr"] - part[:, 1]).std() for part in data]))
        tune.report({"loss": loss, "epoch": epoch})


if __name__ == "__main__":
    ray.init(num_cpus=8, object_store_memory=100_000_000, include_dashboard=False)
    tuner = tune.Tuner(
        train,
        param_space={"lr": tune.loguniform(1e-4, 1e-1)},
        tune_config=tune.TuneConfig(
            num_samples=args.num_samples, max_concurrent_trials=args.max_concurrent_trials, metric="loss", mode="min"
        ),
    )
    results = tuner.fit()
    print(f"{results.num_terminated} trials done, {results.num_errors} failed", flush=True)
    if results.num_errors:
        raise SystemExit(f"trials failed: {[str(error)[:300] for error in results.errors]}")
    print(f"best: {results.get_best_result().config}", flush=True)
