"""Ends without a word: who waits for a process that is gone says so, and something else may say why."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

HANDLER = "[2031-02-03 04:05:36,001] [INFO] [launch.py:318:sigkill_handler] "
TENSORFLOW = "2031-05-05 10:00:0{}.104: {} tensorflow/"
PROBE = TENSORFLOW.format(0, "I") + (
    "stream_executor/cuda/cuda_driver.cc:800] failed to allocate 7.50G (8053063680 bytes) from device: "
    "CUDA_ERROR_OUT_OF_MEMORY: out of memory\n"
)
OPENED = (
    TENSORFLOW.format(9, "I")
    + "stream_executor/platform/default/dso_loader.cc:44] Successfully opened dynamic library libcudnn.so.7\n"
)
UNHANDLED = "Unhandled exception: N5boost9exceptionE. what(): thread: Resource temporarily unavailable [system:11]"
DRIVER = "2031-01-02 03:04:05,000 WARNING worker.py:1849 -- "
LOST_TASK = "WARN Lost task 2.0 in stage 5.0 (TID 70, n3, executor 4): ExecutorLostFailure (executor 4 exited) Reason: "
RAYS_GUESS = (
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
    "Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. "
    "(1) The process is killed by SIGKILL by OOM killer due to high memory usage."
)

HOST_USE = "[INFO] [utils.py:799:see_memory_usage] CPU Virtual Memory:  used = {} GB, percent = {}%\n"

SILENT = (
    "RuntimeError: 2 background processes are no longer alive. Exiting: look above",
    "Build server exited unexpectedly while 12 rules were running",
    "ERROR executor 7 terminated abruptly",
    "tiler: a child vanished silently, giving up",
    "[2031-01-02 03:04:05,678: ERROR/Main] Process 'Fork-7' pid:4242 exited with 'signal 9 (SIGKILL)'",
    f"Loading pipeline components...:  40%|####      | 2/5 [00:07<00:11,  3.70s/it]\n{HANDLER}Killing subprocess 901",
    f"{HANDLER}Killing subprocess 901\n['python', 'sft.py'] exits with return code = -9",
    f"{HOST_USE.format('27.1', '86.9')}{HANDLER}Killing subprocess 901",
    RAYS_GUESS,
    "(Api pid=7) ERROR 01-02 03:04:05 [client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting down",
    "something was killed here",
    "each rank gets killed by the system after some hours",
    "the first rank will be killed by the kernel after 2 h\nstep 1 loss 0.5\nstep 2 loss 0.4",
    "[monitor] the trainer was killed.",
    "ERROR shard 3 got killed after 300 s",
    "2 helpers have been killed by the operating system",
    "pid 3412 got SIGKILL",
    "KernelRestarter: restarting kernel (1/5), keep random ports",
    "RuntimeError: Background workers died. Look above! If nothing is there, the RAM was full",
    "ERROR: worker 3 died",
    "parallel: 2 worker processes died, see above",
    "KilledWorker: Attempted to run task 'sum-3f' on 3 workers, but all those workers died while running it.",
    "Warning message: In mclapply(1:8, f) : scheduled cores 3, 5 did not deliver results, all values are affected",
    "The build daemon disappeared unexpectedly (it may have been killed or may have crashed)",
    "The forked VM terminated without properly saying goodbye. VM crash or System.exit called?",
    'error MSB4166: Child node "3" exited prematurely. Shutting down.',
    "A jest worker process (pid=71) was terminated by another process: signal=SIGKILL, exitCode=null. They may tell",
    'error Command failed with signal "SIGKILL".',
    "npm ERR! signal SIGKILL",
    "Process exited with: signal: 9 (SIGKILL)",
    "  process didn't exit successfully: `target/release/build/x/build-script-build` (signal: 9, SIGKILL: kill)",
    "step 7\n\n**Killed**",
    "`Killed`",
    "**zsh: killed     python fit.py**",
    f"{DRIVER}Raylet is terminated: ip=10.0.0.7, id=ab12. Termination is unexpected. Possible reasons include: (1) SIG",
    f"{LOST_TASK}Executor heartbeat timed out after 131000 ms",
    "ERROR Scheduler: Lost executor 3 on n3: Remote RPC client disassociated. Likely due to containers over thresholds",
    "3:04AM INF [llama] Fails: could not load model: rpc: code = Unavailable desc = error reading from server: EOF",
    'Error: predict: Post "http://127.0.0.1:41207/completion": EOF',
    "errors.ServerClosed: Remote server 127.0.0.1:41001 closed",
    "WARNING  Process 127.0.0.1:41001 is down, create model.",
)
TOLD = (
    "KeyError: 'label'\nRuntimeError: 2 background processes are no longer alive",
    "Build server exited unexpectedly with exit code 2",
    "INFO worker 4 is no longer running",
    "WARN executor 7 terminated abruptly\nINFO all 80 tasks completed successfully",
    "[2031-01-02 03:04:05,678: ERROR/Main] Process 'Fork-7' pid:4242 exited with 'signal 15 (SIGTERM)'",
    f"ValueError: unknown column\n{HANDLER}Killing subprocess 901",
    f'"enc.2.norm.bias", "enc.2.norm.weight".\n{HANDLER}Killing subprocess 901\n{HANDLER}Killing subprocess 902',
    f"{HOST_USE.format('21.9', '70.1')}{HANDLER}Killing subprocess 901",
    f"{HOST_USE.format('27.1', '86.9')}{HOST_USE.format('9.5', '30.5')}{HANDLER}Killing subprocess 901",
    f"{HANDLER}Killing subprocess 901\n{HANDLER}Main process received SIGINT, exiting",
    f"{RAYS_GUESS}\n(Worker pid=7) [2031-03-04 19:28:30,014 E 7 7] logging.cc:113: {UNHANDLED}",
    "INFO rollout worker killed by ray.kill",
    "worker 3 was killed by user",
    "no process was killed",
    "if the worker was killed, restart it",
    "the launcher would say so when a rank was killed",
    "WARNING executor 4 was killed\nepoch 3: 45%| 9/20 loss 0.3",
    "the previous run was killed\nTraining finished successfully",
    "pod trainer-0 was preempted at 03:04\nworker 3 was killed",
    "KeyError: 'label'\nworker 3 was killed",
    "Segmentation fault (core dumped)\nEngine core proc EngineCore_0 died unexpectedly, shutting down client.",
    "perhaps rank 3 was killed by the OOM killer",
    "worker 7 was killed by the OOM killer if its memory.max was low",
    "If a worker died, look at its log",
    "the pool restarts workers that died",
    "0 workers died",
    "INFO worker 4 died",
    "worker 3 died.\nTraining finished successfully",
    "ValueError: bad column\nRuntimeError: Background workers died.",
    "ERROR: worker 3 died: exit code 1",
    "INFO Lost executor 5 on n3: Executor killed by driver.",
    f"{LOST_TASK}Executor heartbeat timed out after 131000 ms\nINFO Job 0 finished: collect at a.py:3, took 3.2 s",
    "Sending signal SIGKILL to process 4711",
    "exited (signal: 15, SIGTERM: termination signal)",
    'level=error error="rpc error: code = Unavailable desc = error reading from server: EOF" module=libcontainer',
    "2031-01-02 03:04:05,000 ERROR agent.py:12 -- Raylet is terminated: ip=10.0.0.7. Termination is unexpected.",
    "the server db-1 is down for maintenance",
    "** Killed 3 goblins **",
    "^C\nworker 3 died.",
    # memory that nothing could have pinned, and what TensorFlow tries before it computes
    "E cuda: cudaHostAlloc of pinned staging buffer failed: no CUDA-capable device is detected",
    "stage: failed to allocate pinned memory: CUDA driver version is insufficient for CUDA runtime version",
    "W input_stage.cc:21] stage: failed to allocate pinned system memory: no pinned memory pool",
    PROBE + OPENED,
)
OUT_OF_MEMORY = (
    "E staging: failed to allocate 2147483648 bytes of pinned memory: out of memory",
    PROBE,
    PROBE + OPENED + TENSORFLOW.format(9, "E") + "stream_executor/cuda/cuda_dnn.cc:329] Could not create cudnn handle: "
    "CUDNN_STATUS_ALLOC_FAILED",
    "[Trainer] [Warning] bad allocation",
    "the indexer was killed by the OOM killer",
    "rank 3 got killed by the kernel's OOM killer on node7",
    "task 9 was killed by an oom-killer",
    "fitsort: couldn't allocate memory for run buffers",
    (
        "ERROR on proc 12: Failed to reallocate 4096000 bytes for array\n"
        "slurmstepd: error: *** STEP 24.1 ON n7 CANCELLED AT 2031-11-15T09:38:39 ***"
    ),
)


@pytest.mark.parametrize("text", SILENT)
def test_an_end_without_a_word_is_left_open(text: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "inconclusive"
    assert report["next_evidence"]


@pytest.mark.parametrize("text", TOLD)
def test_what_tells_otherwise_ends_the_question(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize("text", OUT_OF_MEMORY)
def test_what_was_refused_is_a_failure(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "oom"


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("(Server pid=47) ERROR Engine core proc EngineCore_DP0 died unexpectedly, stopping", "EngineCore_DP0"),
        ("(Server pid=47) ERROR worker 8805 died unexpectedly", "8805"),
    ],
)
def test_who_is_missed_is_not_who_says_so(text: str, who: str, tmp_path: Path) -> None:
    report = body(tmp_path, f"step 1\n{text}")
    assert who in report["incidents"][0]["headline"]
    assert "47" not in report["incidents"][0]["headline"]
