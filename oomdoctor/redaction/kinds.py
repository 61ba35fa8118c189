"""What must not leave the machine: one row per kind, each with its reason.

A row's pattern is bounded and cannot begin inside of what it matches, so that looking for it takes a time that grows
as the text does. `signs` are literals of which one stands in every match. The group "it" is what is taken out, where
that is not the whole match.
"""

from __future__ import annotations

import binascii
import re
import string
from collections.abc import Callable, Iterator
from functools import cache

from msgspec import Struct

from oomdoctor.redaction.views import PREFIX

Check = Callable[[re.Match[str]], bool]


def _always(match: re.Match[str]) -> bool:
    del match
    return True


class Kind(Struct, frozen=True):
    """A kind of secret."""

    name: str
    put: str  # what stands in its place
    why: str
    signs: tuple[str, ...]  # none where what is in every match is in every line
    pattern: str
    check: Check = _always
    full: int | None = None  # how long it is when it is whole, where that is known
    begins: str = ""  # what it always begins with, for those that a line's beginning shows

    @property
    def compiled(self) -> re.Pattern[str]:
        return _compiled(self.pattern)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)  # a Chinese letter is no letter of a name


def _mixed(match: re.Match[str]) -> bool:
    """Whether it has digits and capitals, as what a machine drew by lot: a name with hyphens has no capitals."""
    drawn = match[0][3:]
    if not re.search(r"\d", drawn):
        return False
    return bool(re.search("[A-Z]|[0-9a-f]{32}", drawn)) or "-" not in drawn or len(drawn) >= 80


def _no_revision(match: re.Match[str]) -> bool:
    """A git sha and an artefact's digest are 40 hexadecimal digits as well."""
    between = match[0].lower()
    return not any(
        word in between for word in ("sha", "commit", "revision", "digest", "git", "hash", "run id", "version")
    )


