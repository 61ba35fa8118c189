"""Builds an index of passages' embeddings with Faiss and searches it."""

import argparse
import time

import faiss
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--factory", default="Flat", help="faiss.index_factory")
parser.add_argument("--vectors", type=int, default=600_000)
parser.add_argument("--dim", type=int, default=768)
parser.add_argument("--batch-size", type=int, default=20_000)
parser.add_argument("--topk", type=int, default=10)
args = parser.parse_args()
faiss.omp_set_num_threads(2)
print(f"faiss {faiss.__version__}: {args.factory} of {args.vectors} x {args.dim}", flush=True)


def embeddings(number, rows=args.batch_size):
    return np.random.default_rng(number).standard_normal((rows, args.dim), dtype=np.float32)


index = faiss.index_factory(args.dim, args.factory, faiss.METRIC_INNER_PRODUCT)
if not index.is_trained:
    start = time.time()
    index.train(embeddings(0, 4000))
    print(f"trained in {time.time() - start:.1f} s", flush=True)
for number in range(args.vectors // args.batch_size):
    index.add(embeddings(number))
    print(f"batch {number}: {index.ntotal} vectors", flush=True)
scores, ids = index.search(embeddings(-1 % 10_000, 4), args.topk)
print(f"best {ids[0][:3]} with {scores[0][:3]}", flush=True)
