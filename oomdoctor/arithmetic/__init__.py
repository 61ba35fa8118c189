"""The arithmetic of memory: pure functions of figures, sizes in bytes and shares 0..1.

`shares` what of a card fits · `vllm` and `sglang` an engine's reservation, by version · `kv_cache` bytes per token
· `training` model states, activations, logits · `host` what offload, sleep and swap space take of a node.
"""