def _is_login(match: re.Match[str]) -> bool:
    """Whether it is a name, a colon and a password in base64, as far as it goes."""
    whole = match["it"].rstrip("=")
    try:
        name, colon, _ = binascii.a2b_base64(whole[: len(whole) // 4 * 4]).partition(b":")
    except binascii.Error:
        return False
    return bool(name and colon) and name.isascii() and name.decode("ascii").isprintable()


# --- Values that only their name gives away ---------------------------------------------------------------------------

_NOTHING = re.compile(
    r"(?:none|null|nil|true|false|yes|no|n/?a|not set|unset|empty|redacted|removed|hidden|masked|undefined|auto"
    r"|required|optional|str|string|bytes|int|\*+|x{3,}|\.{2,}|…|-+|<.*|\[.*|\{.*|\([^)]*|\$[A-Za-z_{(].*|%\(?\w.*|os\.environ.*|\.\.\..*"
    r"|5241590000000000)",  # the password that every Ray before 2.7 has
    re.IGNORECASE | re.DOTALL,
)
_FIGURE = re.compile(r"[+-]?[\d.,_]{1,40}(?:e[+-]?\d{1,4})?(?: ?[a-zA-Z%]{1,4}(?:/s)?)?")
_CALL = re.compile(r"[A-Za-z_]\w{0,60}(?:\.\w{1,60}){0,6}[(\[]")
_DRAWN = re.compile(r"(?=\D{0,400}\d)(?=[^A-Za-z]{0,400}[A-Za-z])[\w+/=.~:-]{16,}", re.DOTALL)
_PLACE = ("/", "./", "../", "~", "http://", "https://", "file:", "C:")
# What a token or a key opens. Other tokens are a tokenizer's, other keys a dictionary's.
_OPENS = (
    "hf|hub|huggingface|auth|access|api|bot|bearer|refresh|session|security|csrf|personal|private|secret|github|gitlab|gh"
    "|slack|aws|wandb|openai|anthropic|azure|account|shared|signing|encryption|license|service|subscription|storage"
    "|client|app|deploy|vault|registry|pypi|npm|docker|ngc|oauth|jwt|id|user|master"
)
_OPENING = re.compile(f"(?:^|[-_.]|[a-z])(?:{_OPENS})[-_]?$", re.IGNORECASE)
_OF_TEXT = re.compile(
    r"(?:^|[-_])(?:pad|eos|bos|unk|sep|cls|mask|image|img|video|audio|vision|start|stop|end|begin|special|im|tool|think"
    r"|placeholder|eot|eom|fim|boi|eoi|blank|max|min|num|per|first|last|next|new|user|assistant|system|role)[-_]?$",
    re.IGNORECASE,
)


def is_secret(before: str, word: str, value: str) -> bool:
    """Whether a named value is one: not empty, no figure, no reference, no token of a tokenizer, no key of a table."""
    value = value.strip("\"' ,;)}]")
    if len(value) < 2 or _NOTHING.fullmatch(value):
        return False
    word = word.lower()
    if word in ("token", "key"):
        if _FIGURE.fullmatch(value) or _CALL.match(value) or value.startswith(_PLACE) or _OF_TEXT.search(before):
            return False
        if _OPENING.search(before):
            return len(value) >= 6
        return (word == "token" or before.isupper()) and _DRAWN.fullmatch(value) is not None
    if word in ("密钥", "令牌"):
        return len(value) >= 6 and _FIGURE.fullmatch(value) is None
    if word == "pwd":
        return not value.startswith(_PLACE)
    if word.startswith(("secret", "credential")):
        return not value.startswith(_PLACE) and not value.isalpha()
    return True


# Each written out, so that a search skips what none of them begins with.
_WORDS = (
    *("token", "Token", "TOKEN", "secret", "Secret", "SECRET", "password", "Password", "PASSWORD", "passwd", "Passwd"),
    *("PASSWD", "passphrase", "Passphrase", "PASSPHRASE", "pwd", "Pwd", "PWD", "密码", "口令", "密钥", "令牌", "key"),
    *("Key", "KEY", "credentials?", "Credentials?", "CREDENTIALS?", "private_key_id"),
)
_WORD = f"(?P<word>{'|'.join(_WORDS)})"
_OF_NAMES = string.ascii_letters + string.digits + "_.-"
_BARE = r"[^\s\"',;&<>，。；、）]"
_VALUE = (
    r"(?P<it>(?<=\")(?:[^\"\\\n]|\\.){2,4000}|(?<=')(?:[^'\\\n]|\\.){2,4000}|(?<=\[)[\"'][^\]\n]{2,2000}"
    rf"|(?![\"']){_BARE}{{2,2000}}(?:[,;&](?![\s\"']|[\w-]{{1,40}}[=:]|quot;|amp;|#){_BARE}{{1,400}}){{0,4}})"
)
_LIST = r"(?:\[(?=[\"'])|[\"'])?"


_SETTING = re.compile(rf"(?P<before>[A-Za-z0-9_.-]{{0,80}}?){_WORD}[sS]?")
_OF_SECRETS = re.compile(
    r"(?i)(?:[\w.-]{0,80}[_.-])?(?:secrets?|credentials?|passwords?|passwds?|api_?keys)\.[\w.-]{1,80}"
)
_PASS = re.compile(r"(?i)(?:[\w.-]{0,80}\.)?(?:(?:db|user|redis|mysql|smtp|mail|proxy|admin|root)[_-]?)?pass")


def is_secret_setting(name: str, value: object) -> bool:
    """Whether a setting of that name holds a secret."""
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return False
    if _OF_SECRETS.fullmatch(name) or _PASS.fullmatch(name):
        return is_secret("", "password", str(value))
    match = _SETTING.fullmatch(name)
    return match is not None and is_secret(match["before"], match["word"], str(value))


def _name_before(match: re.Match[str]) -> str:
    """What of the name stands before the word."""
    start = match.start("word")
    near = match.string[max(0, start - 60) : start]
    return near[len(near.rstrip(_OF_NAMES)) :]


def _by_name(match: re.Match[str]) -> bool:
    return is_secret(_name_before(match), match["word"], match["it"])


def _by_option(match: re.Match[str]) -> bool:
    return _name_before(match).startswith("-") and _by_name(match)


def _by_entry(match: re.Match[str]) -> bool:
    start = match.start("word")
    return _ENTRY.search(match.string, max(0, start - 80), start) is not None and _by_name(match)


_ENTRY = re.compile(r"[Nn]ame[\"']?: {0,4}[\"']?[A-Za-z0-9_.-]{0,60}\Z")


def _is_password(match: re.Match[str]) -> bool:
    return is_secret("", "password", match["it"])


_OF_A_MESSAGE = re.compile(r"(?i)\b(?:must|cannot|required|empty|invalid|missing|option|field|prompt|file)\b")


def _is_phrase(match: re.Match[str]) -> bool:
    """Whether what is quoted behind the word is one: a passphrase may be words, a password has a digit."""
    value = match["it"]
    if match["word"].lower() != "passphrase" and (" " in value or re.search(r"\d", value) is None):
        return False
    return _OF_A_MESSAGE.search(value) is None and _is_password(match)


# --- The table -------------------------------------------------------------------------------------------------------

_EDGE = "(?<![A-Za-z0-9])"
_THEN = r"(?: {1,4}(?:\\\r?\n {0,40})?)"  # between the words of a command, which may go on on the next line
_NAMES = (
    *("oken", "OKEN", "ecret", "ECRET", "assw", "ASSW", "assphrase", "ASSPHRASE", "pwd", "Pwd", "key", "Key", "KEY"),
    *("redential", "REDENTIAL", "PWD", "密码", "口令", "密钥", "令牌"),
)

KINDS = (
    Kind(
        "hugging-face",
        "<TOKEN hf>",
        "reads and writes models and data sets",
        ("hf_",),
        _EDGE + r"hf_[A-Za-z0-9]{20,60}",
        check=lambda match: re.search("[0-9A-Z]", match[0]) is not None,
        full=37,
        begins="hf_",
    ),
    Kind(
        "wandb",
        "<TOKEN wandb>",
        "writes runs; forty hexadecimal digits, which a commit has as well",
        ("wandb", "WANDB", "Wandb", "W&B", "Weights"),
        r"(?i:wandb|w&b|weights ?(?:&|and) ?biases)(?P<between>[^\n]{0,80}?)(?<![0-9A-Za-z/])(?P<it>[0-9a-f]{40})"
        r"(?![0-9A-Za-z])",
        check=_no_revision,
        full=40,
    ),
    Kind(
        "wandb",
        "<TOKEN wandb>",
        "the long form since 2025",
        ("wandb_v1_",),
        r"wandb_v1_[A-Za-z0-9_]{20,120}",
        begins="wandb_v1_",
    ),
    Kind(
        "anthropic",
        "<KEY anthropic>",
        "spends money",
        ("sk-ant-",),
        _EDGE + r"sk-ant-[A-Za-z0-9_-]{20,200}",
        begins="sk-ant-",
    ),
    Kind(
        "openai",
        "<KEY openai>",
        "spends money; other services copied the form",
        ("sk-",),
        _EDGE + r"sk-[A-Za-z0-9_-]{20,220}",
        check=_mixed,
        begins="sk-",
    ),
    Kind(
        "github",
        "<TOKEN github>",
        "reads and writes repositories",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        _EDGE + r"gh[pousr]_[A-Za-z0-9]{20,251}",
        full=40,
        begins="gh[pousr]_",
    ),
    Kind(
        "github",
        "<TOKEN github>",
        "the fine-grained form",
        ("github_pat_",),
        r"github_pat_[A-Za-z0-9_]{40,120}",
        full=93,
        begins="github_pat_",
    ),
    Kind(
        "gitlab",
        "<TOKEN gitlab>",
        "reads and writes repositories",
        ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-"),
        _EDGE + r"gl(?:pat|dt|rt|ptt|cbt)-[A-Za-z0-9_.-]{20,80}",
        begins="gl[a-z]{2,4}-",
    ),
    Kind(
        "slack",
        "<TOKEN slack>",
        "reads and writes messages",
        ("xox", "xapp-"),
        _EDGE + r"(?:xox[abceoprs]|xapp)-[A-Za-z0-9-]{10,250}",
        begins="(?:xox|xapp-)",
    ),
    Kind(
        "slack",
        "<TOKEN slack>",
        "who has the address writes messages",
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows)/(?P<it>[A-Za-z0-9/_+-]{20,200})",
    ),
    Kind(
        "webhook",
        "<TOKEN webhook>",
        "who has the address writes messages: Discord, Feishu and Lark, Telegram, WeCom, Teams",
        ("/webhooks/", "/hook/", ".org/bot", ".org/file/bot", "webhook/send?key=", "/webhookb2/"),
        r"(?:discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{10,25}/|open-apis/bot/(?:v\d/)?hook/"
        r"|api\.telegram\.org/(?:file/)?bot(?=\d{5,14}:)|cgi-bin/webhook/send\?key=|\.office\.com/webhookb2/)"
        r"(?P<it>[A-Za-z0-9_:@/-]{16,300}?)(?=/[a-z]{3}[A-Za-z]{1,40}\b(?!-)|[^A-Za-z0-9_:@/-]|\Z)",
    ),
    Kind(
        "webhook",
        "<TOKEN telegram>",
        "speaks for the bot",
        (":AA",),
        r"(?:(?<![A-Za-z0-9:])|(?<=/bot))\d{8,12}:AA[A-Za-z0-9_-]{32,35}(?![A-Za-z0-9_-])",
    ),
    Kind(
        "aws-key-id",
        "<KEY-ID aws>",
        "names the account; half of a pair",
        ("AKIA", "ASIA", "ABIA", "ACCA"),
        _EDGE + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        full=20,
        begins="A(?:KIA|SIA|BIA|CCA)",
    ),
    Kind(
        "aws-session",
        "<TOKEN aws>",
        "a session's rights",
        ("IQoJb3JpZ2lu", "FwoGZXIv", "FQoGZXIv"),
        _EDGE + r"(?:IQoJb3JpZ2lu|FwoGZXIv|FQoGZXIv)[A-Za-z0-9+/=_-]{20,4000}",
        begins="IQoJb3JpZ2lu|F[wQ]oGZXIv",
    ),
    Kind(
        "signed-url",
        "<SIGNATURE>",
        "opens the object until it expires",
        (
            "-Signature",
            "-signature",
            "-Credential",
            "-credential",
            "-Security-Token",
            "-security-token",
            "Signature=",
            "AccessKeyId=",
            "GoogleAccessId=",
        ),
        r"(?i:(?:x-(?:amz|goog|oss)-(?:signature|credential|security-token)|[?&;](?:signature|AWSAccessKeyId"
        r"|OSSAccessKeyId|GoogleAccessId)))[\"']?(?:=|: ?)[\"']?(?P<it>[^\s\"'&<>,;]{4,4000})",
    ),
    Kind(
        "azure-sas",
        "<SIGNATURE>",
        "opens the container until it expires",
        ("sig=",),
        r"(?<![A-Za-z0-9_])sig=(?P<it>[A-Za-z0-9+/=_%-]{10,200})",
    ),
    Kind(
        "azure-key",
        "<KEY azure>",
        "opens the whole account",
        ("AccountKey=", "SharedAccessKey=", "accountkey="),
        r"(?i:accountkey|sharedaccesskey)=(?P<it>[A-Za-z0-9+/_-]{10,120}={0,2})",
    ),
    Kind(
        "gcp-key", "<KEY gcp>", "spends money", ("AIza",), _EDGE + r"AIza[A-Za-z0-9_-]{35,40}", full=39, begins="AIza"
    ),
    Kind(
        "gcp-oauth",
        "<TOKEN gcp>",
        "an account's rights",
        ("ya29.", "GOCSPX-"),
        _EDGE + r"(?:ya29\.|GOCSPX-)[A-Za-z0-9._-]{20,2000}",
        begins=r"ya29\.|GOCSPX-",
    ),
    Kind(
        "jwt",
        "<TOKEN jwt>",
        "signs its bearer in",
        ("eyJ",),
        r"(?<![A-Za-z0-9_.-])eyJ[A-Za-z0-9_-]{6,4000}\.[A-Za-z0-9_-]{6,8000}(?:\.[A-Za-z0-9_-]{0,4000}){0,3}",
    ),
    Kind(
        "bearer",
        "<TOKEN bearer>",
        "signs its bearer in",
        ("earer ", "EARER "),
        r"(?i:\bbearer) {1,4}(?P<it>[A-Za-z0-9._~+/=-]{16,4000})",
    ),
    Kind(
        "authorization",
        "<AUTHORIZATION>",
        "signs its bearer in",
        ("uthorization", "UTHORIZATION"),
        r"(?i:authorization)[\"']{0,2} {0,3}[:=] {0,3}[\"']?"
        r"(?:(?i:basic|token|digest|negotiate|apikey|key|bearer) {1,4})?(?P<it>[A-Za-z0-9._~+/=:-]{8,4000})",
    ),
    Kind(
        "cookie",
        "<COOKIE>",
        "signs its bearer in",
        ("ookie: ", 'ookie": '),
        r"\b(?:[Ss]et-)?[Cc]ookie\"?: \"?(?P<it>[^\s\"'=]{1,100}=[^\n\"']{4,4000})",
    ),
    Kind(
        "url-password",
        "<PASSWORD>",
        "opens what the address names",
        ("://",),
        r"(?<=://)[^\s/:@\"'<>]{0,256}:(?P<it>(?!\d{1,5}/)[^\s\"'<>]{1,256})@(?=[\w\[<.-])",
    ),
    Kind(
        "url-token",
        "<TOKEN url>",
        "opens what the address names",
        ("://",),
        r"(?<=://)(?P<it>(?=[^\s/@\"'<>]{0,200}\d)[A-Za-z0-9_.~%+-]{16,256})@(?=[\w\[<.-])",
    ),
    Kind(
        "other-token",
        "<TOKEN>",
        "keys of services that such jobs call",
        (
            "nvapi-",
            "gsk_",
            "r8_",
            "pypi-AgEI",
            "npm_",
            "dckr_pat_",
            "dapi",
            "lsv2_",
            "xai-",
            "sk_live_",
            "rk_live_",
            "SG.",
            "tskey-",
            "api_org_",
            "KGAT_",
            "tgp_v1_",
            "fw_",
            "pplx-",
            "aph0_",
            "hvs.",
            "hvb.",
            "hvr.",
            "shpat_",
            "shpca_",
            "shppa_",
            "shpss_",
            "AGE-SECRET-KEY-",
        ),
        _EDGE + r"(?:nvapi-[A-Za-z0-9_-]{40,100}|gsk_[A-Za-z0-9]{40,80}|r8_[A-Za-z0-9]{37,50}|pypi-AgEI[\w-]{40,400}"
        r"|npm_[A-Za-z0-9]{36,50}|dckr_pat_[\w-]{20,60}|dapi[0-9a-f]{32}(?:-\d)?|lsv2_[a-z]{2}_[0-9a-f_]{30,80}"
        r"|xai-[A-Za-z0-9]{60,100}|[sr]k_live_[A-Za-z0-9]{20,120}|SG\.[\w-]{16,40}\.[\w-]{30,60}|tskey-[\w-]{20,80}"
        r"|api_org_[A-Za-z0-9]{30,50}|KGAT_[0-9a-f]{30,50}|tgp_v1_[\w-]{30,60}|fw_[A-Za-z0-9]{22,40}"
        r"|pplx-[A-Za-z0-9]{40,60}|aph0_[\w-]{20,100}|hv[sbr]\.(?=[\w-]{0,300}\d)[\w-]{24,300}"
        r"|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{50,80})",
    ),
    Kind(
        "named",
        "<SECRET>",
        "its name says that it is one",
        _NAMES,
        _WORD
        + r"(?:(?<![nN])[sS])?(?:[\"']{0,2}\]? {0,4}(?:=>|:=|=|:|：|＝) {0,4}|[\"'], {0,2}(?=[\"']))"
        + _LIST
        + _VALUE,
        check=_by_name,
    ),
    Kind(
        "named",
        "<SECRET>",
        "the option says that it is one",
        _NAMES,
        _WORD + r"[\"']?,? {1,4}[\"']?(?!-)" + _VALUE,
        check=_by_option,
    ),
    Kind(
        "named",
        "<SECRET>",
        "its name says that it is one, a line before it",
        _NAMES,
        _WORD + r"[\"']?,?\n[^\n]{0,80}?[Vv]alue[\"']?: {0,4}[\"']?" + _VALUE,
        check=_by_entry,
    ),
    Kind(
        "named",
        "<SECRET>",
        "a table of settings: its name, dots or an arrow, its value",
        _NAMES,
        _WORD + r"[\"']?(?: {0,4}\.{2,100} {0,4}| {1,40}(?:\||│|->) {0,4})[\"']?" + _VALUE,
        check=_by_name,
    ),
    Kind(
        "named",
        "<SECRET>",
        "a variable and what looks drawn by lot",
        ("_TOKEN ", "_KEY ", "_SECRET ", "_PASSWORD "),
        r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9_]{1,60}_(?:TOKEN|KEY|SECRET|PASSWORD) {1,30}(?P<it>[A-Za-z0-9+/=_-]{16,400})",
        check=lambda match: _DRAWN.fullmatch(match["it"]) is not None,
    ),
    Kind(
        "named",
        "<SECRET>",
        "short for a password",
        ("PASS=", "--pass ", "--pass="),
        r"(?<![A-Za-z0-9])(?:(?:[A-Z0-9]{1,40}_){0,5}PASS=|--pass[ =])[\"']?" + _VALUE,
        check=lambda match: is_secret("", "password", match["it"]),
    ),
    Kind(
        "named",
        "<SECRET>",
        "several in a row",
        ("keys ", "tokens ", "secrets ", "passwords "),
        r"--[a-z_-]{0,40}(?:key|token|secret|password)s (?P<it>(?![-\d])[^\s-]\S{5,400}(?: (?![-&|])\S{6,400}){0,8})",
        check=lambda match: re.search(f"(?:{_OPENS})[-_][a-z]{{3,9}} ", match[0]) is not None,
    ),
    Kind(
        "named",
        "<SECRET>",
        "quoted behind the word for it",
        ("assphrase ", "ASSPHRASE ", "assword ", "ASSWORD "),
        r"(?<![A-Za-z0-9])(?P<word>passphrase|Passphrase|PASSPHRASE|password|Password|PASSWORD) {1,4}[\"']"
        r"(?P<it>(?<=\")[^\"\n]{4,200}(?=\")|(?<=')[^'\n]{4,200}(?='))",
        check=_is_phrase,
    ),
    Kind(
        "command",
        "<PASSWORD>",
        "signs in where the command does",
        ("curl",),
        rf"(?<![\w.-])curl[\"',]{{0,2}}(?:{_THEN}(?!&&)[^\s|]{{1,400}}){{0,24}}?{_THEN}[\"']?"
        r"(?:-[A-Za-z]{0,6}[uU][\"',]{0,2} {0,4}|--(?:proxy-)?user(?:=|[\"',]{0,2} {1,4}))[\"']?"
        r"(?!\d{1,10}:)[^\s:\"'/<]{1,100}:(?P<it>[^\s\"']{2,200})",
        check=_is_password,
    ),
    Kind(
        "command",
        "<PASSWORD>",
        "signs in where the command does",
        ("sshpass", "redis-cli"),
        r"(?<![\w-])(?:sshpass[\"',]{0,2}(?: {1,4}[\"']?-[ve][\"',]{0,2})? {1,4}[\"']?-p"
        r"|redis-cli[\"',]{0,2}(?: {1,4}[^\s|;]{1,100}){0,8}? {1,4}[\"']?-a)[\"',]{0,2} {0,4}[\"']?" + _VALUE,
        check=_is_password,
    ),
    Kind(
        "command",
        "<PASSWORD>",
        "signs in where the command does",
        ("mysql", "mariadb"),
        r"(?<![\w-])(?:mysql|mariadb)(?:dump|admin|import|check|-dump|-admin)?[\"',]{0,2}"
        r"(?: {1,4}(?![\"']-)[^\s|;&-][^\s|;]{0,100})?"
        r"(?: {1,4}[\"']?-[^\s|;]{1,100}(?: {1,4}(?![\"']-)[^\s|;&-][^\s|;]{0,100})?){0,9}? {1,4}[\"']?"
        r"-p(?!(?:id|ort|lugin)\b)[\"']?(?![\"' -])" + _VALUE,
        check=_is_password,
    ),
    Kind(
        "registry",
        "<PASSWORD>",
        "signs in at the registry: docker's config.json, .npmrc",
        ('auth":', "auth':", "_auth="),
        r"(?:(?<=[\"'])auth[\"']: {0,4}[\"']|(?<![A-Za-z0-9])_auth=[\"']?)(?P<it>[A-Za-z0-9+/]{8,4000}={0,2})",
        check=_is_login,
    ),
    Kind(
        "netrc",
        "<PASSWORD>",
        "the same on lines of their own",
        ("login ", "login\t"),
        rf"(?m)^{PREFIX}[ \t]{{0,12}}login[ \t]{{1,4}}\S{{1,100}}[ \t\r]{{0,4}}\n"
        rf"{PREFIX}[ \t]{{0,12}}password[ \t]{{1,4}}(?P<it>\S{{4,400}})(?P<end>[ \t\r]{{0,4}}(?:\n|\Z))?",
        check=lambda match: (
            _is_password(match) and (match["end"] is not None or re.search(r"\d", match["it"]) is not None)
        ),
    ),
    Kind(
        "netrc",
        "<PASSWORD>",
        "signs in where ~/.netrc names it",
        ("password ",),
        r"\blogin {1,4}\S{0,99}[^\s,;:.] {1,4}password {1,4}(?P<it>\S{4,400})",
    ),
)


