"""Joins a table with itself and aggregates."""

import argparse

import polars as pl

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=1_500_000)
parser.add_argument("--keys", type=int, default=50_000)
parser.add_argument("--streaming", action="store_true", help="the streaming engine")
parser.add_argument("--narrow", action="store_true", help="32-bit columns")
args = parser.parse_args()

kind = pl.Int32 if args.narrow else pl.Int64
table = pl.select(number=pl.int_range(args.rows, dtype=kind)).with_columns(key=pl.col("number") % args.keys)
print(f"table: {table.estimated_size('mb'):.0f} MB", flush=True)
query = table.lazy().join(table.lazy(), on="key").select(pl.col("number") * pl.col("number_right")).sum()
print(query.collect(engine="streaming" if args.streaming else "in-memory"), flush=True)
