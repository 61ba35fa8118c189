"""What a line of the job's own code says of the memory, and how the remedies refer to it."""

from __future__ import annotations

import ast
import copy
import json
from pathlib import Path

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor import diagnose
from oomdoctor.job.own_line import own_lines
from oomdoctor.language import use
from oomdoctor.redaction import Redactor
from oomdoctor.remedies import Remedy, own_line, shapes
from oomdoctor.remedies.backfill import enough_remedies
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.own_line import in_front, readings, table

PACKAGES = "/v/lib/python3.11/site-packages"
TORCH = f'  File "{PACKAGES}/torch/nn/modules/module.py", line 1511, in _call_impl\n    return forward_call(*args)\n'
DIFFUSERS = f'  File "{PACKAGES}/diffusers/models/vae.py", line 3, in decode\n    z = self.post_quant_conv(z)\n' + TORCH
LOAD = f'  File "{PACKAGES}/torch/serialization.py", line 1026, in load\n    return _load(opened)\n'
JAX = f'  File "{PACKAGES}/jax/_src/api.py", line 3, in f\n    return g()\n'
MEMORY = (
    "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array with shape (100000, 100000) "
    "and data type float64\n"
)
EXHAUSTED = (
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 85899345 bytes.\n"
)
MAPPED = """\
x = np.memmap('array.dat', dtype=frames[0].dtype, mode='w+', shape=(len(frames), *frames[0].shape))
for at, one in enumerate(frames):
    x[at] = one"""
BARE = "MemoryError\n"


def traceback(code: str, *, file: str = "/home/u/job.py", function: str = "<module>", below: str = "") -> str:
    return f'Traceback (most recent call last):\n  File "{file}", line 212, in {function}\n    {code}\n{below}'


def on_card(code: str, *, function: str = "<module>", file: str = "/home/u/job.py", below: str = TORCH) -> str:
    return traceback(code, file=file, function=function, below=below) + cuda()


def in_ram(code: str, *, function: str = "<module>", file: str = "/home/u/job.py", error: str = MEMORY) -> str:
    return traceback(code, file=file, function=function) + error


def of(log: str, knob: str) -> Remedy:
    (remedy,) = advise(log, knob)[0].values()
    return remedy


@pytest.mark.parametrize(
    ("code", "told", "in_blocks"),
    [
        # blocks of distances, one after the other, are no matrix, and no similarities
        ("sim = cosine_similarity(vectors)", "computes the similarity of every pair", True),
        ("d = euclidean_distances(left, right)", "computes the distance of every pair", True),
        # one row against all others
        ("x = frames[:, None, :] - mean", "", True),
        ("d = a[:, None, :] - b[None, :, :]", "computes a value for every pair", False),
    ],
)
def test_pairs_are_told_in_words(code: str, told: str, *, in_blocks: bool) -> None:
    remedy = of(in_ram(code), "smaller-partitions")
    assert ("(line" in remedy.action) == bool(told)
    assert not told or f"(line 212 of job.py {told}" in remedy.action
    assert (remedy.snippet is not None) == in_blocks
    assert not in_blocks or str(remedy.snippet).startswith("for rows in np.array_split(x, ")


# What is read of a line, and how it is changed


