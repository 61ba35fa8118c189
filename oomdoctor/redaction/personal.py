"""The table of what is personal: users, hosts, addresses, buckets. It is no secret, and nobody's business either.

As in `kinds`: one row per form, bounded patterns, literals that each match holds, "it" is what is taken out.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address

from oomdoctor.redaction.kinds import Kind

# What a name of a person or a machine does not end with
_FILES = (".py", ".so", ".cc", ".cpp", ".h", ".sh", ".log", ".json", ".yaml", ".txt")

# --- Users -----------------------------------------------------------------------------------------------------------

# Accounts that everybody has
_NOBODY = re.compile(
    r"(?:users?\d?|ubuntu|root|admin|runner|ray|jovyan|app|appuser|ec2-user|centos|debian|azureuser|nobody|vagrant|docker"
    r"|container|dev|work|workers?|nodes?|nonroot|coder|vscode|codespace|gitpod|kaggle|colab|sagemaker-user|conda"
    r"|mambauser|default|guest|test|service|www-data|postgres|git|build|builder|jenkins|ci|me|you|shared|public|data"
    r"|datasets?|models?|username|name|dockeruser|workspace|vllm|vllm-user|sglang|triton-server|none|null|\d+"
    # those of daemons
    r"|_[a-z]{2,20}|avahi|bin|chrony|colord|daemon|dbus|dnsmasq|gdm|geoclue|irqbalance|kernoops|lp|mail|man|message(?:bus)?"
    r"|munge|mysql|named|netdata|nginx|nslcd|ntp|nvidia-p?(?:ersistenced)?|polkitd?|postfix|prometheus|redis|rpc|rpcuser"
    r"|rtkit|slurm|sshd?|sssd|statd|sudo|sys|syslog|systemd(?:-[a-z]{1,10})?|telegraf|tss|uuidd|zabbix)",
    re.IGNORECASE,
)
_LETTER = "\\w\u00c0-\u024f\u3400-\u9fff"
_USER = rf"(?P<it>[{_LETTER}](?:[{_LETTER}.@+-]{{0,62}}[{_LETTER}])?)"

_ACCOUNT = r"(?P<it>[A-Za-z_][\w.-]{0,31})"
_ACCOUNT_OF_A_TEAM = r"(?P<it>[A-Za-z0-9_][\w-]{0,63})"


def _is_somebody(match: re.Match[str]) -> bool:
    return _NOBODY.fullmatch(match["it"]) is None and not match["it"].endswith(_FILES)


_USERS = (
    Kind(
        "user",
        "USER",
        "a home folder is named after a person",
        ("/home", "/Users/", "/users/", "/u/", "Users\\", "Users/"),
        r"(?:/(?:home(?:/[A-Z])?|Users|users)/|(?<![A-Za-z0-9./])/u/|(?<![A-Za-z0-9])[A-Za-z]:[\\/]{1,4}Users[\\/]{1,4})"
        + _USER,
        _is_somebody,
    ),
    Kind(
        "user",
        "USER",
        "so are the accounts that a shell and a scheduler name",
        ("USER", "LOGNAME", "--user", "--mail-user", "--uname", "ogged in as"),
        r"(?:(?<![A-Za-z0-9])(?:USER|LOGNAME|USERNAME|SUDO_USER|SLURM_JOB_USER|JUPYTERHUB_USER)[\"']?"
        r"(?:=| = |: |, ?)[\"']?"
        r"|(?<![\w-])--(?:user|username|mail-user|uname)[= ]|[Ll]ogged in as:? )" + _USER,
        _is_somebody,
    ),
    Kind(
        "user",
        "USER",
        "and those with their numbers: scontrol, id",
        ("UserId=", "uid="),
        r"(?<![A-Za-z0-9])(?:UserId=(?=[^\s()]{1,64}\(\d)|e?uid=\d{1,10}\((?=[^\s()]{1,64}\)))"
        rf"(?:[\w.-]{{1,40}}\\{{1,4}})?{_USER}(?=\)|\(\d)",
        _is_somebody,
    ),
    Kind(
        "user",
        "USER",
        "and those that sign in or become root: sudo, su, sshd",
        ("sudo: ", "sudo[", "session opened", "session closed", "Accepted ", "Failed password"),
        r"(?:(?<![\w./-])sudo(?:\[\d{1,9}\])?: {1,12}(?=\S{1,64} : )"
        r"|session (?:opened|closed) for user (?:root\(uid=0\) by )?(?=[^\s(]{1,64}(?:\(uid=\d|\s|\Z))"
        r"|(?:Accepted [\w/-]{1,30}|Failed password) for (?:invalid user )?(?=\S{1,64} from ))" + _USER,
        _is_somebody,
    ),
    Kind(
        "user",
        "USER",
        "and those whose processes are listed: ps aux, ps -ef",
        (" ? ", " pts/", " tty"),
        rf"(?<![\w.@+/:=-]){_ACCOUNT}\+? {{1,20}}\d{{1,8}} {{1,8}}(?:"
        r"\d{1,5}(?:\.\d)? {1,8}\d{1,3}\.\d {1,12}\d{1,12} {1,12}\d{1,12} {1,12}(?:\?|pts/\d{1,4}|tty\w{1,8}) {1,12}"
        r"[RSDTZXI][\w<+]{0,5} {1,8}(?:\d\d:\d\d|[A-Z][a-z]{2}\d\d|\d{4}) {1,8}\d{1,7}:\d\d"
        r"|\d{1,8} {1,8}\d{1,3} {1,8}(?:\d\d:\d\d|[A-Z][a-z]{2}\d\d|\d{4}) {1,8}(?:\?|pts/\d{1,4}|tty\w{1,8}) {1,12}"
        r"(?:\d{1,4}-)?\d\d:\d\d:\d\d)(?!\S)",
        _is_somebody,
    ),
    Kind(
        "user",
        "USER",
        "Weights & Biases names the person or the team: in its links",
        ("wandb.ai/", "View "),
        r"(?:(?<![\w.-])(?:www\.)?wandb\.ai/(?!(?:site|authorize|settings|login|signup|home|docs|models|quickstart)\b)"
        rf"|View (?:project|run|sweep|report)[^\n]{{0,80}}? at:? https?://[^/\s]{{1,200}}/){_ACCOUNT_OF_A_TEAM}(?=/)",
        _is_somebody,
    ),
    Kind(
        "user",
        "USER",
        "behind the name of who is logged in",
        ("ogged in as",),
        rf"[Ll]ogged in as:? [^\s()]{{1,64}} \({_ACCOUNT_OF_A_TEAM}\)",
        _is_somebody,
    ),
    Kind(
        "user",
        "USER",
        "and as a setting",
        ("entity", "ENTITY"),
        rf"(?:(?i:wandb[._-]{{1,2}}entity)[\"']?(?:=| = |: ?|, ?| )|wandb\.init\([^)\n]{{0,200}}?\bentity ?= ?)[\"']?"
        rf"{_ACCOUNT_OF_A_TEAM}(?![\w.(\[-])",
        _is_somebody,
    ),
    Kind(
        "user",
        "USER",
        "and those before an address, or for a command that goes there",
        ("@",),
        rf"(?<![\w.@+/:%-]){_ACCOUNT}@(?=(?:10|172|192|[2-9]\d|1\d\d|2\d\d)(?:\.\d{{1,3}}){{3}}(?![\w-]|\.\d))",
        _is_somebody,
    ),
    Kind(
        "user",
        "USER",
        "and those before an address, or for a command that goes there",
        ("ssh", "scp", "sftp", "rsync", "mosh"),
        r"(?<![\w./-])(?:(?:auto)?ssh(?:-copy-id)?|scp|sftp|rsync|mosh)[\"',]{0,2}"
        rf"(?: {{1,4}}[^\s|;&@]{{1,200}}){{0,12}}? {{1,4}}[\"']?{_ACCOUNT}@(?=[A-Za-z0-9\[])",
        _is_somebody,
    ),
    Kind(
        "user",
        "USER",
        "and those at a machine whose name has a digit or a hyphen",
        ("@",),
        rf"(?<![\w.-])(?:from|to|as|by|for|login|user|on) {_ACCOUNT}@"
        r"(?!v\d|sha\d|(?:release|main|master|stable|latest|next"
        r"|nightly|dev|beta|alpha|canary|rc|rev|commit|branch|tag|build|version|py|cu)(?![a-z]))"
        r"(?=[A-Za-z][A-Za-z.]{0,62}[-\d])",
        _is_somebody,
    ),
    Kind(
        "user",
        "USER",
        "and those that a machine refuses",
        (": Permission denied",),
        rf"(?<![\w.@+/:-]){_ACCOUNT}@(?=[A-Za-z0-9][A-Za-z0-9.-]{{0,62}}: Permission denied)",
        _is_somebody,
    ),
    Kind(
        "user",
        "USER",
        "and those at a prompt",
        ("@",),
        r"(?<![\w.@+/-])(?P<it>[a-z_][\w.-]{0,31})@[A-Za-z0-9][A-Za-z0-9.-]{0,62}:(?:~|/)[^\n]{0,200}[$#]",
        _is_somebody,
    ),
)

# --- Hosts -----------------------------------------------------------------------------------------------------------

_LABEL = "[A-Za-z0-9][A-Za-z0-9-]{0,62}"
_HOST = rf"(?P<it>{_LABEL}(?:\.{_LABEL}){{0,8}})"
_CLOCK = r"\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_DRAWN = "[bcdfghjklmnpqrstvwxz2456789]"  # Kubernetes draws without vowels

# Sites that anybody's log names
_PUBLIC = re.compile(
    r"(?:^|\.)(?:github\.com|githubusercontent\.com|github\.io|gitlab\.com|huggingface\.co|hf\.co|hf-mirror\.com"
    r"|pytorch\.org|nvidia\.com|vllm\.ai|ray\.io|anyscale\.com|wandb\.(?:ai|me)|pypi\.org|pythonhosted\.org|python\.org"
    r"|readthedocs\.(?:io|org)|kernel\.org|docker\.(?:io|com)|ghcr\.io|nvcr\.io|quay\.io|k8s\.io|kubernetes\.io"
    r"|tensorflow\.org|deepspeed\.ai|arxiv\.org|stackoverflow\.com|apache\.org|microsoft\.com|google\.com"
    r"|googleapis\.com|amazon\.com|amazonaws\.com(?:\.cn)?|azure\.com|windows\.net|anthropic\.com|openai\.com"
    r"|modelscope\.(?:cn|ai)|ubuntu\.com|debian\.org|gnu\.org|llvm\.org|amd\.com|intel\.com|schedmd\.com|sglang\.ai"
    r"|lmsys\.org|mozilla\.org|w3\.org|json-schema\.org|apple\.com|conda\.io|anaconda\.(?:com|org)|ollama\.(?:com|ai)"
    r"|mlflow\.org|numpy\.org|scipy\.org|pydata\.org|semver\.org|keepachangelog\.com|freedesktop\.org|redhat\.com"
    r"|wikipedia\.org|aka\.ms|goo\.gl|bit\.ly|lightning\.ai|hiascend\.com|aliyuncs\.com|myqcloud\.com)$",
    re.IGNORECASE,
)
_NO_HOST = re.compile(
    r"(?:local(?:host|hos|ho|h)?(?:\.localdomain|4|6)?|node|host|head|master|worker|server|name|none|null|true|false"
    r"|unknown|default|all|any|auto|the|a|is|of|this|that|with|for|to|in|on|not|and|was|has|id|ip|memory|error|warning"
    r"|info|fatal|[\d.-]{1,80}|(?:rank|cuda|cpu|numa|device|task|step|gpu)[-_ ]?\d?"
    r"|0x[0-9a-f]{0,32}|v\d{1,5}(?:\.\d{1,5}){1,4}|[a-z]{2,20}-v?\d{1,3}(?:\.\d{1,4}){1,4}"
    r"|(?:count|id|port|process|e|ram|dram)-\d{1,6}"
    r"|(?:pinned|paged|oom|device|cpu|shared|page|locked|unified|pageable|managed|swap|ram|dram|to|in|side|out|timed"
    r"|h2d|d2h|name|template)-[a-z]{2,12})",
    re.IGNORECASE,
)
_RAY_ID = re.compile("[0-9a-f]{28}")


def _is_host(match: re.Match[str]) -> bool:
    name = match["it"]
    return not (_NO_HOST.fullmatch(name) or _PUBLIC.search(name) or name.endswith(_FILES) or _RAY_ID.search(name))


# Objects whose attribute looks like a name of one's own network: cfg.local, layers.0.mlp.org
_OBJECT = re.compile(
    r"(?:self|cfg|torch|np|model|module)\.[\w.]{1,80}|(?:config|ray|data|job|rank|trainer|total|args|opts|state|params)"
    r"\.(?:local|cluster|internal|hpc)|[a-z_]{2,20}\.\d{1,3}\.[\w.]{1,80}"
)


def _is_host_by_ending(match: re.Match[str]) -> bool:
    return _is_host(match) and _OBJECT.fullmatch(match["it"]) is None


def _is_named_host(match: re.Match[str]) -> bool:
    """Where a word of prose may stand as well, a host is what has a digit, a hyphen or a dot."""
    return _is_host(match) and is_distinct(match["it"])


def is_distinct(host: str) -> bool:
    """Whether the name means nothing else where it stands alone."""
    return len(host) >= 3 and re.search(r"[\d.-]", host) is not None and re.search("[A-Za-z]", host) is not None


_MEANT = "the name of a machine tells whose it is"
_FORM = "its form says that it is a machine's"
_TLD = r"(?:com|net|org|edu|gov|mil|(?:ac|edu|co|com|org|gov)\.[a-z]{2})"
_HOSTS = (
    Kind(
        "host",
        "HOST",
        _MEANT + ": syslog, journald",
        (),
        rf"(?m)^(?:<\d{{1,3}}>1? ?)?(?:[A-Z][a-z]{{2}} [ \d]\d {_CLOCK}|\d{{4}}-\d\d-\d\dT{_CLOCK}) {_HOST} "
        r"(?:kernel|systemd|slurm\w{0,10}|containerd|dockerd|kubelet|sshd?|earlyoom|[\w./-]{1,60}\[\d{1,9}\])[:\[ ]",
        _is_host,
    ),
    Kind(
        "host",
        "HOST",
        _MEANT + ": NCCL",
        (" NCCL ",),
        rf"(?<![\w.-]){_HOST}:\d{{1,9}}:\d{{1,9}} \[\d{{1,4}}\] NCCL ",
        _is_host,
    ),
    Kind(
        "host",
        "HOST",
        _MEANT + ": Slurm",
        ("srun: ", "slurmstepd"),
        rf"(?:srun: error: |srun: |slurmstepd: error: |slurmstepd-)(?!error: ){_HOST}(?=: |\]?: error)",
        _is_host,
    ),
    Kind(
        "host",
        "HOST",
        _MEANT + ": Slurm",
        (" ON ",),
        rf"\*\*\* (?:JOB|STEP) [\d._+]{{1,40}} ON {_HOST}",
        _is_host,
    ),
    Kind(
        "host",
        "HOST",
        _MEANT + ": Slurm's lists of nodes",
        ("NODELIST", "nodelist", "NodeList"),
        r"(?:NODELIST|[Nn]ode[Ll]ist)[\"']?[=:] ?[\"']?(?P<it>[A-Za-z][A-Za-z0-9-]{0,60}\[[\d,-]{1,200}\])",
    ),
    Kind(
        "host",
        "HOST",
        _MEANT + ": the environment, torchrun's table of failures",
        ("NODE", "HOST", "ADDR", "POD", "host", "addr", "odename", "ode_name", "odelist"),
        r"(?<![A-Za-z0-9])(?:SLURMD?_[A-Z_]{0,30}(?:NODENAME|NODELIST|HOST|ADDR)|HOSTNAME|NODE_NAME|POD_NAME"
        r"|(?:MASTER|HEAD)_(?:ADDR|HOST)|[Hh]ost[_ -]?name|[Nn]ode_?name|nodelist|master_(?:addr|host)|head_node_host)"
        r"[\"']?(?:=|: {1,2}| : {1,2}| = |, ?)[\"']?" + _HOST + r"(?![\w\[(])",
        _is_host,
    ),
    Kind("host", "HOST", _MEANT + ": torchrun's table of failures", ("host ",), rf"\bhost {{2,12}}: {_HOST}", _is_host),
    Kind(
        "host",
        "HOST",
        _MEANT + ": sentences and lists",
        ("node", "host", "server", "Node", "Host", "Server"),
        r"(?<![A-Za-z0-9_])(?:(?:[Nn]ode|[Hh]ost|[Ss]erver)(?:=|: | ))[\"']?" + _HOST + r"(?![\w\[(/])",
        _is_named_host,
    ),
    Kind(
        "host",
        "HOST",
        _MEANT + ": Ray's memory monitor",
        ("on node ",),
        r"\bmemory on (?:the )?node [\"']?" + _HOST + r"(?= is used| was)",
        _is_host,
    ),
    Kind(
        "host",
        "HOST",
        _MEANT + ": addresses between machines",
        ("://",),
        r"(?<![A-Za-z])(?:tcp|grpc|zmq|rediss?|hdfs|nfs|ssh|ray|ucx|etcd|rpc|c10d|mongodb|postgres(?:ql)?|mysql|amqp)://"
        rf"(?:[^\s/@]{{1,200}}@)?{_HOST}(?=[:/]|\s|$|[\"',)])",
        _is_host,
    ),
    Kind(
        "host",
        "HOST",
        _MEANT + ": a prompt, rsync",
        ("@",),
        rf"(?<![\w.@+/-])[a-z_][\w.-]{{0,31}}@{_HOST}:[~/]",
        _is_host,
    ),
    Kind(
        "host",
        "HOST",
        _MEANT + ": ssh",
        ("ssh",),
        r"(?<![\w./-])(?:auto)?ssh(?:-copy-id)?[\"',]{0,2}(?: {1,4}[^\s|;&@]{1,200}){0,12}? {1,4}[\"']?"
        rf"[A-Za-z_][\w.-]{{0,31}}@{_HOST}",
        _is_host,
    ),
    Kind("host", "HOST", _MEANT + ": DeepSpeed's hostfile", ("slots=",), rf"(?m)^{_HOST} slots=", _is_host),
    Kind("host", "HOST", _MEANT + ": what pdsh puts in front", (": [20",), rf"(?m)^{_HOST}: \[20\d\d-", _is_host),
    Kind(
        "host",
        "HOST",
        _MEANT + ": Open MPI",
        (),
        rf"(?m)^\[{_HOST}:\d{{2,9}}\] (?:\*\*\*|\[\[|mca|PMIX|ORTE|OPAL)",
        _is_host,
    ),
    Kind(
        "host",
        "HOST",
        _MEANT + ": Kubernetes",
        ("pod", "Pod"),
        r"(?<![A-Za-z0-9_])[Pp]od(?:/|=|: | )[\"']?" + _HOST + r"(?![\w\[(])",
        _is_named_host,
    ),
    Kind(
        "host",
        "HOST",
        _FORM + ": what clusters call their nodes, with two digits or more",
        ("gpu", "node", "dgx", "hgx", "nid", "compute", "login"),
        r"(?<![\w./:-])(?P<it>(?:gpu|dgx|hgx|nid|[gc]?node|gpu-?node|gpu-worker|compute|login)(?:-?[a-z]?\d{2,6}){1,4})"
        r"(?![\w(=]|-\w|\.\d)",
    ),
    Kind(
        "host",
        "HOST",
        _FORM + ": EC2's hold their address",
        ("ip-", "ec2-"),
        r"(?<![\w.-])(?P<it>(?:ip|ec2)(?:-\d{1,3}){4}(?:\.[A-Za-z0-9-]{1,40}){0,4})(?![\w-])",
    ),
    Kind(
        "host",
        "HOST",
        _FORM + ": the nodes of GKE and AKS",
        ("gke-", "aks-"),
        r"(?<![\w.-])(?P<it>gke-[a-z0-9-]{4,80}-[a-z0-9]{4,8}|aks-[a-z0-9-]{4,60}vmss\w{6})(?![\w-])",
    ),
    Kind(
        "host",
        "HOST",
        _FORM + ": the pod of a deployment, of a job, of KubeRay",
        (),
        rf"(?<![\w./-])(?P<it>[a-z](?:[a-z0-9]|-(?!-)){{1,80}}-(?:{_DRAWN}{{7,10}}|worker|group|head|launcher)-(?=[a-z]{{0,4}}\d"
        rf"|[bcdfghjklmnpqrstvwxz]{{5}}){_DRAWN}{{5}})(?![\w-])",
        _is_host,
    ),
    Kind(
        "host",
        "HOST",
        _FORM + ": a name of a network of one's own",
        (".internal", ".local", ".lan", ".corp", ".intra", ".svc", ".localdomain", ".arpa", ".hpc", ".cluster"),
        rf"(?<![\w./-])(?P<it>(?:{_LABEL}\.){{1,8}}(?:internal|local|lan|corp|intra|intranet|svc|localdomain|home\.arpa|hpc"
        r"|cluster))(?![\w-]|\.\w|\(|=)",
        _is_host_by_ending,
    ),
    Kind(
        "host",
        "HOST",
        _FORM + ": a name of the internet's",
        (".com", ".net", ".org", ".edu", ".gov", ".mil", ".ac.", ".co."),
        rf"(?<![\w./@-])(?P<it>(?:{_LABEL}\.){{1,8}}{_TLD})(?![\w-]|\.\w|\(|=)",
        _is_host_by_ending,
    ),
    Kind(
        "host",
        "HOST",
        _FORM + ": the same, where short endings are modules as well",
        (".io", ".ai", ".cloud", ".de", ".fr", ".uk", ".cn", ".jp", ".kr", ".ch", ".eu", ".ca", ".nl", ".se", ".dev"),
        rf"(?<![\w./@-])(?P<it>(?=[a-z0-9.]{{0,60}}[-\d])(?:{_LABEL}\.){{2,8}}(?:io|ai|cloud|de|fr|uk|cn|jp|kr|ch|eu|ca|nl"
        r"|se|dev))(?![\w-]|\.\w|\(|=)",
        _is_host,
    ),
    Kind(
        "host",
        "HOST",
        _MEANT + ": in a URL",
        ("://",),
        rf"(?<=://)(?:[^\s/@]{{1,200}}@)?(?P<it>(?:{_LABEL}\.){{1,8}}[A-Za-z]{{2,18}})(?=[:/?#]|[\"'),;>\]])",
        _is_host,
    ),
    Kind(
        "host",
        "HOST",
        _MEANT + ": in a URL with a port",
        ("://",),
        rf"(?<=://)(?:[^\s/@]{{1,200}}@)?{_HOST}(?=:\d{{2,5}}(?!\d))",
        _is_host,
    ),
)

# --- Addresses -------------------------------------------------------------------------------------------------------

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_QUAD = rf"(?P<it>{_OCTET}(?:\.{_OCTET}){{3}})"
_IPV4 = _QUAD + r"(?![\w+-]|\.\d)"
_OF_A_VERSION = re.compile(
    r"(?i)(?:version|release|driver|firmware|vbios|nvidia-[a-z]|lib[a-z]{2,}|cu1\d|cudnn|cublas|cufft|nccl|tensorrt|rocm"
    r"|cann|torch|package|wheel|build|toolkit|cuda|image|triton|deepspeed|xformers|[=<>~!]=|\bv|\bver)[^\n]{0,24}$"
)
_OF_AN_ADDRESS = re.compile(
    r"(?i)(?:\bip\b|_ip\b|addr|host|node|tcp|://|listen|connect|peer|server|endpoint|\bfrom\b|bind|@|inet)[^\n]{0,16}$"
)


def _is_public_v4(match: re.Match[str]) -> bool:
    """What stays: addresses of private networks, which tell nodes apart and nothing else; versions of four parts."""
    parts = [int(part) for part in match["it"].split(".")]
    first, second = parts[0], parts[1]
    if first in (0, 10, 127) or first >= 224 or (first, second) in ((192, 168), (169, 254)):
        return False
    if (first == 172 and 16 <= second <= 31) or (first == 100 and 64 <= second <= 127):
        return False
    start, end = match.span("it")
    before = match.string[max(0, start - 40) : start]
    if _OF_AN_ADDRESS.search(before[-24:]) or re.match(r":\d{2,5}\b|/\d\d?\b", match.string[end : end + 6]):
        return before[-2:] not in ("==", ">=", "<=", "~=", "!=")
    return _OF_A_VERSION.search(before) is None and not (first <= 12 and (max(parts) <= 31 or parts[2] == 0))


def _is_email(match: re.Match[str]) -> bool:
    """A container at Azure is written as one."""
    domain = match[0].rpartition("@")[2]
    return not domain.endswith(".windows.net") and not domain.startswith(("module.", "class.", "self."))


def _is_public_v6(match: re.Match[str]) -> bool:
    try:
        address = IPv6Address(match["it"])
    except AddressValueError:
        return False
    return not address.is_private or match["it"].lower().startswith("2001:db8")


_ADDRESSES = (
    Kind("ip", "IP", "leads to the machine", (), r"(?<![\w.+])(?<!\d[,/-])" + _IPV4, _is_public_v4),
    Kind("ip", "IP", "the same inside of a name", ("_", "-"), r"(?<=[A-Za-z][_-])" + _IPV4, _is_public_v4),
    Kind(
        "ip",
        "IP",
        "the same in the middle of a name",
        ("-",),
        rf"(?<=[A-Za-z]-){_QUAD}(?=-[A-Za-z])",
        _is_public_v4,
    ),
    Kind(
        "ip",
        "IP",
        "leads to the machine",
        (),
        r"(?<![\w:.])(?P<it>[23][0-9a-fA-F]{3}:[0-9a-fA-F:]{1,34}[0-9a-fA-F]|[23][0-9a-fA-F]{3}::)(?![\w:])",
        _is_public_v6,
    ),
    Kind(
        "email",
        "EMAIL",
        "a person's",
        ("@",),
        r"(?<![\w.%+\\-])(?!git@)[A-Za-z0-9][\w.%+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,6}"
        r"(?!(?:service|slice|scope|socket|mount|so|py|timer|target)\b)[A-Za-z]{2,24}(?![\w-]|\.\w|:[~/])",
        _is_email,
    ),
)

# --- Buckets ---------------------------------------------------------------------------------------------------------

_STORE = "the name of a store is half of the way into it"
_NAME = r"(?P<it>[A-Za-z0-9][A-Za-z0-9._-]{1,62})"
_BUCKETS = (
    Kind(
        "bucket",
        "BUCKET",
        _STORE,
        ("://",),
        r"(?i:(?<![A-Za-z0-9])(?:s3[an]?|gc?s|oss|cosn?|obs|r2|b2|tos|bos|az|adl)://)" + _NAME,
    ),
    Kind("bucket", "BUCKET", _STORE, ("abfs", "wasb"), r"(?<![A-Za-z0-9])(?:abfss?|wasbs?)://" + _NAME),
    Kind(
        "bucket",
        "BUCKET",
        _STORE,
        (".core.windows.net",),
        r"(?<![\w.-])(?P<it>[a-z0-9]{3,24})\.(?:blob|dfs|file|queue|table)\.core\.windows\.net",
    ),
    Kind(
        "bucket",
        "BUCKET",
        _STORE,
        (".core.windows.net",),
        r"\.core\.windows\.net(?::\d{1,5})?/(?P<it>[a-z0-9$][a-z0-9-]{1,62})",
    ),
    Kind("bucket", "BUCKET", _STORE, ("AccountName=",), r"AccountName=(?P<it>[a-z0-9]{3,24})"),
    Kind(
        "bucket",
        "BUCKET",
        _STORE,
        ("amazonaws.com", "aliyuncs.com", "myqcloud.com", "cloudflarestorage.com"),
        r"(?<![\w.-])(?P<it>[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?)\.(?:s3[.-]|oss-|cos\.|r2\.)[a-z0-9.-]{0,60}"
        r"(?:amazonaws\.com|aliyuncs\.com|myqcloud\.com|cloudflarestorage\.com)",
    ),
    Kind(
        "bucket",
        "BUCKET",
        _STORE,
        ("amazonaws.com",),
        r"(?<![\w.-])s3[a-z0-9.-]{0,40}\.amazonaws\.com(?:\.cn)?(?::\d{1,5})?/(?P<it>[a-z0-9][a-z0-9._-]{1,62})",
    ),
    Kind(
        "bucket",
        "BUCKET",
        _STORE,
        ("storage.",),
        r"storage\.(?:googleapis|cloud\.google)\.com/(?:(?:download/)?storage/v1/b/)?(?P<it>[a-z0-9][a-z0-9._-]{1,62})",
    ),
    Kind(
        "bucket",
        "BUCKET",
        _STORE,
        (".storage.googleapis.com",),
        r"(?<![\w.-])(?P<it>[a-z0-9][a-z0-9_-]{1,62})\.storage\.googleapis\.com",
    ),
    Kind("bucket", "BUCKET", _STORE, (":s3:::",), r"arn:aws[a-z-]{0,10}:s3:::(?P<it>[a-z0-9][a-z0-9.-]{1,62})"),
)

PERSONAL = (*_USERS, *_ADDRESSES, *_BUCKETS, *_HOSTS)
