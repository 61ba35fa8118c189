"""A server and a trainer on one card."""

import argparse
import subprocess
import sys

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--server-fraction", type=float, default=0.7, help="of the card that the server takes")
parser.add_argument("--no-server", action="store_true")
parser.add_argument("--batch-gb", type=int, default=30)
args = parser.parse_args()

SERVER = """
import sys, torch
free, total = torch.cuda.mem_get_info()
cache = torch.empty(int(float(sys.argv[1]) * total), dtype=torch.uint8, device="cuda")
print("server ready", flush=True)
sys.stdin.read()
"""
server = None
if not args.no_server:
    words = [sys.executable, "-c", SERVER, str(args.server_fraction)]
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print(server.stdout.readline().strip(), flush=True)
try:
    for step in range(args.batch_gb):
        batch = torch.ones((step + 1) << 28, device="cuda")
        print(f"step {step} sum {batch.sum().item():.0f}", flush=True)
        del batch
finally:
    if server:
        server.kill()
