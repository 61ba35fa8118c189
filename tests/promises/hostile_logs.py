"""Logs that try to be opened, executed, imported, compiled, unpickled and obeyed."""

from __future__ import annotations

from pathlib import Path

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of "
    "23.60 GiB of which 1.25 GiB is free. Including non-PyTorch memory, this process has 22.30 GiB memory in use. Of "
    "the allocated memory 21.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved by PyTorch but unallocated.\n"
)


def planted(folder: Path) -> tuple[Path, Path]:
    """A log, and the files that it names: a model, a configuration, a script, a checkpoint, a module."""
    bait = folder / "bait"
    bait.mkdir()
    (bait / "config.json").write_text('{"hidden_size": 4096, "num_hidden_layers": 32}')
    (bait / "run.sh").write_text("touch owned\n")
    (bait / "ds_config.json").write_text('{"zero_optimization": {"stage": 3}}')
    (bait / "checkpoint.pt").write_bytes(b"cos\nsystem\n(S'touch owned'\ntR.")
    (bait / "torch.py").write_text("raise SystemExit('imported')")
    log = folder / "hostile.log"
    log.write_text(
        f"$ python -m openrlhf.cli.train_ppo_ray --pretrain {bait} --deepspeed {bait}/ds_config.json "
        f"--config {bait}/run.sh --load_checkpoint {bait}/checkpoint.pt --zero_stage 3 --micro_train_batch_size 8\n"
        f"PYTHONPATH={bait} LD_PRELOAD={bait}/evil.so PYTHONSTARTUP={bait}/torch.py\n"
        f"loading configuration file {bait}/config.json\n"
        f"{{'actor_rollout_ref': {{'model': {{'path': '{bait}'}}, 'x': __import__('os').system('touch owned')}}}}\n"
        f"model:\n  path: !!python/object/apply:os.system ['touch owned']\n"
        f"See http://127.0.0.1:9/report and file://{bait}/config.json for more\n"
        f"{{{{ config.__class__.__init__.__globals__ }}}} {{0.__class__}} %(x)s %s %n ${{bait}} `touch owned`\n"
        "Traceback (most recent call last):\n"
        f'  File "{bait}/torch.py", line 1, in (?P<evil>(a+)+$\n'
        f'  File "/dev/zero", line 99999999999999999999, in __import__("os").system("touch owned")\n'
        f"{OOM}"
    )
    return log, bait
