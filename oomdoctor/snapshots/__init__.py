"""PyTorch's memory snapshots (`torch.cuda.memory._dump_snapshot()`): read without PyTorch, and nothing in them is run.

`timeline` reads what torch.profiler exports as its memory timeline. `model` says what is read. A job with neither loads
nothing but `names`.
"""
