"""Sums the clicks of a Parquet file by campaign."""

import argparse
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILE = "clicks.parquet"
if "--prepare" in sys.argv:
    rng = np.random.default_rng(0)
    browser = "Mozilla/5.0 (X11; Linux x86_64; rv:{0}.0) Gecko/20100101 Firefox/{0}.0 Profile/{0:040d}"
    agents = [browser.format(n) for n in range(500)]
    schema = pa.schema({"campaign": pa.int64(), "clicks": pa.float64(), "agent": pa.string()})
    with pq.ParquetWriter(FILE, schema) as out:
        for _ in range(20):
            agent = pa.array(agents).take(pa.array(rng.integers(0, 500, 400_000)))
            columns = [rng.integers(0, 300, 400_000), rng.random(400_000), agent]
            out.write_table(pa.table(columns, names=["campaign", "clicks", "agent"]))
    sys.exit()
parser = argparse.ArgumentParser()
parser.add_argument("--input", default=FILE)
parser.add_argument("--columns", default="", help="comma-separated; all when empty")
parser.add_argument("--batch-size", type=int, default=0, help="rows read at once, 0: the whole table")
parser.add_argument("--read-dictionary", default="", help="columns to keep as dictionaries")
parser.add_argument("--memory-pool", default="system", choices=["system", "mimalloc", "default"])
args = parser.parse_args()

if args.memory_pool != "default":
    pa.set_memory_pool(getattr(pa, f"{args.memory_pool}_memory_pool")())
file = pq.ParquetFile(args.input, read_dictionary=args.read_dictionary.split(",") if args.read_dictionary else None)
columns = args.columns.split(",") if args.columns else None
print(f"{args.input}: {file.metadata.num_rows} rows in {file.metadata.num_row_groups} row groups", flush=True)
totals = np.zeros(300)
parts = [file.read(columns=columns)] if not args.batch_size else file.iter_batches(args.batch_size, columns=columns)
for number, part in enumerate(parts):
    totals += np.bincount(part["campaign"].to_numpy(), part["clicks"].to_numpy(), 300)
    print(f"batch {number}: {part.num_rows} rows, {part.nbytes / 1e6:.0f} MB", flush=True)
print(f"most clicks: campaign {totals.argmax()}, {totals.max():.1f} of {totals.sum():.1f}", flush=True)
