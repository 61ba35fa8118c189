"""Decorations come off and are kept as facts; writers come apart; wraps are joined; nothing dangerous is left."""

from __future__ import annotations

from typing import Any

import pytest
from effort import seconds

from oomdoctor.streams import LONGEST_LINE, LONGEST_QUOTE, Line, Mark, Page, decode, page

ESC = "\x1b"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def lines(text: str) -> list[Line]:
    found = page("job.log", 1, text.encode()).lines
    return found[:-1] if text.endswith("\n") else found


def only(text: str) -> Line:
    (line,) = lines(text)
    return line


def facts(mark: Mark) -> dict[str, Any]:
    return {name: value for name in mark.__struct_fields__ if (value := getattr(mark, name)) is not None}


# What stands in front of a line, the writer it names, and the facts it states.
DECORATIONS = {
    # Ray
    "(LLMRayActor pid=88, ip=10.0.0.7) ": (
        "LLMRayActor 88 10.0.0.7",
        {"name": "LLMRayActor", "pid": 88, "ip": "10.0.0.7"},
    ),
    "(pid=365) ": ("365", {"pid": 365}),
    "(create_colocated_worker_cls.<locals>.WorkerDict pid=12) ": (
        "create_colocated_worker_cls.<locals>.WorkerDict 12",
        {"name": "create_colocated_worker_cls.<locals>.WorkerDict", "pid": 12},
    ),
    "(RolloutWorker(rank=3) pid=9) ": ("RolloutWorker(rank=3) 9", {"name": "RolloutWorker(rank=3)", "pid": 9}),
    "(ServeReplica:app:Chat pid=9) ": ("ServeReplica:app:Chat 9", {"name": "ServeReplica:app:Chat", "pid": 9}),
    "(raylet) ": ("raylet", {"name": "raylet"}),
    "(raylet, ip=10.0.0.9) ": ("raylet 10.0.0.9", {"name": "raylet", "ip": "10.0.0.9"}),
    "(autoscaler +1m12s) ": ("autoscaler", {"name": "autoscaler", "time": "+1m12s"}),
    f"{ESC}[36m(LLMRayActor pid=88){ESC}[0m ": ("LLMRayActor 88", {"name": "LLMRayActor", "pid": 88}),
    f"{ESC}[2m{ESC}[36m(load pid=88){ESC}[0m ": ("load 88", {"name": "load", "pid": 88}),
    "^[[36m(LLMRayActor pid=88)^[[0m ": ("LLMRayActor 88", {"name": "LLMRayActor", "pid": 88}),
    "#033[2m#033[33m(raylet)#033[0m ": ("raylet", {"name": "raylet"}),
    "\\x1b[36m(LLMRayActor pid=88)\\x1b[0m ": ("LLMRayActor 88", {"name": "LLMRayActor", "pid": 88}),
    "[36m(LLMRayActor pid=88)[0m ": ("LLMRayActor 88", {"name": "LLMRayActor", "pid": 88}),
    "[1;36m(EngineCore_DP0 pid=7)[0;0m ": ("EngineCore_DP0 7", {"name": "EngineCore_DP0", "pid": 7}),
    "[2026-03-01 08:15:30,250 E 900 931] (raylet) node_manager.cc:3007: ": (
        "raylet",
        {
            "time": "2026-03-01 08:15:30,250",
            "level": "ERROR",
            "pid": 900,
            "name": "raylet",
            "source": "node_manager.cc:3007",
        },
    ),
    "2026-03-01 08:15:30,702\tWARNING worker.py:1986 -- ": (
        "",
        {"time": "2026-03-01 08:15:30,702", "level": "WARNING", "source": "worker.py:1986"},
    ),
    # torchrun, srun and friends
    "[rank3]: ": ("rank 3", {"rank": 3}),
    "[default3]:": ("rank 3", {"rank": 3}),
    "[1,3]<stderr>:": ("rank 3", {"rank": 3}),
    "[rank3]:[W0301 08:15:30.204334026 CUDACachingAllocator.cpp:3934] ": (
        "rank 3",
        {"rank": 3, "level": "WARNING", "time": "0301 08:15:30.204334026", "source": "CUDACachingAllocator.cpp:3934"},
    ),
    "E0301 08:15:30.795000 14609 torch/distributed/elastic/multiprocessing/api.py:1002] ": (
        "",
        {
            "level": "ERROR",
            "time": "0301 08:15:30.795000",
            "pid": 14609,
            "source": "torch/distributed/elastic/multiprocessing/api.py:1002",
        },
    ),
    "WARNING:torch.distributed.elastic.multiprocessing.api:": (
        "",
        {"level": "WARNING", "source": "torch.distributed.elastic.multiprocessing.api"},
    ),
    "[2026-03-01 08:15:30,123] torch.distributed.elastic.agent.server.api: [WARNING] ": (
        "",
        {
            "time": "2026-03-01 08:15:30,123",
            "level": "WARNING",
            "source": "torch.distributed.elastic.agent.server.api",
        },
    ),
    "[2026-03-01 08:15:30,305] [INFO] [launch.py:428:sigkill_handler] ": (
        "",
        {"time": "2026-03-01 08:15:30,305", "level": "INFO", "source": "launch.py:428:sigkill_handler"},
    ),
    "2026-03-01 08:15:30,334 - mmdet - INFO - ": (
        "",
        {"time": "2026-03-01 08:15:30,334", "level": "INFO", "source": "mmdet"},
    ),
    "03/01/2026 08:15:30 - ERROR - ": ("", {"time": "03/01/2026 08:15:30", "level": "ERROR"}),
    "2026-03-01 08:15:30.123 | ERROR    | orz.ppo.trainer:train:120 - ": (
        "",
        {"time": "2026-03-01 08:15:30.123", "level": "ERROR", "source": "orz.ppo.trainer:train:120"},
    ),
    "[INFO|trainer.py:2134] 2026-03-01 08:15:30,123 >> ": (
        "",
        {"level": "INFO", "source": "trainer.py:2134", "time": "2026-03-01 08:15:30,123"},
    ),
    # vLLM, SGLang
    "ERROR 02-12 12:59:07 async_llm_engine.py:68] ": (
        "",
        {"level": "ERROR", "time": "02-12 12:59:07", "source": "async_llm_engine.py:68"},
    ),
    "ERROR 05-21 10:04:35 [core.py:123] ": (
        "",
        {"level": "ERROR", "time": "05-21 10:04:35", "source": "core.py:123"},
    ),
    "(EngineCore_DP0 pid=418) ERROR 01-29 15:57:08 [core.py:946] ": (
        "EngineCore_DP0 418",
        {
            "name": "EngineCore_DP0",
            "pid": 418,
            "level": "ERROR",
            "time": "01-29 15:57:08",
            "source": "core.py:946",
        },
    ),
    "(Worker_TP3 pid=7) ": ("Worker_TP3 7", {"name": "Worker_TP3", "pid": 7, "rank": 3}),
    "(VllmWorker rank=7 pid=240) ": ("VllmWorker rank 7 240", {"name": "VllmWorker", "pid": 240, "rank": 7}),
    "(APIServer pid=1) ": ("APIServer 1", {"name": "APIServer", "pid": 1}),
    "[2026-03-01 08:15:30 TP0] ": ("TP0", {"time": "2026-03-01 08:15:30", "name": "TP0", "rank": 0}),
    "[2026-03-01 08:15:30 DP1 TP3] ": ("DP1 TP3", {"time": "2026-03-01 08:15:30", "name": "DP1 TP3", "rank": 3}),
    "2026-03-01 08:15:30.311870: W tensorflow/core/common_runtime/bfc_allocator.cc:242] ": (
        "",
        {
            "time": "2026-03-01 08:15:30.311870",
            "level": "WARNING",
            "source": "tensorflow/core/common_runtime/bfc_allocator.cc:242",
        },
    ),
    # containers, collectors, the system
    "vllm-1  | ": ("vllm-1", {"name": "vllm-1"}),
    "ray_head_1    | ": ("ray_head_1", {"name": "ray_head_1"}),
    "engine  | ": ("engine", {"name": "engine"}),
    "2026-03-01T08:15:30.764529167Z ": ("", {"time": "2026-03-01T08:15:30.764529167Z"}),
    "2026-03-01T08:15:30.764529167Z stderr F ": ("", {"time": "2026-03-01T08:15:30.764529167Z"}),
    "[2026-03-01T08:15:30Z] ": ("", {"time": "2026-03-01T08:15:30Z"}),
    "2026-03-01T08:15:30.808505Z  INFO text_generation_launcher: ": (
        "",
        {"time": "2026-03-01T08:15:30.808505Z", "level": "INFO", "source": "text_generation_launcher"},
    ),
    "[  722.423903] ": ("kernel", {"name": "kernel", "time": "722.423903"}),
    "[Sun Mar  1 08:15:30 2026] ": ("kernel", {"name": "kernel", "time": "Sun Mar  1 08:15:30 2026"}),
    "Mar  1 08:15:30 gpu-07 kernel: ": (
        "gpu-07 kernel",
        {"time": "Mar  1 08:15:30", "host": "gpu-07", "name": "kernel"},
    ),
    "Mar  1 08:15:30 gpu-07 kernel: [ 1810.112041] ": (
        "gpu-07 kernel",
        {"time": "Mar  1 08:15:30", "host": "gpu-07", "name": "kernel"},
    ),
    "Mar  1 08:15:30 gpu-07 systemd[1]: ": (
        "gpu-07 systemd 1",
        {"time": "Mar  1 08:15:30", "host": "gpu-07", "name": "systemd", "pid": 1},
    ),
    "2026-03-01T08:15:30,440218+02:00 ": ("", {"time": "2026-03-01T08:15:30,440218+02:00"}),
    "> ": ("", {}),
    # and one on top of the other
    "vllm-1  | 2026-03-01T08:15:30.7Z (RayWorkerWrapper pid=71, ip=10.0.0.2) (EngineCore_DP0 pid=9) "
    "ERROR 03-01 08:15:31 [core.py:123] ": (
        "vllm-1 RayWorkerWrapper 71 10.0.0.2 EngineCore_DP0 9",
        {
            "name": "EngineCore_DP0",
            "pid": 9,
            "ip": "10.0.0.2",
            "time": "2026-03-01T08:15:30.7Z",
            "level": "ERROR",
            "source": "core.py:123",
        },
    ),
    "(raylet) [2026-03-01 08:15:30,250 E 900 931] (raylet) node_manager.cc:3007: ": (
        "raylet",
        {
            "time": "2026-03-01 08:15:30,250",
            "level": "ERROR",
            "pid": 900,
            "name": "raylet",
            "source": "node_manager.cc:3007",
        },
    ),
}


