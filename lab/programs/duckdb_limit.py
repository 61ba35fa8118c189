"""Sorts and groups a table in DuckDB with a limit of its own."""

import argparse

import duckdb

parser = argparse.ArgumentParser()
parser.add_argument("--memory-limit", default="200MB")
parser.add_argument("--threads", type=int, default=4)
parser.add_argument("--temp-directory", default="")
parser.add_argument("--rows", type=int, default=6_000_000)
args = parser.parse_args()

connection = duckdb.connect()
connection.execute(f"SET memory_limit='{args.memory_limit}'")
connection.execute(f"SET threads={args.threads}")
connection.execute(f"SET temp_directory='{args.temp_directory}'")
connection.execute("SET preserve_insertion_order=false")
print("running query", flush=True)
query = f"""
    SELECT count(*), sum(total) FROM (
        SELECT hash(range) AS key, md5(range::VARCHAR) AS name, sum(range) AS total
        FROM range({args.rows}) GROUP BY key, name ORDER BY name)
"""
print(connection.execute(query).fetchall(), flush=True)
