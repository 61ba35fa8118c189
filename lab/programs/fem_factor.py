"""Heat in a block of metal over time: one sparse factorization, many right-hand sides."""

import argparse
import time

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import cg, splu

parser = argparse.ArgumentParser()
parser.add_argument("--cells", type=int, default=40, help="along each edge")
parser.add_argument("--time-steps", type=int, default=10)
parser.add_argument("--dt", type=float, default=0.05)
parser.add_argument("--solver", choices=["splu", "cg"], default="splu")
parser.add_argument("--ordering", choices=["COLAMD", "MMD_AT_PLUS_A", "NATURAL"], default="COLAMD")
parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
args = parser.parse_args()


def laplacian(n):
    line = sp.diags([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], [-1, 0, 1])
    one = sp.identity(n)
    return sp.kron(sp.kron(line, one), one) + sp.kron(sp.kron(one, line), one) + sp.kron(sp.kron(one, one), line)


def main():
    n = args.cells
    print(f"mesh: {n} x {n} x {n} cells, {n**3} unknowns", flush=True)
    began = time.perf_counter()
    stiffness = laplacian(n) * (n**2 / 100)
    system = (sp.identity(n**3) + args.dt * stiffness).tocsc().astype(args.dtype)
    print(f"assembled in {time.perf_counter() - began:.2f} s: nnz = {system.nnz}", flush=True)
    heat = np.zeros(n**3, dtype=args.dtype)
    heat[: n**2] = 100.0
    if args.solver == "splu":
        print(f"factorizing (SuperLU, {args.ordering})", flush=True)
        began = time.perf_counter()
        factors = splu(system, permc_spec=args.ordering)
        print(f"factorized in {time.perf_counter() - began:.1f} s: nnz(L+U) = {factors.nnz}", flush=True)
    for number in range(1, args.time_steps + 1):
        heat = factors.solve(heat) if args.solver == "splu" else cg(system, heat)[0]
        print(
            f"time step {number:3d}  t = {number * args.dt:.2f}  max {heat.max():.4f}  mean {heat.mean():.6f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
