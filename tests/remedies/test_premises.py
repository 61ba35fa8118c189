"""Remedies that take something for granted of the job: printed only where the log shows it, and with its values."""

from __future__ import annotations

import pytest
from remedy_logs import HOG, OPENRLHF, advise, crashes_of, cuda, kill

from oomdoctor.remedies.advise import AMONG_THE_FIRST, remedies
from oomdoctor.remedies.printed import rejected_advice

SCRIPT = "$ python fit.py {}\n"
TRAINER = 'Traceback:\n  File "/v/site-packages/transformers/trainer.py", line 7, in training_step\n'
ACCELERATE = '  File "/v/site-packages/accelerate/optimizer.py", line 9, in step\n'
TAKEN = cuda(total="23.60 GiB", free="90.00 MiB", own="13.10 GiB").replace(
    "Including", "Process 6180 has 10.20 GiB memory in use. Including"
)
KERNEL = (
    "[7351.1] Out of memory: Killed process 318 (python) total-vm:91000000kB, anon-rss:61000000kB, file-rss:8kB, "
    "shmem-rss:0kB, UID:0 pgtables:150000kB oom_score_adj:0\n"
)
NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.\n"


# a share of the card at its limit


def test_a_share_at_its_limit_is_not_raised() -> None:
    for share, raised in (("0.97", False), ("0.95", False), ("0.80", True)):
        log = f"$ vllm serve org/M-7B --gpu-memory-utilization {share}\n" + NO_BLOCKS
        chosen, rejected = advise(log, "raise-engine-reservation", cause="kv-cache-no-room")
        assert ("raise-engine-reservation" in chosen) is raised
        assert ("raise-engine-reservation" in rejected) is not raised
        assert bool(rejected_advice(crashes_of(log)[0])) is not raised


# an engine, several of them, somebody else's


@pytest.mark.parametrize(
    "knob", ["lower-engine-reservation", "start-in-sequence", "eager-mode", "smaller-prefill", "separate-placement"]
)
def test_no_engine_no_remedy_of_an_engine(knob: str) -> None:
    chosen, rejected = advise(SCRIPT.format("") + TAKEN, knob, cause="gpu-shared")
    assert not chosen
    assert not rejected


def test_an_engine_beside_somebody_elses_memory() -> None:
    log = '  File "/v/vllm/worker/model_runner.py", line 3, in execute_model\n' + TAKEN
    chosen, _ = advise(log, "lower-engine-reservation", "start-in-sequence", cause="gpu-shared")
    assert {"lower-engine-reservation", "start-in-sequence"} <= set(chosen)


def test_the_allocator_of_an_engines_sleep_is_an_engine() -> None:
    log = "CUDA Error: out of memory at /src/csrc/cumem_allocator.cpp:62\n"
    assert "lower-engine-reservation" in advise(log, "lower-engine-reservation", cause="gpu-shared")[0]


def test_one_engine_has_no_sequence() -> None:
    serve = "$ vllm serve org/M-7B {}\n" + cuda()
    assert not advise(serve.format(""), "start-in-sequence", cause="cuda-graph-capture")[0]
    assert advise(serve.format("--data-parallel-size 2"), "start-in-sequence", cause="cuda-graph-capture")[0]


def test_room_to_spare_is_an_assumption() -> None:
    log = "$ vllm serve org/M-7B --gpu-memory-utilization 0.9\n" + cuda()
    remedy = advise(log, "lower-engine-reservation")[0]["lower-engine-reservation"]
    assert "512 MiB spare" in (remedy.derivation or "")
    assert any("512 MiB spare for the next allocations (a guess)" in assumed for assumed in remedy.assumes)


# several cards


@pytest.mark.parametrize("knob", ["shard-states", "fix-placement", "sequence-parallel"])
def test_nothing_is_split_over_one_card(knob: str) -> None:
    assert not advise(SCRIPT.format("") + TRAINER + cuda(), knob)[0]


@pytest.mark.parametrize(
    "log",
    [
        "torchrun --nproc_per_node 4 fit.py\n" + TRAINER + cuda(),
        SCRIPT.format("") + TRAINER + cuda().replace("GPU 0 has", "GPU 2 has"),
        SCRIPT.format("") + "[rank1]: " + cuda(),
    ],
)
def test_several_cards_in_sight(log: str) -> None:
    assert set(advise(log, "shard-states", "fix-placement")[0]) == {"shard-states", "fix-placement"}


