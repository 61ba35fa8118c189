"""The traceback that leads to an event: prefixes off, chains whole, the others' frames left out."""

from __future__ import annotations

import pytest

from oomdoctor import families
from oomdoctor.families.event import Event, Frame
from oomdoctor.families.frames import frames_behind
from oomdoctor.families.surroundings import Neighbourhood
from oomdoctor.streams import page

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def trace(text: str, at: str = OOM) -> tuple[Frame, ...]:
    log = page("a", 1, text.encode())
    index = next(i for i, line in enumerate(log.lines) if at in line.text)
    return Neighbourhood(log).around(index).trace


def functions(text: str, at: str = OOM) -> list[str]:
    return [frame.function for frame in trace(text, at)]


def test_a_traceback_gives_its_frames_with_their_code_innermost_last() -> None:
    text = f"""\
Traceback (most recent call last):
  File "/app/train.py", line 31, in <module>
    main()
    ~~~~^^
  File "/app/train.py", line 20, in main
    loss.backward()
  File "/env/torch/autograd/graph.py", line 825, in _engine_run_backward
    return Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
{OOM}"""
    assert trace(text) == (
        Frame("/app/train.py", 31, "<module>", "main()"),
        Frame("/app/train.py", 20, "main", "loss.backward()"),
        Frame(
            "/env/torch/autograd/graph.py",
            825,
            "_engine_run_backward",
            "return Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass",
        ),
    )


def test_frames_without_source_have_no_code() -> None:
    text = f"""\
Traceback (most recent call last):
  File "python/ray/_raylet.pyx", line 440, in ray._raylet.execute_task
  File "<frozen runpy>", line 198, in _run_module_as_main
    ^^^^^^^^^^^
{OOM}"""
    assert [frame.code for frame in trace(text)] == ["", ""]


def test_the_ranks_that_print_at_once_come_apart() -> None:
    text = f"""\
[rank0]: Traceback (most recent call last):
[rank1]: Traceback (most recent call last):
[rank0]:   File "/app/a.py", line 1, in zero
[rank1]:   File "/app/b.py", line 2, in one
[rank1]:     x = y.to(0)
[rank0]:     loss.backward()
[rank1]: RuntimeError: other
[rank0]: {OOM}"""
    assert trace(text) == (Frame("/app/a.py", 1, "zero", "loss.backward()"),)


def test_a_bare_message_takes_the_frames_of_one_writer_only() -> None:
    text = f"""\
(WorkerDict pid=1)   File "/app/a.py", line 1, in one
(WorkerDict pid=2)   File "/app/b.py", line 2, in two
(WorkerDict pid=2)     return x
{OOM}"""
    assert functions(text) == ["two"]


def test_an_older_traceback_is_forgotten() -> None:
    text = f"""\
Traceback (most recent call last):
  File "/app/old.py", line 1, in old
    old()
KeyError: 'x'
Traceback (most recent call last):
  File "/app/new.py", line 1, in new
    new()
{OOM}"""
    assert functions(text) == ["new"]


def test_a_traceback_far_above_is_another_matter() -> None:
    between = "\n".join(f"step {n} done" for n in range(20))
    text = f"""\
Traceback (most recent call last):
  File "/app/old.py", line 1, in old
    old()
KeyError: 'x'
{between}
{OOM}"""
    assert trace(text) == ()


def test_chained_tracebacks_are_one() -> None:
    for chain in (
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
    ):
        text = f"""\
Traceback (most recent call last):
  File "/app/inner.py", line 1, in inner
    x = torch.empty(n)
{OOM}

{chain}

Traceback (most recent call last):
  File "/app/outer.py", line 9, in outer
    inner()
RuntimeError: the engine died"""
        assert functions(text) == ["inner"]
        assert functions(text, "the engine died") == ["inner", "outer"]


