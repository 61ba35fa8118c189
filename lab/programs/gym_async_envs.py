"""Collects experience of a walker on large height maps, each environment in a process of its own."""

import argparse

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv

parser = argparse.ArgumentParser()
parser.add_argument("--num-envs", type=int, default=8)
parser.add_argument("--map-size", type=int, default=3200)
parser.add_argument("--rollout-steps", type=int, default=256)
parser.add_argument("--iterations", type=int, default=6)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()


class Walker(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (32, 32), np.float32)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        size = args.map_size
        self.height = np.zeros((size, size))
        for start in range(0, size, 200):  # a band at a time: smooth hills with noise
            self.height[start : start + 200] = self.np_random.normal(size=(min(200, size - start), size)) * 0.1
        self.at = np.array([size // 2, size // 2])
        self.left = 1000
        return self._view(), {}

    def step(self, action):
        move = ((0, 1), (0, -1), (1, 0), (-1, 0))[action]
        self.at = np.clip(self.at + move, 16, args.map_size - 17)
        self.left -= 1
        return self._view(), float(self.height[tuple(self.at)]), False, self.left <= 0, {}

    def _view(self):
        x, y = self.at
        return self.height[x - 16 : x + 16, y - 16 : y + 16].astype(np.float32)


if __name__ == "__main__":
    print(f"args: {vars(args)}", flush=True)
    envs = AsyncVectorEnv([Walker for _ in range(args.num_envs)])
    print(f"created {envs}", flush=True)
    observations, _ = envs.reset(seed=args.seed)
    for iteration in range(args.iterations):
        returns = np.zeros(args.num_envs)
        for _ in range(args.rollout_steps):
            observations, rewards, *_ = envs.step(envs.action_space.sample())
            returns += rewards
        frames = args.num_envs * args.rollout_steps
        print(f"epoch {iteration}: {frames} frames, return {returns.mean():.3f}", flush=True)
    envs.close()
    print("finished", flush=True)
