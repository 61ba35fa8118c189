"""Ranks the readings of every sensor with a window function in DuckDB."""

import argparse
import time

import duckdb

parser = argparse.ArgumentParser()
parser.add_argument("--readings", type=int, default=15_000_000)
parser.add_argument("--sensors", type=int, default=3000)
parser.add_argument("--memory-limit", default="300MB")
parser.add_argument("--temp-directory", default="spill")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--month-by-month", action="store_true")
parser.add_argument("--small-types", action="store_true", help="INTEGER and FLOAT instead of BIGINT and DOUBLE")
args = parser.parse_args()

connection = duckdb.connect("sensors.duckdb")
connection.execute(f"SET memory_limit = '{args.memory_limit}'")
connection.execute(f"SET temp_directory = '{args.temp_directory}'")
connection.execute(f"SET threads = {args.threads}")
connection.execute("SET preserve_insertion_order = false")
whole, real = ("INTEGER", "FLOAT") if args.small_types else ("BIGINT", "DOUBLE")
connection.execute(
    f"""CREATE OR REPLACE TABLE readings AS
    SELECT (hash(i) % {args.sensors})::{whole} AS sensor, (i % 12)::{whole} AS month,
           (hash(i * 7) % 1000000 / 1000)::{real} AS value, hash(i * 31) % 1000000 AS note
    FROM range({args.readings}) t(i)"""
)
print(
    f"DuckDB {duckdb.__version__}: {connection.execute('SELECT count(*) FROM readings').fetchone()[0]} readings",
    flush=True,
)
months = range(12) if args.month_by_month else [None]
for number, month in enumerate(months, start=1):
    begin = time.time()
    print(f"batch {number}/{len(months)}: ranking", flush=True)
    rows = connection.execute(
        f"""SELECT sensor, avg(value) FROM (
            SELECT *, row_number() OVER (PARTITION BY sensor, month ORDER BY value DESC, note) AS place
            FROM readings {"" if month is None else f"WHERE month = {month}"}
        ) WHERE place <= 10 GROUP BY sensor"""
    ).fetchall()
    print(f"batch {number} done: {len(rows)} sensors in {time.time() - begin:.1f} s", flush=True)