def test_a_remote_call_of_ray_is_a_frame() -> None:
    text = f"""\
Traceback (most recent call last):
  File "/app/driver.py", line 8, in <module>
    ray.get(refs)
ray.exceptions.RayTaskError(OutOfMemoryError): \x1b[36mray::PolicyActor.backload_to_gpu()\x1b[39m (pid=7, ip=10.0.0.7)
  File "/app/actor.py", line 88, in backload_to_gpu
    self.engine.reload()
{OOM}"""
    assert trace(text) == (
        Frame("/app/driver.py", 8, "<module>", "ray.get(refs)"),
        Frame("ray", 0, "PolicyActor.backload_to_gpu", "ray::PolicyActor.backload_to_gpu()"),
        Frame("/app/actor.py", 88, "backload_to_gpu", "self.engine.reload()"),
    )


def test_a_process_title_in_a_table_is_no_frame() -> None:
    text = f"14\t7.00\tray::PolicyActor.fit\nray::PolicyActor.fit is running\n{OOM}"
    assert trace(text) == ()


def test_a_rich_traceback_gives_its_frames() -> None:
    text = f"""\
╭──────────────── Traceback (most recent call last) ────────────────╮
│ /app/very/long/folder/of/a/project/that/does/not/fit/into/the/box │
│ /train.py:217 in train_step                                       │
│                                                                   │
│   214 │   │   out = model(batch)                                  │
│ ❱ 217 │   │   loss.backward()                                     │
│   218 │   │   return loss                                         │
│                                                                   │
│ /env/torch/_tensor.py:521 in backward                             │
╰───────────────────────────────────────────────────────────────────╯
{OOM}"""
    assert trace(text) == (
        Frame(
            "/app/very/long/folder/of/a/project/that/does/not/fit/into/the/box/train.py",
            217,
            "train_step",
            "loss.backward()",
        ),
        Frame("/env/torch/_tensor.py", 521, "backward"),
    )


def test_a_rich_traceback_of_a_plain_terminal_gives_its_line() -> None:
    text = f"""\
| C:\\nets\\swap.py:88 in weights_to
│   86 │ def weights_to(layer, device):
│ > 88 │   │   module.weight.data = module.weight.data.to(device, non_bl
│   89
{OOM}""".replace("| C:", "│ C:")
    assert [(frame.function, frame.code) for frame in trace(text)] == [
        ("weights_to", "module.weight.data = module.weight.data.to(device, non_bl")
    ]


def test_a_notebook_gives_its_frames_in_both_forms() -> None:
    text = f"""\
OutOfMemoryError                          Traceback (most recent call last)
Cell In[7], line 1
----> 1 trainer.train()
File ~/env/site-packages/trl/trainer/grpo_trainer.py:1120, in GRPOTrainer._get_per_token_logps(self, model, x)
   1119 logits = model(x).logits
-> 1120 return selective_log_softmax(logits, x)
~/env/site-packages/torch/tensor.py in backward(self, gradient)
    182     \"\"\"
--> 183     torch.autograd.backward(self, gradient)
{OOM}"""
    assert trace(text) == (
        Frame(
            "~/env/site-packages/trl/trainer/grpo_trainer.py",
            1120,
            "_get_per_token_logps",
            "return selective_log_softmax(logits, x)",
        ),
        Frame("~/env/site-packages/torch/tensor.py", 0, "backward", "torch.autograd.backward(self, gradient)"),
    )


def test_a_notebook_that_makes_links_of_files_gives_the_same_frames() -> None:
    text = f"""\
OutOfMemoryError                          Traceback (most recent call last)
File [~/env/site-packages/trl/trainer.py:1120](http://10.0.0.7:8888/lab/tree/trl/trainer.py#line=1119), in Run.step(self)
   1119 logits = model(x).logits
-> 1120 return selective_log_softmax(logits, x)
{OOM}"""  # noqa: E501
    assert trace(text) == (
        Frame("~/env/site-packages/trl/trainer.py", 1120, "step", "return selective_log_softmax(logits, x)"),
    )