@pytest.mark.parametrize(
    ("code", "function", "knob", "does", "snippet"),
    [
        (
            "output = self.model(images)",
            "evaluate",
            "clear-references",
            "runs the model, which keeps activations for a backward pass",
            "with torch.inference_mode():\n    output = self.model(images)",
        ),
        ("total_loss += loss", "train", "clear-references", "sums the losses", "total_loss += loss.item()"),
        (
            "loss.backward(retain_graph=True)",
            "train",
            "clear-references",
            "keeps the graph of every step",
            "loss.backward()",
        ),
        (
            "all_preds.append(out)",
            "evaluate",
            "smaller-buffers",
            "keeps the result of every batch on the GPU",
            "all_preds.append(out.detach().cpu())",
        ),
        (
            "preds = torch.cat((preds, logits), dim=0)",
            "evaluate",
            "smaller-buffers",
            "joins all results so far",
            "preds = torch.cat((preds.cpu(), logits.cpu()), dim=0)",
        ),
        (
            "logp = F.log_softmax(logits, dim=-1).gather(dim=-1, index=ids)",
            "train",
            "chunked-logits",
            "computes log-probabilities for the whole vocabulary",
            "logp = torch.gather(logits, dim=-1, index=ids) - torch.logsumexp(logits, dim=-1, keepdim=True)",
        ),
        (
            "optimizer.step()",
            "train",
            "low-memory-optimizer",
            "creates the optimizer states in its first step",
            "optimizer = bitsandbytes.optim.AdamW8bit(optimizer.param_groups)",
        ),
        (
            "model.to(device)",
            "main",
            "mixed-precision",
            "puts all weights on the GPU",
            "model.to(device, dtype=torch.bfloat16)",
        ),
        ("net = Net(cfg).cuda()", "main", "mixed-precision", "puts all weights", "net = Net(cfg).bfloat16().cuda()"),
        (
            "model.load_state_dict(torch.load(args.resume))",
            "main",
            "low-memory-loading",
            "puts every tensor of the file on the GPU",
            "model.load_state_dict(torch.load(args.resume, map_location='cpu'))",
        ),
        (
            "d = torch.cdist(x, self.bank, p=2)",
            "main",
            "smaller-microbatch",
            "computes the distance of every pair",
            "for part in x.split(1024):\n    d = torch.cdist(part, self.bank, p=2)",
        ),
        (
            "attn = torch.einsum('bhid,bhjd->bhij', q, k) * self.scale",
            "forward",
            "memory-efficient-attention",
            "computes a score for every pair of tokens",
            "out = torch.nn.functional.scaled_dot_product_attention(q, k, value)",
        ),
        (
            "mask = self.causal_mask[None].repeat(batch, 1, 1, 1).to(dtype)",
            "forward",
            "clear-references",
            "copies the mask once per row",
            "mask = self.causal_mask[None].expand(batch, -1, -1, -1).to(dtype)",
        ),
        (
            "ids = model.generate(ids, max_new_tokens=512)",
            "generate",
            "shorter-sequences",
            "keeps keys and values of the whole batch",
            "ids = model.generate(ids, max_new_tokens=256)",
        ),
        (
            "return vae.decode(latents).sample",
            "main",
            "smaller-microbatch",
            "decodes all images in full size",
            "vae.enable_tiling()\nreturn vae.decode(latents).sample",
        ),
    ],
)
def test_a_line_that_fills_the_card(code: str, function: str, knob: str, does: str, snippet: str) -> None:
    remedy = of(on_card(code, function=function, below=DIFFUSERS if "vae" in code else TORCH), knob)
    assert f" (line 212 of job.py {does}" in remedy.action
    assert remedy.snippet == snippet
    ast.parse(snippet.replace("return ", ""))


