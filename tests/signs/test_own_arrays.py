"""Arrays and collections that the innermost line of a traceback makes in host memory: near misses first."""

from __future__ import annotations

import pytest
from gpu_logs import TRACEBACK, crash, frame, ranking

from oomdoctor.signs import own_arrays
from oomdoctor.signs.made import made_of, of_all_pairs_in_ram

REFUSED = "MemoryError"
TORCHS = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate {} bytes. Error code 12 (Cannot allocate memory)"
)
NUMPYS = ['  File "/opt/env/lib/python3.6/site-packages/numpy/core/shape_base.py", line 234, in vstack',
          "    return _nx.concatenate([atleast_2d(_m) for _m in tup], 0)"]  # fmt: skip


def log(code: str, *, file: str = "prepare.py", function: str = "build", below: list[str] | None = None,
        end: str = REFUSED) -> list[str]:  # fmt: skip
    return [TRACEBACK, f'  File "/home/ann/{file}", line 7, in {function}', f"    {code}", *(below or []), end]


@pytest.mark.parametrize(
    "code",
    [
        # parameters, and what trains them
        "self.W = np.random.randn(n_in, n_out)",
        "dW1 = np.zeros(W1.shape)",
        "self.weights = np.zeros((n_hidden, n_out))",
        "grads = np.zeros_like(theta)",
        'self.register_buffer("mask", np.tril(np.ones((n, n))))',
        "kernel = np.ones((k, k))",
        # functions of other modules, and what only sounds alike
        "x = model.predict(batch)",
        "y = mynp.zeros_of(x)",
        "raise MemoryError(n)",
        "loss = criterion(out, y)",
        "y = jnp.zeros((n, n))",
        # what others than arrays have, too
        "shutil.copy(src, dst)",
        "env = os.environ.copy()",
        "frame = part.copy()",
        "ids = tokens.tolist()",
        "blob = bytearray(size)",
    ],
)
def test_what_makes_no_array_of_data(code: str) -> None:
    it = crash(*log(code))
    assert own_arrays.an_array_is_made_at_once(it) is None
    assert own_arrays.a_buffer_is_made_at_once(it) is None


@pytest.mark.parametrize(
    "lines",
    [
        # a model's own frames below, or another stage
        log("x = np.zeros((n, d))", function="forward", file="net/modeling_small.py"),
        log("x = np.zeros((n, d))", below=['  File "/home/ann/nets.py", line 9, in run', "    y = step(x)"]),
        # a size that says that it is the last straw
        log(
            "x = np.zeros((n, d))",
            end="numpy.core._exceptions.MemoryError: Unable to allocate 3.05 MiB for an array "
            "with shape (400000,) and data type float64",
        ),
        # no array of NumPy's
        log("x = np.zeros((n, d))", end="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
)
def test_what_was_refused_for_something_else(lines: list[str]) -> None:
    assert own_arrays.an_array_is_made_at_once(crash(*lines)) is None


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("X = np.zeros((len(files), 224, 224, 3), dtype=np.float32)", "np.zeros"),
        ("table = numpy.full((rows, columns), -1)", "numpy.full"),
        ("data = np.concatenate(chunks, axis=0)", "np.concatenate"),
        ("images = np.array(images, dtype='float32') / 255.0", "np.array"),
        ("x_train = x_train.astype('float32')", "astype"),
        ("padded = np.pad(volume, 64)", "np.pad"),
        ("grid = np.tile(row, (n, 1))", "np.tile"),
        ("xx, yy = np.meshgrid(a, b)", "np.meshgrid"),
        ("labels = np.eye(classes)[y]", "np.eye"),
        ("noise = np.random.normal(size=(n, d))", "np.random.normal"),
        ("y = to_categorical(y, classes)", "to_categorical"),
        ("counts = vectors.toarray()", "toarray"),
    ],
)
def test_a_line_that_makes_an_array(code: str, call: str) -> None:
    seen = own_arrays.an_array_is_made_at_once(crash(*log(code)))
    assert seen is not None and f"({call})" in seen.words
    assert ranking(*log(code))[0] == "dataset-in-ram"


def test_numpys_own_frames_stand_below_the_line() -> None:
    lines = log("X = np.vstack(parts)", below=NUMPYS)
    seen = own_arrays.an_array_is_made_at_once(crash(*lines))
    assert seen is not None and "(np.vstack)" in seen.words