@pytest.mark.parametrize("prefix", DECORATIONS, ids=lambda prefix: ascii(prefix)[:60])
def test_a_decoration_comes_off_and_is_kept_as_facts(prefix: str) -> None:
    line = only(prefix + OOM)
    assert (line.text, line.writer, facts(line.mark)) == (OOM, *DECORATIONS[prefix])


@pytest.mark.parametrize("prefix", [p for p in DECORATIONS if not p.endswith(("|", "api:"))], ids=ascii)
def test_the_indentation_behind_a_decoration_stays(prefix: str) -> None:
    assert only(prefix + '  File "/app/train.py", line 3, in step').text == '  File "/app/train.py", line 3, in step'


@pytest.mark.parametrize(
    "text",
    [
        # Ray's list of victims, an exception's own address, arithmetic, a call
        "(Actor(ab12): job ID=01000000, task name=A.__init__, required resources={}, pid=24, actual memory used=1GB)",
        "(task ID: ab12, name=hog, pid=24, memory used=1.00GB) was running was 9.00GB / 9.50GB (0.95)",
        "(7, 2048) is the shape",
        "(raylets are many)",
        # tables and lists
        "[  19668]     0 19668   231255    85792    80295     5497         0   946176        0             0 python",
        "['/usr/bin/python3', '-u', 'main.py', '--local_rank=0'] exits with return code = -9",
        "[torch_memory_saver.cpp] CUresult error: 2 (out of memory)",
        "|    0   N/A  N/A     33199      C   python        4917MiB |",
        "10093\t6.0GiB\tpython reward.py",
        "torch      | 2.9.0 | yes",
        # words that begin like a level, a month, a host
        "ERROR: Unexpected bus error encountered in worker.",
        "INFO about nothing",
        "Information: 3 of 4",
        "March 3 was fine",
        "Error: No available node types can fulfill resource request {'GPU': 8.0, 'CPU': 1.0}.",
        "RuntimeError: CUDA error: out of memory",
        "rate(gpu_memory[5m]) and x[0] and [1m]",
        ">>> import torch",
        "3: not every line is numbered",
        "2026 was a good year",
        "    (a + b) * pid",
    ],
)
def test_what_only_looks_like_a_decoration_stays(text: str) -> None:
    found = lines(text + "\nsomething else\nand more")[0]
    assert (found.text, found.writer, facts(found.mark)) == (text, "", {})