@pytest.mark.parametrize(
    ("code", "knob", "does", "snippet"),
    [
        (
            "big = np.zeros((n, n))",
            "narrow-dtypes",
            "makes a float64 array",
            "big = np.zeros((n, n), dtype=np.float32)",
        ),
        (
            "self.screens = np.empty((size, h, w), dtype = np.uint8)",
            "spill-to-disk",
            "creates the whole array in memory",
            "self.screens = np.memmap('array.dat', dtype=np.uint8, mode='w+', shape=(size, h, w))",
        ),
        (
            "x = numpy.stack(frames)",
            "spill-to-disk",
            "copies all arrays of the list into one",
            MAPPED,
        ),
        ("a = np.load(path)", "stream-data", "reads the whole array", "a = np.load(path, mmap_mode='r')"),
        ("x = x / 255.0", "narrow-dtypes", "makes a float64 copy", "x = np.divide(x, 255, dtype=np.float32)"),
        (
            "df = pd.read_csv('a.csv', sep=';')",
            "stream-data",
            "reads the whole table",
            "df = pd.read_csv('a.csv', sep=';', chunksize=100000)",
        ),
        (
            "rows = pd.read_json(path, lines=True)",
            "stream-data",
            "reads the whole file",
            "rows = pd.read_json(path, lines=True, chunksize=100000)",
        ),
        (
            "df = pd.read_table(path, sep='|')",
            "stream-data",
            "reads the whole table",
            "df = pd.read_table(path, sep='|', chunksize=100000)",
        ),
        (
            "buf = np.zeros((size, 84, 84), dtype=np.uint8)",
            "smaller-buffers",
            "allocates all entries",
            "buf = np.zeros((size // 2, 84, 84), dtype=np.uint8)",
        ),
        ("pdf = sdf.toPandas()", "stream-data", "brings the whole table", "sdf.write.parquet('out.parquet')"),
        ("for line in f.readlines():", "stream-data", "reads all lines at once", "for line in f:"),
        ("data = json.load(f)", "stream-data", "reads the whole file", "data = ijson.items(f, 'item')"),
        (
            "ds = load_dataset('c4', 'en', split='train')",
            "stream-data",
            "prepares the whole data set",
            "ds = load_dataset('c4', 'en', split='train', streaming=True)",
        ),
        ("x = m.toarray()", "narrow-dtypes", "makes a dense array of a sparse one", "x = m"),
        (
            "run = solve_ivp(rhs, (t0, t1), state)",
            "smaller-buffers",
            "keeps the state of every step that it takes",
            "run = solve_ivp(rhs, (t0, t1), state, t_eval=np.linspace(t0, t1, 50))",
        ),
        (
            "e = np.linalg.eigvalsh(h.toarray())[:6]",
            "narrow-dtypes",
            "makes a dense matrix of a sparse one for all of its eigenvalues",
            "e = scipy.sparse.linalg.eigsh(h, k=6, which='SA', return_eigenvectors=False)[:6]",
        ),
        (
            "w, v = np.linalg.eigh(h.toarray())",
            "narrow-dtypes",
            "makes a dense matrix of a sparse one for all of its eigenvalues",
            "w, v = scipy.sparse.linalg.eigsh(h, k=6, which='SA')",
        ),
        (
            "x = np.linalg.solve(a.toarray(), b)",
            "narrow-dtypes",
            "makes a dense matrix of a sparse one to solve with it",
            "x = scipy.sparse.linalg.spsolve(a, b)",
        ),
        (
            "u, s, v = np.linalg.svd(a)",
            "smaller-buffers",
            "computes full-size square factors",
            "u, s, v = np.linalg.svd(a, full_matrices=False)",
        ),
        (
            "dtrain = xgb.DMatrix(x, label=y)",
            "stream-data",
            "copies the whole data",
            "dtrain = xgb.QuantileDMatrix(x, label=y)",
        ),
    ],
)
def test_a_line_that_fills_host_memory(code: str, knob: str, does: str, snippet: str) -> None:
    remedy = of(in_ram(code), knob)
    assert f" (line 212 of job.py {does}" in remedy.action
    assert remedy.snippet == snippet


@pytest.mark.parametrize(
    ("code", "does", "snippet"),
    [
        ("output = model(data)", "passes the whole batch", "for part in data.chunk(2):\n    output = model(part)"),
        ("loss.backward()", "runs the backward pass over the whole batch", "(loss / 2).backward()"),
        ("loss.mean().backward()", "runs the backward pass over the whole batch", "(loss.mean() / 2).backward()"),
        (
            "scaler.scale(loss).backward()",
            "runs the backward pass over the whole batch",
            "scaler.scale(loss / 2).backward()",
        ),
    ],
)
def test_a_pass_over_a_batch_whose_size_is_an_argument(code: str, does: str, snippet: str) -> None:
    log = on_card(code, function="train")
    (reading,) = readings(crashes_of(log)[0])
    assert reading.snippet == snippet
    remedy = of(log, "smaller-microbatch")
    assert remedy.action.startswith(f"Halve the batch size (line 212 of job.py {does}")
    assert remedy.snippet is None, "the program's name for it is not in the log"


