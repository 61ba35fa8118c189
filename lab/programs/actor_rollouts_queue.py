"""Actors play, one learner learns: rollouts go through a torch.multiprocessing queue."""

import argparse
import queue
import time

import torch
import torch.multiprocessing as mp

parser = argparse.ArgumentParser()
parser.add_argument("--num-actors", type=int, default=2)
parser.add_argument("--envs-per-actor", type=int, default=8)
parser.add_argument("--unroll-length", type=int, default=40)
parser.add_argument("--queue-size", type=int, default=32)
parser.add_argument("--frames-uint8", action="store_true", help="send frames as bytes and scale them in the learner")
parser.add_argument("--updates", type=int, default=60)


def actor(number, args, rollouts):
    torch.set_num_threads(1)
    torch.manual_seed(number)
    while True:
        frames = torch.randint(0, 256, (args.unroll_length, args.envs_per_actor, 1, 84, 84), dtype=torch.uint8)
        if not args.frames_uint8:
            frames = frames.float() / 255
        rollout = {"frames": frames, "rewards": torch.rand(args.unroll_length, args.envs_per_actor)}
        for tensor in rollout.values():
            tensor.share_memory_()
        rollouts.put(rollout)


def main():
    args = parser.parse_args()
    rollouts = mp.Queue(args.queue_size)
    actors = [
        mp.Process(target=actor, args=(i, args, rollouts), name=f"actor-{i}", daemon=True)
        for i in range(args.num_actors)
    ]
    for it in actors:
        it.start()
    print(f"started {len(actors)} actors with {args.envs_per_actor} environments each", flush=True)
    policy = torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 8, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(6400, 6)
    )
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-4)
    begin = time.time()
    for step in range(1, args.updates + 1):
        while True:
            try:
                rollout = rollouts.get(timeout=2)
                break
            except queue.Empty:
                dead = [(it.name, it.exitcode) for it in actors if not it.is_alive()]
                if dead:
                    raise RuntimeError(f"actors died: {dead}") from None
        frames = rollout["frames"].float().flatten(0, 1)
        loss = -policy(frames).log_softmax(-1)[:, 0].mean() * rollout["rewards"].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            sps = step * args.unroll_length * args.envs_per_actor / (time.time() - begin)
            print(f"step {step} loss {loss.item():.4f} queue {rollouts.qsize()} {sps:.0f} SPS", flush=True)
    print("learner done", flush=True)
    for it in actors:
        it.terminate()


if __name__ == "__main__":
    main()