@pytest.mark.parametrize(("head", "frames"), [("<cell line: 1>()", 2), ("<cell line: one>()", 0)])
def test_a_notebooks_cell_may_be_named_by_its_line(head: str, frames: int) -> None:
    """IPython 8.0 to 8.6 on Python before 3.11."""
    text = f"""\
OutOfMemoryError                          Traceback (most recent call last)
<ipython-input-13-94186933> in {head}
----> 1 predictions = trainer.predict(test)
      2 print(predictions)
/env/transformers/trainer.py in evaluation_loop(self, dataloader)
-> 3140 preds = nested_concat(preds, logits)"""
    lines = page("a.log", 1, text.encode()).lines
    assert len(frames_behind(lines[0].text, lines[1:])) == frames


def test_source_without_its_frame_is_kept_where_the_paste_begins_below_it() -> None:
    assert trace(f"    per_token_logps = logits.log_softmax(-1)\n    ^^^^\n{OOM}") == (
        Frame("", 0, "", "per_token_logps = logits.log_softmax(-1)"),
    )
    assert trace(f"  a table\n  indented\n{OOM}") == ()


def test_a_logger_may_print_the_exception_before_its_traceback() -> None:
    text = f"""\
{OOM}
Traceback (most recent call last):
  File "/app/train.py", line 20, in step
    loss.backward()"""
    assert functions(text) == ["step"]


def test_the_traceback_of_something_else_below_is_not_taken() -> None:
    text = """\
Graph capturing finished in 30 secs, took 2.28 GiB
WorkerProc hit an exception.
Traceback (most recent call last):
  File "/app/train.py", line 20, in step
    loss.backward()"""
    assert functions(text, "Graph capturing finished") == []


def test_faulthandler_prints_the_innermost_frame_first() -> None:
    text = """\
Fatal Python error: Bus error

Current thread 0x00007f0 (most recent call first):
  File "/env/torch/storage.py", line 12 in _share
  File "/app/data.py", line 3 in collate"""
    assert functions(text, "Fatal Python error") == ["collate", "_share"]


def test_what_stands_around_is_kept_for_stages_and_causes() -> None:
    log = page("a", 1, b"one\ntwo\nCUDA out of memory\nthree\n")
    found = Neighbourhood(log).around(2)
    assert (found.before, found.after) == (("one", "two"), ("three", ""))


def test_frames_without_their_head_may_follow_the_quoted_error() -> None:
    text = f"""\
{OOM}

│ ❱ 88 │   │   self.optimizer.step()
│ /env/torch/optim/adamw.py:412 in _multi_tensor_adamw
│   411 │   │   torch._foreach_div_(roots, corrections)
│ ❱ 412 │   │   denominators = torch._foreach_add(roots, eps)"""
    assert [frame.code for frame in trace(text)] == [
        "self.optimizer.step()",
        "denominators = torch._foreach_add(roots, eps)",
    ]


def test_what_follows_further_below_is_not_the_quoted_errors() -> None:
    between = "\n".join(["epoch 3 begins"] * 8)
    assert functions(f'{OOM}\n{between}\n  File "/app/eval.py", line 20, in later\n    pass') == []


def test_the_arrow_tells_the_line_where_a_rich_paste_begins_below_its_head() -> None:
    text = f"""\
│   301 │   scale=1.0)
│ ❱ 302 │   weights = scores.softmax(dim=-1)
│   303 │   weights = weights.to(values.dtype)
{OOM}"""
    assert trace(text) == (Frame("", 0, "", "weights = scores.softmax(dim=-1)"),)


def test_a_head_that_has_lost_its_first_word_is_a_frame() -> None:
    text = f"""\
tagger.py", line 61, in log_sum_exp
    return top + torch.log(sums)
{OOM}"""
    assert functions(text) == ["log_sum_exp"]


CUT = """\
Traceback (most recent call last):
  File "/app/train.py", line 31, in <module>
    main()
  File "/app/train.py", line 20, in main
    loss = model(batch)
"""