def test_options_of_a_launcher_only_beside_what_it_launches() -> None:
    knobs = ("shard-states", "offload-optimizer", "gradient-checkpointing")
    launch = "torchrun --nproc_per_node 4 fit.py\n" + ACCELERATE + cuda()
    plain = " ".join(r.snippet or "" for r in advise(launch, *knobs)[0].values())
    assert "zero_stage" not in plain
    assert "--fsdp" not in plain
    assert "offload_optimizer_device" not in plain
    sharded = advise("[INFO] DeepSpeed info: version=0.16.9\n" + launch, *knobs)[0]
    assert sharded["shard-states"].snippet is not None


# somebody else on the card


@pytest.mark.parametrize("knobs", [("low-memory-optimizer", "lora", "mixed-precision"), ("lora", "more-gpus")])
def test_somebody_else_on_the_card_is_looked_at_early_whatever_the_cause(knobs: tuple[str, ...]) -> None:
    chosen, _ = remedies("optimizer-states", knobs, crashes_of(SCRIPT.format("") + TAKEN)[0])
    early = [remedy.knob for remedy in chosen[:AMONG_THE_FIRST]]
    assert "free-the-gpu" in early
    small = TAKEN.replace("10.20 GiB", "300.00 MiB")
    chosen, _ = remedies("optimizer-states", knobs, crashes_of(SCRIPT.format("") + small)[0])
    assert all(remedy.knob != "free-the-gpu" for remedy in chosen)


def test_the_parts_of_one_job_are_nobody_else() -> None:
    knobs = ("lora", "mixed-precision")
    chosen, _ = remedies("", knobs, crashes_of(OPENRLHF.format("") + TAKEN)[0])
    assert all(remedy.knob != "free-the-gpu" for remedy in chosen)


# the host


def test_a_target_has_room_below_it() -> None:
    remedy = advise(OPENRLHF.format("") + HOG, "move-process")[0]["move-process"]
    # 176.97 - (239.02 - 80 % of 251.56)
    assert "at 139.20 GiB" in remedy.action
    assert "to free at least" in (remedy.derivation or "")
    assert remedy.assumes
    low = kill(160.00, 251.56, "14\t100.00\tpython serve.py\n", threshold="0.6")
    # a fifth below the threshold of 150.94: 100 - (160 - 120.75)
    assert "at 60.75 GiB" in advise(low, "move-process")[0]["move-process"].action


@pytest.mark.parametrize(
    ("rows", "given"),
    [
        ("14\t150.00\tray::TaskRunner.run\n", False),
        ("14\t120.00\tray::TaskRunner.run\n15\t35.00\tray::Scorer.run\n", True),
        ("14\t150.00\tpython serve_reward.py\n", True),  # the job goes on without it here
    ],
)
def test_a_job_that_fills_the_node_alone_fills_the_next_one(rows: str, *, given: bool) -> None:
    chosen, _ = advise(kill(160.00, 168.00, rows), "move-process", "more-host-memory", cause="process-ram-hog")
    assert ("move-process" in chosen) is given
    assert "more-host-memory" in chosen


def test_a_restart_only_for_what_grows() -> None:
    assert not advise(HOG, "restart-periodically", cause="reward-model-ram-hog")[0]
    assert advise(HOG, "restart-periodically", cause="host-memory-leak")[0]


@pytest.mark.parametrize(
    "line",
    [
        "offload_optimizer device=cpu pin_memory=True\n",
        "[INFO] offload_param=None offload_optimizer=DeepSpeedZeroOffloadOptimizerConfig(device='cpu', buffers=4)\n",
        "[INFO] [stage_1_and_2.py:151:__init__] CPU Offload: True\n",
    ],
)
def test_deepspeeds_offload_is_taken_back(line: str) -> None:
    log = "deepspeed --num_gpus 8 fit.py --model_name_or_path Qwen/Qwen2.5-7B\n" + line + KERNEL
    remedy = advise(log, "less-offload")[0]["less-offload"]
    assert "12 bytes x 7.62 B parameters" in (remedy.derivation or "")
    assert "offload_param" not in remedy.action


