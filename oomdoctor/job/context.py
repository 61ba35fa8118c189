"""What the log says about the job: frameworks, settings, models, hardware. Read page by page, memory flat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Final

import ahocorasick_rs
from msgspec.structs import replace

from oomdoctor.families.machine_memory import unit_of_free
from oomdoctor.job import dumps, launch, own_pairs, recognition
from oomdoctor.job.dumps import Allowance, Here, Stated
from oomdoctor.job.frameworks import hallmarks, layers, logged_by, packages, programs, written_by
from oomdoctor.job.model import Context, Setting, Value
from oomdoctor.job.origins import Origins
from oomdoctor.job.own_pairs import FEWEST_ALONE
from oomdoctor.job.own_pairs import LONGEST as LONGEST_PAIRS
from oomdoctor.job.particulars import Particulars
from oomdoctor.patterns import late
from oomdoctor.streams import Mark, Page
from oomdoctor.units import KIB, size

# Literals that a configuration in the middle of a large log holds and a healthy line does not.
ANCHORS: tuple[str, ...] = (
    "Namespace(",
    "non-default args: {",
    "LLM engine (v",
    "'actor_rollout_ref': {",
    "- config key -",
    "DeepSpeed info: version",
    "ServerArgs(",
    "Error executing job with overrides",
)

MOST_SETTINGS: Final = 3000
MOST_LAUNCHES: Final = 32  # of one file: every rank's is the same
MOST_FILES: Final = 512  # told apart; the rest counts as one
MOST_MODELS: Final = 16
MOST_EXIT_CODES: Final = 16
MOST_PROCESSES: Final = 32  # names, and pids of each
LINE_CHARACTERS: Final = 64_000

_NCCL: Final = late(r"NCCL[ _](?:version|VERSION)[ =:]{1,3}(\d+\.\d+\.\d+)")
_SHM: Final = late(r"\s([\d.]{1,12})([KMGT])\s+\S+\s+\S+\s+\d+%\s+/dev/shm\b")
_FREE: Final = late(
    r"\s*Mem:\s+(\d+(?:\.\d+)?)([KMGT]i?B?|B)?\s+(\d+(?:\.\d+)?)([KMGT]i?B?|B)?\s"
    r"(?:\s{0,20}\S{1,12}\s{1,20}\S{1,12}\s{1,20}\S{1,12}\s{1,20}(?P<available>(\d+(?:\.\d+)?)([KMGT]i?B?|B)?)\s{0,8}$)?"
)
_TUNE: Final = late(r"Memory usage on this node: ([\d.]{1,12})/([\d.]{1,12}) (GiB|GB)")
_RLLIB_PERCENT: Final = late(r"ram_util_percent: (\d{1,3}(?:\.\d{1,20})?)\s{0,4}$")
_EXIT_CODE: Final = late(
    r"(?i)\b(?:exit ?code|exit_code|return ?code|exit status|rc(?==))\b[\s:=(\"']{1,8}(-?[1-9]\d{0,2})\b(?!\.\d)"
)
# "5011it [22:44", " 88%|████ | 22047/25050 [06:11"
_BAR: Final = late(r"\b(\d{1,12})(?:/(\d{1,12})|it) \[\d{1,3}:\d\d")
_STEP: Final = late(r"(?i)\b(?:global[ _]?)?(?:step|iter|iteration)s?[ :=#]{1,3}(\d{1,9})\b(?![./]\d)")
_MEMTOTAL: Final = late(r"MemTotal:\s+(\d{1,12}) kB")

_DEEPSPEED_PERCENT: Final = late(r"CPU Virtual Memory:\s+used = [\d.]{1,12} GB, percent = (\d{1,3}(?:\.\d+)?)%")
# stable-diffusion-webui's monitor, in GiB
_WEBUI: Final = late(r"\s*(ram|gpu): free:(\d+\.\d+) used:(\d+\.\d+) total:(\d+\.\d+)")
# `ray::LLMActor.backload_to_gpu() (pid=11992, ip=10.0.0.2, ...)`: whom a Ray exception speaks of
RAY_CALL: Final = late(r"\bray::([^\s()]{1,120}?)(?:\(\))? \(pid=(\d{1,10}), ip=")

# Keys and tokens never travel into a report.
_SECRET_NAME: Final = late(
    r"(?:^|[._])(?:\w{0,40}(?:api_?key|token|secret|password|passwd|credentials?)|wandb_?key|auth)\Z", re.IGNORECASE
)
_SECRET_VALUE: Final = late(r"(?:[0-9a-f]{32,}|(?:hf|sk|ghp|glpat|xox\w)[_\-]\w{16,})\Z")
_TOKENS_OF_TEXT: Final = frozenset({"eos_token", "pad_token", "bos_token", "unk_token", "image_token"})


RECORD: Final = '{"flight":"'  # begins each line of what `oomdoctor run` records


class ContextBuilder:
    """Takes pages as they come; what it keeps is bounded."""

    def __init__(self) -> None:
        self._files: dict[str, _Told] = {}
        self._dumps: dict[int, int] = {}
        self._origins = Origins()
        self._all: Context | None = None  # what all files say, while no more is added

    def add(self, page: Page) -> None:
        """Take what this page says of the job."""
        self._all = None
        self._origins.add(page)
        self._told(page.file).add(page)

    def met(self, file: str) -> None:
        """A file without words, which may be of any job."""
        self._told(file)

    def join(self, later: ContextBuilder) -> None:
        """Take what other files say, which come after these."""
        self._all = None
        self._origins.join(later._origins)
        for file, told in later._files.items():
            self._told(file).join(told)

    def _told(self, file: str) -> _Told:
        if file not in self._files and len(self._files) >= MOST_FILES:
            file = ""
        if file not in self._files:
            self._files[file] = _Told(self._dumps)
        return self._files[file]

    def build(self) -> Context:
        """What the pages so far say, of however many jobs."""
        if self._all is None:
            self._all = self._joined(tuple(self._files)).context()
        return self._all

    def of(self, file: str) -> Context:
        """What this file says of its job, and other files of the same: what it says itself counts first.

        Files of two origins, and those that name no trainer in common, are of two jobs; those that name none may be
        of any.
        """
        if file not in self._files:
            return self.build()
        mine = self._files[file]
        trainers = mine.trainers()
        others = [
            name
            for name, told in self._files.items()
            if name != file
            and not (trainers and told.trainers() and trainers.isdisjoint(told.trainers()))
            and not self._origins.apart(file, name)
        ]
        told = self._joined((file, *others))
        told.prefer(mine)
        return replace(told.context(), files=frozenset((file, *others)))

    def _joined(self, files: Iterable[str]) -> _Told:
        told = _Told({})
        for file in files:
            told.join(self._files[file])
        return told


class _Told:
    """What one file tells."""

    def __init__(self, seen: dict[int, int]) -> None:
        self._frameworks: set[str] = set()
        self._landlords: set[str] = set()  # in whose folder the virtual environment lies
        self._versions: dict[str, str] = {}
        self._settings: dict[str, Setting] = {}
        self._models: dict[str, None] = {}
        self._model_words: dict[str, None] = {}  # models that no setting names
        self._hardware: dict[str, Value] = {}
        self._cards: set[int] = set()
        self._dumps = seen  # of all files: every rank's log holds the same ones
        self._processes: dict[str, dict[int, None]] = {}
        self._exit_codes: dict[int, None] = {}
        self._takers: dict[str, Callable[[str], None]] = {
            "version?": self._take_versions,
            "python?": self._take_python,
            "model?": self._take_models,
            "card?": self._take_card,
            "memory?": self._take_memory,
            "end?": self._take_end,
            "call?": self._take_calls,
        }
        self._launches = 0  # whose programs' lists of options were looked for
        self._progress: dict[str, int] = {}
        self._particulars = Particulars()
        self._installed: dict[str, str] = {}  # in the job's environment, whether or not the job uses it

    def add(self, page: Page) -> None:
        """Take what this page says of the job."""
        automaton, owners = _triggers()
        yaml = dumps.Yaml()
        allowance = Allowance()
        continued, read_to = False, 0
        for index, line in enumerate(page.lines):
            text = line.text[:LINE_CHARACTERS]
            if text.startswith(RECORD):
                text = self._take_record(text)
            here = Here(page, index, text, self._dumps, allowance)
            if line.mark.name:
                self._writer(line.mark)
            if line.mark.source:
                self._logger(line.mark.source)
            hits = automaton.find_matches_as_indexes(here.text, overlapping=True)
            named = (owners[i] for i in sorted(self._told_by(here.text, hits)))
            for reader in dict.fromkeys([*named, _by_shape(here, continued)]):
                if isinstance(reader, str):
                    self._take_words(reader, here.text)
                elif reader is None:
                    continue
                elif reader in _ONE_LINERS:
                    self._take_line(reader, here)
                elif line.number > read_to:
                    read_to = max(read_to, self._set_all(page.file, reader(here)))
            self._set_all(page.file, yaml.read(line, here.text))
            continued = here.text.rstrip().endswith("\\")
        self._particulars.add(page.lines)

    def _logger(self, source: str) -> None:
        """Whose logger or file wrote a line: by its name, or by words of it that a framework prints."""
        if logger := logged_by(source):
            self._frameworks.add(logger)
        automaton, _ = _triggers()
        hits = automaton.find_matches_as_indexes(source, overlapping=True)
        self._frameworks.update(self._named(hit[0] for hit in hits))

    def _told_by(self, text: str, hits: Sequence[tuple[int, int, int]]) -> set[int]:
        """What of this stands there by more than the folder in which an environment lies."""
        told = {what for what, _, end in hits if not text.startswith(_ENVIRONMENTS, end)}
        if len(told) < len(hits):
            self._landlords.update(self._named(what for what, *_ in hits if what not in told))
        return told

    def _named(self, hits: Iterable[int]) -> Iterator[str]:
        """The frameworks among what was found."""
        _, owners = _triggers()
        named = (owners[hit] for hit in hits)
        return (owner for owner in named if isinstance(owner, str) and owner not in self._takers)

    def trainers(self) -> frozenset[str]:
        """The frameworks of its job that are no part of another's."""
        return _trainers(frozenset(self._frameworks))

    def join(self, other: _Told) -> None:
        """Take what another file of the job tells, which comes later."""
        self._frameworks |= other._frameworks
        self._landlords |= other._landlords
        self._versions = other._versions | self._versions
        self._installed = other._installed | self._installed
        for setting in other._settings.values():
            self._take_setting(setting)
        for name in ("_models", "_model_words", "_exit_codes"):
            getattr(self, name).update(getattr(other, name))
        self._hardware = other._hardware | self._hardware
        self._cards |= other._cards
        for name, pids in other._processes.items():
            for pid in pids:
                self._process(name, pid)
        self._progress = other._progress or self._progress
        self._particulars.join(other._particulars)

    def prefer(self, own: _Told) -> None:
        """These settings go before those of other files."""
        for setting in own._settings.values():
            self._take_setting(setting)
        self._settings = {name: self._settings[name] for name in own._settings} | self._settings

    def context(self) -> Context:
        """What it tells so far."""
        own = self._frameworks if self.trainers() else self._frameworks | self._landlords
        seen = layers(own | (self._versions.keys() & hallmarks().keys()))
        versions = self._installed | self._versions
        hardware = dict(self._hardware)
        if self._cards:
            hardware.setdefault("gpu_count", max(self._cards) + 1)
        return Context(
            frameworks={name: versions.get(name) for name in [*seen, *self._versions]},
            settings=dict(self._settings),
            models=tuple(islice(self._models or self._model_words, MOST_MODELS)),
            hardware=hardware,
            processes={name: tuple(pids) for name, pids in self._processes.items()},
            exit_codes=tuple(islice(self._exit_codes, MOST_EXIT_CODES)),
            progress=dict(self._progress),
            particulars=self._particulars.latest(),
        )

    def _take_record(self, text: str) -> str:
        """What a line of a flight record tells of the job: its command, as a log would print it."""
        from oomdoctor.families import flight_record  # noqa: PLC0415  (few logs come with one)

        for package in flight_record.packages(text):
            for name, version in recognition.versions(package):
                self._installed.setdefault(name, version)
        return flight_record.command(text)

    def _take_words(self, what: str, text: str) -> None:
        """A framework's fingerprint, or a word that leads to versions, models or hardware."""
        taker = self._takers.get(what)
        if taker is None:
            self._frameworks.add(what)
        else:
            taker(text)

    def _take_python(self, text: str) -> None:
        if "python" not in self._versions and (version := recognition.python_of(text)) is not None:
            self._versions["python"] = version

    def _take_models(self, text: str) -> None:
        if len(self._model_words) < MOST_MODELS:
            self._model_words.update(dict.fromkeys(recognition.model_names(text)))

    def _take_calls(self, text: str) -> None:
        for match in RAY_CALL.finditer(text[:2000]):
            self._process(match[1], int(match[2]))

    def _take_end(self, text: str) -> None:
        """How far the job came and how it ended: a bar or a step, of which the last counts, and exit codes."""
        text = text[:2000]
        self._exit_codes.update((int(match[1]), None) for match in _EXIT_CODE.finditer(text))
        if bars := _BAR.findall(text):
            done, total = bars[-1]
            self._progress = {"done": int(done), **({"total": int(total)} if total else {})}
        elif match := _STEP.search(text):
            self._progress = {"step": int(match[1])}

    def _take_versions(self, text: str) -> None:
        for name, version in recognition.versions(text[:2000]):
            self._versions.setdefault(name, version)
        if match := _NCCL.search(text[:2000]):
            self._hardware.setdefault("nccl_version", match[1])

    def _take_card(self, text: str) -> None:
        found = recognition.card(text[:1000])
        if found is None:
            return
        name, count, row = found
        self._hardware.setdefault("gpu_name", name)
        if count is not None:
            self._hardware.setdefault("gpu_count", count)
        if row is not None:
            self._cards.add(row)

    def _take_memory(self, text: str) -> None:
        """free, /proc/meminfo, df on /dev/shm."""
        if match := _SHM.search(text):
            self._hardware.setdefault("shm_bytes", size(match[1], match[2]))
        elif match := _FREE.match(text):
            unit = unit_of_free(float(match[1]))
            self._hardware.setdefault("ram_bytes", size(match[1], match[2] or unit))
            self._hardware.setdefault("ram_used_bytes", size(match[3], match[4] or unit))
            self._hardware.setdefault("ram_stated", f"{match[1]}{match[2] or ''}")
            if match["available"]:
                self._hardware.setdefault("ram_available_bytes", size(match[6], match[7] or unit))
                self._hardware.setdefault("ram_available_stated", match["available"])
        elif match := _MEMTOTAL.search(text):
            self._hardware.setdefault("ram_bytes", int(match[1]) * KIB)
        elif match := _DEEPSPEED_PERCENT.search(text):
            self._hardware["ram_used_fraction"] = round(float(match[1]) / 100, 6)
        elif match := _TUNE.search(text):
            self._hardware["ram_used_bytes"] = size(match[1], "gib")
            self._hardware["ram_bytes"] = size(match[2], "gib")
        elif match := _RLLIB_PERCENT.search(text):
            self._hardware["ram_used_fraction"] = round(float(match[1]) / 100, 6)
        elif match := _WEBUI.match(text):
            for what, number in zip(("free", "used", "total"), match.groups()[1:], strict=True):
                name = f"{match[1]}_bytes" if what == "total" else f"{match[1]}_{what}_bytes"
                self._hardware[name] = size(number, "gib")

    def _writer(self, mark: Mark) -> None:
        name = mark.name or ""
        self._frameworks.update(written_by(name))
        if mark.pid is not None:
            self._process(name, mark.pid)

    def _process(self, name: str, pid: int) -> None:
        if name not in self._processes and len(self._processes) >= MOST_PROCESSES:
            return
        pids = self._processes.setdefault(name, {})
        if len(pids) < MOST_PROCESSES:
            pids[pid] = None

    def _set_all(self, file: str, found: Iterable[Stated]) -> int:
        """The number of the last line read."""
        last = 0
        for stated in found:
            self._set(file, stated)
            last = stated.line.number
        return last

    def _take_line(self, reader: dumps.Reader, here: Here) -> None:
        """What stands in one line, and the list that a program prints below its launch."""
        options = self._set_all(here.page.file, reader(here)) > 0
        if reader not in _LAUNCHES or self._launches >= MOST_LAUNCHES or here.text.rstrip().endswith("\\"):
            return
        if options or launch.command_of(here.text):
            self._launches += 1
            self._set_all(here.page.file, dumps.own_file(here))
            self._set_all(here.page.file, dumps.defaults(here, self._launched()))

    def _launched(self) -> dict[str, Setting]:
        return {name: one for name, one in self._settings.items() if one.is_launched}

    def _set(self, file: str, stated: Stated) -> None:
        name = stated.name.strip("-+").replace("-", "_")
        if not name or is_secret(name, stated.value):
            return
        number, told = stated.line.number, stated.mentioned
        self._take_setting(Setting(name, stated.value, file, number, stated.written, told, stated.call))

    def _take_setting(self, setting: Setting) -> None:
        """The last one stated counts, and stands where it was stated."""
        known = self._settings.get(setting.name)
        if known is None and len(self._settings) >= MOST_SETTINGS:
            return
        if setting.mentioned and known is not None and not known.mentioned:
            return
        if known is not None and known.written and known.value == setting.value and not setting.is_launched:
            setting = replace(setting, written=known.written)  # a program prints back what its launch line said
        self._settings.pop(setting.name, None)
        self._settings[setting.name] = setting
        if (
            len(self._models) < MOST_MODELS
            and isinstance(setting.value, str)
            and recognition.names_a_model(setting.name, setting.value)
        ):
            self._models.setdefault(setting.value.rstrip("/"), None)


