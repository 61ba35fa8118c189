"""Options of the job's own program, known by the words of their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import crashes_of

import oomdoctor
from oomdoctor.remedies.advise import remedies
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.own_options import own_option, proposal, table, workers_that_fit
from oomdoctor.remedies.proposal import Proposal

KILLED = (
    "Memory cgroup out of memory: Killed process 8376 (python) total-vm:1601096kB, anon-rss:1020648kB, "
    "file-rss:91976kB, shmem-rss:0kB, UID:0 pgtables:2520kB oom_score_adj:0\n"
)


def option(knob: str, options: str, program: str = "python -u fit.py") -> tuple[str, object] | None:
    """The option for the knob and what to make of it."""
    found = own_option(knob, crashes_of(f"+ {program} {options}\n{KILLED}")[0])
    return (found.setting.name, found.then) if found is not None else None


def test_each_row_is_of_a_knob() -> None:
    assert {row.knob for row in table()} <= KNOBS.keys()


@pytest.mark.parametrize(
    ("knob", "options", "found"),
    [
        ("chunked-logits", "--logits-chunk-size 0", ("logits_chunk_size", 64)),
        ("chunked-logits", "--loss-chunk-size 512", ("loss_chunk_size", 256)),
        ("chunked-logits", "--chunk-size 512", None),
        ("smaller-partitions", "--chunk-rows 4000", ("chunk_rows", 2000)),
        ("smaller-partitions", "--chunksize 4000", ("chunksize", 2000)),
        ("smaller-partitions", "--chunk-size 1", None),
        ("smaller-partitions", "--partitions 1", ("partitions", 8)),
        ("smaller-partitions", "--output-partitions 1", None),
        ("smaller-partitions", "--max-partitions 9", None),
        ("smaller-partitions", "--batch-rows 9000", ("batch_rows", 4500)),
        ("smaller-partitions", "--log-batch-rows 9000", None),
        ("smaller-partitions", "--per-batch 0", ("per_batch", 64)),
        ("smaller-partitions", "--files-per-batch 32", None),
        ("smaller-partitions", "--tokens-per-batch 0", None),
        ("smaller-microbatch", "--files-per-batch 32", ("files_per_batch", 16)),
        ("smaller-microbatch", "--saves-per-batch 1", None),
        ("smaller-microbatch", "--lr-per-batch 32", None),
        ("smaller-partitions", "--log-chunk-size 64", None),
        ("smaller-partitions", "--sequence-chunk-size 64", None),
        ("smaller-partitions", "--checkpoint-chunks 8", None),
        ("smaller-partitions", "--payload-mb 20", ("payload_mb", 10)),
        ("smaller-partitions", "--stores-per-chunk 0", ("stores_per_chunk", 1)),
        ("smaller-partitions", "--rows-per-chunk 0", ("rows_per_chunk", 64)),
        ("smaller-input", "--n-samples 3000", ("n_samples", 1500)),
        ("smaller-input", "--log-samples 3000", None),
        ("smaller-input", "--num-nodes 8", None),  # of a cluster
        ("smaller-input", "--num-train-epochs 3000", None),
        ("stream-data", "--overwrite-cache", None),
        ("smaller-partitions", "--max-shard-size 5GB", None),  # of what is written
        ("narrow-dtypes", "--precision double", ("precision", "single")),
        ("fewer-sequences", "--users 64", ("users", 32)),
        ("fewer-sequences", "--users 200000", None),  # not at once
        ("smaller-input", "--samples-per-gpu 3000", None),
        ("tiled-processing", "--val-inferer simple", ("val_inferer", "sliding_window")),
        ("tiled-processing", "--val-inferer sliding_window", None),
        ("smaller-partitions", "--chunks 100,720,1440", ("chunks", "50,360,720")),
        ("smaller-partitions", "--chunks auto,720", None),
        ("smaller-input", "--patch-size 96 96 1 --lr 0.1", ("patch_size", "48 48 1")),
        ("smaller-input", "--image-size 512x512", ("image_size", "256x256")),
        ("smaller-microbatch", "--writer-batch-size 4000", None),
        ("narrow-dtypes", "--sparse-labels false", ("sparse_labels", True)),
        ("narrow-dtypes", "--sparse-labels true", None),
        ("narrow-dtypes", "--solver dense", ("solver", None)),
        ("narrow-dtypes", "--solver lanczos", None),
        ("tiled-processing", "--decode-chunk-size 0", ("decode_chunk_size", 4)),
        ("tiled-processing", "--vae-batch-size 16", ("vae_batch_size", 8)),
        ("smaller-buffers", "--max-bin 1024", ("max_bin", 512)),
        ("smaller-buffers", "--heatmaps true", ("heatmaps", False)),
        ("smaller-buffers", "--max-cached-hist-node 65536", ("max_cached_hist_node", 128)),
        ("smaller-buffers", "--snapshots 0", ("snapshots", 50)),
        ("smaller-buffers", "--top-logprobs 0", ("top_logprobs", 64)),
        ("smaller-buffers", "--logits-topk 5", None),
        ("smaller-buffers", "--top-k 0", None),  # of a sampler
        ("smaller-buffers", "--snapshots 40", None),
        ("smaller-buffers", "--snapshots-every 0", None),
        ("smaller-buffers", "--heatmaps-dir true", None),
        ("smaller-model", "--max-depth 14", ("max_depth", 7)),
        ("smaller-microbatch", "--max-duration 90", ("max_duration", 45)),
        ("smaller-microbatch", "--max-cut-duration 90", None),
        ("low-memory-loading", "--mmap-mode none", ("mmap_mode", "r")),
        ("sharded-checkpoint", "--save-format pickle", ("save_format", None)),
        ("sharded-checkpoint", "--save-format safetensors", None),
        ("gradient-checkpointing", "--no-remat", ("no_remat", False)),
        ("gradient-checkpointing", "--disable-gradient-checkpointing", ("disable_gradient_checkpointing", False)),
        ("low-memory-loading", "--no-mmap", ("no_mmap", False)),
        ("memory-efficient-attention", "--no-flash-attn", ("no_flash_attn", False)),
        ("low-memory-loading", "--no-low-memory", ("no_low_memory", False)),
        ("stream-data", "--no-cache", None),  # it takes away what costs memory
        ("less-offload", "--no-offload", None),
        ("smaller-microbatch", "--n-rand 2048", ("n_rand", 1024)),
        ("smaller-microbatch", "--rand-seed 2048", None),
        ("smaller-microbatch", "--batch-size 64 --microbatch-size 16", ("microbatch_size", 8)),
        ("smaller-microbatch", "--num-microbatches 16", None),
        ("smaller-microbatch", "--per-device-memory 16", None),
        ("smaller-microbatch", "--micro-batch-warmup 16", None),
        ("smaller-microbatch", "--per-device-batch 16", ("per_device_batch", 8)),
        ("smaller-buffers", "--max-pending 0", ("max_pending", 1)),
        ("smaller-buffers", "--max-pending 12", ("max_pending", 6)),
        ("smaller-buffers", "--max-pending-timeout 12", None),
        ("smaller-buffers", "--shuffle-buffer 64", ("shuffle_buffer", 32)),
        ("smaller-buffers", "--buffer-size all", None),
        ("smaller-buffers", "--writer-batch-size 64", ("writer_batch_size", 32)),
        ("smaller-buffers", "--writer-threads 64", None),
        ("smaller-partitions", "--chunksize 0", ("chunksize", 10000)),
        ("smaller-partitions", "--chunksize -1", ("chunksize", 10000)),
        ("smaller-partitions", "--chunk-size 0", ("chunk_size", 64)),
        ("smaller-buffers", "--shuffle true", None),
        ("smaller-buffers", "--shuffle-seed 64", None),
        ("smaller-buffers", "--keep-every 1", ("keep_every", 10)),
        ("smaller-buffers", "--keep-every 5", ("keep_every", 50)),
        ("smaller-buffers", "--log-every 5", None),
        ("smaller-buffers", "--keep-every 0", None),
        ("smaller-partitions", "--num-parts 1", ("num_parts", 8)),
        ("smaller-partitions", "--npartitions 6", ("npartitions", 12)),
        ("smaller-partitions", "--num-save-partitions 6", None),
        ("smaller-partitions", "--parts list", None),
        ("shorter-sequences", "--max-seq-length 50", ("max_seq_length", 25)),
        ("shorter-sequences", "--maxlen 640", ("maxlen", 320)),
        ("shorter-sequences", "--replay-maxlen 640", None),
        ("low-memory-optimizer", "--optimizer lbfgs", ("optimizer", "adam")),
        ("narrow-dtypes", "--dtype float64", ("dtype", "float32")),
        ("narrow-dtypes", "--dtype float32", None),
        ("narrow-dtypes", "--kv-cache-dtype float64", None),
        ("mixed-precision", "--dtype float32", ("dtype", "bfloat16")),
        ("mixed-precision", "--dtype bfloat16", None),
        ("mixed-precision", "--dtype float64", None),
        ("gradient-checkpointing", "--remat false", ("remat", True)),
        ("gradient-checkpointing", "--remat true", None),
        ("gradient-checkpointing", "--checkpointing-steps 0", None),
        ("stream-data", "--cache memory", ("cache", None)),
        ("stream-data", "--cache disk", None),
        ("stream-data", "--cache-dir memory", None),
        ("stream-data", "--streaming false", ("streaming", True)),
        ("stream-data", "--engine in-memory", ("engine", "streaming")),
        ("stream-data", "--reader eager", ("reader", None)),
        ("stream-data", "--engine streaming", None),
        ("stream-data", "--engine-name eager", None),
        ("stream-data", "--mode eager", None),
        ("narrow-dtypes", "--dummy-dtype float32", ("dummy_dtype", "uint8")),
        ("narrow-dtypes", "--onehot-dtype int64", ("onehot_dtype", "uint8")),
        ("narrow-dtypes", "--onehot-dtype uint8", None),
        ("narrow-dtypes", "--hot-words float32", None),
        ("low-memory-optimizer", "--optim adamw", ("optim", None)),
        ("low-memory-optimizer", "--optim adafactor", None),
        ("low-memory-optimizer", "--optim-lr 1", None),
        ("sharded-checkpoint", "--save-sharded false", ("save_sharded", True)),
        ("low-memory-loading", "--mmap false", ("mmap", True)),
        ("lora", "--lora-rank 0", ("lora_rank", 8)),
        ("lora", "--lora-r 0", ("lora_r", 8)),
        ("lora", "--lora-rank 16", None),
        ("lora", "--lora-alpha 0", None),
        ("lora", "--rank 0", None),
        ("fewer-workers", "--loader-threads 8", ("loader_threads", 4)),
        ("fewer-workers", "--worker-timeout 8", None),
        ("less-offload", "--experts-on-host 32", ("experts_on_host", 16)),
        ("less-offload", "--host-cache-gb 16", ("host_cache_gb", 8)),
        ("less-offload", "--offload-layers 1", None),
        ("less-offload", "--keep-on-cpu true", ("keep_on_cpu", False)),
        ("less-offload", "--offload-dir true", None),
        ("less-offload", "--no-offload true", None),
        ("less-offload", "--offload cpu", ("offload", None)),
        ("less-offload", "--offload disk", None),
        ("smaller-microbatch", "--batch 64", ("batch", 32)),
        ("smaller-microbatch", "--minibatch 64", ("minibatch", 32)),
        ("smaller-microbatch", "--batch-tokens 8192", ("batch_tokens", 4096)),
        ("smaller-microbatch", "--batch-norm 64", None),
        ("smaller-microbatch", "--eval-minibatch 64", None),
        ("shorter-sequences", "--context 4096", ("context", 2048)),
        ("shorter-sequences", "--context-file 4096", None),
        ("shorter-sequences", "--max-length-file 4096", None),
        ("shorter-sequences", "--length 4096", ("length", 2048)),
        ("shorter-sequences", "--length-scale 4096", None),
        ("shorter-sequences", "--max-tokens 900", ("max_tokens", 450)),
        ("shorter-sequences", "--max-batch-tokens 900", None),
        ("shorter-context", "--ctx 4096", ("ctx", 2048)),
        ("shorter-context", "--ctx-path 4096", None),
        ("smaller-input", "--size 640", ("size", 320)),
        ("smaller-input", "--max-size 640", ("max_size", 320)),
        ("smaller-input", "--cache-size 640", None),
        ("smaller-input", "--num-points 4000", ("num_points", 2000)),
        ("smaller-input", "--points-file 4000", None),
        ("smaller-model", "--layers 48", ("layers", 24)),
        ("smaller-model", "--gpu-layers 48", None),
        ("smaller-model", "--offload-layers 48", None),
        ("smaller-model", "--in-channels 48", None),
        ("fewer-environments", "--envs 64", ("envs", 32)),
        ("fewer-environments", "--env-id 64", None),
        ("fewer-workers", "--actors 8", ("actors", 4)),
        ("fewer-workers", "--actor-lr 8", None),
        ("fewer-workers", "--parallel 8", ("parallel", 4)),
        ("fewer-workers", "--tensor-parallel 8", None),
        ("fewer-workers", "--worker-memory 8", None),
        ("fewer-sequences", "--slots 8", ("slots", 4)),
        ("fewer-sequences", "--slots-timeout 8", None),
        ("smaller-buffers", "--capacity 9000", ("capacity", 4500)),
        ("smaller-buffers", "--gpu-capacity 9000", None),
        ("smaller-buffers", "--keep-predictions true", ("keep_predictions", False)),
        ("smaller-buffers", "--keep-predictions-dir true", None),
        ("smaller-buffers", "--flush-every 0", ("flush_every", 64)),
        ("smaller-buffers", "--log-flush-every 0", None),
        ("clear-references", "--retain-graph true", ("retain_graph", False)),
        ("clear-references", "--retain-graph false", None),
        ("clear-references", "--detach false", ("detach", True)),
        ("smaller-partitions", "--tile-size 512", ("tile_size", 256)),
        ("smaller-partitions", "--row-group-size 100000", ("row_group_size", 50000)),
        ("smaller-partitions", "--text-block-size 512", None),
        ("smaller-partitions", "--num-shards 4", ("num_shards", 8)),
        ("smaller-object-store", "--object-store-mb 512", ("object_store_mb", 256)),
        ("bigger-object-store", "--object-store-mb 512", ("object_store_mb", 1024)),
        ("bigger-object-store", "--object-store-dir 512", None),
        ("bigger-shm", "--shm-mb 64", ("shm_mb", 128)),
        ("smaller-prefill", "--ubatch 2048", ("ubatch", 1024)),
        ("unpin-memory", "--pin true", ("pin", False)),
        ("unpin-memory", "--pin false", None),
        ("mixed-precision", "--amp false", ("amp", True)),
        ("mixed-precision", "--amp-level false", None),
        ("memory-efficient-attention", "--attn eager", ("attn", "sdpa")),
        ("memory-efficient-attention", "--attn sdpa", None),
        ("memory-efficient-attention", "--attn-heads eager", None),
        ("memory-efficient-attention", "--flash false", ("flash", True)),
        ("gradient-checkpointing", "--grad-ckpt false", ("grad_ckpt", True)),
        ("gradient-checkpointing", "--load-checkpoint false", None),
        ("narrow-dtypes", "--dtype int64", ("dtype", "int32")),
        ("chunked-logits", "--chunked-loss false", ("chunked_loss", True)),
        ("chunked-logits", "--chunked-read false", None),
        ("stream-data", "--load-all true", ("load_all", None)),
        ("stream-data", "--load-all-limit true", None),
        ("stream-data", "--iterable false", ("iterable", True)),
        ("sharded-checkpoint", "--full-state-dict true", ("full_state_dict", False)),
        ("sharded-checkpoint", "--full-state-dir true", None),
        ("low-memory-loading", "--lazy-load false", ("lazy_load", True)),
        ("spill-to-disk", "--out-of-core false", ("out_of_core", True)),
        ("spill-to-disk", "--spill-dir false", None),
        ("lora", "--full-finetune true", ("full_finetune", False)),
        ("raise-allocator-cap", "--memory-budget 500", ("memory_budget", 1000)),
        ("raise-allocator-cap", "--memory-limit 1.5GiB", ("memory_limit", "3GiB")),
        ("raise-allocator-cap", "--memory-limit 1.5x", None),
        ("smaller-partitions", "--block-size 512MB", ("block_size", "256MB")),
        ("smaller-buffers", "--cache-size 3g", ("cache_size", "1.5g")),
        ("raise-allocator-cap", "--gpu-memory-budget 500", None),
    ],
)
def test_an_option_is_known_by_its_words(knob: str, options: str, found: tuple[str, object] | None) -> None:
    assert option(knob, options) == found


def test_programs_of_frameworks_have_their_own_tables() -> None:
    assert option("narrow-dtypes", "--dtype float64", "python -m openrlhf.cli.train_ppo_ray") is None


def test_a_remedy_names_the_option_and_its_value(tmp_path: Path) -> None:
    log = "Traceback (most recent call last):\n"
    log += '  File "/srv/fit.py", line 18, in distances\n    return np.sqrt(squares - 2 * block @ points.T)\n'
    log += "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1.07 GiB for an array with shape "
    log += "(12000, 12000) and data type float64\n"
    (tmp_path / "job.log").write_text(f"+ python fit.py --points 12000 --dtype float64\n{log}", encoding="utf-8")
    first: dict[str, Any] = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    remedy = next(one for one in first["remedies"] if one["knob"] == "narrow-dtypes")
    assert (remedy["setting"], remedy["current"], remedy["suggested"]) == ("--dtype", "float64", "float32")
    assert remedy["snippet"] == "--dtype float32"
    assert remedy["assumes"] == ["the program takes this value for --dtype"]


def test_the_price_of_an_option_is_that_of_the_job(tmp_path: Path) -> None:
    launch = "python fit.py --text-seqlen 4096\n"
    log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 23.99 "
    log += "GiB of which 1.10 GiB is free. Of the allocated memory 22.10 GiB is allocated by PyTorch, and 90.00 MiB is "
    log += "reserved by PyTorch but unallocated.\n"
    (tmp_path / "job.log").write_text(launch + log, encoding="utf-8")
    told = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"]
    found = [one for each in told for one in each["remedies"] if one["setting"] == "--text-seqlen"]
    assert found
    assert {one["cost"] for one in found} == {"longer sequences are truncated"}


@pytest.mark.parametrize(("rows", "is_offered"), [(27916, False), (64, True)])
def test_half_a_batch_is_no_half_of_an_array_of_the_data(tmp_path: Path, rows: int, *, is_offered: bool) -> None:
    log = "Traceback (most recent call last):\n"
    log += '  File "/srv/fit.py", line 45, in <module>\n    x = (x - mean) / deviation\n'
    log += "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1.68 GiB for an array with shape "
    log += f"({rows}, 168, 48) and data type float64\n"
    (tmp_path / "job.log").write_text(f"+ python fit.py --batch-size 64 --dtype float64\n{log}", encoding="utf-8")
    first: dict[str, Any] = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    assert ("smaller-microbatch" in [remedy["knob"] for remedy in first["remedies"]]) is is_offered


@pytest.mark.parametrize(
    ("printed", "written", "then"),
    [
        ("Namespace(train_batch_size=32)", "train_batch_size=", 16),  # it is not what the line said
        ("Namespace(train_batch_size=64)", "--train-batch-size ", 32),
        ("ready", "--train-batch-size ", 32),
    ],
)
def test_what_the_program_prints_back_is_spelled_as_on_the_launch_line(printed: str, written: str, then: int) -> None:
    crash = crashes_of(f"+ python -u fit.py --train-batch-size 64\n{printed}\n{KILLED}")[0]
    found = own_option("smaller-microbatch", crash)
    assert found is not None
    assert (found.setting.written, found.then) == (written, then)


REFUSED = "MemoryError: Unable to allocate {size} for an array with shape {shape} and data type float64\n"


@pytest.mark.parametrize(
    ("options", "shape", "found"),
    [
        ("--max-train 2200", "(2200, 2200, 8)", ("max_train", 1100)),
        ("--spots 2200 --seed 2200", "(8, 2200)", ("spots", 1100)),
        ("--spots 2200 --spikes 2200", "(8, 2200)", None),  # one of the two, nobody knows which
        ("--spots 8", "(8, 2200)", None),  # by chance
        ("--hidden-dim 2200", "(8, 2200)", None),  # of the model
        ("--spots 2200", "(4400, 8)", None),
        ("--image-size 300 --spots 2200", "(8, 2200)", ("spots", 1100)),
        ("--image-size 300 --spots 2200", "(4400, 8)", ("image_size", 150)),
        ("", "(2200, 8)", None),
    ],
)
def test_an_option_as_large_as_an_axis_of_the_refused_array(
    options: str, shape: str, found: tuple[str, object] | None
) -> None:
    crash = crashes_of(f"+ python -u fit.py {options}\n{REFUSED.format(size='295. MiB', shape=shape)}")[0]
    turned = own_option("smaller-input", crash)
    assert ((turned.setting.name, turned.then) if turned is not None else None) == found


def test_a_gaussian_process_is_fitted_on_fewer_samples(tmp_path: Path) -> None:
    frame = (
        '  File "/x/site-packages/sklearn/gaussian_process/kernels.py", line 1581, in __call__\n    K = np.exp(-d)\n'
    )
    log = "+ python -u fit.py --max-train 2200\n" + frame + REFUSED.format(size="295. MiB", shape="(2200, 2200, 8)")
    (tmp_path / "job.log").write_text(log)
    first = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]["remedies"][0]
    assert (first["knob"], first["snippet"]) == ("smaller-input", "--max-train 1100")


@pytest.mark.parametrize(
    ("program", "options", "knobs"),
    [
        ("fit.py", "--steps 9 --context 4096", ["shorter-sequences"]),
        ("fit.py", "--steps 9 --layers 48", ["smaller-model"]),
        ("fit.py", "--steps 9 --seed 4096", []),
        ("-m openrlhf.cli.train_ppo_ray", "--context 4096", []),
        ("join.py", "--chunk-rows 50000", ["smaller-partitions"]),
        ("join.py", "--context 4096", []),  # nothing there has sequences
    ],
)
def test_a_bare_kill_is_told_of_the_options_there_are(
    tmp_path: Path, program: str, options: str, knobs: list[str]
) -> None:
    command = f"python {program} {options}"
    printed = "step 1 loss 4.6" if "fit" in program else "ready"
    (tmp_path / "job.log").write_text(
        f"+ {command}\n{printed}\nrun.sh: line 2:    12 Killed     {command}\n", encoding="utf-8"
    )
    found = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]["remedies"]
    turned = ("shorter-sequences", "smaller-model", "smaller-partitions")
    assert [one["knob"] for one in found if one["knob"] in turned] == knobs


COOKS = "+ python fit.py --workers 8 --cut 9 {option}\nrecipe 20 of 96 cooked\n9 forks\nread 4800 plates\n"


@pytest.mark.parametrize(
    ("option", "then", "formula"),
    [
        ("--plates-per-batch 0", 300, "4800 / 16 = 300, rounded down"),
        ("--flush-every 0", 6, "96 / 16 = 6, rounded down"),
        ("--chunk-size -1", 6, "96 / 16 = 6, rounded down"),
        ("--knives-per-batch 0", 1, None),  # nobody says how many there are
        ("--forks-per-batch 0", 1, None),  # too few for so many parts
        ("--num-parts 1", 8, None),
    ],
)
def test_what_is_done_all_at_once_is_cut_by_how_much_there_is(
    tmp_path: Path, option: str, then: int, formula: str | None
) -> None:
    (tmp_path / "job.log").write_text(COOKS.format(option=option) + KILLED, encoding="utf-8")
    first: dict[str, Any] = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]["remedies"][0]
    flag, now = option.split()
    assert (first["setting"], str(first["current"]), first["suggested"]) == (flag, now, then)
    assert formula is None or first["derivation"] == formula


@pytest.mark.parametrize(("now", "then"), [("Float64", "Float32"), ("FLOAT64", "FLOAT32"), ("float64", "float32")])
def test_a_value_is_spelled_as_the_one_before(now: str, then: str) -> None:
    assert option("narrow-dtypes", f"--dtype {now}") == ("dtype", then)


@pytest.mark.parametrize(
    ("options", "action", "snippet"),
    [
        ("--keep-logits --seed 7", "Leave out --keep-logits", None),
        ("--seed 7 --keep-logits", "Leave out --keep-logits", None),
        ("--keep-logits \\\\", "Leave out --keep-logits", None),
        ("--keep-logits true --seed 7", "Set --keep-logits from True to False", "--keep-logits False"),
        ("--keep-logits=true", "Set --keep-logits from True to False", "--keep-logits False"),
        ("--flush-every -1 --seed 7", "Set --flush-every from -1 to 64", "--flush-every 64"),
    ],
)
def test_a_switch_is_left_out(options: str, action: str, snippet: str | None) -> None:
    found = proposal("smaller-buffers", "", crashes_of(f"+ python -u fit.py {options}\n{KILLED}")[0])
    assert found is not None
    assert (found.action, found.snippet) == (action, snippet)


def test_a_program_has_what_its_options_name(tmp_path: Path) -> None:
    command = "python fit.py --full-state-dict --hidden 9"
    (tmp_path / "job.log").write_text(
        f"+ {command}\nstep 9 loss 2.3\nsaving checkpoint to s.pt\nrun.sh: line 2:    12 Killed     {command}\n",
        encoding="utf-8",
    )
    first: dict[str, Any] = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    assert first["cause"] == "checkpoint-spike"
    assert first["remedies"][0]["action"] == "Leave out --full-state-dict"


@pytest.mark.parametrize(("option", "then"), [("--window 4000", 20), ("--shuffle-buffer 4000", 1000)])
def test_a_step_takes_a_batch_out_of_a_shuffled_buffer(tmp_path: Path, option: str, then: int) -> None:
    command = f"python serve.py {option}"
    lines = [f"+ {command}", *(f"step {n} ok" for n in (20, 30, 40)), f"run.sh: line 3:    12 Killed     {command}", ""]
    (tmp_path / "job.log").write_text("\n".join(lines), encoding="utf-8")
    found = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]["remedies"]
    assert next(one["suggested"] for one in found if one["knob"] == "smaller-buffers") == then


@pytest.mark.parametrize(
    ("options", "knobs"),
    [
        ("--max-sessions 64", ["fewer-sequences"]),
        ("--num-envs 64 --img-size 84", ["fewer-environments", "smaller-input"]),
        ("--parallel-envs 64", ["fewer-environments"]),
        ("--batch-size 32 --seq-len 512 --layers 8", ["smaller-microbatch", "shorter-sequences"]),
    ],
)
def test_a_bare_kill_is_told_of_the_options_before_what_is_bought(
    tmp_path: Path, options: str, knobs: list[str]
) -> None:
    (tmp_path / "job.log").write_text(f"$ python -u job.py {options}\nready\nKilled\n")
    first = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    assert [one["knob"] for one in first["remedies"]][: len(knobs) + 1] == [*knobs, "more-host-memory"]


def test_sessions_of_an_engine_on_a_card_are_none_of_the_hosts(tmp_path: Path) -> None:
    shown = "$ python -u serve.py --max-sessions 64\nrunning on cuda:0\nKilled\n"
    (tmp_path / "job.log").write_text(shown)
    first = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    assert "fewer-sequences" not in [one["knob"] for one in first["remedies"]]


def test_an_option_of_ones_own_suits_whatever_the_job_is(tmp_path: Path) -> None:
    shown = "$ python -u knn.py --points 80000 --k 16\nreading events.parquet\nKilled\n"
    (tmp_path / "job.log").write_text(shown)
    first = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    assert ("smaller-input", "--points") in [(one["knob"], one["setting"]) for one in first["remedies"]]


def test_one_line_is_told_once(tmp_path: Path) -> None:
    shown = "$ python -u tok.py --writer_batch_size 4000\nRunning tokenizer on dataset:  11%|#  | 1/9 [00:20<02:41]\n"
    (tmp_path / "job.log").write_text(shown + KILLED)
    first = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    lines = [one["snippet"] for one in first["remedies"] if one["snippet"]]
    assert "--writer_batch_size 2000" in lines
    assert len(lines) == len(set(lines))


def saved(option: str) -> str | None:
    crash = crashes_of(f"+ python -u fit.py {option}\nSaving checkpoint to runs/last.pt\n{KILLED}")[0]
    chosen, _ = remedies("checkpoint-spike", ("sharded-checkpoint",), crash)
    return chosen[0].action if chosen else None


def test_one_process_has_nobody_to_share_a_checkpoint_with() -> None:
    told = "Save in a format that is written array by array (.npz, safetensors): --save-format is pickle now"
    assert saved("--save-format pickle") == told
    assert "array by array" not in (saved("--save-mode full") or "")


def test_what_is_dense_is_kept_sparse() -> None:
    found = proposal(
        "narrow-dtypes", "Store it narrower", crashes_of(f"+ python -u fit.py --solver dense\n{KILLED}")[0]
    )
    assert found is not None
    assert found.action == "Keep it sparse: --solver is dense now"


@pytest.mark.parametrize(("fit", "then"), [(3, 3), (7, 7), (8, None), (12, None), (0, None), (True, None)])
def test_as_many_workers_as_fit_where_that_is_less_than_half(fit: int, then: int | None) -> None:
    crash = crashes_of(f"+ python -u fit.py --actors 16\n{KILLED}")[0]
    found = workers_that_fit(crash, Proposal(action="Run fewer", suggested=fit, derivation="2 x 3"))
    assert (found.suggested if found is not None else None) == then
    if found is not None:
        assert (found.snippet, found.derivation) == (f"--actors {fit}", "2 x 3")
