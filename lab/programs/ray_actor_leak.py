"""Rollouts of an actor that keeps every trajectory it made."""

import argparse

import numpy as np
import ray

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=40)
parser.add_argument("--keep-trajectories", type=int, default=0, help="0 keeps all")
parser.add_argument("--restart-every", type=int, default=0, help="a new actor after so many iterations")
parser.add_argument("--steps-per-rollout", type=int, default=2000)
args = parser.parse_args()

ray.init(num_cpus=2, object_store_memory=100_000_000, include_dashboard=False)


@ray.remote(max_restarts=0)
class RolloutWorker:
    def __init__(self):
        self.trajectories = []

    def sample(self):
        self.trajectories.append(np.random.rand(args.steps_per_rollout, 84 * 84).astype(np.float32))
        if args.keep_trajectories:
            self.trajectories = self.trajectories[-args.keep_trajectories :]
        return float(self.trajectories[-1].mean()), sum(it.nbytes for it in self.trajectories)


worker = RolloutWorker.remote()
for iteration in range(args.iterations):
    if args.restart_every and iteration and iteration % args.restart_every == 0:
        ray.kill(worker)
        worker = RolloutWorker.remote()
    reward, held = ray.get(worker.sample.remote())
    print(f"step {iteration} reward {reward:.3f} trajectories {held / 1e6:.0f} MB", flush=True)
