"""Trains a DQN of Stable-Baselines3 on pictures of an environment."""

import argparse

import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

parser = argparse.ArgumentParser()
parser.add_argument("--n_envs", type=int, default=1)
parser.add_argument("--total_timesteps", type=int, default=40_000)
parser.add_argument("--buffer_size", type=int, default=1_000_000)
parser.add_argument("--optimize_memory_usage", action="store_true")
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--learning_starts", type=int, default=50_000)
parser.add_argument("--frame_size", type=int, default=84)
parser.add_argument("--frame_stack", type=int, default=4)
args = parser.parse_args()


class Arcade(gym.Env):
    def __init__(self):
        shape = (args.frame_stack, args.frame_size, args.frame_size)
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)
        self.action_space = gym.spaces.Discrete(4)
        self.frames = np.random.default_rng(0).integers(0, 256, (8, *shape), dtype=np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_count = 0
        return self.frames[0], {}

    def step(self, action):
        self.step_count += 1
        return self.frames[self.step_count % 8], float(action == 1), self.step_count % 500 == 0, False, {}


class Progress(BaseCallback):
    def _on_step(self):
        if self.n_calls % 4000 == 0:
            buffer = self.model.replay_buffer
            print(f"step {self.num_timesteps} replay buffer {buffer.size()}/{buffer.buffer_size}", flush=True)
        return True


model = DQN(
    "CnnPolicy",
    make_vec_env(Arcade, n_envs=args.n_envs),
    buffer_size=args.buffer_size,
    optimize_memory_usage=args.optimize_memory_usage,
    replay_buffer_kwargs={"handle_timeout_termination": not args.optimize_memory_usage},
    batch_size=args.batch_size,
    learning_starts=args.learning_starts,
    exploration_initial_eps=1.0,
    exploration_final_eps=1.0,
    verbose=1,
)
model.learn(args.total_timesteps, callback=Progress(), log_interval=20)
print("training finished", flush=True)