def test_a_title_has_the_traceback_that_the_log_is_cut_in() -> None:
    assert functions(f"{OOM}\nIt happens in every run.\n\nepoch 1\n{CUT}") == ["<module>", "main"]


def test_a_title_has_no_traceback_that_ends_in_an_error_or_that_the_log_goes_on_behind() -> None:
    assert functions(f"{OOM}\n\nepoch 1\nloaded\nready\n{CUT}KeyError: 'x'\n") == []
    assert functions(f"{OOM}\n\nepoch 1\nloaded\nready\n{CUT}epoch 2\n" + "step done\n" * 20) == []
    assert functions(f"one\ntwo\nthree\nfour\n{OOM}\n\nepoch 1\nloaded\nready\n{CUT}") == []


def test_source_above_its_carets_is_source_however_little_is_left_of_its_indent() -> None:
    code = "return engine.run_backward(inputs)"
    assert trace(f" {code}\n        ^^^^^^^^^^^^^\n{OOM}") == (Frame("", 0, "", code),)
    assert trace(f" {code}\nand more\n{OOM}") == ()


def test_a_log_that_prints_the_newest_line_first_is_read_backwards() -> None:
    lines = [f"2024-05-0{day} 10:00:00,000 INFO day {day}" for day in (4, 3, 2, 1)]
    log = page("a", 1, "\n".join([f"2024-05-05 10:00:00,000 ERROR {OOM}", *lines]).encode())
    around = Neighbourhood(log).around(0)
    assert [line[-5:] for line in around.before] == ["day 1", "day 2", "day 3", "day 4"]
    assert around.below == ()


def test_times_that_jump_once_are_no_log_in_reverse() -> None:
    lines = [f"2024-05-0{day} 10:00:00,000 INFO day {day}" for day in (4, 3, 5, 1)]
    log = page("a", 1, "\n".join([f"2024-05-05 10:00:00,000 ERROR {OOM}", *lines]).encode())
    assert Neighbourhood(log).around(0).before == ()


# --- Frames in bad shape ----------------------------------------------------------------------------------------------

WELL = """\
Traceback (most recent call last):
  File "/app/train.py", line 31, in <module>
    main()
  File "/app/train.py", line 20, in main
    fit(model)
  File "/app/loop.py", line 9, in fit
    loss.backward()
"""


def reshaped(text: str, shape: str) -> str:
    lines = text.splitlines()
    match shape:
        case "without title":
            lines = lines[1:]
        case "without indent":
            lines = [line.strip() for line in lines]
        case "blank lines between":
            lines = [part for line in lines for part in (line.strip(), "")]
        case "tabs":
            lines = [line.replace("  ", "\t") for line in lines]
        case "no quotes of ASCII":
            lines = [line.replace('"', "“", 1).replace('"', "”") for line in lines]
        case "loguru's":
            lines = [*lines[:-2], f"> {lines[-2].lstrip()}", lines[-1], "    │    └ <method 'backward'>"]
    return "\n".join([*lines, OOM])


@pytest.mark.parametrize(
    "shape", ["without title", "without indent", "blank lines between", "tabs", "no quotes of ASCII", "loguru's"]
)
def test_a_traceback_in_bad_shape_has_the_same_frames(shape: str) -> None:
    assert trace(reshaped(WELL, shape)) == trace(WELL + OOM)


def test_a_traceback_may_stand_upside_down_below_its_message() -> None:
    by_line = "\n".join([OOM, *WELL.splitlines()[::-1]])
    assert trace(by_line) == trace(WELL + OOM)
    heads = WELL.splitlines()[1:]
    by_frame = "\n".join([OOM, *heads[4:6], *heads[2:4], *heads[:2]])
    assert trace(by_frame) == trace(WELL + OOM)
    titled = "\n".join([OOM, "Stack (most recent call first):", *heads[4:6], *heads[2:4], *heads[:2]])
    assert trace(titled) == trace(WELL + OOM)


