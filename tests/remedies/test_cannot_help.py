"""What the log itself rules out is no remedy: one request, one process, a value at its least, a limit below the use."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, cuda
from reports import body

ALONE = (
    '  File "/opt/sglang/python/sglang/srt/managers/schedule_batch.py", line 1402, in retract_decode\n'
    "AssertionError: No space left for only one request{}\n"
)
SHORT = (
    "RuntimeError: Decode out of memory. Try to lower your batch size. Try to allocate {} tokens. Available tokens: 0\n"
)
TRAINER = (
    "Traceback (most recent call last):\n"
    '  File "/v/site-packages/transformers/trainer.py", line 1921, in train\n    return loop(args)\n'
    '  File "/env/torch/nn/modules/module.py", line 1174, in convert\n    return t.to(device)\n'
)
SAVING = (
    "Traceback (most recent call last):\n"
    '  File "/home/u/fit.py", line 91, in main\n    {line}\n'
    '  File "/env/torch/serialization.py", line 619, in save\n    _save(obj, opened_zipfile)\n'
    "RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate 2147483648 bytes. Error code 12 (Cannot allocate memory)\n"
)
BREAKER = (
    "CircuitBreakingException: [{breaker}] Data too large, data for [<http_request>] would be [2042109465/1.9gb], "
    "which is larger than the limit of [2040109465/1.8gb]{real}\n"
)
REAL = ", real usage: [2042109465/1.9gb], new bytes reserved: [0/0b]"
CLICKHOUSE = (
    "2026.03.04 05:06:07.000001 [ 9 ] {{}} <Error> {who}: Code: 241. DB::Exception: Memory limit ({scope}) exceeded: "
    "would use 7.05 GiB (attempt to allocate chunk of 4194304 bytes),{rss} maximum: 7.00 GiB. (MEMORY_LIMIT_EXCEEDED)\n"
)
SLURM = "slurmstepd-n3: error: Step 77.0 exceeded memory limit ({used} > 8388608), being killed\n"
PIPELINE = (
    "Traceback (most recent call last):\n"
    '  File "/home/u/{folder}/app.py", line 31, in start\n    {line}\n' + cuda(own="78.10 GiB", free="0.90 GiB")
)


def first(folder: Path, text: str) -> list[str]:
    """The knobs of the first answer, in their order."""
    return [one["knob"] for one in body(folder, text)["incidents"][0]["diagnoses"][0]["remedies"]]


# one request


@pytest.mark.parametrize(
    ("text", "several"),
    [
        (SHORT.format(2), True),
        (SHORT.format(40), True),
        (SHORT.format(1), False),
        (ALONE.format(""), False),
        (ALONE.format(", self.token_to_kv_pool_allocator.available_size()=0"), False),
        (ALONE.format(" in SWA mode full_available_size=0, swa_available_size=12"), False),
    ],
)
def test_of_one_request_there_are_no_fewer(text: str, *, several: bool) -> None:
    chosen, _ = advise(text, "fewer-sequences", "raise-engine-reservation", cause="kv-pool-exhausted")
    assert ("fewer-sequences" in chosen) is several
    assert "raise-engine-reservation" in chosen


# a value at its least


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("rf fold diffusion_batch_size=4 out=a", True),
        ("rf fold val_bsz=1 out=a", True),
        ("rf fold batch_norm=1 out=a", True),
        ("rf fold diffusion_batch_size=1 out=a", False),
        ("python fold.py --diffusion-batch-size 1", False),
    ],
)
def test_a_batch_of_one_is_not_made_smaller(command: str, *, given: bool) -> None:
    assert (
        "smaller-microbatch" in advise(f"{command}\n{cuda()}", "smaller-microbatch", cause="activations")[0]
    ) is given


@pytest.mark.parametrize(
    ("command", "last"),
    [
        ("python sdxl_train.py", True),
        ("python sdxl_train.py --train_batch_size 4", False),
        ("axolotl train a.yml", False),  # a file has it, whatever the default
        ("lm_eval --model hf", False),  # nobody leaves it there
    ],
)
def test_a_default_that_is_the_least_goes_behind(tmp_path: Path, command: str, *, last: bool) -> None:
    text = f'{command}\n  File "/env/torch/nn/functional.py", line 9, in relu\n{cuda()}'
    remedy = advise(text, "smaller-microbatch", cause="activations")[0]["smaller-microbatch"]
    assert ("its default" in remedy.action) is last
    assert (first(tmp_path, text).index("smaller-microbatch") > 0) is last


# weights


@pytest.mark.parametrize(
    ("before", "snippet"),
    [
        ("python fit.py --lora_rank 8\n", "quantization_config=BitsAndBytesConfig(load_in_4bit=True)"),
        (
            "python fit.py\n",
            (
                "quantization_config=BitsAndBytesConfig(load_in_4bit=True)\n"
                'model = peft.get_peft_model(model, peft.LoraConfig(target_modules="all-linear"))'
            ),
        ),
    ],
)
def test_quantized_weights_are_trained_beneath_adapters(before: str, snippet: str) -> None:
    chosen, _ = advise(before + TRAINER + cuda(), "quantize-weights", cause="model-does-not-fit")
    assert chosen["quantize-weights"].snippet == snippet


def test_no_bits_of_a_model_fit_into_what_a_firmware_sets_aside() -> None:
    knobs = ("quantize-weights", "smaller-model", "fix-placement")
    little = cuda(total="512.00 MiB", free="0 bytes", own="430.00 MiB", tried="64.00 MiB").replace("CUDA", "HIP")
    chosen, _ = advise(little, *knobs, cause="model-does-not-fit")
    assert set(chosen) == {"fix-placement"}
    assert chosen["fix-placement"].snippet == "export HIP_VISIBLE_DEVICES=1"
    small = little.replace("512.00 MiB", "2.00 GiB")
    assert set(advise(small, *knobs, cause="model-does-not-fit")[0]) == {"quantize-weights", "smaller-model"}


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("dtype of the mask: bool", True),
        ("torch_dtype=torch.float32", True),
        ("pipe = load(path, torch_dtype=torch.float16).float()", True),
        ("pipe = load(path, torch_dtype=torch.bfloat16)", False),
        ("model = model.half()", False),
    ],
)
def test_what_is_in_16_bits_is_not_put_into_16_bits(line: str, *, given: bool) -> None:
    text = PIPELINE.format(folder="work", line="model.to(device)").replace("Traceback", f"{line}\nTraceback", 1)
    chosen, rejected = advise(text, "mixed-precision", cause="model-does-not-fit")
    assert ("mixed-precision" in chosen) is given
    assert ("mixed-precision" in rejected) is not given


@pytest.mark.parametrize(
    ("folder", "line", "snippet"),
    [
        ("asr", "pipe.to(device)", False),
        ("flux", "model.to(device)", False),
        ("influx", "pipe.to(device)", False),
        ("flux-app", "pipe.to(device)", True),
        ("sdxl", "pipeline.to('cuda')", True),
    ],
)
def test_a_pipeline_of_a_family_of_pictures_is_diffusers(folder: str, line: str, *, snippet: bool) -> None:
    chosen, _ = advise(PIPELINE.format(folder=folder, line=line), "offload-parameters", cause="model-does-not-fit")
    told = chosen["offload-parameters"].snippet or "" if "offload-parameters" in chosen else ""
    assert ("enable_model_cpu_offload()" in told) is snippet


# one process


@pytest.mark.parametrize(
    ("before", "line", "action"),
    [
        ("torchrun --nproc_per_node 4 fit.py\n", "torch.save(state, path)", "Save one shard per rank"),
        ("[rank 3] saving\n", "torch.save(state, path)", "Save one shard per rank"),
        ("python fit.py\n", "torch.save(state, path)", "Save the weights alone"),
        ("python fit.py\n", "torch.save(net.state_dict(), path)", None),
    ],
)
def test_one_process_has_nobody_to_share_a_checkpoint_with(before: str, line: str, action: str | None) -> None:
    text = before + SAVING.format(line=line)
    chosen, _ = advise(text, "sharded-checkpoint", cause="checkpoint-spike")
    assert ("sharded-checkpoint" in chosen) is (action is not None)
    assert action is None or chosen["sharded-checkpoint"].action.startswith(action)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (
            (
                "The node with node id: ab12 and address: 10.1.2.3 and node name: 10.1.2.3 has been marked dead "
                "because the detector has missed too many heartbeats from it.\n"
            ),
            "ssh 10.1.2.3 cat /tmp/ray/session_latest/logs/raylet.out | oomdoctor diagnose -",
        ),
        (
            (
                "A worker died or was killed while executing a task by an unexpected system error. Worker ID: c4 "
                "Node ID: 9d Worker IP address: 10.1.2.3 Worker port: 10004\n"
            ),
            "ray logs raylet.out",
        ),
    ],
)
def test_ray_reads_no_logs_of_a_dead_node(tmp_path: Path, text: str, asked: str) -> None:
    commands = " ".join(body(tmp_path, text)["incidents"][0]["next_evidence"])
    assert asked in commands
    assert ("ray logs" in commands) is ("ray logs" in asked)


# values that the log's own figures rule out


@pytest.mark.parametrize(
    ("used", "then", "ahead"),
    [
        (8388700, "11G", False),  # 8 GiB x 1.25, rounded up
        (12582912, "15G", False),  # 12 GiB x 1.25
        (25165824, "30G", True),  # 24 GiB x 1.25: three times the limit
    ],
)
def test_a_new_limit_holds_what_was_in_use(tmp_path: Path, used: int, then: str, *, ahead: bool) -> None:
    text = "STAR --runMode genomeGenerate --runThreadN 8\n" + SLURM.format(used=used)
    remedy = advise(text, "raise-container-limit", cause="container-limit")[0]["raise-container-limit"]
    assert remedy.suggested == then
    assert (first(tmp_path, text)[0] == "raise-container-limit") is ahead


@pytest.mark.parametrize(
    ("text", "snippet"),
    [
        (BREAKER.format(breaker="parent", real=REAL), 'export ES_JAVA_OPTS="-Xms4g -Xmx4g"'),
        ("opensearch: " + BREAKER.format(breaker="parent", real=REAL), 'export OPENSEARCH_JAVA_OPTS="-Xms4g -Xmx4g"'),
        (BREAKER.format(breaker="fielddata", real=""), None),  # another share of the heap
    ],
)
def test_a_breaker_is_a_share_of_the_heap(text: str, snippet: str | None) -> None:
    remedy = advise(text, "raise-allocator-cap", cause="allocator-cap")[0]["raise-allocator-cap"]
    assert "heap" in remedy.action
    assert remedy.snippet == snippet
    if snippet is not None:
        assert "1.90 GiB / 0.95 = 2.00 GiB of heap" in (remedy.derivation or "")


@pytest.mark.parametrize(
    ("scope", "rss", "snippet"),
    [
        ("for query", "", "SET max_memory_usage = 15032385536"),
        ("total", "", None),
        ("total", " current RSS 6.90 GiB,", None),
        ("total", " current RSS 3.60 GiB,", None),
        (
            "total",
            " current RSS 2.00 GiB,",
            "<memory_worker_correct_memory_tracker>1</memory_worker_correct_memory_tracker>",
        ),
    ],
)
def test_a_count_that_has_drifted_is_corrected(scope: str, rss: str, snippet: str | None) -> None:
    text = CLICKHOUSE.format(who="executeQuery", scope=scope, rss=rss)
    remedy = advise(text, "raise-allocator-cap", cause="allocator-cap")[0]["raise-allocator-cap"]
    assert remedy.snippet == snippet


@pytest.mark.parametrize(("who", "merges"), [("executeQuery", False), ("MergeTreeBackgroundExecutor", True)])
def test_a_server_of_queries_has_no_sequences_and_streams_nothing(who: str, *, merges: bool) -> None:
    text = CLICKHOUSE.format(who=who, scope="total", rss="")
    knobs = ("shorter-sequences", "stream-data", "smaller-microbatch", "smaller-partitions")
    chosen, _ = advise(text, *knobs, cause="allocator-cap")
    assert set(chosen) == ({"smaller-partitions"} if merges else set())


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("quarryd: memory limit exceeded: 9.00 GiB requested, limit is 8.00 GiB\n", False),
        ('  File "/env/transformers/generation/utils.py", line 9, in generate\n' + cuda(), True),
    ],
)
def test_a_program_of_which_nothing_is_known_has_no_sequences(text: str, *, given: bool) -> None:
    assert ("shorter-sequences" in advise(text, "shorter-sequences", cause="allocator-cap")[0]) is given


# the allocator's setting, which costs nothing


@pytest.mark.parametrize(("batch", "place"), [("batch_size=1", 0), ("batch_size=8", 1)])
def test_the_allocator_goes_before_what_only_records(tmp_path: Path, batch: str, place: int) -> None:
    text = f"fold run {batch} out=a\n" + cuda(
        tried="4.00 GiB", free="2.50 GiB", total="24.00 GiB", own="18.90 GiB", unused="2.60 GiB"
    ).replace("process has 18.90", "process has 21.50")
    assert first(tmp_path, text).index("allocator-config") == place


@pytest.mark.parametrize(
    ("path", "assumed"),
    [("/usr/bin/node", True), ("/u/.nvm/versions/node/v18.7.0/bin/node", False), ("/u/node/v18/bin/node", True)],
)
def test_a_path_tells_the_release_of_node(path: str, *, assumed: bool) -> None:
    heap = "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n"
    text = f"{heap} 1: node::Abort() [{path}]\n"
    remedy = advise(text, "raise-allocator-cap", cause="allocator-cap")[0]["raise-allocator-cap"]
    assert any("Node.js" in one for one in remedy.assumes) is assumed


NO_ROOM = "example.engine.OutOfMemoryException: Not enough off-heap memory. Acquired: 8.0 MiB, granted: 1.0 MiB. {}"


@pytest.mark.parametrize(
    ("advice", "option"),
    [
        ("Try tweaking config option engine.memory.offHeap.size to get larger space.", "engine.memory.offHeap.size"),
        ("Increase 'query.max-memory-per-node' or lower the load.", "query.max-memory-per-node"),
        ("See the property engine.log.level for more.", None),
        ("Please decrease the parameter engine.batch.memory to 3.", None),
        ("Set option max-line-length.", None),
        ("Set it to a larger value.", None),
    ],
)
def test_a_limit_of_an_unknown_program_by_the_name_that_its_message_has(advice: str, option: str | None) -> None:
    found = advise(NO_ROOM.format(advice) + "\n", "raise-allocator-cap", cause="allocator-cap")[0]
    assert [remedy.setting for remedy in found.values()] == ([option] if option else [])


def test_phps_limit_is_raised_by_its_name(tmp_path: Path) -> None:
    line = "Allowed memory size of 268435456 bytes exhausted (tried to allocate 65536 bytes) in /srv/a.php on line 7"
    found = body(tmp_path, f"PHP Fatal error:  {line}\n")["diagnoses"][0]
    first = found["remedies"][0]
    assert (found["cause"], first["setting"], first["suggested"]) == ("allocator-cap", "memory_limit", "512M")


@pytest.mark.parametrize(("size", "helps"), [("1120.48 GiB", True), ("67109892.01 GiB", False)])
def test_no_smaller_picture_makes_an_impossible_size_possible(size: str, helps: bool, tmp_path: Path) -> None:
    log = f"processing 2.png\ntorch.OutOfMemoryError: {cuda(tried=size, free='1.23 GiB')}"
    found = next(one for one in body(tmp_path, log)["diagnoses"] if one["cause"] == "absurd-size")
    assert ("smaller-input" in [one["knob"] for one in found["remedies"]]) is helps


@pytest.mark.parametrize(("limit_kb", "value"), [(921600, 225), (4096000, 1000)])
def test_a_cache_is_a_part_of_what_the_job_may_use(limit_kb: int, value: int, tmp_path: Path) -> None:
    log = (
        "[LightGBM] [Info] Total Bins 102000\n"
        "[37448.0] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
        f"[37448.0] memory: usage {limit_kb}kB, limit {limit_kb}kB, failcnt 41\n"
        "[37448.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,"
        "task_memcg=/job,task=python,pid=3877,uid=0\n"
        "[37448.1] Memory cgroup out of memory: Killed process 3877 (python) total-vm:1460620kB, anon-rss:918084kB, "
        "file-rss:76504kB, shmem-rss:0kB, UID:0 pgtables:2312kB oom_score_adj:0\n"
    )
    found = body(tmp_path, log)["diagnoses"][0]["remedies"]
    assert next(one["suggested"] for one in found if one["setting"] == "histogram_pool_size") == value
