"""What a process is to the job, from its title; near misses outnumber hits."""

from __future__ import annotations

import pytest

from oomdoctor.job.roles import class_and_method, is_outside_ray, role_of, short_name


@pytest.mark.parametrize(
    ("title", "role"),
    [
        # OpenRLHF before and after its renaming
        ("ray::ActorModelRayActor.fit", "policy"),
        ("PolicyModelActor", "policy"),
        ("ray::ReferenceModelRayActor", "ref"),
        ("ReferenceModelActor", "ref"),
        ("ray::RewardModelRayActor.forward", "reward"),
        ("ray::CriticModelRayActor.fit", "critic"),
        ("ray::LLMRayActor.update_weight", "engine"),
        ("ray::RayWorkerWrapper.execute_method", "engine"),
        ("LLMRayActorAsync", "engine"),
        ("RolloutRayActor", "engine"),
        # Open-Reasoner-Zero, SkyRL, NeMo-RL, slime
        ("ray::PolicyRayActorBase.ppo_train", "policy"),
        ("CriticRayActorBase", "critic"),
        ("FSDPRefWorkerBase", "ref"),
        ("VllmGenerationWorker", "engine"),
        ("ray::MegatronTrainRayActor.train", "policy"),
        ("SGLangEngine", "engine"),
        # verl: the method tells which of the fused models is at work
        ("ray::WorkerDict.actor_rollout_generate_sequences", "engine"),
        ("ray::WorkerDict.actor_rollout_ref_compute_ref_log_prob", "ref"),
        ("ray::WorkerDict.ref_compute_ref_log_prob", "ref"),
        ("ray::WorkerDict.critic_update_critic", "critic"),
        ("ray::WorkerDict.rm_compute_rm_score", "reward"),
        ("ray::WorkerDict.actor_rollout_update_actor", "policy"),
        ("ray::WorkerDict.actor_update_actor", "policy"),
        ("Zb4kQ1WorkerDict_0:5:WorkerDict.__init__", "policy"),
        ("ray::main_task", "driver"),
        ("ray::TaskRunner.run", "driver"),
        ("ray::AgentLoopWorker.generate_sequences", "environment"),
        # engines' own processes
        ("EngineCore_DP0", "engine"),
        ("VLLM::EngineCore", "engine"),
        ("VLLM::Worker_TP0", "engine"),
        ("Worker_PP1_TP3", "engine"),
        ("VllmWorkerProcess", "engine"),
        ("APIServer", "engine"),
        ("sglang::scheduler_TP0", "engine"),
        ("vllm serve /models/some-7b --port 8000", "engine"),
        ("/usr/bin/python3 -m vllm.entrypoints.openai.api_server --model m", "engine"),
        # reward servers outside of Ray
        ("python train/sql_reward.py --reward_pretrain /models/coder-7b", "reward"),
        ("/tmp/env/bin/python reward_model_server.py 6 100", "reward"),
        ("python -m openrlhf.cli.serve_rm --port 5000", "reward"),
        ("python serve/remote_rm_server.py", "reward"),
        # every class of the frameworks, by its framework
        ("RewardModelRayActor", "reward"),
        ("RewardModelActor", "reward"),
        ("CriticModelActor", "critic"),
        ("ray::RemoteRewardModel.get_rewards", "reward"),
        ("ray::remote_rm_fn_ray", "reward"),
        ("ray::reward_func", "reward"),
        ("ray::PPOTrainer.fit", "driver"),
        ("PPOTrainerAsync", "driver"),
        ("GenerateSamplesActor", "driver"),
        ("TrainingActor", "driver"),
        ("SignalActor", "driver"),
        ("ray::AgentInstance.step", "environment"),
        ("LLMActor", "engine"),
        ("RefRayActorBase", "ref"),
        ("RewardRayActorBase", "reward"),
        ("ActorRolloutRefWorker", "policy"),
        ("ray::AsyncActorRolloutRefWorker.actor_rollout_update_actor", "policy"),
        ("FusedWorker", "policy"),
        ("ray::TrainingWorker.train_batch", "policy"),
        ("CriticWorker", "critic"),
        ("RewardModelWorker", "reward"),
        ("RewardLoopWorker", "reward"),
        ("vLLMHttpServer", "engine"),
        ("SGLangHttpServer", "engine"),
        ("AgentLoopWorkerTQ", "environment"),
        ("TaskRunnerV1", "driver"),
        ("FSDPTrainRayActor", "policy"),
        ("RolloutManager", "driver"),
        ("RolloutController", "driver"),
        ("ActorWorker", "policy"),
        ("ActorWorker(actor_train-3)", "policy"),
        ("InferWorker", "engine"),
        ("actor_train-3", "policy"),
        ("actor_infer-12", "engine"),
        ("reference-0", "ref"),
        ("critic-0", "critic"),
        ("FSDPPolicyWorkerBase", "policy"),
        ("MegatronPolicyWorkerBase", "policy"),
        ("DeepSpeedPolicyWorkerBase", "policy"),
        ("FSDPCriticWorkerBase", "critic"),
        ("MegatronRefWorkerBase", "ref"),
        ("VLLMServerActor", "engine"),
        ("DTensorPolicyWorker[rank=3]", "policy"),
        ("DTensorPolicyWorkerV2", "policy"),
        ("MegatronPolicyWorker", "policy"),
        ("FSDP1PolicyWorker", "policy"),
        ("VllmAsyncGenerationWorker", "engine"),
        ("ray::VllmGenerationWorker[rank=0].generate", "engine"),
        ("sglang::scheduler", "engine"),
        ("python examples/start_rlvr_pipeline.py --config_path x", "driver"),
        ("ray-dashboard-DashboardHead-0", "ray"),
        ("dashboard agent", "ray"),
        # the rest
        ("pt_data_worker", "data_loader"),
        ("reward-server", "reward"),
        ("RewardModel", "reward"),
        ("reward", "reward"),
        ("ray::IDLE", "ray"),
        ("ray::IDLE_SpillWorker", "object_store"),
        ("ray::SPILL_SpillWorker", "object_store"),
        ("/opt/env/lib/python3.10/site-packages/ray/core/src/ray/raylet/raylet --raylet_socket_name=x", "ray"),
        ("/opt/env/site-packages/ray/core/src/ray/gcs/gcs_server --log_dir=/tmp", "ray"),
        ("/usr/bin/python -u /env/site-packages/ray/dashboard/agent.py --node-ip-address=10.0.0.7", "ray"),
        ("python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo", "driver"),
        ("python3 train.py --epochs 3", "driver"),
    ],
)
def test_a_known_process_has_its_role(title: str, role: str) -> None:
    assert role_of(title) == role