def test_frames_that_call_one_another_stay_as_they_are() -> None:
    assert trace(f"{OOM}\n" + "\n".join(WELL.splitlines()[1:])) == trace(WELL + OOM)


def test_pytest_and_files_without_a_function_are_frames() -> None:
    text = f"""\
tests/test_train.py:31: in test_one_step
    trainer.step(batch)
src/trainer.py:118: in step
    loss.backward()
E   {OOM}"""
    assert trace(text, "out of memory") == (
        Frame("tests/test_train.py", 31, "test_one_step", "trainer.step(batch)"),
        Frame("src/trainer.py", 118, "step", "loss.backward()"),
    )
    text = f'{OOM}\n\nweight = pack(x)\n  File "/app/quant/marlin.py"\n\nbuild()\n  File "/app/load.py", line 8\n'
    assert [frame.file for frame in trace(text)] == ["/app/load.py", "/app/quant/marlin.py"]


def test_calls_alone_are_frames_right_above_the_message() -> None:
    code = ["self.accelerator.backward(loss)", "^^^^^^^^^^", "return run_backward(  # calls into C++"]
    assert [frame.code for frame in trace("\n".join(["step 7 | lr 2e-4", *code, OOM]))] == [code[0], code[2]]


NO_SOURCE = (
    "I called loss.backward() and then it said",
    "Namespace(batch=4, lr=0.1)",
    "step(11/200) = 2.31",
    "mem(alloc) = 36.6 GiB",
    "Loading (again)",
    "lr = 3e-4\noptimizer = adamw(fused=True)",
    "optimizer.step()\n\nThese were my lines:",
    "loss.backward()\n",
)


@pytest.mark.parametrize("above", NO_SOURCE)
def test_prose_settings_and_figures_are_no_source(above: str) -> None:
    assert trace(f"first line\n{above}\n{OOM}") == ()


DRIVER = """\
Traceback (most recent call last):
  File "/app/main.py", line 8, in main
    ray.get(refs)
  File "/env/ray/_private/worker.py", line 900, in get_objects
    raise value.as_instanceof_cause()
ray.exceptions.RayTaskError(OutOfMemoryError): ray::Actor.fit() (pid=7, ip=10.0.0.7)
"""


def test_the_workers_frames_below_go_on_from_the_drivers_above() -> None:
    below = '  File "/app/actor.py", line 3, in fit\n    self.optim.step()\n'
    assert functions(f"{DRIVER}{OOM}\n{below}") == ["main", "get_objects", "Actor.fit", "fit"]
    turned = (
        f'    self.optim.step()\n  File "/app/actor.py", line 3, in fit\n    actor.fit()\n{below.splitlines()[0]}\n'
    )
    assert [frame.code for frame in trace(f"{DRIVER}{OOM}\n{turned}")[-2:]] == ["actor.fit()", "self.optim.step()"]
    titled = f"Traceback (most recent call last):\n{below}KeyError: 'x'\n"
    assert functions(f"{DRIVER}{OOM}\n\nretrying\n{titled}") == ["main", "get_objects", "Actor.fit"]


def test_who_did_not_wait_has_its_frames_above() -> None:
    assert functions(f'{WELL}{OOM}\n  File "/app/end.py", line 3, in later\n    pass\n') == ["<module>", "main", "fit"]


@pytest.mark.parametrize("between", ["", "Traceback (most recent call last):\n"])
def test_frames_below_that_end_in_another_exception_are_its_own(between: str) -> None:
    below = f'{between}  File "/app/end.py", line 3, in flush\n    write(state)\n'
    assert functions(f"{OOM}\ncleaning up\n{below}OSError: [Errno 28] no space\n") == []
    assert functions(f"{OOM}\ncleaning up\n{below}{OOM}\n") == ["flush"]
    native = "E core/bfc_allocator.cc:101] Allocator ran out of memory"
    assert functions(f"{native}\n{below}InternalError: copy failed\n", native) == ["flush"]