def test_what_the_line_needs_and_what_is_no_computed_value_is_assumed() -> None:
    remedy = of(in_ram("df = pd.read_csv(path)"), "stream-data")
    assert remedy.assumes == ("100000 is a usual start value",)
    assert remedy.suggested is None
    mapped = of(traceback("state = torch.load(path)", below=LOAD) + BARE, "low-memory-loading")
    assert mapped.snippet == "state = torch.load(path, map_location='cpu', mmap=True)"
    assert "torch >=2.1 (not in the log)" in mapped.assumes


def test_a_release_that_does_not_know_it_yet() -> None:
    log = "PyTorch version: 2.0.1\n" + traceback("state = torch.load(path)", below=LOAD) + BARE
    assert "mmap" not in str(advise(log, "low-memory-loading")[0])


# Whose line it is


@pytest.mark.parametrize(
    "file",
    [
        "/v/lib/python3.11/site-packages/torch/nn/functional.py",
        "/v/lib/python3.11/site-packages/numpy/core/shape_base.py",
        "C:\\v\\Lib\\site-packages\\pandas\\io\\common.py",
        "/usr/lib/python3.11/json/__init__.py",
        "/src/pytorch/torch/nn/modules/linear.py",
        "<frozen importlib._bootstrap>",
    ],
)
def test_a_line_of_a_library_of_arrays_is_nobodys(file: str) -> None:
    for log in (
        on_card("output = model(data)", file=file, function="train"),
        in_ram("big = np.zeros((n, n))", file=file),
    ):
        assert readings(crashes_of(log)[0]) == ()


def test_a_line_of_an_installed_framework_is_named_and_not_changed() -> None:
    file = "/v/lib/python3.11/site-packages/transformers/trainer.py"
    remedy = of(on_card("preds = torch.cat((preds, logits), dim=0)", file=file, function="evaluate"), "smaller-buffers")
    assert " (line 212 of trainer.py joins all results so far" in remedy.action
    assert "preds.cpu()" not in (remedy.snippet or "")


def test_a_line_that_every_job_of_a_framework_goes_through_is_no_reason() -> None:
    launch = "python train.py --per_device_train_batch_size 8 --learning_rate 1e-5\n"
    file = "/v/lib/python3.11/site-packages/accelerate/accelerator.py"
    for code in ("loss.backward(**kwargs)", "self.scaler.scale(loss).backward(**kwargs)"):
        remedy = of(launch + on_card(code, file=file, function="backward"), "smaller-microbatch")
        assert "accelerator.py" not in remedy.action
        assert remedy.suggested == 4


def test_the_option_of_the_framework_stays_and_the_line_says_why() -> None:
    launch = "python train.py --per_device_train_batch_size 8 --learning_rate 1e-5\n"
    remedy = of(launch + on_card("loss.backward()", function="train"), "smaller-microbatch")
    assert remedy.action.endswith(" (line 212 of job.py runs the backward pass over the whole batch)")
    assert remedy.suggested == 4
    assert "(loss / 2)" not in (remedy.snippet or "")


def test_only_the_innermost_line_of_the_user_allocates_by_itself() -> None:
    inner = '  File "/home/u/model.py", line 9, in step\n    h = self.block(h)\n' + TORCH
    log = on_card("preds = torch.cat((preds, self.step(x)), dim=0)", function="predict", below=inner)
    assert "torch.cat" not in str(advise(log, "smaller-buffers")[0])
    passed = on_card("out = model(x)", function="train", below=inner)
    assert " (line 212 of job.py passes the whole batch" in of(passed, "smaller-microbatch").action