@lru_cache(256)  # asked of each file for each other one
def _trainers(seen: frozenset[str]) -> frozenset[str]:
    return frozenset(layers(seen)) & programs()


def is_secret(name: str, value: Value) -> bool:
    """Whether it may be a key or a token."""
    if not isinstance(value, str):
        return False
    leaf = name.rsplit(".", 1)[-1].lower()
    return bool(_SECRET_VALUE.match(value)) or (leaf not in _TOKENS_OF_TEXT and bool(_SECRET_NAME.search(name)))


def _by_shape(here: Here, continued: bool) -> dumps.Reader | str | None:
    """What the beginning of a line alone tells."""
    start = here.text.lstrip()
    if continued or start.startswith("--") or launch.is_override(start[:300].split(" ", 1)[0]):
        return dumps.continuation if continued else dumps.command
    if start.startswith(_TRACE) or start.rstrip().endswith("\\"):
        return dumps.command  # what it is given stands in the lines below, or before the program
    if start.startswith(("{", "config", "json")) or start.endswith("{"):
        return dumps.printed_dict
    if start.lstrip("|-*` ").startswith(packages()):
        return "version?"
    if own_pairs.is_of_columns(here.text):
        return dumps.own_columns
    return dumps.own_alone if start.count("=", 0, LONGEST_PAIRS) >= FEWEST_ALONE else None