def test_frames_above_that_ended_in_another_exception_were_survived() -> None:
    above = 'Traceback (most recent call last):\n  File "/app/a.py", line 3, in load\n    open(p)\n'
    assert functions(f"{above}FileNotFoundError: no such file\nstarting anew\n{OOM}") == []
    assert functions(f"{above}BackendError: raised:\n{OOM}") == ["load"]
    assert functions(f"{above}{OOM}\n{OOM}") == ["load"]


def test_source_in_the_midst_may_have_lost_its_head() -> None:
    text = f"""\
Traceback (most recent call last):
  File "/app/a.py", line 1, in start
    engine.wake(
        tags,
    )
    allocator.wake_up(tags)
  File "/app/b.py", line 2, in create
    create(handle)
{OOM}"""
    assert [frame.code for frame in trace(text)] == ["engine.wake(", "allocator.wake_up(tags)", "create(handle)"]


BAR = "Loading checkpoint shards:  40%|####      | 2/5 [00:04<00:06,  2.01s/it]"
ENDS = (
    "[2026-02-03 09:10:38,207] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 71\n"
    "[2026-02-03 09:10:40,112] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', '-u', 'fit.py'] "
    "exits with return code = -9\n"
)
WORK = "Feb 03 09:10:{} box {}[{}]: load_tensors: loading model tensors, this can take a while... (mmap = false)\n"
UNIT = "Feb 03 09:10:40 box systemd[1]: gen.service: Failed with result 'oom-kill'.\n"
RECORD = (
    "Feb 03 09:10:40 box kernel: Out of memory: Killed process 812 (gen) total-vm:9000000kB, anon-rss:8000000kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:900kB oom_score_adj:0\n"
)


def before(text: str) -> tuple[str, ...]:
    """What stands above the last failure."""
    found = [item for item in families.read(page("a", 1, text.encode())) if isinstance(item, Event)]
    return [event for event in found if event.role == "root"][-1].around.before


@pytest.mark.parametrize(
    ("above", "glue", "told"),
    [
        (BAR, "", True),
        (BAR, "\n", True),
        ("written: 40 of 100 ", "", False),  # what a program prints and does not end
        ("written: 40 of 100 ", "\n", True),
        ("at 40 % ", "", False),
    ],
)
def test_a_bar_that_a_report_is_glued_to_stands_above_it(above: str, glue: str, *, told: bool) -> None:
    assert any(above.strip() in line for line in before(above + glue + ENDS)) is told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (WORK.format(20, "gen", 812) + UNIT, True),
        (WORK.format(20, "gen", 812) + UNIT.replace("gen.", "gen@one."), True),
        (WORK.format(20, "gen", 812) + RECORD, True),  # by the pid
        (WORK.format(20, "other", 812) + RECORD, True),
        (WORK.format(20, "other", 812) + UNIT, False),
        (WORK.format(20, "gen", 811) + RECORD, False),
        (WORK.format(20, "gen", 812).replace(" box ", " shed ") + UNIT, False),
        (WORK.format(20, "gen", 812).replace(" box ", " shed ") + RECORD, False),
        (WORK.format(20, "gen-2", 812) + UNIT, False),
        (UNIT + WORK.format(41, "gen", 812), False),  # the next start
    ],
)
def test_what_a_unit_had_printed_stands_above_the_report_of_its_kill(text: str, *, told: bool) -> None:
    assert any("load_tensors" in line for line in before(text)) is told


def test_lines_of_a_unit_and_of_its_manager_stand_in_their_order() -> None:
    killed = "Feb 03 09:10:39 box systemd[1]: gen.service: A process of this unit has ended.\n"
    above = before(WORK.format(20, "gen", 812) + killed + UNIT)
    assert [line.split(":")[0] for line in above] == ["load_tensors", "gen.service"]
