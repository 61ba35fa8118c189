"""Scores sentences by a small language model in JAX."""

import argparse
import math

import jax
import jax.numpy as jnp

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--seq-len", type=int, default=256)
parser.add_argument("--vocab-size", type=int, default=50257)
parser.add_argument("--loss-chunk", type=int, default=0, help="positions scored at a time; 0: all")
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
parser.add_argument("--sentences", type=int, default=64)
args = parser.parse_args()

WIDE, LAYERS = 128, 4
dtype = getattr(jnp, args.dtype)
keys = jax.random.split(jax.random.PRNGKey(0), 3)
params = {
    "wte": jax.random.normal(keys[0], (args.vocab_size, WIDE), dtype) * 0.02,
    "qkv": jax.random.normal(keys[1], (LAYERS, WIDE, 3 * WIDE), dtype) / math.sqrt(WIDE),
    "mlp": jax.random.normal(keys[2], (LAYERS, WIDE, WIDE), dtype) / math.sqrt(WIDE),
}


def hidden(params, tokens):
    x = params["wte"][tokens]
    mask = jnp.tril(jnp.ones((tokens.shape[1], tokens.shape[1]), bool))
    for n in range(LAYERS):
        q, k, v = jnp.split(x @ params["qkv"][n], 3, axis=-1)
        weights = jnp.where(mask, q @ k.swapaxes(1, 2) / math.sqrt(WIDE), -1e9)
        x = x + jax.nn.softmax(weights) @ v
        x = x + jax.nn.gelu(x @ params["mlp"][n])
    return x


def token_log_probs(x, targets, table):
    logits = x @ table.T
    return jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], axis=-1)[..., 0]


@jax.jit
def trunk(params, tokens):
    return hidden(params, tokens[:, :-1])


score_logits = jax.jit(lambda x, table: x @ table.T)
score_all = jax.jit(token_log_probs)

print(f"jax {jax.__version__} on {jax.devices()}, {args}", flush=True)
total = 0.0
for batch in range(args.sentences // args.batch_size):
    tokens = jax.random.randint(jax.random.PRNGKey(batch), (args.batch_size, args.seq_len + 1), 0, args.vocab_size)
    x, targets = trunk(params, tokens), tokens[:, 1:]
    if args.loss_chunk:
        parts = [
            score_all(x[:, at : at + args.loss_chunk], targets[:, at : at + args.loss_chunk], params["wte"])
            for at in range(0, args.seq_len, args.loss_chunk)
        ]
        total += float(sum(part.sum() for part in parts))
    else:
        logits = score_logits(x, params["wte"])
        log_probs = jax.nn.log_softmax(logits, axis=-1)
        total += float(jnp.take_along_axis(log_probs, targets[..., None], axis=-1).sum())
    print(f"batch {batch} log-likelihood {total:.1f}", flush=True)