def test_offload_that_is_off_is_not_taken_back() -> None:
    log = "deepspeed --num_gpus 8 fit.py\noffload_optimizer device=none\n" + KERNEL
    chosen, rejected = advise(log, "less-offload")
    assert not chosen
    assert "already off" in rejected["less-offload"].why


ARRAY = (
    'Traceback (most recent call last):\n  File "/home/me/prep.py", line 5, in <module>\n    x = np.zeros((9, 9))\n'
    "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 60.3 GiB for an array with shape (90000, 90000) and "
    "data type float64\n"
)


def test_one_process_has_no_workers_and_no_batches() -> None:
    assert not advise(SCRIPT.format("") + ARRAY, "fewer-workers", "smaller-microbatch")[0]
    assert "fewer-workers" in advise(SCRIPT.format("--num_proc 16") + ARRAY, "fewer-workers")[0]
    assert "fewer-workers" not in advise(KERNEL, "fewer-workers")[0], "of its processes nothing is counted"


# limits


GROUP = "c0ffee12" * 8
MEMCG = (
    "[88.1] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
    "[88.1] memory: usage 12582912kB, limit 12582912kB, failcnt 31\n"
    "[88.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={0},task_memcg={0},"
    "task=python,pid=77,uid=0\n"
    "[88.1] Memory cgroup out of memory: Killed process 77 (python) total-vm:30000000kB, anon-rss:12300000kB, "
    "file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:30000kB oom_score_adj:0\n"
)


@pytest.mark.parametrize("group", [f"/docker/{GROUP}", f"/system.slice/docker-{GROUP}.scope"])
def test_a_container_is_given_more_while_it_runs_or_next_time(group: str) -> None:
    remedy = advise(MEMCG.format(group), "raise-container-limit")[0]["raise-container-limit"]
    assert (remedy.snippet or "").splitlines() == [
        "docker run --memory=15g",
        "docker update --memory=15g --memory-swap=15g c0ffee12c0ff",
    ]


def test_a_container_whose_limit_nobody_printed_is_asked_for_it_and_given_twice_that() -> None:
    log = "".join(line for line in MEMCG.format(f"/docker/{GROUP}").splitlines(keepends=True) if "usage" not in line)
    remedy = advise(log, "raise-container-limit")[0]["raise-container-limit"]
    assert (remedy.snippet or "").splitlines() == [
        "docker inspect -f '{{.HostConfig.Memory}}' c0ffee12c0ff",
        "docker update --memory=TWICE_THE_LIMIT --memory-swap=TWICE_THE_LIMIT c0ffee12c0ff",
    ]


ROW = "[88.1] [     {0}]     0      {0} 900000000 {1} 30000000        0             0 python\n"
LARGE = (
    "[88.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={0},task_memcg={0},"
    "task=python,pid=77,uid=0\n"
    "[88.1] Memory cgroup out of memory: Killed process 77 (python) total-vm:{1}kB, anon-rss:{1}kB, "
    "file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:30000kB oom_score_adj:0\n"
)