@pytest.mark.parametrize(
    "suffix",
    [
        " [repeated 7x across cluster]",
        f"{ESC}[32m [repeated 7x across cluster]{ESC}[0m",
        (
            " [repeated 7x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable log"
            " deduplication, or see https://docs.ray.io/en/master/x.html#log-deduplication for more options.)"
        ),
    ],
)
def test_a_repeated_line_says_how_often(suffix: str) -> None:
    line = only(f"(WorkerDict pid=5) {OOM}{suffix}")
    assert (line.text, line.mark.repeated) == (OOM, 7)


def test_words_about_repeating_stay() -> None:
    assert only("it was [repeated 7x] by me").text == "it was [repeated 7x] by me"


def test_numbers_of_srun_come_off_where_every_line_has_one() -> None:
    found = lines(f"0: loading\n1: loading\n3: {OOM}\n0:   indented\n")
    assert [(line.text, line.writer, line.mark.rank) for line in found] == [
        ("loading", "rank 0", 0),
        ("loading", "rank 1", 1),
        (OOM, "rank 3", 3),
        ("  indented", "rank 0", 0),
    ]


def test_numbers_that_count_the_lines_are_no_ranks() -> None:
    text = "".join(f"{number}: {line}\n" for number, line in enumerate(["loading", "up", OOM, "  indented", "end"], 97))
    assert [(line.text, line.writer, line.mark.rank) for line in lines(text)][2:4] == [
        (OOM, "", None),
        ("  indented", "", None),
    ]


