"""Answers search requests; the vector of each query is remembered."""

import argparse
import hashlib
import logging
import os
import sys
from functools import lru_cache

import numpy as np
import psutil

parser = argparse.ArgumentParser()
parser.add_argument("--requests", type=int, default=120_000)
parser.add_argument("--first", type=int, default=0, help="the number of the first request")
parser.add_argument("--max-requests", type=int, default=0, help="start anew after so many; 0: never")
parser.add_argument("--cache-size", type=int, default=1_000_000)
parser.add_argument("--vector-dim", type=int, default=768)
args = parser.parse_args()
logging.basicConfig(format="%(asctime)s %(levelname)s search: %(message)s", level=logging.INFO, stream=sys.stdout)
log = logging.getLogger("search")
documents = np.random.default_rng(0).normal(size=(200, args.vector_dim))


@lru_cache(maxsize=args.cache_size)
def vector(query: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.blake2b(query.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).normal(size=args.vector_dim)


log.info("serving with %s, pid %d", vars(args), os.getpid())
me = psutil.Process()
for number in range(args.first, args.requests):
    best = int((documents @ vector(f"user {number % 97} asks for item {number}")).argmax())
    if number % 4000 == 0:
        size, rss = vector.cache_info().currsize, me.memory_info().rss >> 20
        words = "round %d: %d requests, cache %d, last answer %d, rss %d MiB"
        log.info(words, number // 4000, number, size, best, rss)
    if args.max_requests and number + 1 == args.first + args.max_requests:
        log.info("worker restarts after %d requests", args.max_requests)
        again = [it for it in sys.argv if it]
        os.execv(sys.executable, [sys.executable, "-u", *again, "--first", str(number + 1)])
log.info("done: %s", vector.cache_info())