@pytest.mark.parametrize(
    ("group", "held", "written"),
    [
        (f"/docker/{GROUP}", 800, "--memory=1000g --memory-swap=1000g"),
        (f"/docker/{GROUP}", 64, "--memory=80g --memory-swap=80g"),
        ("/kubepods/burstable/pod1-2/ab", 300, "--limits=memory=375Gi"),
        ("/slurm/uid_1/job_7/step_0", 400, "#SBATCH --mem=500G"),
        (f"/docker/{GROUP}", 63, "--memory=TWICE_THE_LIMIT --memory-swap=TWICE_THE_LIMIT"),
        ("/kubepods/burstable/pod1-2/ab", 2, "--limits=memory=TWICE_THE_LIMIT"),
        ("/slurm/uid_1/job_7/step_0", 12, "#SBATCH --mem=TWICE_REQMEM"),
    ],
)
def test_a_large_limit_that_nobody_printed_is_not_doubled(group: str, held: int, written: str) -> None:
    pages = held * 2**18
    table = ROW.format(77, pages // 4) + ROW.format(78, pages - pages // 4)
    log = table + LARGE.format(group, held * 2**18)
    remedy = advise(log, "raise-container-limit")[0]["raise-container-limit"]
    assert written in (remedy.snippet or "")
    assert ("the machine has as much RAM (`free -g`)" in remedy.assumes) is (held >= 64)


def test_one_process_says_nothing_of_the_limit_of_all() -> None:
    remedy = advise(LARGE.format(f"/docker/{GROUP}", 200 * 2**20), "raise-container-limit")[0]["raise-container-limit"]
    assert "--memory=TWICE_THE_LIMIT" in (remedy.snippet or "")


def test_a_pod_has_its_limit_in_its_specification() -> None:
    remedy = advise(MEMCG.format("/kubepods/burstable/pod1-2/ab"), "raise-container-limit")[0]["raise-container-limit"]
    assert (remedy.snippet or "").startswith("resources.limits.memory: 15Gi")


def test_slurm_is_asked_what_the_job_had() -> None:
    log = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=5012.batch. Some of the step tasks have been OOM "
        "Killed.\n"
    )
    remedy = advise(log, "raise-container-limit")[0]["raise-container-limit"]
    asked, raised = (remedy.snippet or "").splitlines()
    assert asked == "sacct -j 5012 --format=JobID%20,State%20,ExitCode,Start,End,MaxRSS,ReqMem,NodeList"
    assert raised.startswith("#SBATCH --mem=TWICE_REQMEM ")
    stated = advise("#SBATCH --mem=64G\n" + log, "raise-container-limit")[0]["raise-container-limit"]
    assert (stated.snippet or "").splitlines()[0] == "#SBATCH --mem=80G"
    per_cpu = advise("#SBATCH --mem-per-cpu=4G\n" + log, "raise-container-limit")[0]["raise-container-limit"]
    assert (per_cpu.suggested, per_cpu.derivation) == ("8G", "2 x 4G = 8G")
    assert (per_cpu.snippet or "").splitlines() == ["#SBATCH --mem-per-cpu=8G", asked]


DOCKER = MEMCG.format(f"/docker/{GROUP}")
OFFLOADED = "torchrun --nnodes {} fit.py --model_name_or_path Qwen/Qwen2.5-{} {}\n" + DOCKER


@pytest.mark.parametrize(
    ("log", "limit"),
    [
        (OFFLOADED.format(1, "7B", "--adam_offload"), "107g"),  # 12 x 7.62 B = 85.11 GiB, and a quarter more
        (OFFLOADED.format(1, "7B", ""), "15g"),
        (OFFLOADED.format(1, "7B", "--adam_offload false"), "15g"),
        (OFFLOADED.format(8, "7B", "--adam_offload"), "15g"),  # 10.64 GiB on each of 8 nodes
        (OFFLOADED.format(1, "7B", "--adam_offload --lora_rank 8"), "15g"),
        (OFFLOADED.format(1, "0.5B", "--adam_offload"), "15g"),
    ],
)
def test_a_limit_below_the_offloaded_states_is_raised_above_them(log: str, limit: str) -> None:
    remedy = advise(log, "raise-container-limit")[0]["raise-container-limit"]
    assert (remedy.current, remedy.suggested) == (12 * 1024**3, limit)
    assert (remedy.snippet or "").startswith(f"docker run --memory={limit}\n")
    assert ("or turn off the offload" in remedy.action) is (limit != "15g")
    if limit != "15g":
        assert remedy.derivation == (
            "12 bytes x 7.62 B parameters = 85.11 GiB offloaded states; 85.11 GiB x 1.25 = 106.39 GiB, rounded up = "
            "107 GiB"
        )
        assert "25 % more for the rest of the job (a guess)" in remedy.assumes


def test_a_pods_limit_below_the_offloaded_states() -> None:
    log = OFFLOADED.format(1, "7B", "--adam_offload").replace(f"/docker/{GROUP}", "/kubepods/burstable/pod1-2/ab")
    remedy = advise(log, "raise-container-limit")[0]["raise-container-limit"]
    assert (remedy.snippet or "").startswith("resources.limits.memory: 107Gi\n")


# batches and sequences


