"""Checks the links of a site with many threads."""

import argparse
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

parser = argparse.ArgumentParser()
parser.add_argument("--max-workers", type=int, default=400)
parser.add_argument("--stack-size-kb", type=int, default=0, help="0: the system's")
parser.add_argument("--urls", type=int, default=1200)
args = parser.parse_args()
if args.stack_size_kb:
    threading.stack_size(args.stack_size_kb * 1024)


def check(url):
    time.sleep(0.4)
    return url, 200


print(f"checking {args.urls} urls with {args.max_workers} threads", flush=True)
with ThreadPoolExecutor(args.max_workers) as pool:
    futures = []
    for number in range(args.urls):
        futures.append(pool.submit(check, f"https://example.org/page/{number}"))
        if number % 100 == 0:
            print(f"batch {number // 100} submitted, {threading.active_count()} threads", flush=True)
    failed = [url for future in as_completed(futures) for url, status in [future.result()] if status != 200]
print(f"{len(failed)} broken links", flush=True)
