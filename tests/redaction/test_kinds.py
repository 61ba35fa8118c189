"""Every kind is found wherever it stands, and what looks like one is left alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from planted_secrets import ALL, NAMED, PEM, PEM_BODY, PERSONAL, SIGNED, Planted

from oomdoctor.redaction import Redactor, find
from oomdoctor.redaction.kinds import KINDS
from oomdoctor.redaction.personal import PERSONAL as PERSONAL_KINDS
from oomdoctor.redaction.words import WORDS

RAY = "\x1b[36m(TaskRunner pid=7, ip=10.0.0.4)\x1b[0m "


def left(secret: str, text: str, least: int = 5) -> set[str]:
    """What of the secret stands in the text, in pieces of so many characters."""
    least = min(least, len(secret))
    text = re.sub("<[^<>]{1,20}>", "\n", text)
    return {secret[at : at + least] for at in range(len(secret) - least + 1)} & {
        text[at : at + least] for at in range(len(text) - least + 1)
    }


def redacted(text: str) -> str:
    once = Redactor().text(text)
    assert Redactor().text(once) == once
    assert once.count("\n") == text.count("\n")
    return once


def names(planted: Planted) -> str:
    return f"{planted.kind}-{planted.line[:20]}-{planted.secret[:6]}"


@pytest.mark.parametrize("planted", ALL, ids=names)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "x {} y",
        '"{}"',
        "({})",
        RAY + "{}",
        "2026-11-20 10:00:00,123 INFO [train.py:7] {}",
        "\x1b[31m{}\x1b[0m",
        "a\t{}\r",
        "log={}",
    ],
)
def test_a_secret_is_found_wherever_it_stands(planted: Planted, around: str) -> None:
    if "\n" in planted.text and "pid" in around:
        pytest.skip("a dump of two lines")
    text = around.format(planted.text)
    out = redacted(text)
    assert not left(planted.secret, out), out
    assert any(found.secret for found in find(text))


@pytest.mark.parametrize("planted", ALL, ids=names)
def test_a_secret_is_found_inside_of_json(planted: Planted) -> None:
    once = json.dumps({"log": f"step 1\n{planted.text}\nstep 2", "loss": 0.25})
    assert not left(planted.secret, redacted(once))
    assert not left(planted.secret, redacted(json.dumps({"message": once})))
    assert redacted(once).endswith(', "loss": 0.25}')


@pytest.mark.parametrize("planted", ALL, ids=names)
def test_a_secret_is_found_in_a_percent_encoded_address(planted: Planted) -> None:
    encoded = quote(planted.secret, safe="")
    out = redacted(f"GET /cb?state=1&next={quote(planted.text.replace(planted.secret, encoded), safe='')}")
    assert not left(planted.secret, out) | left(encoded, out), out


@pytest.mark.parametrize("planted", SIGNED, ids=names)
@pytest.mark.parametrize("prefix", ["", RAY, "[rank3]: ", "3: ", "trainer-1  | ", "2026-11-20T10:00:00Z "])
@pytest.mark.parametrize("width", [40, 60, 80, 97])
def test_nothing_is_left_of_a_secret_that_a_wrap_splits(planted: Planted, prefix: str, width: int) -> None:
    for lead in range(0, width, 9):
        line = "x" * lead + " " + planted.text + " and the rest of the line"
        pieces = [line[at : at + width] for at in range(0, len(line), width)]
        text = "".join(f"{prefix}{piece}\n" for piece in ["a line of the same width".ljust(width, "."), *pieces])
        assert not left(planted.secret, redacted(text)), text


@pytest.mark.parametrize("planted", [p for p in NAMED if "\n" not in p.line], ids=names)
def test_nothing_is_left_of_a_named_secret_that_a_terminal_splits(planted: Planted) -> None:
    for lead in range(0, 80, 9):
        line = "x" * lead + " " + planted.text + " and the rest of the line"
        text = "\n".join(line[at : at + 80] for at in range(0, len(line), 80))
        assert not left(planted.secret, redacted(text), 7), text


FORMS: dict[str, Callable[[list[str]], str]] = {
    "json": lambda pieces: json.dumps({"log": "\n".join(pieces)}),
    "crlf": "\r\n".join,
    "colours": lambda pieces: "\n".join(f"\x1b[33m{piece}\x1b[0m" for piece in pieces),
    "containerd": lambda pieces: "".join(f"2026-11-20T10:00:00.123456789Z stdout F {piece}\n" for piece in pieces),
    "box": lambda pieces: "\n".join(
        ["╭" + "─" * 82 + "╮", *(f"│ {piece:<80} │" for piece in pieces), "╰" + "─" * 82 + "╯"]
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("planted", [p for p in ALL if "\n" not in p.line and p.kind != "netrc"], ids=names)
def test_nothing_is_left_of_a_split_secret_in_other_forms(planted: Planted, form: str) -> None:
    for lead in range(0, 80, 13):
        line = "x" * lead + " " + planted.text + " and the rest of the line"
        text = FORMS[form]([line[at : at + 80] for at in range(0, len(line), 80)])
        assert not left(planted.secret, redacted(text), 7), text


# shorter than those that are drawn today: what ends its line may have been cut there, or be as short as it looks
SHORT = "hf_" + "Ab3dEf9hIj" * 2 + "kL"


@pytest.mark.parametrize("below", ["Loading model", "WANDB_MODE=offline", "export LANG=C", "done."])
@pytest.mark.parametrize("above", ["HF_TOKEN=", "token: ", "export HF_TOKEN="])
def test_the_next_line_is_no_rest_of_a_short_token(above: str, below: str) -> None:
    out = redacted(f"{above}{SHORT}\n{below}\n")
    assert not left(SHORT, out), out
    assert out.splitlines()[1] == below


def test_the_rest_of_a_short_token_is_taken_out_where_its_line_is_full() -> None:
    line = "x" * (79 - len(SHORT)) + " " + SHORT
    assert not left("7Qz81kPw4", redacted(f"{line}\n7Qz81kPw4 and more\n"))


@pytest.mark.parametrize("prefix", ["", RAY, "[rank0]: ", "trainer-1  | ", "2026-11-20 10:00:00,123 INFO ", "    "])
def test_nothing_is_left_of_a_key_in_lines(prefix: str) -> None:
    for block in (PEM, PEM[:-1], [*PEM, *PEM]):
        text = "".join(f"{prefix}{line}\n" for line in ["before", *block, "step 3 of 4"])
        out = redacted(text)
        assert not any(left(line, out) for line in PEM_BODY), out
        assert f"{prefix}step 3 of 4\n" in out


def test_nothing_is_left_of_a_service_accounts_key() -> None:
    account = {
        "type": "service_account",
        "private_key_id": "0123456789abcdef0123456789abcdef01234567",
        "private_key": "\n".join(PEM) + "\n",
        "client_email": "trainer@acme-42.iam.gserviceaccount.com",
    }
    for text in (
        json.dumps(account),
        json.dumps(account, indent=2),
        repr(account),
        json.dumps({"x": json.dumps(account)}),
    ):
        out = redacted(text)
        assert not any(left(line, out) for line in PEM_BODY)
        assert "acme" not in out
        assert "0123456789abcdef" not in out
        assert "service_account" in out


@pytest.mark.parametrize(("line", "personal", "expected"), PERSONAL)
def test_a_personal_name_becomes_a_pseudonym(line: str, personal: str, expected: str) -> None:
    assert redacted(line) == expected
    at_the_beginning = line.startswith(("Nov", "2026", "gpu-07 s"))
    for text in () if at_the_beginning else (f"{RAY}{line}", json.dumps({"log": line})):
        assert personal not in redacted(text)


NO_SECRETS = (
    # tokens of tokenizers, figures about tokens, settings
    "max_tokens=4096, num_tokens: 12, max_num_batched_tokens=8192 tokens_per_second=123.4",
    "pad_token='<pad>', eos_token='</s>', bos_token_id=1, unk_token=\"<unk>\", image_token=<image>",
    "eos_token: <|im_end|> pad_token: <|endoftext|> tool_call_start_token='[TOOL_CALLS]'",
    "tokenizer='meta-llama/Llama-3.1-8B', tokenizer_mode=auto, skip_tokenizer_init=False, TOKENIZERS_PARALLELISM=false",
    "hf_token=None, api_key=None, ssl_keyfile=None, ssl_certfile=None, use_auth_token=False, token=null",
    "HF_TOKEN=$HF_TOKEN WANDB_API_KEY=${WANDB_API_KEY} token=os.environ['HF_TOKEN'] password=***",
    "c = Client(address, authkey=process.current_process().authkey)",
    "time_to_first_token=0.213s, time_per_output_token: 0.0132, last_token=151645",
    "missing key: model.layers.0.self_attn.q_proj.weight, cache_key=a1b2c3d4e5f6a7b8c9, key: value, primary_key=17",
    "KeyError: 'token' and a secret garden; password must be set; Bearer authentication is on",
    "first_token_id=128000 prompt_token_ids=[128000, 9906] token_type: str secret: None",
    "hf_config=LlamaConfig hf_overrides={} hf_hub_download hf_transfer=1 hf_model_path_of_the_actor_and_critic_models",
    "sk-learn sklearn task-1234567890-abcdefghij disk-usage-of-the-node-is-99-percent risk-free-rate-of-return-10",
    # ids, digests, versions, addresses
    "node_id=0a57c2d2ac4f68bd8d50ee9f32d30e35a0f4ab8ac06a0b2a9d64c5b1 worker 86f38b3df9",
    "commit 3f785e2a1c9d4b7e8f60718293a4b5c6d7e8f901 of the repository",
    "https://wandb.ai/authorize https://wandb.ai/site/x https://docs.wandb.ai/guides/track wandb_entity=None",
    "wandb.init(project=args.project, entity=args.entity) wandb.entity=${x}",
    "logged in as: root (uid 0) libx-2.18.3.1-cuda",
    "wandb: git commit 3f785e2a1c9d4b7e8f60718293a4b5c6d7e8f901",
    "wandb: Syncing run lively-bee-17; wandb version 0.18.7; wandb: Run data is saved locally in ./wandb/run-20261120",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 uuid 123e4567-e89b-12d3-a456-426614174000",
    "at 0x7f3a2c001b40 in 0x55d0b7a3e2f0, GPU-3f1a2b3c-0000-1111-2222-333344445555, 00000000:1B:00.0",
    "cudnn 8.9.7.29, CUDA 12.4.1.3, nvidia-cublas-cu12==12.4.5.8, nvidia-cudnn-cu12    9.1.0.70, driver 535.129.03",
    "TensorRT version 10.3.0.26 and libcudnn.so.9.1.0.70 and NCCL version 2.21.5+cuda12.4 and 12.4.1.3",
    "10.0.0.7:6379 172.16.4.2 192.168.1.9 127.0.0.1:8000 0.0.0.0 169.254.1.1 fe80::1 ::1 255.255.255.0",
    "12:34:56 2026-11-20 10:00:00.123456 aa:bb:cc:dd:ee:ff std::vector at::native c10::Error 1.2.3 v0.11.0",
    # models, modules, sites, files, users that are everybody's
    "meta-llama/Llama-3.1-8B Qwen/Qwen2.5-7B-Instruct deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
    "torch.distributed.elastic.multiprocessing.api torch.utils.data vllm.v1.engine.core ray.data.io train.py:12",
    "https://github.com/vllm-project/vllm https://docs.ray.io/en/latest https://huggingface.co/Qwen/Qwen3-8B",
    "/root/.cache/huggingface /home/ray/anaconda3/lib /home/ubuntu/x /opt/conda/lib/python3.10/site-packages/torch",
    "user@1000.service ray@2.40.0 git@github.com:x/y.git @torch.compile image@sha256:9f86d081",
    "on node 3 of 8, host memory 12 GiB, node: 0, server: uvicorn, host RAM, the host: it has 64 GiB, localhost:8000",
    "file:///data/x.parquet s3 bucket, gs: none, http://localhost:8000/v1 tcp://127.0.0.1:29500 tcp://10.0.0.4:29500",
    "Bearer token missing; Authorization required; sig=1; eyJ is how a JWT begins; AKIA is a prefix",
    "worker-0 rank-3 trainer-0 actor-rollout-ref-worker gpu-memory-utilization no-enable-prefix-caching per-worker-cap",
    "gpu-0 gpu0 GPU 10 node 12 nodes=16 node_10 gpus=64 compute_90 compute-capability sm_90 gpu10=3 on pod startup",
    "/root/home/.cache ~/home site-packages/home/views.py /home/user/x /users/me sk-abcdefghijklmnopqrstuvwxyz",
    "hf_hub_download_with_a_long_name hf_transfer hf_ ghp_ hf_xet hf_quantizer",
    # versions, parts of memory and attributes behind the words for a machine
    "Using server vllm-0.8.3, Server uvicorn-0.23, Node v18.17.0, host: 0x7f, Pod OOM-killed, node count-2",
    "host pinned-memory pool, Host: cpu-offload, server timed-out, host to-device, Host RAM-limit, pod template-hash",
    "host: h2d-copy",
    "cfg.local ray.cluster data.internal layers.0.mlp.org self.net.com torch.org.nn func@module.name trainer.local",
    "torch 1.13.0.200, cuda-toolkit 12.4.131.0",
    "--redis-password=5241590000000000 hf_checkpointconvertedtosafetensors",
    "wandb: Run id 3f785e2a1c9d4b7e8f60718293a4b5c6d7e8f901",
    # commands that sign in without a password, and options that look as if they did
    "curl -sS -u trainer http://10.0.0.3/v1 curl -fsSL https://github.com/x/y.tgz -o a:b and curl -u $USER:$PASS x",
    "curl http://10.0.0.3/ && docker run -u 1000:1000 --user 1000:1000 trainer:2 ; su -u a:b | id -u a:b",
    "sshpass -e ssh node1 sshpass -f pw.txt ssh -p 2222 node1 mysql -h db -P 3306 -u root -p runs",
    "mysqld -port 3306 mysql -pid /run/mysqld.pid and python -pfoo mysql --protocol=tcp mysql: -p is on the line",
    "redis-cli -h db ping redis-cli info memory",
    "please login first, password twice login: bob login as root with a password of your own",
    "login once\nand then the password twice",
    "login again\npassword required for this step",
    'Enter passphrase for key "/data/id": passphrase "must not be empty", password "invalid", password "is short"',
    'unknown option "passphrase" password "field" the password "word" is not it',
    # addresses of services that hold no token, ids that look like one
    "POST /api/webhooks/1123456789012345678 /bot /hook/pre-commit hooks/post-merge",
    "forward_hook/model.layers.0 .git/hook/pre-push http://10.0.0.3/webhooks/status-page-of-the-cluster-2026 bot7:8",
    "/cgi-bin/gettoken?corpid=x ratio 1234567890:AAAA 12:AA:BB:CC 1123456789:ABCDEF",
    '{"auth":"required_authentication"} {"auth": "basic"} {"auth":"dXNlcg=="} auth="on"',
    "{'auth': 'c29tZXRoaW5nZWxzZQ=='} _auth=false",
    "hvs.config.hvs_of_a_module_name hvs.1 shpat_x shpat_0123 AGE-SECRET-KEY-1 sk-or-v1 ",
    "sk-or-v1-example-of-the-form-2026 is no key",
    # accounts that everybody has, numbers of them, addresses of packages and images
    "UserId=root(0) GroupId=physics(900) uid=0(root) gid=0(root) groups=0(root),44(video)",
    "uid=1001 UserId=5012 uid=1000(ray) UserId=nobody(65534) UID:1001 oom_score_adj:0",
    "sudo: unable to resolve host sudo: apt: command sudo: 3 incorrect password attempts sudo: a password is required",
    "session opened for user root by (uid=0) Accepted connection for stream 3 from rank 2 Failed password check",
    "root      1  0.0  0.1 168140 11512 ?        Ss   Nov19   0:04 /sbin/init",
    "ray    4410 99.9 12.3 81234567 60123456 ?     Rl   08:00 123:45 ray::train",
    "systemd+     612       1  0 Nov19 ?        00:00:07 /lib/systemd/systemd-resolved",
    "1001    4410 99.9 12.3 81234567 60123456 pts/0 Rl   08:00 123:45 python3 train.py",
    "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND",
    "loss 24410 99.9 12.3 ? and why ? rank 3 on tty 0 lr 1 2 3 08:00 ? 01:02",
    "step 12 99.9 12.3 81234567 60123456 ? done 08:00 of 123:45",
    "ssh root@10.0.0.4 ssh git@github.com ssh ubuntu@10.0.0.5 from ray@2.40.0 from torch@cu124 to numpy@1.26.4",
    "from trainer@sha256:9f86d081 from image@release-2 from checkout@main to model@dev-3 on branch@next-15 on x@v1.2",
    "matrix a@b from x@y torch.einsum(q@k.T) score@10 recall@100 pass@1 hit@10.5 ndcg@10 p@10.0.1 lib@1.2.3 ssh: x@",
    # words for secrets without one
    "3 passed, forward pass: 3, PWD=/data/x OLDPWD=/data api_key: none, password=${DB}, tokens=[1, 2]",
    "eos_tokens=['<|im_end|>', '<|x|>'] special_tokens: ['<a>', '<b>'] keys=['input_ids', 'labels']",
    "口令 未设置 密钥为空 令牌数=4096 令牌: 12 http://host:8000/models@v1 MAX_TOKEN length-of-the-longest-one",
    "-----BEGIN PUBLIC KEY-----",
    "Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.11 GiB of which 1.31 GiB is free.",
)


@pytest.mark.parametrize("line", NO_SECRETS)
def test_what_looks_like_one_is_left_alone(line: str) -> None:
    assert Redactor().text(line) == line
    assert Redactor().text(f"{RAY}{line}\n{line}\n") == f"{RAY}{line}\n{line}\n"


def test_every_row_of_the_table_gives_its_reason_and_is_planted() -> None:
    assert all(kind.why and kind.put for kind in (*KINDS, *PERSONAL_KINDS))
    assert {kind.name for kind in KINDS} == {planted.kind for planted in ALL}
    assert WORDS.keys() == {kind.name for kind in (*KINDS, *PERSONAL_KINDS)} | {"pem", "cut"}


def test_near_misses_outnumber_hits() -> None:
    misses = sum(len(line.split(" ")) for line in NO_SECRETS)
    assert misses > len(ALL) + len(PERSONAL)


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("Namespace(api_key=['mysecretkey'], port=8000)", "mysecretkey"),
        ("{'api_key': ['firstsecret', 'secondsecret'], 'port': 8000}", "secondsecret"),
        ("passwords=['S3cretPw9']", "S3cretPw9"),
        ("--api-keys first8key second9key --port 1", "second9key"),
        ("vllm --pass S3cretPw9", "S3cretPw9"),
        ("password=$3cretPw9!", "3cretPw9"),
        ("password=(abc)12", "(abc)12"),
        ("password=ab;cd9", "cd9"),
        ("password=ab&cd9", "cd9"),
        (r"'password': 'ab\'cd9'", "cd9"),
        ("export DB_PASS=S3cretPw9", "S3cretPw9"),
        ("MYSQL_PWD=S3cretPw9", "S3cretPw9"),
        ("HF_TOKEN abcdef1234567890", "abcdef1234567890"),
        ("api_key ........ abcdef1234567890", "abcdef1234567890"),
        ("│ HF_TOKEN │ abcdef1234567890 │", "abcdef1234567890"),
        ("postgres://u:p@ss/w0rd@10.0.0.9:5432/x", "w0rd"),
        ("密码：S3cretPw9。", "S3cretPw9"),
        ("口令=S3cretPw9", "S3cretPw9"),
        ("API密钥: abcdef1234567890abcdef", "abcdef1234567890"),
        ("令牌：abcdef1234567890", "abcdef1234567890"),
        ("password：S3cretPw9", "S3cretPw9"),
        ("token：abcdef1234567890abcdef", "abcdef1234567890"),
        ("读取/home/李伟/x失败", "李伟"),
        ("在节点gpu-07上", "gpu-07"),
        ("节点54.201.7.9失败", "54.201"),
        ("邮箱mireille@lab.com。", "mireille"),
        ("https://data.acme-corp.com/x", "acme"),
        ("on config.acme.com", "acme"),
        ("host gpu-a3 died", "gpu-a3"),
        ("curl -H 'Content-Type: application/json; charset=utf-8' --user ci-bot:S3cretPw9 10.0.0.3", "S3cretPw9"),
        ("curl -sS \\\n  -u ci-bot:S3cretPw9 10.0.0.3", "S3cretPw9"),
        ("Command '['curl', '-u', 'ci-bot:S3cretPw9', '10.0.0.3']' failed", "S3cretPw9"),
        ("['sshpass', '-p', 'S3cretPw9', 'ssh', 'x']", "S3cretPw9"),
        ("mysql runs -h 10.0.0.9 -p'S3cretPw9'", "S3cretPw9"),
        ('{\n  "auth": "dXNlcjpzM2NyM3RQdzk="\n}', "dXNlcjpz"),
        ("machine api.example\n\tlogin user\n\tpassword hunter2", "hunter2"),
        ("2026-11-20T10:00:00Z stdout F login user\n2026-11-20T10:00:01Z stdout F password hunter2", "hunter2"),
        ("password 'hunter2'", "hunter2"),
        ("node rack-7 died", "rack-7"),
    ],
)
def test_other_ways_to_write_one(line: str, secret: str) -> None:
    out = redacted(line)
    assert secret not in out, out
    assert "<" in out


@pytest.mark.parametrize(
    ("name", "value", "is_one"),
    [
        ("password", 12345678, True),
        ("db_password", "hunter2", True),
        ("passwords", ["S3cretPw9"], True),
        ("api_keys", ("first8key", "second9key"), True),
        ("secret", {"id": "sup3rs3cr3t"}, True),
        ("secrets", {"wandb": "mysecretkey"}, True),
        ("secrets.wandb", "mysecretkey", True),
        ("pass", "S3cretPw9", True),
        ("use_password", True, False),
        ("secrets", {"enabled": "true"}, False),
        ("max_tokens", 4096, False),
        ("stop_tokens", ["<|im_end|>"], False),
        ("keys", ["input_ids"], False),
        ("first_pass", "quick", False),
    ],
)
def test_a_setting_is_known_by_its_name(name: str, value: object, is_one: bool) -> None:
    out = str(Redactor()._value({name: value}))
    assert ("<SECRET>" in out) is is_one
    if not is_one:
        assert out == str({name: value})