LLAMA = "torchrun fit.py --model_name_or_path meta-llama/Llama-3.1-8B {}\n" + TRAINER


def test_logits_are_the_batch_of_the_settings() -> None:
    # 4 x 8192 x 128256 x 4 bytes = 15.656 GiB
    log = LLAMA.format("--per_device_train_batch_size 4 --max_seq_length 8192") + cuda(tried="15.66 GiB")
    derivation = advise(log, "chunked-logits")[0]["chunked-logits"].derivation or ""
    assert "4 x 8192 = 32768 tokens" in derivation
    assert "(128256 vocabulary entries of Llama-3-8B)" in derivation
    other = LLAMA.format("--per_device_train_batch_size 2 --max_seq_length 8192") + cuda(tried="15.66 GiB")
    assert "about 32800 tokens" in (advise(other, "chunked-logits")[0]["chunked-logits"].derivation or "")


def test_half_the_batch_and_twice_the_steps() -> None:
    options = "--per_device_train_batch_size 8 --gradient_accumulation_steps 3"
    remedy = advise(LLAMA.format(options) + cuda(), "smaller-microbatch")[0]["smaller-microbatch"]
    assert remedy.snippet == "--per_device_train_batch_size 4 --gradient_accumulation_steps 6"
    assert "3 -> 6" in remedy.action
    unsaid = advise(LLAMA.format("--per_device_train_batch_size 8") + cuda(), "smaller-microbatch")[0]
    assert unsaid["smaller-microbatch"].snippet == "--per_device_train_batch_size 4 --gradient_accumulation_steps 2"
    assert any("is 1 (its default" in assumed for assumed in unsaid["smaller-microbatch"].assumes)


@pytest.mark.parametrize(
    ("settings", "snippet"),
    [
        (
            '"train_micro_batch_size_per_gpu": 8,\n    "gradient_accumulation_steps": 2',
            '"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4',
        ),
        ('"train_micro_batch_size_per_gpu": 8', '"train_micro_batch_size_per_gpu": 4'),
    ],
)
def test_twice_the_steps_in_a_configuration_of_deepspeed(settings: str, snippet: str) -> None:
    log = "[INFO] DeepSpeed info: version=0.16.9\njson = {\n    " + settings + "\n}\n" + cuda()
    assert advise(log, "smaller-microbatch")[0]["smaller-microbatch"].snippet == snippet


@pytest.mark.parametrize("steps", ["0", "auto"])
def test_steps_that_are_no_number_are_not_doubled(steps: str) -> None:
    log = LLAMA.format(f"--per_device_train_batch_size 8 --gradient_accumulation_steps {steps}") + cuda()
    remedy = advise(log, "smaller-microbatch")[0]["smaller-microbatch"]
    assert remedy.snippet == "--per_device_train_batch_size 4"
    assert remedy.cost == "smaller global batch without more accumulation"


@pytest.mark.parametrize(
    ("tried", "derivation"),
    [
        ("15.77 GiB", "= about 33000 tokens x 128256 x 4 bytes"),
        ("20.00 MiB", "a switch: nothing to compute"),  # of 41 tokens: any buffer may have that size
    ],
)
def test_how_many_tokens_have_so_large_logits(tried: str, derivation: str) -> None:
    remedy = advise(LLAMA.format("") + cuda(tried=tried), "chunked-logits")[0]["chunked-logits"]
    assert derivation in (remedy.derivation or "")
    assert ("32-bit logits" in remedy.assumes) is ("about" in derivation)


def test_logits_in_chunks_already() -> None:
    chosen, rejected = advise(LLAMA.format("--use_liger_kernel True") + cuda(tried="15.66 GiB"), "chunked-logits")
    assert not chosen
    assert "use_liger_kernel is already True" in rejected["chunked-logits"].why


def test_a_forward_pass_has_a_batch_of_its_own() -> None:
    log = (
        "{'actor_rollout_ref': {'rollout': {'log_prob_micro_batch_size_per_gpu': 64},\n"
        "  'actor': {'ppo_micro_batch_size_per_gpu': 2}}}\nTraceback (most recent call last):\n"
        '  File "/w/verl/workers/actor/dp_actor.py", line 88, in compute_log_prob\n    logits = model(x)\n' + cuda()
    )
    remedy = advise(log, "smaller-microbatch")[0]["smaller-microbatch"]
    assert ((remedy.setting or "").rpartition(".")[2], remedy.current, remedy.suggested) == (
        "log_prob_micro_batch_size_per_gpu",
        64,
        32,
    )


