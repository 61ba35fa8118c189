"""Asynchronous actor-critic: processes train one model in shared memory, with Adam's states shared as well."""

import argparse

import torch
import torch.multiprocessing as mp
from torch import nn


class SharedAdam(torch.optim.Adam):
    """Adam whose moments lie in shared memory."""

    def share_memory(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["step"] = torch.zeros(()).share_memory_()
                state["exp_avg"] = torch.zeros_like(p.data).share_memory_()
                state["exp_avg_sq"] = torch.zeros_like(p.data).share_memory_()


class SharedSGD(torch.optim.SGD):
    def share_memory(self):
        pass


def make(hidden):
    return nn.Sequential(
        nn.Linear(3136, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 7)
    )  # fmt: skip


def train(rank, args, shared, optimizer):
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    local = make(args.hidden)
    for update in range(args.updates):
        local.load_state_dict(shared.state_dict())
        out = local(torch.rand(args.rollout_steps, 3136))
        loss = out[:, :6].log_softmax(1).mean() + out[:, 6].pow(2).mean()
        local.zero_grad()
        loss.backward()
        for mine, theirs in zip(local.parameters(), shared.parameters(), strict=True):
            theirs.grad = mine.grad
        optimizer.step()
        print(f"[worker {rank}] update {update} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--env-name", default="BreakoutNoFrameskip-v4")
    parser.add_argument("--num-processes", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--optimizer", default="adam", choices=["adam", "sgd"])
    parser.add_argument("--rollout-steps", type=int, default=20)
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()
    print(args, flush=True)
    shared = make(args.hidden)
    shared.share_memory()
    count = sum(p.numel() for p in shared.parameters())
    print(f"shared model: {count / 1e6:.1f}M parameters, {4 * count / 2**20:.0f} MiB", flush=True)
    optimizer = {"adam": SharedAdam, "sgd": SharedSGD}[args.optimizer](shared.parameters(), lr=1e-4)
    optimizer.share_memory()
    print(f"starting {args.num_processes} workers", flush=True)
    mp.spawn(train, (args, shared, optimizer), nprocs=args.num_processes)
    print("training finished", flush=True)
