"""Trains a network in JAX on the CPU."""

import argparse

import jax
import jax.numpy as jnp

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4096)
parser.add_argument("--layers", type=int, default=24)
parser.add_argument("--hidden", type=int, default=1024)
parser.add_argument("--remat", action="store_true")
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
parser.add_argument("--steps", type=int, default=2)
args = parser.parse_args()

dtype = getattr(jnp, args.dtype)
params = jax.random.normal(jax.random.PRNGKey(0), (args.layers, args.hidden, args.hidden), dtype) * 0.01


def layer(x, weight):
    return x + jnp.tanh(jnp.sin(x @ weight)), None


@jax.jit
def train_step(params, x):
    def loss_fn(params):
        y, _ = jax.lax.scan(jax.checkpoint(layer) if args.remat else layer, x, params)
        return (y**2).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return params - 1e-3 * grads, loss


for step in range(args.steps):
    batch = jax.random.normal(jax.random.PRNGKey(step), (args.batch_size, args.hidden), dtype)
    params, loss = train_step(params, batch)
    print(f"step {step} loss {float(loss):.4f}", flush=True)
