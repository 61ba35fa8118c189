"""Renders the invoices of a night with a pool of processes; each keeps the glyphs it has drawn."""

import argparse
import logging
import multiprocessing
import os
import sys
from collections import OrderedDict
from concurrent.futures import ProcessPoolExecutor, as_completed

import numpy as np
import psutil

glyphs = OrderedDict()


def render(number, cache_size):
    generator = np.random.default_rng(number)
    page = np.zeros((400, 300), dtype=np.uint16)
    for glyph in generator.integers(0, 2**31, 40).tolist():  # each customer brings a font of its own
        glyphs[glyph] = np.full((96, 96), glyph % 255, dtype=np.float32)
        page[:96, :96] += glyphs[glyph].astype(np.uint16)
        while cache_size and len(glyphs) > cache_size:
            glyphs.popitem(last=False)
    return number, os.getpid(), psutil.Process().memory_info().rss, int(page.sum())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--invoices", type=int, default=1200)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--glyph-cache", type=int, default=0, help="glyphs that a process keeps; 0: all")
    parser.add_argument("--restart-every", type=int, default=0, help="invoices after which the pool is made anew")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(levelname)s - %(message)s", stream=sys.stdout)
    logging.info("rendering %s invoices with %s workers", args.invoices, args.workers)
    done, failed, rss = 0, 0, {}
    size = args.restart_every or args.invoices
    for first in range(0, args.invoices, size):
        rss.clear()
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(args.workers, mp_context=context) as pool:
            numbers = range(first, min(first + size, args.invoices))
            for future in as_completed([pool.submit(render, number, args.glyph_cache) for number in numbers]):
                _, pid, rss[pid], _ = future.result()
                done += 1
                if done % 50 == 0:
                    each = ", ".join(f"{pid}: {held / 2**20:.0f} MB" for pid, held in sorted(rss.items()))
                    logging.info("%s of %s invoices rendered; rss of workers {%s}", done, args.invoices, each)
    logging.info("all %s invoices rendered", done)
