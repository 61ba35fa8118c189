"""Classifies tickets by the TF-IDF of their words."""

import argparse

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

parser = argparse.ArgumentParser()
parser.add_argument("--documents", type=int, default=60_000)
parser.add_argument("--max-features", type=int, default=0, help="0 keeps all words")
parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
parser.add_argument("--chunk-size", type=int, default=0, help="documents made dense at once, 0: all")
args = parser.parse_args()

rng = np.random.default_rng(0)
corpus = [" ".join(f"w{word}" for word in rng.zipf(1.3, 40) % 150_000) for _ in range(args.documents)]
labels = rng.integers(0, 4, args.documents)
vectorizer = TfidfVectorizer(max_features=args.max_features or None, dtype=np.dtype(args.dtype))
matrix = vectorizer.fit_transform(corpus)
print(f"tf-idf: {matrix.shape}, {matrix.nnz} stored elements, {matrix.data.nbytes / 1e6:.1f} MB", flush=True)
model, scaler = SGDClassifier(), StandardScaler()
size = args.chunk_size or matrix.shape[0]
for number, start in enumerate(range(0, min(matrix.shape[0], 20 * size), size)):
    dense = matrix[start : start + size].toarray()
    scaler.partial_fit(dense)
    model.partial_fit(scaler.transform(dense), labels[start : start + size], classes=range(4))
    print(f"batch {number}: {dense.shape} {dense.dtype}", flush=True)
print(f"{model.coef_.size} coefficients", flush=True)