@pytest.mark.parametrize(
    "title",
    [
        "",
        " ",
        "ray::",
        "ray::rollout",
        "actor_trainer-3",
        "critic-review",
        "reference-guide",
        "python -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)",
        "ray::MyActorModelRayActor.fit",
        "ray::LLMRayActorPool",
        "ray::RewardShaping.step",
        "ray::trainer_state",
        "ray::load_array",
        "ray::dask:load_array",
        "python rewards_dashboard_plot.ipynb",
        "python forward.py",
        "rewarder",
        "forward-server",
        "rm -rf /tmp/x.log.gz",
        "vim reward.txt",
        "/opt/google/chrome/chrome --type=renderer",
        "jupyter-lab --no-browser",
        "Workers",
        "Engine",
        "nvidia-smi",
        "python -c import time",
        "sshd: user@pts/0",
    ],
)
def test_a_name_that_tells_nothing_has_no_role(title: str) -> None:
    assert role_of(title) is None


@pytest.mark.parametrize(
    ("title", "parts"),
    [
        ("ray::LLMRayActor.update_weight", ("LLMRayActor", "update_weight")),
        ("ray::LLMRayActor", ("LLMRayActor", "")),
        ("policy_trainer:PolicyTrainer.__init__", ("PolicyTrainer", "")),
        ("ray::PolicyTrainer.__init__", ("PolicyTrainer", "")),
        ("Zb4kQ1WorkerDict_0:5:WorkerDict.__init__", ("WorkerDict", "")),
        ("Zb4kQ1WorkerDict_0:5", ("WorkerDict", "")),
        ("create_colocated_worker_cls.<locals>.WorkerDict", ("WorkerDict", "")),
        ("ray_PolicyEvaluator:apply()", ("PolicyEvaluator", "apply")),
        ("python train.py", ("", "")),
    ],
)
def test_a_title_has_a_class_and_a_method_but_the_creation_task_tells_no_method(
    title: str, parts: tuple[str, str]
) -> None:
    assert class_and_method(title) == parts


@pytest.mark.parametrize(
    "title",
    [
        "python train/sql_reward.py --port 5000",
        "vllm serve /models/some-7b",
        "VLLM::EngineCore",
        "/opt/google/chrome/chrome --type=renderer",
        "python -m verl.trainer.main_ppo",
        "pt_data_worker",
        "python my_raylet_tests.py",
    ],
)
def test_what_ray_did_not_start_is_outside(title: str) -> None:
    assert is_outside_ray(title)


@pytest.mark.parametrize(
    "title",
    [
        "ray::LLMRayActor.update_weight",
        "ray::rollout",
        "ray::IDLE",
        "ray_Worker:step()",
        "Zb4kQ1WorkerDict_0:5:WorkerDict.__init__",
        "/env/ray/core/src/ray/raylet/raylet --raylet_socket_name=x",
        "/usr/bin/python -u /env/ray/dashboard/dashboard.py --host=localhost",
        "/env/bin/python /env/site-packages/ray/_private/workers/default_worker.py --node-ip-address=10.0.0.7",
    ],
)
def test_what_ray_started_is_not(title: str) -> None:
    assert not is_outside_ray(title)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("ray::LLMRayActor.update_weight", "LLMRayActor"),
        ("ray::LLMRayActor", "LLMRayActor"),
        ("ray::rollout", "rollout"),
        ("Zb4kQ1WorkerDict_0:5:WorkerDict.__init__", "WorkerDict"),
        ("python train/sql_reward.py --port 5000", "sql_reward.py"),
        ("/usr/bin/python3.10 -u -m openrlhf.cli.serve_rm --port 5000", "openrlhf.cli.serve_rm"),
        ("/opt/google/chrome/chrome --type=renderer", "chrome"),
        ("C:\\Python311\\python.exe C:\\work\\train.py", "train.py"),
        ("python -c 'from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)", "python -c 'from"),
        ("pt_data_worker", "pt_data_worker"),
        ("python", "python"),
        ("/usr/bin/python3.10 -u", "/usr/bin/python3.10 -u"),
    ],
)
def test_a_short_name_is_what_a_person_would_call_it(title: str, name: str) -> None:
    assert short_name(title).startswith(name)
    assert len(short_name(title)) <= 48


@pytest.mark.parametrize(
    ("cut", "role"),
    [
        ("ray::RewardMode", "reward"),
        ("ray::LLMRayActo", "engine"),
        ("ray::ActorModel", "policy"),
        ("ray::ReferenceM", "ref"),
        ("VLLM::EngineCor", "engine"),
        ("ray::Rewards", None),
        ("ray::SimulatorA", None),
    ],
)
def test_a_name_that_the_kernel_cut_still_tells(cut: str, role: str | None) -> None:
    assert role_of(cut) == role
