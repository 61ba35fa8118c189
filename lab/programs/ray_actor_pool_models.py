"""Classifies batches of sentences with a pool of Ray actors, each of which loads the encoder."""

import argparse
import sys

CHECKPOINTS = ("encoder-large.pt", "encoder-large-bf16.pt", "encoder-base.pt")


def build(layers):
    import torch

    layer = torch.nn.TransformerEncoderLayer(1024, 8, 4096, batch_first=True, norm_first=True)
    return torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).eval()


if "--prepare" in sys.argv:
    import torch

    torch.save(build(8).state_dict(), "encoder-large.pt")
    torch.save(build(8).to(torch.bfloat16).state_dict(), "encoder-large-bf16.pt")
    torch.save(build(3).state_dict(), "encoder-base.pt")
    sys.exit()

import ray
from ray.util import ActorPool

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint", default="encoder-large.pt", choices=CHECKPOINTS)
parser.add_argument("--pool-size", type=int, default=4)
parser.add_argument("--mmap", action="store_true", help="map the checkpoint instead of reading it")
parser.add_argument("--batches", type=int, default=8)
args = parser.parse_args()


@ray.remote(num_cpus=1)
class Classifier:
    def __init__(self, checkpoint, mmap):
        import torch

        torch.set_num_threads(1)
        state = torch.load(checkpoint, mmap=mmap, weights_only=True)
        layers = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("layers."))
        with torch.device("meta"):
            self.model = build(layers)
        self.model.load_state_dict(state, assign=True)
        self.dtype = next(iter(state.values())).dtype

    def classify(self, number):
        import torch

        with torch.inference_mode():
            x = torch.randn(2, 32, 1024, generator=torch.Generator().manual_seed(number)).to(self.dtype)
            return number, int(self.model(x).mean(1).argmax())


ray.init(num_cpus=8, object_store_memory=100_000_000, include_dashboard=False)
print(f"starting {args.pool_size} classifiers from {args.checkpoint}", flush=True)
pool = ActorPool([Classifier.remote(args.checkpoint, args.mmap) for _ in range(args.pool_size)])
for number, label in pool.map_unordered(lambda actor, batch: actor.classify.remote(batch), range(args.batches)):
    print(f"batch {number} label {label}", flush=True)