def test_no_steps_are_promised_where_none_are_accumulated() -> None:
    remedy = advise(SCRIPT.format("--batch_size 16") + cuda(), "smaller-microbatch")[0]["smaller-microbatch"]
    assert remedy.snippet == "--batch_size 8"
    assert "same global batch" not in remedy.cost
    assert "accumulate" not in remedy.action
    alone = advise(SCRIPT.format("") + cuda(), "smaller-microbatch")[0]["smaller-microbatch"]
    assert "accumulate over" not in alone.action


def test_sequences_by_their_own_option() -> None:
    for option, spelled in (("--block_size", "--block_size"), ("--block-size", "--block-size")):
        log = SCRIPT.format(f"{option} 2048") + cuda()
        remedy = advise(log, "shorter-sequences", "token-budget-batching")[0]["shorter-sequences"]
        assert remedy.snippet == f"{spelled} 1024"
        assert "reward" not in remedy.cost
    small = advise(SCRIPT.format("--block_size 16") + cuda(), "shorter-sequences")[0]["shorter-sequences"]
    assert (small.current, small.snippet) == (None, None)


def test_prompts_and_answers_only_where_answers_are_made() -> None:
    rl = advise(OPENRLHF.format("--generate_max_len 4096") + cuda(), "shorter-sequences")[0]["shorter-sequences"]
    assert "reward" in rl.cost
    assert rl.snippet == "--generate_max_len 2048"
    plain = advise(SCRIPT.format("") + cuda(), "shorter-sequences")[0]["shorter-sequences"]
    assert "answers" not in f"{plain.action} {plain.cost}"


def test_a_budget_of_tokens_only_where_the_framework_has_one() -> None:
    assert not advise(SCRIPT.format("") + TRAINER + cuda(), "token-budget-batching")[0]
    assert advise(OPENRLHF.format("") + cuda(), "token-budget-batching")[0]


# values that are known are printed


def test_the_warm_ups_own_option_and_a_first_step_for_the_share() -> None:
    log = (
        "Namespace(model='org/M-7B', max_num_seqs=1024, gpu_memory_utilization=0.95)\nRuntimeError: CUDA out of memory "
        "occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs` or "
        "`gpu_memory_utilization` when initializing the engine.\n"
    )
    chosen, _ = advise(log, "fewer-sequences", "lower-engine-reservation", cause="sampler-warmup")
    assert chosen["fewer-sequences"].snippet == "--max-num-seqs 512"
    assert chosen["lower-engine-reservation"].snippet == "--gpu-memory-utilization 0.9"


def test_the_share_in_verls_own_option_without_figures() -> None:
    log = (
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.gpu_memory_utilization=0.8\n"
        '  File "/v/vllm/worker/model_runner.py", line 3, in execute_model\nRuntimeError: CUDA error: out of memory\n'
    )
    remedy = advise(log, "lower-engine-reservation")[0]["lower-engine-reservation"]
    assert remedy.snippet == "actor_rollout_ref.rollout.gpu_memory_utilization=0.75"


@pytest.mark.parametrize(("threshold", "advised"), [("0.95", True), ("0.363300", False)])
def test_a_larger_node_is_no_answer_to_a_limit_of_rays_own(threshold: str, advised: bool) -> None:
    used = 122.0 if advised else 47.0
    found, _ = advise(kill(used, 128.0, "11\t40.00\tpython serve.py\n", threshold), "more-host-memory")
    assert ("more-host-memory" in found) is advised


def test_a_plain_script_loads_no_weights() -> None:
    script = (
        'Traceback (most recent call last):\n  File "/w/prep.py", line 5, in main\n    b = bytearray(n)\nMemoryError\n'
    )
    loader = script.replace("b = bytearray(n)", "m = AutoModel.from_pretrained(name)")
    assert not advise(script, "low-memory-loading")[0]
    assert "low-memory-loading" in advise(loader, "low-memory-loading")[0]
