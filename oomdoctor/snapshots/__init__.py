"""PyTorch's memory snapshots (`torch.cuda.memory._dump_snapshot()`): read without PyTorch, and nothing in them is run.

`model` says what is read. A job without a snapshot loads nothing but `names`.
"""