def test_a_traceback_that_breaks_off_before_the_failure_shows_no_line_that_allocates() -> None:
    crash = crashes_of(on_card("preds = torch.cat((preds, x), dim=0)", function="predict"))[0]
    assert any(one.row.knob == "smaller-buffers" for one in readings(crash))
    assert not any(line.innermost for line in own_lines(crash.root.around.trace, cut=True))


def test_who_waits_for_another_process_is_not_at_fault() -> None:
    waiting = '  File "/v/lib/python3.11/site-packages/ray/_private/worker.py", line 2, in get\n    raise value\n'
    assert readings(crashes_of(on_card("out = model(ray.get(ref))", function="train", below=waiting))[0]) == ()


# Worlds and tasks


@pytest.mark.parametrize("code", ["output = model(data)", "loss.backward()", "attn = torch.einsum('ij,kj->ik', q, k)"])
def test_nothing_of_torch_for_jax(code: str) -> None:
    crash = crashes_of(traceback(code, function="train", below=JAX) + EXHAUSTED)[0]
    assert crash.job.world == "jax"
    assert all("torch" not in (one.snippet + one.row.does + one.row.instead) for one in readings(crash))


def test_items_of_jax_in_batches() -> None:
    log = traceback("out = jax.vmap(f)(xs)", below=JAX) + EXHAUSTED
    remedy = of(log, "smaller-microbatch")
    assert remedy.snippet == "out = jax.lax.map(f, xs, batch_size=64)"
    assert "jax >=0.4.31 (not in the log)" in remedy.assumes
    assert of("jax 0.4.20\n" + log, "smaller-microbatch").snippet != remedy.snippet


def test_a_pass_that_trains_is_not_run_without_a_graph() -> None:
    assert "inference_mode" not in str(advise(on_card("out = model(x)", function="train_epoch"), "clear-references")[0])
    guarded = f'  File "{PACKAGES}/torch/utils/_contextlib.py", line 1, in decorate_context\n    return f()\n'
    log = on_card("out = model(x)", function="evaluate", below=guarded)
    assert "inference_mode" not in str(advise(log, "clear-references")[0])


# Near misses


@pytest.mark.parametrize(
    "code",
    [
        "# output = model(data)",
        "print(f'torch.load({path}) and model(x)')",
        "raise RuntimeError('model(x) and loss.backward() failed')",
        "'torch.load(path)'",
        "load_model(path)",
        "model = build_model(cfg)",
        "self.model_config(x)",
        "criterion = CrossEntropyLoss(logits)",
        "tokenizer = AutoTokenizer.from_pretrained(path)",
        "lr_scheduler.step()",
        "total += loss.item()",
        "loss_fn += weight",
        "x = x.to(device)",
        "inputs = {k: v.to(device) for k, v in batch.items()}",
        "names.append(name)",
        "layers.append(layer)",
        "x = torch.cat([x1, x2], dim=1)",
        "q = q.transpose(1, 2) @ w",
        "x = a[:, 0] - b[0]",
        "data = json.loads(line)",
        "a = np.arange(10)",
        "x = model",
        "self.fp16_lm_cross_entropy)",
        "--tf32 True --rrhf_weight 1",
        "==========================",
        "Last State:     Terminated",
        "ray.get(refs)",
        "",
    ],
)
def test_a_line_that_no_row_is_about(code: str) -> None:
    assert [row.does for row in table() if own_line._read(code, row) is not None] == []


@pytest.mark.parametrize(
    ("code", "write"),
    [
        ("state = torch.load(path, map_location='cpu', mmap=True)", "torch.load"),
        ("df = pd.get_dummies(df, sparse=True)", "pd.get_dummies"),
        ("a = np.load(path, mmap_mode='r')", "np.load"),
    ],
)
def test_a_line_that_is_so_already_is_none(code: str, write: str) -> None:
    assert [row.write for row in table() if write in row.write and own_line._read(code, row)] == []


# What may stand in a report


