"""PyTorch's memory snapshots (`torch.cuda.memory._dump_snapshot()`): read without PyTorch, and nothing in them is run.

`model` says what is read, and is all that a job without a snapshot loads.
"""