_TRACE: Final = "+ "  # what bash says before each command under `set -x`
# Readers of single lines may read a line that a dump before it has swallowed: the dump may have been cut.
_ONE_LINERS: Final[frozenset[dumps.Reader]] = frozenset(
    {
        dumps.command, dumps.continuation, dumps.known, dumps.overridden, dumps.banner, dumps.offloaded, dumps.prose,
        dumps.ranks, dumps.own, dumps.own_alone, dumps.own_columns,
    }
)  # fmt: skip

_LAUNCHES: Final[frozenset[dumps.Reader]] = frozenset({dumps.command, dumps.continuation})

_WORDS: Final = (
    ("python?", ("/python3.", "/python2.7/", "\\Python3", "\\Python2", "envs/py", "envs\\py", "cpython-")),
    ("model?", recognition.MODEL_WORDS),
    ("card?", recognition.CARD_WORDS),
    ("call?", (" (pid=",)),
    ("end?", ("xitcode", "xit code", "xit Code", "xit_code", "eturn code", "eturncode", "xit status", "rc=")),
    ("end?", ("%|", "/it]", "it/s", "s/it", "examples/s", "it [", "iter ", "tep ", "tep:", "teration ")),
    ("memory?", ("/dev/shm", "Mem:", "MemTotal", "CPU Virtual Memory", "ram: free:", "gpu: free:")),  # noqa: S108
    ("memory?", ("Memory usage on this node", "ram_util_percent")),
)
# A virtual environment lies in the folder of one program, and others run from it, too.
_ENVIRONMENTS: Final = ("/venv/", "/.venv/", "\\venv\\", "\\.venv\\")


@cache
def _triggers() -> tuple[ahocorasick_rs.AhoCorasick, tuple[str | dumps.Reader, ...]]:
    pairs: list[tuple[str, str | dumps.Reader]] = []
    for what, words in (*hallmarks().items(), ("version?", recognition.version_words()), *_WORDS):
        pairs += [(word, what) for word in words]
    for words, reader in dumps.READERS:
        pairs += [(word, reader) for word in words]
    automaton = ahocorasick_rs.AhoCorasick([word for word, _ in pairs], matchkind=ahocorasick_rs.MatchKind.Standard)
    return automaton, tuple(owner for _, owner in pairs)
