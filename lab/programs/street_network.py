"""Average and longest hop distances in a street network, and the ten most central junctions."""

import argparse
import resource
from collections import Counter

import networkx as nx

parser = argparse.ArgumentParser()
parser.add_argument("--junctions", type=int, default=3000)
parser.add_argument("--cutoff", type=int, help="count only junctions within so many hops")
parser.add_argument("--one-source-at-a-time", action="store_true", help="keep only sums, not all paths")
parser.add_argument("--sample-sources", type=int, help="from so many junctions only")
args = parser.parse_args()

graph = nx.connected_watts_strogatz_graph(args.junctions, 4, 0.05, seed=2)
print(f"networkx {nx.__version__}: {graph}", flush=True)
sources = list(graph)[: args.sample_sources]


def distances():
    for number, source in enumerate(sources, start=1):
        if number % 250 == 0:
            rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"shortest paths from {number}/{len(sources)} junctions, max RSS {rss:.0f} MiB", flush=True)
        yield source, nx.single_source_shortest_path_length(graph, source, cutoff=args.cutoff)


lengths = distances() if args.one_source_at_a_time else dict(distances()).items()
total, pairs, histogram, closeness = 0, 0, Counter(), {}
for source, reached in lengths:
    total += sum(reached.values())
    pairs += len(reached)
    histogram.update(reached.values())
    closeness[source] = (len(reached) - 1) / max(1, sum(reached.values()))
print(f"average {total / pairs:.2f} hops, longest {max(histogram)}")
for junction in sorted(closeness, key=closeness.get, reverse=True)[:10]:
    print(f"junction {junction}: closeness {closeness[junction]:.4f}")