@pytest.mark.parametrize(
    "code",
    [
        "model = AutoModel.from_pretrained(path, token='hf_abcdef')",  # a secret by its name
        "state = torch.load('a\\x1b[31mb')",  # an escape
        "state = torch.load('<script>alert(1)</script>')",
        "state = torch.load('`rm -rf /`')",
        "state = torch.load('$(reboot)')",
        'state = torch.load("it\'s")',
        "state = torch.load(пароль)",
        "state = torch.load('" + "a" * 200 + "')",
        "state = torch.load(",
        "state = torch.load(path,",
        "state = torch.load(**options)",
        "ds = load_dataset(*names, **kwargs)",
    ],
)
def test_a_line_of_which_a_part_may_not_be_printed_is_told_in_words_alone(code: str) -> None:
    told = [own_line._read(code, row) for row in table()]
    assert not any(told)


@pytest.mark.parametrize("code", ["state = torch.load(", "df = pd.read_csv(path,"])
def test_a_line_that_is_cut_is_told_in_words(code: str) -> None:
    remedies = advise(traceback(code, below=LOAD) + BARE, "low-memory-loading", "stream-data")[0].values()
    (told,) = [remedy for remedy in remedies if " (line 212 of job.py reads the whole" in remedy.action]
    assert "path" not in (told.snippet or "").partition("torch.load")[0]


@pytest.mark.parametrize(
    "code",
    [
        "model(" * 2000,
        "x = " + "(" * 5000 + "1" + ")" * 5000,
        "model(" + "x, " * 3000 + ")",
        "a" * 10_000,
        "model(" + "[" * 90 + "]" * 90 + ")",
        "x = " + "-" * 250 + "model(x)",
        "model('" + "\\" * 9_999,
        "torch.load('\x00')",
        "model(\u202ex)",
    ],
)
def test_hostile_source_says_nothing(code: str) -> None:
    assert shapes.source(code) is None or not any(own_line._read(code, row) for row in table())


def test_names_of_files_are_checked_and_have_no_folders() -> None:
    odd = "/home/alice/secret project/fit <b>.py"
    remedy = of(on_card("loss.backward()", file=odd, function="train"), "smaller-microbatch")
    assert " (the innermost line in the log runs the backward pass" in remedy.action
    assert "alice" not in remedy.action
    assert "/home" not in of(on_card("loss.backward()", function="train"), "smaller-microbatch").action


def test_a_changed_line_is_redacted_as_the_log_is(tmp_path: Path) -> None:
    token = "hf_" + "aB3dEfGhIjKlMnOpQr5tUvWxYz"
    for argument in ("/data/mireille/weights.pt", token):
        log = tmp_path / "job.log"
        log.write_text(on_card(f"state = torch.load('{argument}')", file="/home/mireille/job.py"))
        plain = diagnose(log)
        assert f"torch.load('{argument}', map_location='cpu')" in json.dumps(plain.as_json())
        redacted = json.dumps(Redactor().report(plain).as_json())
        assert "mireille" not in redacted
        assert token[4:] not in redacted


# Which remedy goes first


def test_what_the_line_proves_goes_before_what_the_cause_names() -> None:
    crash = crashes_of(in_ram("df = pd.read_csv(path)"))[0]
    assert in_front(("more-address-space",), crash) == ("stream-data", "more-address-space")
    assert in_front(("more-address-space", "stream-data"), crash) == ("stream-data", "more-address-space")
    assert in_front(("stream-data", "fix-shape"), crash) == ("stream-data", "fix-shape")
    assert in_front(("fix-shape", "more-host-memory"), crash) == ("fix-shape", "stream-data", "more-host-memory")
    assert enough_remedies("", ("more-host-memory",), crash)[0][0].knob == "stream-data"


LATTICE = "lattice = k2.intersect_dense_pruned(graph, posts, {}, 8.0, 30, 10000)"


