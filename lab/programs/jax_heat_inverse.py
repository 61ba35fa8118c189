"""Finds the diffusivity of a plate by differentiating through its simulation."""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--grid", type=int, default=160)
parser.add_argument("--plates", type=int, default=2, help="measured plates fitted at once")
parser.add_argument("--horizon", type=int, default=800, help="time steps of the last stage")
parser.add_argument("--checkpoint-every", type=int, default=0, help="keep only every n-th state")
parser.add_argument("--float64", action="store_true")
parser.add_argument("--iterations", type=int, default=2)
parser.add_argument("--lr", type=float, default=1e5)
args = parser.parse_args()
jax.config.update("jax_enable_x64", args.float64)


def laplace(u):
    return jnp.roll(u, 1, -1) + jnp.roll(u, -1, -1) + jnp.roll(u, 1, -2) + jnp.roll(u, -1, -2) - 4 * u


def advance(kappa):
    def one(u, _):
        flux = jax.nn.sigmoid(kappa) * 0.2 * (1 + 0.1 * jnp.tanh(u))
        return u + flux * laplace(u) - 1e-3 * jnp.sin(u), None

    return one


def simulate(kappa, u, steps):
    one = advance(kappa)
    if not args.checkpoint_every:
        return jax.lax.scan(one, u, None, length=steps)[0]
    inner = jax.checkpoint(lambda v, _: (jax.lax.scan(one, v, None, length=args.checkpoint_every)[0], None))
    return jax.lax.scan(inner, u, None, length=steps // args.checkpoint_every)[0]


def misfit(kappa, u, measured, steps):
    return ((simulate(kappa, u, steps) - measured) ** 2).mean()


update = jax.jit(jax.value_and_grad(misfit), static_argnums=3)
rng = np.random.default_rng(0)
dtype = np.float64 if args.float64 else np.float32
shape = (args.plates, args.grid, args.grid)
start = rng.normal(size=shape).astype(dtype)
measured = np.zeros(shape, dtype)
kappa = jnp.zeros((args.grid, args.grid), dtype)
print(f"jax {jax.__version__} on {jax.devices()[0]}, plates {shape}, {np.dtype(dtype).name}", flush=True)
round_number = 0
for part in (8, 4, 2, 1):
    steps = args.horizon // part
    print(f"--- horizon {steps} time steps", flush=True)
    for _ in range(args.iterations):
        before = time.perf_counter()
        loss, gradient = update(kappa, start, measured, steps)
        kappa = kappa - args.lr * gradient
        misfit_now, seconds = float(loss), time.perf_counter() - before
        print(f"round {round_number} misfit {misfit_now:.6f} ({seconds:.1f} s)", flush=True)
        round_number += 1
np.save("kappa.npy", kappa)
print("kappa.npy written", flush=True)
