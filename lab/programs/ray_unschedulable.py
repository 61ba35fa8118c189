"""Starts trainers that ask for more CPUs than the node has."""

import argparse

import ray

parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=2)
parser.add_argument("--num-cpus", type=int, default=4, help="of each worker")
parser.add_argument("--cluster-cpus", type=int, default=2)
parser.add_argument("--nodes", type=int, default=1)
args = parser.parse_args()

ray.init(num_cpus=args.cluster_cpus * args.nodes, object_store_memory=100_000_000, include_dashboard=False)
print(f"cluster resources: {ray.cluster_resources()}", flush=True)


@ray.remote
class Trainer:
    def step(self):
        return 1


trainers = [Trainer.options(num_cpus=args.num_cpus).remote() for _ in range(args.num_workers)]
for number in range(3):
    print(f"step {number} of {sum(ray.get([it.step.remote() for it in trainers], timeout=40))} trainers", flush=True)
