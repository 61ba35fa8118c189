"""Verbs say what a job was doing in names, sentences and graphs that nobody listed; and those that lie do not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from test_doing import event, stage_of
from unseen_doing import FRAMES, LINES, NEAR_FRAMES, NEAR_LINES, TEXTS

from oomdoctor.job import verbs


def halves(row: str) -> tuple[list[str], str]:
    stages, _, text = row.partition(" | ")
    return stages.split(), text


@pytest.mark.parametrize("row", [*FRAMES, *NEAR_FRAMES])
def test_a_frame_that_no_table_lists(row: str) -> None:
    stages, frame = halves(row)
    assert stage_of(replace(event(frame), pool="gpu")) in stages


@pytest.mark.parametrize("row", LINES)
def test_a_line_that_no_table_lists(row: str) -> None:
    stages, line = halves(row)
    assert stage_of(replace(event(before=("$ python run.py", line)), pool="gpu")) in stages


@pytest.mark.parametrize("row", TEXTS)
def test_a_graph_a_kernel_or_a_file_that_no_table_lists(row: str) -> None:
    stages, text = halves(row)
    assert stage_of(replace(event(text=text), pool="gpu")) in stages


@pytest.mark.parametrize("line", NEAR_LINES)
def test_a_line_whose_verb_is_about_something_else(line: str) -> None:
    below = ("Loading checkpoint shards:  50%|█████", line)
    assert stage_of(replace(event(before=below), pool="gpu")) == "model_load"
    assert stage_of(replace(event(before=(line,)), pool="gpu")) == "unknown"


def of(name: str, context: str = "") -> str:
    return verbs.of_identifier(name, context).stage


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("load_weights", "model_load"),
        ("merge_weights", "checkpoint_load"),
        ("merge_shards", "checkpoint_load"),
        ("loads_weights", "model_load"),
        ("loading_weights", "model_load"),
        ("loaded_weights", ""),  # done
        ("weights_load", "model_load"),
        ("LoadWeights", "model_load"),
        ("_LOAD_WEIGHT", "model_load"),
        ("preload", ""),
        ("unload_weights", ""),
        ("load", ""),
        ("weights", ""),
        ("stepping_optimizer", "optimizer_step"),  # the last letter doubled
        ("saving_model", "checkpoint_save"),  # and the e dropped
        ("load_libraries", ""),
        ("load_vocabularies", "data_load"),  # -y, -ies
        ("MatMul", "forward"),  # two words are one
        ("BackProp", "backward"),
        ("save_weights_and_train_batch", ""),  # two things
        ("save_weights_and_dump_state", "checkpoint_save"),  # one thing
        ("save_weights_by_step", "checkpoint_save"),
        ("load_weights_config", ""),
        ("load_weights_hooks", ""),
        ("generate", "generation"),
        ("_async_generate_batch", "generation"),  # nothing but fillers
        ("generate_ids", ""),
        ("KVCacheAllocator", ""),
        ("allocateKvCache", "kv_cache_init"),
        ("save_for_backward", ""),
    ],
)
def test_a_name_says_what_its_verb_does_to_what(name: str, stage: str) -> None:
    assert of(name) == stage


@pytest.mark.parametrize(
    ("name", "context", "stage"),
    [
        ("load", "app checkpointing", "checkpoint_load"),
        ("load", "ModelLoader app", "model_load"),
        ("step", "optim lion", "optimizer_step"),
        ("step", "optim lr_scheduler", ""),  # the file speaks of something else
        ("step_count", "optim lion", ""),
        ("load_labels", "models llama", ""),  # it names something itself
        ("init", "engine worker", ""),  # where it stands is not what it makes
        ("__getitem__", "data dataset", "data_load"),
        ("__getitem__", "data layers", ""),
    ],
)
def test_a_bare_verb_takes_its_object_from_where_it_stands(name: str, context: str, stage: str) -> None:
    assert of(name, context) == stage


def test_the_most_telling_verb_of_a_name_counts() -> None:
    assert verbs.of_identifier("forward_backward_step").weight == 2
    assert of("forward_backward_pass") == "backward"


@pytest.mark.parametrize(
    ("code", "stage"),
    [
        ("out = model.load_weights(path)", "model_load"),
        ("self.opt.step()", "optimizer_step"),
        ("self.env.step(action)", ""),
        ("state = store.restore(path)", ""),
        ("state = checkpointer.restore(path)", "checkpoint_load"),
        ("x = load_weights", ""),  # no call
        ("save(load_weights(p))", "model_load"),
        ("", ""),
    ],
)
def test_a_line_of_source_says_what_it_calls(code: str, stage: str) -> None:
    assert verbs.of_call(code).stage == stage


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("Loading the model weights from /x", "model_load"),
        ("2026-01-02 03:04:05 INFO loader: Loading the weights", "model_load"),
        ("[rank0] - Loading the weights", "model_load"),
        ("WARNING Loading the weights", "model_load"),
        ("We are loading the weights", None),  # no head of a sentence
        ("Load the weights", None),  # nothing is under way
        ("Loaded the weights", None),
        ("Loading for a while now as ever the weights", None),  # too far off
        ("Loading the weights' configuration", None),
        ("Loading weights and configuration:  41%|████", "model_load"),  # a bar is about what fills memory
        ("Loading weights: 100%|██████████| 4/4", ""),  # done: past what stands above
        ("Transcribing", None),
        ("Transcribing:  41%|████", "generation"),
        ("Transcribing [3/90]", "generation"),
        ("Transcribing 3/90 [00:10<00:20]", "generation"),
        ("Predicting case_0014:", "generation"),
        ("Predicting the weather", None),
        ("Evaluation:  41%|████", "eval"),
        ("Testing: 3.0it/s", "eval"),
        ("Testing the door", None),
    ],
)
def test_a_sentence_says_what_is_under_way(line: str, stage: str | None) -> None:
    row = verbs.of_sentence(line)
    assert (None if row is None else row.stage) == stage


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("[[Node: training_3/RMSprop/mul_2 = Mul[T=DT_FLOAT]]]", "optimizer_step"),
        ("[[node gradients/AddN_3 (defined at x.py:2)]]", "backward"),
        ("[[{{node encoder/layer_norm/add_1}}]]", "forward"),
        ('op_name="jit(step)/jit(main)/transpose(jvp(Net))/dot"', "backward"),
        ('op_name="jit(step)/jit(main)/jvp(Net)/dot"', "forward"),
        ('op_name="pjit(update)/lamb/mul"', "optimizer_step"),
        ("at flash_attention_bwd.cu:91", "backward"),
        ("at checkpoint_loader.cpp:91", "checkpoint_load"),
        ("at sharded_model_saver.cc:91", "checkpoint_save"),
        ("at kv_cache_manager.h:91", "kv_cache_init"),
        ("gcs_kv_manager.cc:91", ""),  # another store of keys and values
        ("node_manager.cc:3064: 1 Workers killed", ""),
        ("at conv2d_grad_input.cu:91", "backward"),
        ("at adam_kernel.cu:91", "optimizer_step"),
        ("adam.py:91", ""),  # no source of C++
        ("the [[list]] of nodes", ""),
        ("named forward.cube", ""),
    ],
)
def test_a_graph_or_a_file_of_cpp_says_what_it_was_at(text: str, stage: str) -> None:
    assert verbs.of_operation(text).stage == stage


def test_a_listed_name_comes_before_its_verb() -> None:
    assert verbs.of_name("move_model_to_vllm").stage == "weight_sync"
    assert verbs.of_identifier("move_model_to_vllm").stage == "model_load"
    assert verbs.of_name("move_model_to_shelf").stage == "model_load"


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("CUDA error at /src/csrc/attention_bwd_sm80.cu:210: out of memory", "backward"),
        ("nvcc -O3 -c /src/csrc/attention_bwd_sm80.cu -o build/attention_bwd_sm80.o", ""),
        ("FAILED: build/csrc/attention_bwd_sm80.cu.o", ""),
        ("[3/9] Building CUDA object CMakeFiles/ops.dir/attention_bwd.cu.o", ""),
        ("cl.exe /c attention_bwd.cpp /Fobuild/attention_bwd.obj", ""),
    ],
)
def test_what_is_compiled_does_not_run(line: str, stage: str) -> None:
    assert verbs.of_operation(line).stage == stage


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("XY_SpeechModelLoader", "model_load"),
        ("UNETLoader", "model_load"),
        ("ModelLoader was skipped", ""),
        ("SpeechModelLoaderConfig", ""),
        ("modelloader", ""),
        ("LoadedModels", ""),
        ("FrameworkVersion", ""),
    ],
)
def test_the_name_of_a_node_alone_on_its_line(line: str, stage: str) -> None:
    row = verbs.of_node(line)
    assert (row.stage if row is not None else "") == stage


def test_a_runtime_that_says_below_what_it_could_not_load() -> None:
    below = ("[TDRV:model_add] copy() error", "[NMGR:stage] Failed to load subgraph")
    loaded = ("Loading cached features from 'train.pickle'...",)
    assert stage_of(replace(event(before=loaded, below=below), pool="gpu")) == "model_load"
    assert stage_of(replace(event(before=loaded), pool="gpu")) == "data_load"