@pytest.mark.parametrize(
    ("file", "beam", "snippet"),
    [
        ("fit.py", "20", None),
        ("decode.py", "20.0", None),
        ("decode.py", "4", None),
        ("train.py", "900", None),
        ("decode.py", "900.0", LATTICE.format("20")),
    ],
)
def test_a_wide_beam_is_narrowed_where_nothing_is_trained(file: str, beam: str, snippet: str | None) -> None:
    log = on_card(LATTICE.format(beam), file=f"/home/u/{file}")
    remedy = of(log, "smaller-microbatch")
    assert remedy.snippet == snippet or (snippet is None and "k2." not in (remedy.snippet or ""))


@pytest.mark.parametrize(
    ("file", "function", "recomputes"),
    [
        ("/home/u/decode.py", "run", False),
        ("/home/u/decoder.py", "run", True),
        ("/home/u/fit.py", "decode", True),  # a model that is trained decodes, too
        ("/home/u/decode.py", "train", True),
    ],
)
def test_a_script_that_decodes_trains_nothing(file: str, function: str, *, recomputes: bool) -> None:
    log = on_card("y = f(x)", file=file, function=function)
    assert ("gradient-checkpointing" in advise(log, "gradient-checkpointing", cause="activations")[0]) is recomputes


@pytest.mark.parametrize("code", ["out = model(x)", "text = f.read()", "df = pd.read_csv(", "x = 1"])
def test_a_line_that_proves_nothing_stays_where_the_cause_has_it(code: str) -> None:
    crash = crashes_of(in_ram(code, error=BARE))[0]
    assert in_front(("more-address-space",), crash) == ("more-address-space",)


# The table


def test_each_row_names_a_knob_a_source_and_what_its_line_is_made_of() -> None:
    cells = list(own_line._cells())
    assert len(table()) == len(cells) >= 45
    for row, cell in zip(table(), cells, strict=True):
        assert row.knob in KNOBS, cell
        assert cell["source"], cell
        assert set(row.of.split()) in ({"line"}, {"pass"}, {"line", "first"}, {"pass", "first"})
        assert set(row.worlds) <= {"torch", "jax", "tensorflow", "ggml", "engine"}
        assert set(row.tasks) <= {"training", "rl", "inference", "serving", "unknown", "data"}
        assert set(row.sides) <= {"device", "host", "pinned", "shm"}
        ast.parse(row.write)
        bound = {node.id for one in row.shapes[:1] for node in ast.walk(one.tree) if isinstance(node, ast.Name)}
        used = {node.id for node in ast.walk(ast.parse(row.write)) if isinstance(node, ast.Name) and node.id.isupper()}
        assert {name for name in used if len(name) > 1} <= bound | {"STATEMENT", "CALLED"}, cell


class _Example(ast.NodeTransformer):
    """A line out of a shape: names in capitals get the first word that they may hold."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if len(node.id) < 2 or not node.id.isupper():
            return node
        held = own_line.words().get(node.id)
        word = "_".join(sorted(held[0][0])) if held else node.id.lower()
        return ast.Name(word.title() if node.id == "MODELS" else word)

    def visit_Call(self, node: ast.Call) -> ast.Call:
        while isinstance(node.func, ast.BinOp):
            node.func = node.func.left
        node.args = [one for one in node.args if not shapes._is_rest(one)]
        node.keywords = [one for one in node.keywords if not shapes._is_rest(one.value)]
        self.generic_visit(node)
        return node


def test_each_shape_has_a_line_that_it_is_about() -> None:
    for row in table():
        for one in row.shapes:
            code = ast.unparse(ast.fix_missing_locations(_Example().visit(copy.deepcopy(one.tree))))
            assert own_line._written(code, (one,), "") == "", code


def test_every_sentence_is_chinese_too() -> None:
    use("zh")
    try:
        remedy = of(on_card("loss.backward()", function="train"), "smaller-microbatch")
    finally:
        use("en")
    assert "（job.py 第 212 行" in remedy.action


def test_the_table_is_shipped() -> None:
    assert Path(own_line.__file__).with_name("own_lines.txt").is_file()