@pytest.mark.parametrize(
    ("code", "file"),
    [
        ("self.scores = np.zeros(n)", "table.py"),
        ("k_cache = torch.zeros(layers, heads, length, dim)", "attention.py"),
        ("flat = torch.zeros(numel)", "param_and_grad_buffer.py"),
        ("x = torch.zeros(batch, length)", "step.py"),
        # a Markov chain's, a molecule's, a study's
        ("self.transition_matrix = np.zeros((n, n))", "chain.py"),
        ("self.transitions = np.zeros((n, n))", "chain.py"),
        ("coords = np.empty((frames, atoms, 3))", "trajectory_reader.py"),
        ("trajectories = np.empty((frames, atoms, 3))", "md.py"),
        ("table = np.zeros((rows, columns))", "experience.py"),
        ("events = np.empty(len(replayed))", "journal.py"),
        # what sequences are padded to, and what is read from a buffer
        ("x = np.zeros((samples, maxlen))", "pad.py"),
        ("batch = np.stack(parts)", "replay_buffer.py"),
        ("ids = np.concatenate(trajectory_ids)", "agent.py"),
    ],
)
def test_what_is_no_buffer_of_data(code: str, file: str) -> None:
    end = TORCHS.format(9663676416)
    for it in (log(code, file=file), log(code, file=file, end=end)):
        assert own_arrays.a_buffer_is_made_at_once(crash(*it)) is None


@pytest.mark.parametrize(
    ("code", "file", "name"),
    [
        ("self.obs = np.empty((self.memory_size,) + shape, dtype=np.uint8)", "agent.py", "self.memory_size"),
        ("self.frames = np.zeros((capacity, 84, 84), np.uint8)", "storage.py", "capacity"),
        ("self.next_obs = np.empty((max_size, *obs_shape))", "replay_buffer.py", None),
        ("self._data = torch.zeros(self.buffer_size, dim)", "experience.py", "self.buffer_size"),
        ("self.states = np.ones([self.maxlen, n])", "ring.py", "self.maxlen"),
        ("self.transitions = np.zeros(n, dtype=self.dtype)", "rainbow.py", None),
        ("self.screens = np.empty((self.size, h, w))", "replay_memory.py", None),
        ("self.states = np.zeros((n, d))", "prioritized_replay.py", None),
    ],
)
def test_a_buffer_lays_out_its_room(code: str, file: str, name: str | None) -> None:
    it = crash(*log(code, file=file))
    if "torch" in code:
        it = crash(*log(code, file=file, end=TORCHS.format(96636764160)))
    assert own_arrays.a_buffer_is_made_at_once(it) is not None
    assert own_arrays.capacity_of(it) == name


@pytest.mark.parametrize(("size", "made"), [("767. GiB", True), ("769. GiB", False)])
def test_a_buffer_that_no_machine_holds_is_a_wrong_count(size: str, *, made: bool) -> None:
    end = (
        f"numpy.core._exceptions.MemoryError: Unable to allocate {size} for an array with shape (900, 7) and data type"
    )
    lines = log("self.obs = np.zeros((self.buffer_size, 7))", end=f"{end} uint8")
    assert (own_arrays.a_buffer_is_made_at_once(crash(*lines)) is not None) == made


@pytest.mark.parametrize(
    ("code", "keeps"),
    [
        ("rows = rows.sort()", False),
        ("append(rows)", False),
        ("self.momentum.append(v)", False),
        ("bar.update(1)", False),
        ("digest.update(f.read())", False),
        ("settings.update(yaml.safe_load(f))", False),
        ("rows.append(json.loads(line))", True),
        ("self.samples.extend(part)", True),
        ("index.setdefault(word, []).append(at)", True),
    ],
)
def test_one_thing_more(code: str, *, keeps: bool) -> None:
    assert (own_arrays.one_thing_more_is_kept(crash(*log(code))) is not None) == keeps