def test_hosts_of_pdsh_come_off_where_every_line_has_one() -> None:
    found = lines(f"worker-0: [2026-03-01 08:15:30,305] [INFO] [launch.py:1:main] up\nworker-1: {OOM}\n10.0.0.3: x\n")
    assert [(line.text, line.writer, line.mark.host) for line in found] == [
        ("up", "worker-0", "worker-0"),
        (OOM, "worker-1", "worker-1"),
        ("x", "10.0.0.3", "10.0.0.3"),
    ]


def test_a_word_before_all_that_a_child_prints_comes_off() -> None:
    found = lines(f"CHILD: step 4\nCHILD:   indented\nCHILD: {OOM}\n")
    assert [(line.text, line.writer) for line in found] == [
        ("step 4", "CHILD"),
        ("  indented", "CHILD"),
        (OOM, "CHILD"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "NOTE: a\nNOTE: b\nNOTE: c\n",  # how grave it is
        "CHILD: a\nmain: b\nCHILD: c\n",  # not all
        "TOTAL:a\nTOTAL:b\nTOTAL:c\n",
    ],
)
def test_a_word_before_some_lines_and_a_level_stay(text: str) -> None:
    assert [line.text for line in lines(text)] == text.splitlines()


def test_names_of_functions_are_no_hosts() -> None:
    text = "llm_load_tensors: a\nggml_cuda_host_malloc: b\nllm_load_tensors: c\n"
    assert [line.text for line in lines(text)] == text.splitlines()


def test_one_record_per_physical_line_falls_apart_into_its_plain_lines() -> None:
    head = "(EngineCore_DP0 pid=418) ERROR 01-29 15:57:08 [core.py:946] "
    record = ["Traceback (most recent call last):", '  File "/a.py", line 1, in f', "    x()", "    ^^^", OOM]
    assert [line.text for line in lines("\n".join(head + part for part in record))] == record


def test_lines_are_numbered_as_grep_numbers_them() -> None:
    text = "one\r\ntwo\x0bstill two\u2028still two\x85\n\nfour\rfour again\n(raylet) five"
    assert [line.number for line in page("a", 11, text.encode()).lines] == [11, 12, 13, 14, 14, 15]


