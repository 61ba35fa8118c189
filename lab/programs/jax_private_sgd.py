"""Differentially private SGD: clips the gradient of every example by itself."""

import argparse
import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=512)
parser.add_argument("--microbatch-size", type=int, default=512, help="examples whose gradients are held at once")
parser.add_argument("--hidden", type=int, default=1024)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--learning-rate", type=float, default=0.15)
parser.add_argument("--l2-norm-clip", type=float, default=1.0)
parser.add_argument("--noise-multiplier", type=float, default=1.1)
parser.add_argument("--bfloat16", action="store_true")
parser.add_argument("--remat", action="store_true")
args = parser.parse_args()
kind = jnp.bfloat16 if args.bfloat16 else jnp.float32


def logits(params, x):
    for weights, bias in params[:-1]:
        x = jax.nn.relu(x @ weights + bias)
    weights, bias = params[-1]
    return x @ weights + bias


def loss(params, x, y):
    forward = jax.checkpoint(logits) if args.remat else logits
    return -jax.nn.log_softmax(forward(params, x).astype(jnp.float32))[y]


def clipped(params, x, y):
    grads = jax.grad(loss)(params, x, y)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(it.astype(jnp.float32))) for it in jax.tree.leaves(grads)))
    return jax.tree.map(lambda it: (it / jnp.maximum(1.0, norm / args.l2_norm_clip)).astype(kind), grads)


@jax.jit
def clipped_grads(params, xs, ys):
    return jax.vmap(clipped, (None, 0, 0))(params, xs, ys)


def private_update(params, xs, ys, key):
    total = jax.tree.map(jnp.zeros_like, params)
    for begin in range(0, args.batch_size, args.microbatch_size):
        part = slice(begin, begin + args.microbatch_size)
        grads = clipped_grads(params, xs[part], ys[part])
        total = jax.tree.map(lambda sum_, it: sum_ + it.sum(0), total, grads)
        del grads
    noise = args.l2_norm_clip * args.noise_multiplier
    leaves, structure = jax.tree.flatten(total)
    keys = jax.random.split(key, len(leaves))
    leaves = [it + noise * jax.random.normal(k, it.shape, kind) for it, k in zip(leaves, keys, strict=False)]
    scale = args.learning_rate / args.batch_size
    return jax.tree.map(lambda p, g: (p - scale * g).astype(kind), params, jax.tree.unflatten(structure, leaves))


rng = np.random.default_rng(0)
sizes = [784, args.hidden, args.hidden, 10]
params = [(jnp.asarray(rng.normal(0, 0.03, (m, n)), kind), jnp.zeros(n, kind)) for m, n in itertools.pairwise(sizes)]
print(
    f"jax {jax.__version__} on {jax.devices()[0].platform}, {sum(it.size for it in jax.tree.leaves(params))} parameters"
)
key = jax.random.key(0)
for step in range(1, args.steps + 1):
    begin = time.time()
    xs = jnp.asarray(rng.random((args.batch_size, 784)), kind)
    ys = jnp.asarray(rng.integers(0, 10, args.batch_size))
    key, own = jax.random.split(key)
    params = jax.block_until_ready(private_update(params, xs, ys, own))
    value = float(jax.vmap(loss, (None, 0, 0))(params, xs, ys).mean())
    print(f"step {step} loss {value:.4f} ({time.time() - begin:.1f} s)", flush=True)
