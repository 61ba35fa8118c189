"""A service of embeddings: each worker of gunicorn answers with a model that it holds. `--smoke-test` asks it."""

import os
import sys
import time
import urllib.request

import numpy as np

SIZE = 32_000


def load_model():
    print("loading model", flush=True)
    model = np.random.default_rng(0).random((SIZE, 2048), dtype=np.float32)
    print(f"model loaded, {model.nbytes / 1e6:.0f} MB", flush=True)
    return model


def smoke_test():
    seen = set()
    for number in range(3):
        time.sleep(5)
        for _ in range(40):
            with urllib.request.urlopen("http://127.0.0.1:8000/embed", timeout=20) as answer:
                seen.add(int(answer.read().split()[1]))
        gone = sorted(pid for pid in seen if not os.path.exists(f"/proc/{pid}"))
        print(f"round {number}: answers of workers {sorted(seen)}", flush=True)
        if gone:
            sys.exit(f"smoke test failed: workers {gone} are gone")


if __name__ == "__main__" and "--smoke-test" in sys.argv:
    smoke_test()
    sys.exit()

model = load_model()


def app(environ, start_response):
    vector = model[hash(environ.get("QUERY_STRING", "")) % SIZE]
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"pid {os.getpid()} norm {np.linalg.norm(vector):.4f}\n".encode()]