def test_nul_bytes_and_a_byte_order_mark_are_dropped() -> None:
    assert only("\ufeff\x00\x00(raylet) \x00" + OOM).text == OOM


def test_entities_of_pasted_pages_are_undone() -> None:
    assert only("a &lt;locals&gt; &amp; it&#39;s &quot;b&quot;").text == 'a <locals> & it\'s "b"'
    assert only("x &amplified; &#; a&b &#x1b;[31m").text == "x &amplified; &#; a&b"


def test_an_entity_breaks_no_line() -> None:
    found = page("a", 1, b"one &#10; still one &#x0D; &#13;\ntwo &#55296;").lines
    assert [(line.number, line.text) for line in found] == [(1, "one   still one"), (2, "two \ufffd")]


# --- progress bars


def test_a_progress_bar_keeps_its_last_state() -> None:
    bars = "\r".join(f"Loading checkpoint shards: {n * 25}%|██| {n}/4 [00:0{n}<00:01,  1.20it/s]" for n in range(5))
    assert only(f"(Worker_TP0 pid=4) {bars}").text.startswith("Loading checkpoint shards: 100%|")


@pytest.mark.parametrize(
    "text",
    [
        f"  0%| | 0/4 [00:00<?, ?it/s]\r 25%|█ | 1/4 [00:01<00:03,  1.00s/it]\r{OOM}",
        f"{OOM}\r 25%|█ | 1/4 [00:01<00:03,  1.00s/it]\r 50%|██ | 2/4 [00:02<00:02,  1.00s/it]",
        f" 25%|█ | 1/4 [00:01<00:03,  1.00s/it]\r{OOM}\r 50%|██ | 2/4 [00:02<00:02,  1.00s/it]",
        f" 25%|█ | 1/4 [00:01<00:03,  1.00s/it]{OOM}",
    ],
)
def test_a_message_before_between_behind_or_glued_to_a_bar_is_not_lost(text: str) -> None:
    found = lines(f"(Worker_TP0 pid=4) {text}")
    assert OOM in [line.text for line in found]
    assert {(line.number, line.writer) for line in found} == {(1, "Worker_TP0 4")}


def test_messages_of_one_writer_in_one_line_are_all_kept() -> None:
    found = lines(f"(Worker pid=4) {OOM}\r(Worker pid=4) ERROR 03-01 08:15:30 [core.py:1] died\r(Worker pid=4) bye")
    assert [line.text for line in found] == [OOM, "died", "bye"]


def test_states_that_are_no_bar_are_rewritten_too() -> None:
    assert only("Downloading 1 MB\rDownloading 2 MB\rDownloading 3 MB").text == "Downloading 3 MB"


def test_what_is_quoted_of_a_rewritten_line_is_its_message() -> None:
    bars = "".join(f"{n}%|█| {n}/100 [00:01<00:03, 1.0it/s]\r" for n in range(100))
    assert [line.raw for line in lines(bars + OOM)][-1] == OOM


def test_a_traceback_may_begin_behind_an_unfinished_bar() -> None:
    found = lines("(pid=9) Running step 0:   7%|▋ | 4.00/60.0 [2:11:12<23:57, 1.5kTraceback (most recent call last):")
    assert [line.text for line in found][1] == "Traceback (most recent call last):"


def test_a_percentage_is_no_bar() -> None:
    assert only("GPU KV cache usage: 99.7%, Prefix cache hit rate: 46.3%|x").text.startswith("GPU KV cache usage")


# --- boxes


