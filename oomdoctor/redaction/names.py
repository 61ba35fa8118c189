"""Personal names: users, hosts, addresses and buckets. Where a name is told once, it is known everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from ipaddress import AddressValueError, IPv6Address

from oomdoctor.redaction.stretch import Stretch
from oomdoctor.redaction.views import View

RANK = 1000


@dataclass(slots=True)
class Names:
    """The users and hosts that a text told of."""

    users: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)


# --- Users -----------------------------------------------------------------------------------------------------------

# Accounts that everybody has
_NOBODYS = frozenset(
    "user users ubuntu root admin runner ray jovyan app appuser ec2-user centos debian azureuser nobody vagrant docker "
    "container dev work worker node nonroot coder vscode codespace gitpod kaggle colab sagemaker-user conda mambauser "
    "mambaorg default guest test service www-data postgres git build builder jenkins ci me you shared public data "
    "model models username name user1 dockeruser workspace vllm vllm-user sglang triton-server x".split()
)
_USER = r"(?P<it>[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63})"
_HOME = re.compile(
    r"(?:(?<![A-Za-z0-9])/(?:home|Users|usr/home|u/home|users)(?:/[A-Z])?/|(?<![A-Za-z0-9])[A-Za-z]:[\\/]{1,4}Users[\\/]{1,4})"
    + _USER
)
_LOGIN = re.compile(
    r"(?:(?<![A-Za-z0-9_])(?:USER|LOGNAME|USERNAME|SUDO_USER|SLURM_JOB_USER|JUPYTERHUB_USER)[\"']?(?:=|: |', ')[\"']?"
    r"|(?<![\w])--(?:user|username|mail-user|uname)[= ]|\bLogged in as |\bCurrently logged in as: |for user )" + _USER
)
_SAFE_END = re.compile(r"[.@+-]+$")


def _user(match: re.Match[str]) -> str | None:
    name = match["it"].rstrip(".@+-:")
    return None if name.lower() in _NOBODYS or name.isdigit() else name


# --- Hosts -----------------------------------------------------------------------------------------------------------

_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = rf"(?P<it>{_LABEL}(?:\.{_LABEL}){{0,8}})"
_CLOCK = r"\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_HOSTS = (
    # syslog, journald: "Nov 20 12:00:00 gpu-07 kernel: ", RFC 5424 and journalctl -o short-iso
    (
        ("kernel:", "]: ", "kernel "),
        rf"(?m)^(?:<\d{{1,3}}>1? ?)?(?:[A-Z][a-z]{{2}} [ \d]\d {_CLOCK}|\d{{4}}-\d\d-\d\dT{_CLOCK}) {_HOST} (?:kernel|[\w./-]{{1,60}}\[\d{{1,9}}\]|systemd|slurmd?|slurmstepd|containerd|dockerd|kubelet|sshd?)[:\[ ]",
    ),
    # NCCL, Gloo: "gpu-07:41233:41580 [3] NCCL INFO "
    ((" NCCL ",), rf"(?<![\w.-]){_HOST}:\d{{1,9}}:\d{{1,9}} \[\d{{1,4}}\] NCCL "),
    # Slurm
    (
        ("srun: ", "slurmstepd", "sacct", "salloc", "sbatch"),
        rf"(?:srun: error: |slurmstepd: error: |slurmstepd-|srun: |on (?:node|host) ){_HOST}(?=: |\]?: error)",
    ),
    ((" ON ",), rf"\*\*\* (?:JOB|STEP) [\d._+]{{1,40}} ON {_HOST}"),
    (
        ("NODE", "HOST", "ADDR", "node", "host", "addr", "Host", "Node", "server", "Server"),
        r"(?<![A-Za-z0-9])(?:(?:SLURMD?_(?:NODENAME|NODELIST|JOB_NODELIST|LAUNCH_NODE_IPADDR|SUBMIT_HOST|TOPOLOGY_ADDR)|HOSTNAME|HOST|NODE_NAME|POD_NAME"
        r"|MASTER_ADDR|MASTER_HOST|RAY_HEAD_(?:NODE|SVC|SERVICE)[A-Z_]{0,20}|[Hh]ost(?:[_ -]?name)?|[Nn]ode[_ -]?[Nn]ame|nodelist|master_(?:addr|host)"
        r"|node_manager_hostname|head_node|on (?:node|host)|(?:[Nn]ode|[Ss]erver))[\"']?(?:=|: {1,2}| : {1,2}| = |', ?')[\"']?|on (?:node|host) [\"']?)"
        + _HOST
        + r"(?![\w\[(]|\.\w)",
    ),
    (
        ("NODELIST", "nodelist", "NodeList"),
        r"(?:SLURM_(?:JOB_)?NODELIST|[Nn]ode[Ll]ist)[\"']?[=:] ?[\"']?(?P<it>[A-Za-z][A-Za-z0-9-]{0,60}\[[\d,-]{1,200}\])",
    ),
    # torchrun's failure table: "  host      : gpu-07 (local)" is above; rendezvous, mpirun, prompts, pdsh, DeepSpeed
    (
        ("://",),
        rf"(?:tcp|grpc|env|file|zmq|redis|rediss|hdfs|nfs|ssh|ray|ucx|etcd|rpc)://(?:[^\s/@]{{1,200}}@)?{_HOST}(?=[:/]|\s|$|[\"'])",
    ),
    (("@",), rf"(?<![\w.])[a-z_][\w-]{{0,31}}@{_HOST}:[~/]"),
    (("slots=",), rf"(?m)^{_HOST} slots="),
    (("[",), rf"(?m)^\[{_HOST}:\d{{2,9}}\] (?:\*\*\*|\[\[|mca|PMIX|ORTE|OPAL)"),
    ((" [20",), rf"(?m)^{_HOST}: \[20\d\d-"),
)
# Names that say by their form what they are
_BY_FORM = (
    (("ip-",), r"(?<![\w.-])(?P<it>ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?:\.[a-z0-9-]{1,40}){0,4})"),
    (("ec2-",), r"(?<![\w.-])(?P<it>ec2-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?:\.[a-z0-9-]{1,40}){0,4})"),
    (
        ("gke-", "aks-"),
        r"(?<![\w.-])(?P<it>(?:gke-[a-z0-9-]{4,80}-[a-z0-9]{4,8}|aks-[a-z0-9-]{4,60}vmss\w{6}))(?![\w-])",
    ),
    # a pod of a deployment or of KubeRay: letters that Kubernetes draws by lot have no vowels
    (
        ("-",),
        r"(?<![\w./-])(?P<it>[a-z][a-z0-9-]{1,80}?-(?:[bcdf2-9][bcdfghjklmnpqrstvwxz2456789]{7,9}|worker|group|head)-(?=[a-z]{0,4}\d|[bcdfghjklmnpqrstvwxz]{5})[bcdfghjklmnpqrstvwxz2456789]{5})(?![\w-])",
    ),
    (
        (".internal", ".local", ".lan", ".corp", ".intra", ".svc", ".localdomain", ".home.arpa", ".hpc"),
        rf"(?<![\w./-])(?P<it>(?:{_LABEL}\.){{1,8}}(?:internal|local|lan|corp|intra|intranet|svc|localdomain|arpa|hpc))(?![\w-]|\.\w|\()",
    ),
    (
        (
            ".com",
            ".net",
            ".org",
            ".edu",
            ".gov",
            ".io",
            ".ai",
            ".cloud",
            ".de",
            ".fr",
            ".uk",
            ".cn",
            ".jp",
            ".kr",
            ".ch",
            ".eu",
            ".ca",
            ".au",
            ".in",
            ".nl",
            ".se",
            ".it",
            ".es",
        ),
        rf"(?<![\w./@-])(?P<it>(?:{_LABEL}\.){{1,8}}(?:com|net|org|edu|gov|(?:ac|edu|co|com|org)\.[a-z]{{2}}|(?<=[a-z]\.)(?:io|ai|cloud|de|fr|uk|cn|jp|kr|ch|eu|ca|nl|se)))(?![\w-]|\.\w|\()",
    ),
    (
        ("://",),
        rf"(?<=://)(?:[^\s/@]{{1,200}}@)?(?P<it>(?:{_LABEL}\.){{1,8}}[A-Za-z]{{2,18}})(?=[:/?#]|\s|$|[\"'),;>\]])",
    ),
)
# Sites that anybody's log names
_PUBLIC = re.compile(
    r"(?:^|\.)(?:github\.com|githubusercontent\.com|github\.io|gitlab\.com|huggingface\.co|hf\.co|hf-mirror\.com|pytorch\.org|nvidia\.com|vllm\.ai"
    r"|ray\.io|anyscale\.com|wandb\.ai|wandb\.me|pypi\.org|pythonhosted\.org|python\.org|readthedocs\.(?:io|org)|kernel\.org|docker\.(?:io|com)"
    r"|ghcr\.io|nvcr\.io|quay\.io|k8s\.io|kubernetes\.io|tensorflow\.org|deepspeed\.ai|arxiv\.org|stackoverflow\.com"
    r"|apache\.org|microsoft\.com|google\.com|googleapis\.com|amazon\.com|amazonaws\.com|azure\.com|windows\.net|anthropic\.com|openai\.com"
    r"|modelscope\.cn|ubuntu\.com|debian\.org|gnu\.org|llvm\.org|amd\.com|intel\.com|schedmd\.com|sglang\.ai|lmsys\.org|"
    r"mozilla\.org|w3\.org|json-schema\.org|apple\.com|conda\.io|anaconda\.(?:com|org)|ollama\.(?:com|ai)|mlflow\.org|tqdm\.github\.io|numpy\.org|scipy\.org|pandas\.pydata\.org|"
    r"readthedocs\.org|semver\.org|keepachangelog\.com|freedesktop\.org|redhat\.com|wikipedia\.org|discuss\.ray\.io|aka\.ms|goo\.gl|bit\.ly|localhost)$",
    re.IGNORECASE,
)
_NO_HOST = re.compile(
    r"(?:localhost(?:\.localdomain|4|6)?|node|host|head|master|worker|server|name|none|null|true|false|unknown|default|local"
    r"|all|any|auto|the|a|is|of|this|that|with|for|to|in|on|not|and|with|was|has|id|ip|memory|cpu|gpu|cuda|driver|kernel|"
    r"[\d.]{1,40}|[0-9a-f]{28,64}|(?:rank|cuda|cpu|numa|device)[-_ ]?\d{0,2}|gpu\d?|example\.com)",
    re.IGNORECASE,
)


def _host(match: re.Match[str]) -> str | None:
    name = match["it"].rstrip(".")
    return None if _NO_HOST.fullmatch(name) or _PUBLIC.search(name) or name.endswith((".py", ".so", ".cc")) else name


def _everywhere(host: str) -> bool:
    """Whether the name is no word that means something else elsewhere."""
    return len(host) >= 3 and re.search(r"[\d.-]", host) is not None and re.search("[A-Za-z]", host) is not None


# --- Addresses -------------------------------------------------------------------------------------------------------

_IPV4 = re.compile(
    r"(?<![\w.+-])(?<!\d[,/])((?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3})(?![\w-]|\.\w|\+)"
)
_IPV4_IN_NAME = re.compile(
    r"(?<=[_=@/-])((?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3})(?![\w-]|\.\w|\+)"
)
_IPV6 = re.compile(r"(?<![\w:.])[23][0-9a-fA-F]{3}:[0-9a-fA-F:]{2,34}(?![\w])")
_IS_VERSION = re.compile(
    r"(?i)(?:version|release|driver|firmware|vbios|nvidia-[a-z]|lib[a-z]{2,}|cu1\d|cudnn|cublas|cufft|nccl|tensorrt|rocm|"
    r"cann|torch|package|wheel|build|[=<>~!]=|\bv)[^\n]{0,24}$"
)
_IS_ADDRESS = re.compile(
    r"(?i)(?:\bip\b|_ip|addr|host|node|tcp|://|listen|connect|peer|server|endpoint|from|bind|@|inet)[^\n]{0,16}$"
)


def _public_v4(text: str, start: int, end: int) -> bool:
    parts = [int(part) for part in text[start:end].split(".")]
    a, b = parts[0], parts[1]
    if a in (0, 10, 127) or a >= 224 or (a, b) in ((192, 168), (169, 254)):
        return False
    if (a == 172 and 16 <= b <= 31) or (a == 100 and 64 <= b <= 127):
        return False
    if any(len(part) > 1 and part[0] == "0" for part in text[start:end].split(".")):
        return False
    before = text[max(0, start - 40) : start]
    if _IS_ADDRESS.search(before[-24:]) or re.match(r":\d{2,5}\b|/\d\d?\b", text[end : end + 6]):
        return True
    if _IS_VERSION.search(before):
        return False
    return not (a <= 12 and max(parts) <= 31)


def _public_v6(found: str) -> bool:
    try:
        address = IPv6Address(found.rstrip(":") if not found.endswith("::") else found)
    except AddressValueError:
        return False
    return not (address.is_private and not found.lower().startswith("2001:db8")) and not address.is_multicast


# --- E-mail, buckets -------------------------------------------------------------------------------------------------

_EMAIL = re.compile(
    r"(?<![\w.%+-])(?!git@)[A-Za-z0-9][\w.%+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,6}(?!service|slice|scope|socket|mount|so|py|timer|target)[A-Za-z]{2,24}(?![\w.-]*[:/]\S)\b"
)
_BUCKETS = (
    (
        (
            "s3://",
            "s3a://",
            "s3n://",
            "gs://",
            "gcs://",
            "oss://",
            "cos://",
            "obs://",
            "r2://",
            "b2://",
            "tos://",
            "bos://",
            "S3://",
        ),
        r"(?i:\b(?:s3|s3a|s3n|gs|gcs|oss|cos|obs|r2|b2|tos|bos)://)(?P<it>[A-Za-z0-9][A-Za-z0-9._-]{1,62})",
    ),
    (
        ("abfs", "wasb", "az://", "adl://"),
        r"\b(?:abfss?|wasbs?|az|adl)://(?P<it>[A-Za-z0-9][A-Za-z0-9._-]{1,62})(?=@|/|\s|$|[\"'])",
    ),
    (
        (".core.windows.net", ".azuredatalakestore.net"),
        r"(?<![\w.-])(?P<it>[a-z0-9]{3,24})\.(?:blob|dfs|file|queue|table)\.core\.windows\.net",
    ),
    (("AccountName=",), r"AccountName=(?P<it>[a-z0-9]{3,24})"),
    ((".blob.core", ".dfs.core"), r"\.core\.windows\.net(?::\d{1,5})?/(?P<it>[a-z0-9$][a-z0-9-]{1,62})"),
    (
        ("amazonaws.com", "aliyuncs.com", "myqcloud.com", "r2.cloudflarestorage.com"),
        r"(?<![\w.-])(?P<it>[a-z0-9][a-z0-9.-]{1,62}?)\.(?:s3[.-]|oss-|cos\.|r2\.)[a-z0-9.-]{0,60}(?:amazonaws\.com|aliyuncs\.com|myqcloud\.com|cloudflarestorage\.com)",
    ),
    (
        ("amazonaws.com/",),
        r"(?://|\s)s3[a-z0-9.-]{0,40}\.amazonaws\.com(?:\.cn)?(?::\d{1,5})?/(?P<it>[a-z0-9][a-z0-9._-]{1,62})",
    ),
    (
        ("storage.googleapis.com", "storage.cloud.google.com"),
        r"storage\.(?:googleapis|cloud\.google)\.com/(?:(?:download/)?storage/v1/b/)?(?P<it>[a-z0-9][a-z0-9._-]{1,62})",
    ),
    ((".storage.googleapis.com",), r"(?<![\w.-])(?P<it>[a-z0-9][a-z0-9_-]{1,62})\.storage\.googleapis\.com"),
    (("arn:aws:s3",), r"arn:aws[a-z-]{0,10}:s3:::(?P<it>[a-z0-9][a-z0-9.-]{1,62})"),
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def learn(view: View, names: Names) -> None:
    """Add the users and hosts that the text tells of."""
    text = view.text
    for pattern in (_HOME, _LOGIN):
        names.users |= {name for match in pattern.finditer(text) if (name := _user(match))}
    for signs, pattern_text in (*_HOSTS, *_BY_FORM):
        if any(sign in text for sign in signs):
            names.hosts |= {
                name for match in _compiled(pattern_text).finditer(text) if (name := _host(match)) and _everywhere(name)
            }


def stretches(view: View, names: Names) -> Iterator[Stretch]:
    """Where names stand, those of this text and those known already."""
    text = view.text
    for word, rank, start, end, value in (*_told(text), *_known(text, names)):
        yield Stretch(view.start(start), view.end(end), RANK + rank, word.lower(), word, secret=False, value=value)


Spot = tuple[str, int, int, int, str]


def _told(text: str) -> Iterator[Spot]:
    for pattern in (_HOME, _LOGIN):
        yield from _spots("USER", 0, pattern.finditer(text), _user)
    for match in _EMAIL.finditer(text) if "@" in text else ():
        yield "EMAIL", 1, match.start(), match.end(), match[0]
    for signs, pattern_text in _BUCKETS:
        if any(sign in text for sign in signs):
            yield from _spots("BUCKET", 2, _compiled(pattern_text).finditer(text), lambda match: match["it"])
    for pattern in (_IPV4, _IPV4_IN_NAME):
        for match in pattern.finditer(text):
            if _public_v4(text, *match.span(1)):
                yield "IP", 3, match.start(1), match.end(1), match[1]
    for match in _IPV6.finditer(text) if ":" in text else ():
        if _public_v6(match[0]):
            yield "IP", 3, match.start(), match.end(), match[0]
    for signs, pattern_text in (*_HOSTS, *_BY_FORM):
        if any(sign in text for sign in signs):
            yield from _spots("HOST", 4, _compiled(pattern_text).finditer(text), _host)


def _spots(
    word: str, rank: int, matches: Iterator[re.Match[str]], name_of: Callable[[re.Match[str]], str | None]
) -> Iterator[Spot]:
    for match in matches:
        name = name_of(match)
        if name:
            start = match.start("it")
            yield word, rank, start, start + len(name), name


def _known(text: str, names: Names) -> Iterator[Spot]:
    """The names that were told elsewhere: a user as part of a path or before an @, a host as a word."""
    if names.users:
        users = "|".join(map(re.escape, sorted(names.users, key=len, reverse=True)))
        pattern = _compiled(rf"(?:(?<=[/\\~])|(?<=user=)|(?<=user:)|\b(?=\w[\w.-]{{0,63}}@))({users})(?![A-Za-z0-9])")
        for match in pattern.finditer(text):
            yield "USER", 0, match.start(1), match.end(1), match[1]
    if names.hosts:
        hosts = "|".join(map(re.escape, sorted(names.hosts, key=len, reverse=True)))
        for match in _compiled(rf"(?<![A-Za-z0-9])(?<![A-Za-z0-9][.-])({hosts})(?![A-Za-z0-9]|-[A-Za-z0-9])").finditer(
            text
        ):
            yield "HOST", 4, match.start(1), match.end(1), match[1]
