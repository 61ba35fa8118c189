"""Writes the nightly reports of a shop from its SQLite database."""

import argparse
import logging
import random
import sqlite3
import sys
import time
from pathlib import Path

if "--prepare" in sys.argv:
    rng = random.Random(0)
    db = sqlite3.connect("shop.db")
    db.execute("CREATE TABLE orders (order_id INTEGER, customer_id INTEGER, month INTEGER, item TEXT, amount REAL)")
    db.execute("CREATE TABLE visits (visit_id INTEGER, customer_id INTEGER, page TEXT, referrer TEXT, seconds REAL)")
    orders = [(n, rng.randrange(600), n % 12, f"article {rng.randrange(4000)}", rng.random()) for n in range(20000)]
    visits = [(n, rng.randrange(600), f"/shop/{n:032x}", f"mail-{n % 90}", rng.random()) for n in range(30000)]
    db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", orders)
    db.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", visits)
    db.execute("CREATE INDEX of_customer ON visits (customer_id)")
    db.commit()
    sys.exit()

import pandas as pd

parser = argparse.ArgumentParser()
parser.add_argument("--db", default="shop.db")
parser.add_argument("--chunksize", type=int, default=0, help="rows read and written at once; 0: all")
parser.add_argument("--months-per-query", type=int, default=12)
args = parser.parse_args()
logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stdout)
log = logging.getLogger("reports")

REPORTS = {
    "revenue_by_month": "SELECT month, SUM(amount) AS revenue, COUNT(*) AS orders FROM orders "
    "WHERE month >= :first AND month < :end GROUP BY month",
    "top_articles": "SELECT item, SUM(amount) AS revenue FROM orders "
    "WHERE month >= :first AND month < :end GROUP BY item ORDER BY 2 DESC LIMIT 100",
    "attribution": "SELECT o.order_id, o.customer_id, o.month, o.item, o.amount, v.visit_id, v.page, v.referrer "
    "FROM orders o JOIN visits v ON v.customer_id = o.customer_id WHERE o.month >= :first AND o.month < :end",
    "referrers": "SELECT referrer, COUNT(*) AS visits FROM visits GROUP BY referrer",
}
connection = sqlite3.connect(args.db)
log.info("sqlite %s, %s (%.1f MB)", sqlite3.sqlite_version, args.db, Path(args.db).stat().st_size / 1e6)
for number, (name, query) in enumerate(REPORTS.items(), start=1):
    log.info("job %d of %d: %s", number, len(REPORTS), name)
    log.info("%s", query)
    began, rows = time.perf_counter(), 0
    with open(f"{name}.csv", "w") as file:
        for first in range(0, 12, args.months_per_query):
            frames = pd.read_sql_query(
                query,
                connection,
                params={"first": first, "end": first + args.months_per_query},
                chunksize=args.chunksize or None,
            )
            for frame in frames if args.chunksize else [frames]:
                frame.to_csv(file, index=False, header=rows == 0)
                rows += len(frame)
            del frames, frame
    log.info("%s.csv: %d rows in %.1f s", name, rows, time.perf_counter() - began)
log.info("all reports written")