def test_a_rich_traceback_is_opened_and_its_wrapped_heads_joined() -> None:
    box = (
        "╭──────────────── Traceback (most recent call last) ─────────────────╮\n"
        "│ /home/user/projects/trainer/src/trainer/very/long/folder/loop.py:2 │\n"
        "│ 17 in train_step                                                   │\n"
        "│                                                                    │\n"
        "│   214 │   │   loss = model(batch)                                  │\n"
        "│ ❱ 217 │   │   loss.backward()                                      │\n"
        "│                                                                    │\n"
        "│ /opt/env/lib/python3.11/site-packages/torch/_tensor.py:521 in      │\n"
        "│ backward                                                           │\n"
        "╰────────────────────────────────────────────────────────────────────╯\n"
        "OutOfMemoryError: CUDA out of memory."
    )
    found = lines(box)
    assert [(line.number, line.end, line.text) for line in found] == [
        (1, 1, "Traceback (most recent call last):"),
        (2, 3, "/home/user/projects/trainer/src/trainer/very/long/folder/loop.py:217 in train_step"),
        (4, 4, ""),
        (5, 5, "  214 │   │   loss = model(batch)"),
        (6, 6, "❱ 217 │   │   loss.backward()"),
        (7, 7, ""),
        (8, 9, "/opt/env/lib/python3.11/site-packages/torch/_tensor.py:521 in backward"),
        (10, 10, ""),
        (11, 11, "OutOfMemoryError: CUDA out of memory."),
    ]


def test_the_margin_of_an_exception_group_comes_off() -> None:
    text = (
        '  + Exception Group Traceback (most recent call last):\n  |   File "/a.py", line 1, in f\n  | ValueError: x\n'
    )
    assert [line.text for line in lines(text)] == [
        "Exception Group Traceback (most recent call last):",
        '  File "/a.py", line 1, in f',
        "ValueError: x",
    ]


# --- hard wraps

SENTENCE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.42 GiB. GPU 1 has a total capacity of 47.44 GiB "
    "of which 2.18 GiB is free. Including non-PyTorch memory, this process has 45.26 GiB memory in use. Of the "
    "allocated memory 39.10 GiB is allocated by PyTorch, and 5.37 GiB is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize("width", [80, 97, 100, 120, 132, 159])
def test_a_sentence_cut_at_the_terminals_width_is_whole_again(width: int) -> None:
    whole = f"[rank1]: {SENTENCE}"
    cut = [whole[start : start + width] for start in range(0, len(whole), width)]
    before, line, after = lines("\n".join(["[rank1]: Traceback", *cut, "[rank1]: bye"]))
    assert (line.text, line.number, line.end, line.mark.rank) == (SENTENCE, 2, 1 + len(cut), 1)
    assert (before.number, after.number) == (1, 2 + len(cut))


@pytest.mark.parametrize(
    "cut", ["capac|ity of", "Tri|ed to", "47.4|4 GiB", "47|.44 GiB", "47.44| GiB", "unalloc|ated."]
)
def test_one_cut_inside_a_word_or_a_size_is_enough(cut: str) -> None:
    left, right = cut.split("|")
    position = SENTENCE.index(left + right) + len(left)
    line = only("x" * 60 + SENTENCE[:position] + "\n" + SENTENCE[position:])
    assert line.text == "x" * 60 + SENTENCE


@pytest.mark.parametrize(
    "head", ["accelerate launch --mixed_precision fp16 --num_processes 2 src/fit.", "x" * 60 + "."]
)
def test_a_command_that_ends_in_py_does_not_go_on_in_torch(head: str) -> None:
    assert [line.text for line in lines(f"{head}py\n{SENTENCE}\n{head}py\ntorch is here")] == [
        f"{head}py",
        SENTENCE,
        f"{head}pytorch is here",
    ]


BY_HAND = (
    "RuntimeError: DataLoader worker (pid 9120) is killed by signal: Bus",
    "error. It is possible that dataloader's workers are out of shared",
    "memory. Please try to raise your shared memory limit.",
)


def test_a_message_wrapped_between_words_is_whole_again() -> None:
    line = only("\n".join(BY_HAND))
    assert (line.text, line.number, line.end) == (" ".join(BY_HAND), 1, 3)


OPENS = "RuntimeError: the requests of all of these workers do not fit with the"
ALL = "of the memory that was left for them on this node, and are of the"


@pytest.mark.parametrize(
    "text",
    [
        (OPENS, "memory of the node"),  # once
        ("the requests of all of these workers that were started do not fit the", ALL, "memory of the node"),
        (OPENS + "xyzzy", ALL, "memory of the node"),
        (OPENS, ALL.capitalize(), "memory of the node"),
        (OPENS + "re", "quests of the memory that was left for them on this node, and are of the", "memory"),
        (OPENS, "app.node: memory of the workers", "memory of the node"),
        ("RuntimeError: do not fit the", ALL, "memory of the node"),
    ],
)
def test_other_lines_below_an_exception_are_no_wraps(text: tuple[str, ...]) -> None:
    assert " ".join(text) not in [line.text for line in lines("\n".join((*text, "next: 1")))]
    assert [line.number for line in lines("\n".join((*text, "next: 1")))][-1] == len(text) + 1


