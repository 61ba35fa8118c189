"""Reads a table of events and sums it by customer."""

import argparse
import random
import sys

import pandas as pd

if "--prepare" in sys.argv:
    with open("events.csv", "w") as file:
        file.write("customer,country,session,amount\n")
        for number in range(1_500_000):
            row = f"customer-{number % 5000:08d},country-{number % 60},session-{random.getrandbits(64):016x}"
            file.write(f"{row},{random.random() * 100:.2f}\n")
    sys.exit()
parser = argparse.ArgumentParser()
parser.add_argument("--input", default="events.csv")
parser.add_argument("--chunksize", type=int, default=0)
parser.add_argument("--usecols", default="")
parser.add_argument("--categories", action="store_true")
args = parser.parse_args()

options = {"dtype": {name: "category" for name in ("customer", "country")} if args.categories else object}
if args.usecols:
    options["usecols"] = args.usecols.split(",")
print(f"reading {args.input}", flush=True)
if args.chunksize:
    total = 0.0
    for number, frame in enumerate(pd.read_csv(args.input, chunksize=args.chunksize, **options)):
        total += frame["amount"].astype(float).sum()
        print(f"batch {number}: {len(frame)} rows", flush=True)
else:
    frame = pd.read_csv(args.input, **options)
    total = frame.groupby("customer", observed=True)["amount"].apply(lambda it: it.astype(float).sum()).sum()
print(f"total {total:.2f}", flush=True)