# --- Looking for them ------------------------------------------------------------------------------------------------

_BEHIND, _AHEAD = 400, 9000  # what of a long line is looked at around a sign; no match is longer


def matches(kind: Kind, text: str) -> Iterator[re.Match[str]]:
    """The matches of a kind that are one, in their order."""
    pattern, at = kind.compiled, 0
    for start, end in _places(kind.signs, text):
        at = max(at, start)
        while match := pattern.search(text, at, end):
            if kind.check(match):
                yield match
                at = match.end()
            else:  # what was taken for its value may hold another
                at = max(span(match)[0], match.start() + 1)


def span(match: re.Match[str]) -> tuple[int, int]:
    """Where what is to be taken out stands."""
    return match.span("it") if "it" in match.re.groupindex else match.span()


def _places(signs: tuple[str, ...], text: str) -> Iterator[tuple[int, int]]:
    """The lines that hold a sign, each with the one behind it; of a long line, what is near the sign."""
    if not signs:
        yield 0, len(text)
    waiting = {sign: at for sign in signs if (at := text.find(sign)) >= 0}
    done = 0
    while waiting:
        sign = min(waiting, key=waiting.__getitem__)
        at = waiting[sign]
        start = max(done, text.rfind("\n", max(0, at - _BEHIND), at) + 1 or max(0, at - _BEHIND))
        line_end = text.find("\n", at, at + _AHEAD)
        end = text.find("\n", line_end + 1, at + _AHEAD) if line_end >= 0 else -1
        end = min(len(text), end if end >= 0 else at + _AHEAD)
        yield start, end
        done = start
        past = line_end if line_end >= 0 else at + _AHEAD - _BEHIND
        for other, place in tuple(waiting.items()):
            if place <= past:
                found = text.find(other, max(past, place + 1))
                if found < 0:
                    del waiting[other]
                else:
                    waiting[other] = found