def test_an_id_cut_in_two_is_one_again() -> None:
    node = "0123456789abcdef" * 3 + "01234567"
    start = "Memory on the node (IP: 10.0.0.7, ID: "
    line, more = lines(f"(raylet) {start}{node[:30]}\n{node[30:]}) was 9.50GB / 9.60GB (0.98)\nand so on")
    assert (line.text, line.end, more.number) == (f"{start}{node}) was 9.50GB / 9.60GB (0.98)", 2, 3)


def test_written_escapes_count_for_the_width() -> None:
    text = (
        "#033[33m(raylet)#033[0m " + "Consider provisioning more memory on this node or reducing task parallelism by "
    )
    text += "requesting more CPUs per task. To adjust the kill threshold, set https://docs.example.org/en/latest/oom"
    cut = [text[start : start + 70] for start in range(0, len(text), 70)]
    assert only("\n".join(cut)).text == text.partition("#033[0m ")[2]


@pytest.mark.parametrize(
    "text",
    [
        # records of one template have one length
        (
            "step 101 of the training took 3.251 seconds and the loss was at 1.234567\n"
            "step 102 of the training took 3.252 seconds and the loss was at 1.234566\n"
            "step 103 of the training took 3.253 seconds and the loss was at 1.234565"
        ),
        # tables
        (
            "40126   11.20   ray::WorkerDict.actor_rollout_generate_sequences\n"
            "40125   11.17   ray::WorkerDict.actor_rollout_generate_sequences\n"
            "40032   11.17   ray::WorkerDict.actor_rollout_generate_sequences"
        ),
        # a launcher's own lines
        (
            "node-d:5021:5090 [1] NCCL INFO channel.cc:52 Cuda Alloc Size 16 pointer 0x32a77e000e00\n"
            "node-d:5022:5092 [3] NCCL INFO channel.cc:52 Cuda Alloc Size 16 pointer 0x32a77e000e00\n"
            "node-d:5022:5092 [3] NCCL INFO channel.cc:52 Cuda Alloc Size 16 pointer 0x32a77e000e00"
        ),
        # source and its carets
        (
            '  File "/opt/app/lib/python3.12/site-packages/vllm/engine/multiprocessing/engine.py", line 132, in f\n'
            "    return cls(ipc_path=ipc_path, engine_args=engine_args, usage_context=usage_context, **kwargs)\n"
            "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
        ),
        # a short line ends where it ends
        "it cannot alloc\nated",
        # a new message of the same length
        (
            "tensor_one: failed to allocate CUDA0 buffer of size 151851674624 and so\n"
            "model_load: error loading model: unable to allocate CUDA0 buffer, stop."
        ),
        # a size at the end of a row and one at the beginning of the next
        "10093  python reward_model_server.py --port 8000 --model /models/reward-7b 17\n16.0GiB  ray::IDLE",
    ],
)
def test_lines_that_end_where_they_end_stay_apart(text: str) -> None:
    assert [line.text for line in lines(text)] == text.split("\n")


def test_a_frame_without_its_function_takes_it_from_the_next_line() -> None:
    text = '  File "/home/user/project/python/site-packages/ray/memory_monitor.py", line 76, in\nraise_if_low_memory'
    assert only(text).text.endswith("line 76, in raise_if_low_memory")


def test_a_joined_line_stands_in_the_log_as_it_was() -> None:
    line = only(f"(raylet) {'x' * 60} killed due to memory press\nure (OOM)")
    assert (line.number, line.end) == (1, 2)
    assert line.raw.startswith("(raylet) xxx")
    assert line.raw.endswith("pressure (OOM)")


# --- writers


