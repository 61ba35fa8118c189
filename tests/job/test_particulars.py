"""Numbers and names that stand beside failures: what is printed, of which name, and nothing else."""

from __future__ import annotations

import pytest
from effort import seconds

from oomdoctor.job.context import ContextBuilder
from oomdoctor.job.particulars import LATEST, LINES
from oomdoctor.streams import page


def particulars(log: str) -> dict[str, tuple[object, ...]]:
    builder = ContextBuilder()
    builder.add(page("job.log", 1, log.encode()))
    return dict(builder.build().particulars)


@pytest.mark.parametrize(
    ("line", "name", "values"),
    [
        ("[PYI-4711:ERROR] Failed to execute script 'main' due to unhandled exception!", "pid", (4711,)),
        ("# /srv/app/hs_err_pid4711.log", "pid", (4711,)),
        ("[launch.py:315:sigkill_handler] Killing subprocess 4711", "pid", (4711,)),
        ("distributed.nanny - WARNING - Worker process 4711 was killed by unknown signal", "pid", (4711,)),
        ("node-7:3663:4044 [0] misc/x.cc:12 NCCL WARN no room", "pid", (3663,)),
        ("2031-01-01 20:20:40.172 UTC [540] ERROR:  no room", "pid", (540,)),
        ("1255:M 14 Oct 03:00:46.069 # Can't save in background", "pid", (1255,)),
        ("[ERROR] MD(15120,7f11effd700,python):2031-12-12-13:02:43 no memory", "pid", (15120,)),
        ("oomd attempting to kill 63 with KILL", "pid", (63,)),
        ("CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=1 ; ", "errno", (3,)),
        ("CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=1 ; ", "gpu", (1,)),
        ("CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=1 ; ", "error", ("CUBLAS_STATUS_ALLOC_FAILED",)),
        ("MemoryError: std::bad_alloc: cudaErrorMemoryAllocation: no", "error", ("cudaErrorMemoryAllocation",)),
        ("decode failed, ret = -3", "status", (-3,)),
        ("Failed on item b of length 918.", "length", (918,)),
        ("Loaded 5 sequences from a.fasta", "items", (5,)),
        ("Iter 50: Train loss 1.4", "iteration", (50,)),
        ("Executor heartbeat timed out after 278220 ms", "timeout_ms", (278220,)),
        ("Memory pressure for /a.slice is 64.15% > 1.00% for > 30s", "pressure_percent", (64.15,)),
        ("tcmalloc: large alloc 3011936256 bytes == 0x5b", "large_allocation_bytes", (3011936256,)),
        ("[Rank 3] heartbeat", "rank", (3,)),
        ("Duplicate GPU detected : rank 9 and rank 1 both on CUDA device 6000", "rank", (9, 1)),
        ("LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0]", "rank", (0,)),
        ("local_rank=2 global_rank=10", "rank", (2, 10)),
        ("Worker exceeded 95% memory budget. Restarting", "budget_percent", (95,)),
        ("\tclass_name: RolloutWorker", "actor", ("RolloutWorker",)),
        ("llama_kv_cache: size = 440.00 MiB ( 28160 cells, 14 layers", "kv_cells", (28160,)),
        ("generated in 2.34 seconds (1.28 tokens/s, 3 tokens, context 273, seed 17)", "context_tokens", (273,)),
        ("Duplicate GPU detected : rank 9 and rank 1 both on CUDA device 6000", "gpu", (6000,)),
        ("ERROR cluster.YarnScheduler: Lost executor 4 on host-1: Remote RPC client disassociated", "executor", (4,)),
        ("Lost task 1.1 in stage 0.0 (TID 2, host-1): ExecutorLostFailure", "task_attempt", (2,)),
        ("Lost task 1.1 in stage 0.0 (TID 2, host-1): ExecutorLostFailure", "task", (1.1,)),
        ("srun: Terminating job step 4711.0", "job_step", ("4711.0",)),
        (
            "ERROR runner.py:1062 -- Trial tune_ab12c_00003: Error processing.",
            "trial",
            ("tune_ab12c_00003",),
        ),
        ("Job 'raysubmit_Ab3' failed", "job", ("raysubmit_Ab3",)),
        ("trainer-5cc8-k7w2q   0/1     CrashLoopBackOff   7    3m12s", "pod", ("trainer-5cc8-k7w2q",)),
        ("search-node1-1 exited with code 137", "container", ("search-node1-1",)),
        ("    Restart Count:  7", "restarts", (7,)),
        ("(env) [me@node dir]$  bowtie2 -x ref -U reads.fq", "command", ("bowtie2",)),
        ("root@node:~/jobs# ./start.sh --all", "command", ("./start.sh",)),
        ("$ make -j 8", "command", ("make",)),
        ("  process didn't exit successfully: `/usr/bin/rustc --crate-name app`", "command", ("rustc",)),
        ("The command '/bin/sh -c make' returned a non-zero code: 101", "exit_code", (101,)),
        ("Process finished with exit code 137 (interrupted by signal 9: SIGKILL)", "signal", (9,)),
        ("died with <Signals.SIGKILL: 9>.", "signal", (9,)),
        ("OSError: [Errno 28] No space left on device", "errno", (28,)),
        ("mmap failed; error='Cannot allocate memory' (errno=12)", "errno", (12,)),
        ("Error code 12 (Cannot allocate memory)", "errno", (12,)),
        ("request done statusCode=500", "status", (500,)),
        ("Native API failed. Native API returns: -6 (PI_ERROR_OUT_OF_HOST_MEMORY)", "status", (-6,)),
        ("MemoryError", "exception", ("MemoryError",)),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory", "exception", ("OutOfMemoryError",)),
        ("terminate called after throwing an instance of 'std::length_error'", "exception", ("std::length_error",)),
        ("ResourceExhaustedError: 2 root error(s) found.", "errors", (2,)),
        (" 17%|#7 | 20/117 [00:11<00:05,  1.94s/it]", "progress", ("20/117",)),
        ("[step=50/6535,epoch=3]", "progress", ("50/6535",)),
        ("[step=50/6535,epoch=3]", "epoch", (3,)),
        ("loss: 0.1625 grad 3", "loss", (0.1625,)),
        ("Epoch 0: 68.771 seconds", "seconds", (68.771,)),
        ("input torch.Size([2, 4096, 11008]) cuda", "shape", (2, 4096, 11008)),
        ("OOM when allocating tensor with shape[149,64] and type int32", "shape", (149, 64)),
        ("Pid: 1, comm: mysqld Not tainted 2.6.32-696.el6.x86_64 #1", "kernel", ("2.6.32-696.el6.x86_64",)),
        ("Comm: python3 Tainted: P           OE     5.4.0-1072-azure #75~18.04", "kernel", ("5.4.0-1072-azure",)),
        ("Out of memory: Kill process 4711 (python) score 998 or sacrifice child", "badness", (998,)),
        ("python3 invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=872", "oom_score_adj", (872,)),
        ('  File "/srv/app/fit.py", line 442, in step', "line", (442,)),
        ("The node with node id ab12" + "0" * 36 + " has been marked dead", "node", ("ab12" + "0" * 36,)),
        ("Worker PID: 4711 Worker port: 10393", "worker_port", (10393,)),
        ("[2/15] c++ -O2 -c a.cpp", "counts", (2, 15)),
        (" 17%|#7 | 20/117 [00:11<00:05,  1.94s/it]", "counts", (20, 117)),
        ("{'global_step/max_steps': '600/22156'}", "counts", (600, 22156)),
        ("O^O/    Batch size per device = 2 | Gradient steps = 4", "batch_size", (2,)),
        ("Trainable parameters = 1,361,753,856 of 5,661,833,328", "parameters", (1361753856,)),
        ("Loaded 70 images of size 4032x3024 after 0s", "image_size", (4032, 3024)),
        ("flag fraction_of_memory_to_use is 0.50 now", "fraction", (0.5,)),
        ("using 29184 total tokens in the cache, and 272 blocks per sequence", "tokens", (29184,)),
        ("using 29184 total tokens in the cache, and 272 blocks per sequence", "blocks", (272,)),
        ("exit codes of the workers are {SIGKILL(-9)}", "signal", (9,)),
        ("Exit_status=-10", "exit_code", (-10,)),
        ("call failed, error code is 207001", "errno", (207001,)),
        ("[E] Error Code 4: no plan", "errno", (4,)),
        ("raising the graph capture size to 768 for speed", "capture_size", (768,)),
        ("Number of environments: 4096", "items", (4096,)),
        ("[rank3]: no room", "rank", (3,)),
    ],
)
def test_what_stands_there(line: str, name: str, values: tuple[object, ...]) -> None:
    assert particulars(line)[name] == values


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("rapid 4711 and stupid 12", "pid"),
        ("the process 4711 of learning", "pid"),
        ("[4711:main] 12 ms: nothing", "pid"),
        ("a rank-16 adapter, frank: 3", "rank"),
        ("GPU 15 GiB of memory", "gpu"),
        ("capture sizes: [1, 2, 4]", "capture_size"),
        ("capture size is too large", "capture_size"),
        ("95% memory budget of the year", "budget_percent"),
        ("the class_name: field", "actor"),
        ("4 cells of a battery", "kv_cells"),
        ("many tokens, context 2", "rank"),
        ("task 4 is done", "task"),
        ("clinical trial of 2020", "trial"),
        ("the job 'is' done", "job"),
        ("Pending                                          1/3", "pod"),
        ("it exited with code review", "container"),
        ("that is $ 5 each", "command"),
        ("# what follows is a comment", "command"),
        ("it costs $ much", "command"),
        ("zero code: 4", "exit_code"),
        ("no signal for 9 hours", "signal"),
        ("strerror 5", "errno"),
        ("status: 200.5 ms", "status"),
        ("raise MemoryError() if full else None", "exception"),
        ("MemoryErrors are rare", "exception"),
        ("2 error(s) found", "errors"),
        ("on 2024/05 [maintenance", "progress"),
        ("a tensor of shape [a, b]", "shape"),
        ("glossary: 1.5", "loss"),
        ("score 998", "badness"),
        ("it failed in line 12 of the file", "line"),
        ("the node id is unknown", "node"),
        ("[2/15] of the budget", "counts"),
        ("on 2024/05 [maintenance", "counts"),
        ("the batch size is small", "batch_size"),
        ("a batch size of 0.5", "batch_size"),
        ("parameters of the model: many", "parameters"),
        ("of size 4 x", "image_size"),
        ("failed to allocate data of size 256.0 MiB", "image_size"),
        ("a block of size 4096 KiB", "image_size"),
        ("a fraction of 3", "fraction"),
        ("12.5 tokens/s", "tokens"),
        ("roadblocks: 4 ahead", "blocks"),
        ("a SIGNATURE(9)", "signal"),
        ("Tainted goods #4", "kernel"),
    ],
)
def test_what_only_looks_like_it(line: str, name: str) -> None:
    assert name not in particulars(line)


def test_the_latest_are_kept() -> None:
    log = "\n".join(f"[Rank {rank}] alive" for rank in range(3 * LATEST))
    assert particulars(log)["rank"] == tuple(range(2 * LATEST, 3 * LATEST))


def test_of_a_long_page_its_end_is_read() -> None:
    log = "Job 'first' starts\n" + "nothing\n" * LINES + "Job 'last' failed"
    assert particulars(log)["job"] == ("last",)


def test_a_value_again_counts_as_the_latest() -> None:
    assert particulars("[Rank 0] a\n[Rank 1] b\n[Rank 0] c")["rank"] == (1, 0)


def test_a_name_is_no_markup() -> None:
    assert "\x1b" not in str(particulars("Job 'x\x1b[31mred' failed"))


def test_long_lines_do_not_stop_it() -> None:
    log = ("rank pid=" * 200_000) + "\n" + ("epoch [" * 200_000)
    assert seconds(lambda: particulars(log)) < 3
