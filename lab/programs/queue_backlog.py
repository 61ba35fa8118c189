"""A pipeline: a reader process hands pages to a tokenizer process through a queue."""

import argparse
import multiprocessing as mp
import os
import time

import psutil

parser = argparse.ArgumentParser()
parser.add_argument("--pages", type=int, default=3000)
parser.add_argument("--page-kb", type=int, default=512)
parser.add_argument("--queue-size", type=int, default=0, help="0: without bound")
args = parser.parse_args()


def read(queue):
    process = psutil.Process()
    for number in range(args.pages):
        queue.put(os.urandom(args.page_kb * 512).hex())
        if number % 100 == 0:
            rss = process.memory_info().rss / 2**20
            where = f"page {number}/{args.pages} backlog {queue.qsize()}"
            print(f"[reader pid={process.pid}] {where} RSS {rss:.0f} MB", flush=True)
    queue.put(None)


def tokenize(queue):
    tokens = 0
    while (page := queue.get()) is not None:
        time.sleep(0.004)
        tokens += len(page) // 4
    print(f"[tokenizer] {tokens} tokens", flush=True)


if __name__ == "__main__":
    queue = mp.Queue(args.queue_size)
    processes = [mp.Process(target=it, args=(queue,), name=it.__name__) for it in (read, tokenize)]
    for process in processes:
        process.start()
    while any(it.is_alive() for it in processes):
        time.sleep(0.2)
        for process in processes:
            if process.exitcode:
                processes[-1].terminate()
                raise RuntimeError(f"process {process.name} (pid {process.pid}) died with exit code {process.exitcode}")
    print("pipeline finished", flush=True)