def test_ranks_come_apart() -> None:
    log = page(
        "a",
        1,
        b"[rank0]: Traceback (most recent call last):\n"
        b"[rank1]: Traceback (most recent call last):\n"
        b"[rank0]:     zero()\n"
        b"[rank1]:     one()\n"
        b"[rank1]: CUDA out of memory. Tried\n"
        b"[rank0]: CUDA out of memory. Tried\n"
        b"[rank1]: to allocate 1.00 GiB\n"
        b"[rank0]: to allocate 2.00 GiB\n",
    )
    assert texts(log.before(4)) == ["Traceback (most recent call last):", "    one()"]
    assert texts(log.after(4)) == ["CUDA out of memory. Tried", "to allocate 1.00 GiB", ""]
    assert texts(log.after(5))[:2] == ["CUDA out of memory. Tried", "to allocate 2.00 GiB"]


def test_a_raylets_message_stays_whole_though_only_its_first_line_has_a_prefix() -> None:
    log = page(
        "a",
        1,
        b"(raylet) Task was killed due to the node running low on memory.\n"
        b"(WorkerDict pid=5) step 3\n"
        b"Memory on the node was 9.50GB / 9.60GB\n"
        b"PID\tMEM(GB)\tCOMMAND\n"
        b"14\t7.00\tpython reward.py\n"
        b"(raylet) Refer to the documentation\n",
    )
    assert texts(log.after(0)) == [
        "Task was killed due to the node running low on memory.",
        "Memory on the node was 9.50GB / 9.60GB",
        "PID\tMEM(GB)\tCOMMAND",
        "14\t7.00\tpython reward.py",
        "Refer to the documentation",
        "",
    ]


def texts(found: list[Line]) -> list[str]:
    return [line.text for line in found]


# --- what is read of bytes


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"ascii", "ascii"),
        ("█ 内存".encode(), "█ 内存"),
        ("内存不足: CUDA out of memory".encode("gb18030"), "内存不足: CUDA out of memory"),
        (b"caf\xe9 out of memory", "caf\ufffd out of memory"),
        ("r\xe9sum\xe9".encode("latin-1"), "r\ufffdsum\ufffd"),
        ("内存".encode() + b"\xff out", "内存\ufffd out"),
        (b"\xe5\x86 cut", "\ufffd cut"),
    ],
)
def test_bytes_are_utf8_unless_they_can_only_be_chinese(data: bytes, text: str) -> None:
    assert decode(data) == text


def test_lines_and_quotes_are_capped() -> None:
    line = only("x" * (2 * LONGEST_LINE))
    assert (len(line.text), len(line.raw)) == (LONGEST_LINE, LONGEST_QUOTE)


@pytest.mark.parametrize(
    "seed",
    [
        "a",
        " ",
        "[",
        "(",
        "1 ",
        "\x1b[",
        "\x1b]",
        "%|",
        "x\r",
        "^[[",
        "&#",
        "│ /",
        "> ",
        "(a pid=1) ",
        "[rank0]:",
        "2026-01-01 00:00:00 - ",
        "INFO ",
        "100%|a [0:",
        "A" * 70 + "\n",
        "/a" * 40 + "\n",
        "f" * 61 + "\n",
        "a:",
        "  | ",
    ],
    ids=ascii,
)
def test_hostile_text_takes_time_in_proportion_to_its_length(seed: str) -> None:
    def needed(size: int) -> float:
        data = (seed * (size // len(seed))).encode()
        return seconds(lambda: page("a", 1, data))

    # four times the text: four times the time, or sixteen times where it is quadratic
    assert needed(80_000) < max(10 * needed(20_000), 0.1)


def test_a_page_knows_its_file() -> None:
    assert page("ray.log", 1, b"x") == Page("ray.log", [Line(1, 1, "x", "x")])


def test_coloredlogs_names_the_process_behind_the_logger() -> None:
    (line,) = page("job.log", 1, b"2026-03-01 10:00:00 node7 trainer.loop[4711] INFO step 3").lines
    assert (line.text, line.mark.pid, line.mark.host, line.mark.source) == ("step 3", 4711, "node7", "trainer.loop")


@pytest.mark.parametrize(
    "text", ["2026-03-01 10:00:00 node7 shape[4711] is odd", "node7 trainer[4711] INFO step 3", "x = table[12] INFO"]
)
def test_other_brackets_name_no_process(text: str) -> None:
    (line,) = page("job.log", 1, text.encode()).lines
    assert line.mark.pid is None