@pytest.mark.parametrize(
    "code",
    [
        # one value for each row, not for each pair
        "x = x / norm[:, None]",
        "x = x - mean[:, None]",
        "x = weights[:, None] * x",
        "y = x[:, None]",
        "y = x[None, :]",
        "d = a[:, 0] - b[0, :]",
        "z = x.unsqueeze(1) * w",
        "y = outer(a, b)",
        "x = x[:, None].repeat(k)",
        "x = x[:, None, :] - self.mean",
        "x = frames[:, None, :] - centers[i]",
        "angles = at[:, None] * rates[None, :]",
    ],
)
def test_no_value_for_each_pair(code: str) -> None:
    assert made_of(crash(*log(code))) is None


@pytest.mark.parametrize(
    "code",
    [
        "d = np.linalg.norm(X[:, None, :] - X[None, :, :], axis=2)",
        "d2 = ((a[:, np.newaxis] - b[np.newaxis, :]) ** 2).sum(-1)",
        "gap = t[:, None] - t",
        "d = points[None] - points[:, None]",
        "same = labels[:, None] == labels[None, :]",
        "diff = x.reshape(-1, 1) - y.reshape(1, -1)",
        "diff = np.expand_dims(x, 1) - np.expand_dims(y, 0)",
        "d = x.unsqueeze(1) - y.unsqueeze(0)",
        "d = np.subtract.outer(a, b)",
        "delta = X[:, np.newaxis, :] - centers",
    ],
)
def test_a_value_for_each_pair(code: str) -> None:
    it = crash(*log(code))
    found = made_of(it)
    assert of_all_pairs_in_ram(it) is not None
    assert found is not None and ("differences" in found.what) == ("==" not in code and "outer" not in code)
    assert ranking(*log(code))[0] == "dataset-in-ram"


NO_ARRAY = "numpy.core._exceptions.MemoryError: Unable to allocate 60.0 GiB for an array with shape {} and data type"


@pytest.mark.parametrize(
    ("shape", "pairs"), [("(9000, 1, 700)", False), ("(9000,)", False), ("(9000, 700)", True), ("(11, 10, 12)", True)]
)
def test_a_printed_shape_tells_a_broadcast_from_pairs(shape: str, *, pairs: bool) -> None:
    lines = log("d = a[:, None] - b[None, :]", end=f"{NO_ARRAY.format(shape)} float64")
    assert (made_of(crash(*lines)) is not None) == pairs


PAIRWISE = "sklearn/metrics/pairwise.py"
NUMPY = "numpy/lib/_function_base_impl.py"


@pytest.mark.parametrize(
    ("below", "what"),
    [
        # the input is copied
        ([(NUMPY, "cov", "X = array(m, ndmin=2, dtype=dtype)")], None),
        ([(NUMPY, "corrcoef", "c = cov(x, y, rowvar)"), (NUMPY, "cov", "X = array(m, ndmin=2, dtype=dtype)")], None),
        (
            [
                (PAIRWISE, "euclidean_distances", "X, Y = check_pairwise_arrays(X, Y)"),
                (PAIRWISE, "check_pairwise_arrays", "X = check_array(X)"),
                ("sklearn/utils/validation.py", "check_array", "array = np.asarray(array, order=order, dtype=dtype)"),
            ],
            None,
        ),
        # in blocks already
        (
            [
                (PAIRWISE, "pairwise_distances_chunked", "D_chunk = pairwise_distances(X_chunk, Y)"),
                (PAIRWISE, "euclidean_distances", "distances = -2 * safe_sparse_dot(X, Y.T)"),
            ],
            None,
        ),
        ([(NUMPY, "cov", "c = dot(X, X_T.conj())")], "covariances"),
        ([(PAIRWISE, "euclidean_distances", "distances = -2 * safe_sparse_dot(X, Y.T)")], "distances"),
        ([(PAIRWISE, "cosine_similarity", "K = safe_sparse_dot(X_normalized, Y_normalized.T)")], "similarities"),
    ],
)
def test_what_a_function_of_pairs_makes(below: list[tuple[str, str, str]], what: str | None) -> None:
    found = made_of(crash(*log("d = of(X)", below=[line for each in below for line in frame(*each)])))
    assert (found is None) == (what is None)
    assert found is None or what is None or what in found.what


def test_pairs_on_a_gpu_are_no_data_in_ram() -> None:
    lines = log(
        "d = x[:, None] - y[None, :]", end="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB"
    )
    assert made_of(crash(*lines)) is not None
    assert of_all_pairs_in_ram(crash(*lines)) is None
