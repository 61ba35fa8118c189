"""Secrets of every kind, drawn by lot (none is anybody's), and what personal names look like."""

from __future__ import annotations

import base64
import json
import random
import string
from dataclasses import dataclass

_LOT = random.Random(7)
HEX = "0123456789abcdef"
_BASE62 = string.ascii_letters + string.digits


def drawn(length: int, letters: str = _BASE62) -> str:
    """So many characters by lot, digits and letters of both cases among them as far as there are any."""
    while True:
        made = "".join(_LOT.choice(letters) for _ in range(length))
        kinds = (str.isdigit, str.islower, str.isupper)
        if all(any(map(kind, made)) or not any(map(kind, letters)) for kind in kinds) and made[0].isalnum():
            return made


def _jwt() -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": drawn(12), "exp": 1790000000})
    head = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*head, drawn(43, _BASE62 + "-_")])


def _uuid() -> str:
    return "-".join(drawn(length, HEX) for length in (8, 4, 4, 4, 12))


@dataclass(frozen=True)
class Planted:
    kind: str
    secret: str
    line: str = "{}"  # what stands around it

    @property
    def text(self) -> str:
        return self.line.format(self.secret)


# Those that give themselves away
SIGNED = (
    Planted("hugging-face", "hf_" + drawn(34)),
    Planted("wandb", "wandb_v1_" + drawn(77)),
    Planted("anthropic", "sk-ant-" + "api03-" + drawn(93, _BASE62 + "-_") + "AA"),
    Planted("openai", "sk-" + drawn(48)),
    Planted("openai", "sk-" + drawn(32, HEX)),
    Planted("openai", "sk-" + "proj-" + drawn(120, _BASE62 + "-_")),
    *(Planted("github", f"gh{letter}_" + drawn(36)) for letter in "pousr"),
    Planted("github", "github_pat_" + drawn(22) + "_" + drawn(59)),
    Planted("gitlab", "glpat-" + drawn(20)),
    Planted("slack", "xoxb-" + drawn(12, string.digits) + "-" + drawn(12, string.digits) + "-" + drawn(24)),
    Planted("aws-key-id", "AKIA" + drawn(16, string.ascii_uppercase + string.digits)),
    Planted("aws-key-id", "ASIA" + drawn(16, string.ascii_uppercase + string.digits)),
    Planted("aws-session", "IQoJb3JpZ2lu" + drawn(300) + "=="),
    Planted("gcp-key", "AIza" + drawn(35)),
    Planted("gcp-oauth", "ya29." + drawn(80, _BASE62 + "-_")),
    Planted("jwt", _jwt()),
    Planted("other-token", "nvapi-" + drawn(64)),
    Planted("other-token", "gsk_" + drawn(52)),
    Planted("other-token", "npm_" + drawn(36)),
    Planted("openai", "sk-or-v1-" + drawn(64, HEX)),
    Planted("other-token", "hvs." + drawn(92, _BASE62 + "-_")),
    Planted("other-token", "shpat_" + drawn(32, HEX)),
    Planted("other-token", "AGE-SECRET-KEY-1" + drawn(58, string.ascii_uppercase + string.digits)),
    Planted("webhook", drawn(10, string.digits) + ":AA" + drawn(33)),
)
# Those that what stands around them gives away
NAMED = (
    Planted("wandb", drawn(40, HEX), "wandb login {}"),
    Planted("wandb", drawn(40, HEX), "--use_wandb {} --max_len 4096"),
    Planted("wandb", drawn(40, HEX), "WANDB_API_KEY={}"),
    Planted("wandb", drawn(40, HEX), "{{'WANDB_API_KEY': '{}', 'NCCL_DEBUG': 'INFO'}}"),
    Planted("slack", drawn(9) + "/" + drawn(11) + "/" + drawn(24), "https://hooks.slack.com/services/{}"),
    Planted("named", drawn(40, _BASE62 + "/+"), "AWS_SECRET_ACCESS_KEY={}"),
    Planted("named", drawn(40, _BASE62 + "/+"), "aws_secret_access_key = {}"),
    Planted("named", drawn(40, _BASE62 + "/+"), '"SecretAccessKey": "{}",'),
    Planted("named", drawn(200, _BASE62 + "/+"), "export AWS_SESSION_TOKEN={}"),
    Planted("signed-url", drawn(64, HEX), "https://b.s3.amazonaws.com/k?X-Amz-Expires=900&X-Amz-Signature={}"),
    Planted("signed-url", drawn(120), "https://b.s3.amazonaws.com/k?X-Amz-Security-Token={}&X-Amz-Expires=900"),
    Planted("signed-url", drawn(64, HEX), "https://storage.googleapis.com/b/k?X-Goog-Signature={}"),
    Planted("signed-url", drawn(28) + "%3D", "https://b.s3.amazonaws.com/k?AWSAccessKeyId=x&Expires=17&Signature={}"),
    Planted("azure-sas", drawn(43) + "%3D", "https://a.blob.core.windows.net/c/k?sv=2024-11-04&sp=r&sig={}&se=2026"),
    Planted(
        "azure-key", drawn(86) + "==", "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={};EndpointSuffix=x"
    ),
    Planted("azure-key", drawn(43) + "=", "Endpoint=sb://x/;SharedAccessKeyName=root;SharedAccessKey={}"),
    Planted("bearer", drawn(40), "curl -H 'X: Bearer {}' http://10.0.0.3/v1/models"),
    Planted("authorization", drawn(30), "Authorization: Basic {}"),
    Planted("authorization", drawn(40), "{{'Authorization': 'Bearer {}'}}"),
    Planted("cookie", drawn(40), "Cookie: session={}"),
    Planted("url-password", drawn(16), "postgresql://trainer:{}@10.0.0.9:5432/runs"),
    Planted("url-password", "p@s:" + drawn(6), "redis://:{}@10.0.0.9:6379"),
    Planted("url-token", drawn(40), "git clone https://{}@github.com/x/y"),
    Planted("named", "hunter2", "password={}"),
    Planted("named", "correct horse", "DB_PASSWORD='{}'"),
    Planted("named", drawn(12), "--password {} --lr 1e-6"),
    Planted("named", drawn(24), "--hf_token {}"),
    Planted("named", drawn(24), "MY_SERVICE_TOKEN={}"),
    Planted("named", drawn(24), "export COMET_API_KEY='{}'"),
    Planted("named", drawn(32), "runtime_env={{'env_vars': {{'SWANLAB_API_KEY': '{}'}}}}"),
    Planted("named", drawn(32), "- name: VAULT_TOKEN\n  value: {}"),
    Planted("named", drawn(32), "environ({{'MLFLOW_TRACKING_PASSWORD': '{}'}})"),
    Planted("named", drawn(32), "('NEPTUNE_API_TOKEN', '{}')"),
    Planted("named", drawn(32), "client_secret: {}"),
    Planted("named", drawn(32), "x-api-key: {}"),
    Planted("named", drawn(32), "http://10.0.0.3:8000/v1?api_key={}&stream=true"),
    Planted("netrc", drawn(12), "machine api.example login user password {}"),
    Planted("netrc", drawn(12), "machine api.example\n  login user\n  password {}"),
    Planted("openai", "sk-or-v1-" + drawn(64, HEX), "api key: {}"),
    Planted("webhook", drawn(68, _BASE62 + "-_"), "https://discord.com/api/webhooks/1123456789012345678/{}"),
    Planted("webhook", _uuid(), "https://open.feishu.cn/open-apis/bot/v2/hook/{}"),
    Planted("webhook", _uuid(), "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={}"),
    Planted("webhook", "8302715946:AA" + drawn(33), "POST https://api.telegram.org/bot{}/sendMessage"),
    Planted("named", drawn(64, HEX), "https://oapi.dingtalk.com/robot/send?access_token={}"),
    Planted(
        "registry",
        base64.b64encode(f"trainer:{drawn(20)}".encode()).decode(),
        '{{"auths":{{"ghcr.io":{{"auth":"{}"}}}}}}',
    ),
    Planted("command", drawn(12), "curl -sS -u trainer:{} http://10.0.0.3/v1/models"),
    Planted("command", drawn(12), "sshpass -p '{}' ssh node"),
    Planted("command", drawn(12), "mysqldump -h 10.0.0.9 -uroot -p{} runs"),
    Planted("command", drawn(12), "redis-cli -h 10.0.0.9 -a {} ping"),
    Planted("named", "correct zebra battery", 'passphrase "{}"'),
)
ALL = (*SIGNED, *NAMED)

PEM_BODY = tuple(drawn(64, _BASE62 + "+/") for _ in range(5))
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----",
    *PEM_BODY,
    "-----END RSA PRIVATE KEY-----",
)

# What is personal: the line, what must go, what stands there instead
PERSONAL = (
    (
        "View project at https://wandb.ai/acme-research/rl",
        "acme-research",
        "View project at https://wandb.ai/<USER-1>/rl",
    ),
    (
        "wandb: View run at https://wandb.acme.example:8080/acme-research/rl/runs/x1",
        "acme-research",
        "wandb: View run at https://<HOST-1>:8080/<USER-1>/rl/runs/x1",
    ),
    (
        "wandb: Currently logged in as: mireille (acme-research). Use `wandb login`",
        "acme-research",
        "wandb: Currently logged in as: <USER-1> (<USER-2>). Use `wandb login`",
    ),
    ("WANDB_ENTITY=acme-research", "acme-research", "WANDB_ENTITY=<USER-1>"),
    ("trainer.wandb_entity: acme-research", "acme-research", "trainer.wandb_entity: <USER-1>"),
    (
        "wandb.init(project='rl', entity='acme-research')",
        "acme-research",
        "wandb.init(project='rl', entity='<USER-1>')",
    ),
    ("group ray-54.201.7.9-worker gone", "54.201", "group ray-<IP-1>-worker gone"),
    ("/home/mireille/run.py", "mireille", "/home/<USER-1>/run.py"),
    ("/Users/mireille/run.py", "mireille", "/Users/<USER-1>/run.py"),
    (r"C:\Users\mireille\run.py", "mireille", r"C:\Users\<USER-1>\run.py"),
    (r"C:\\Users\\mireille\\run.py", "mireille", r"C:\\Users\\<USER-1>\\run.py"),
    ("/home/mireille/a and /data/mireille/b", "mireille", "/home/<USER-1>/a and /data/<USER-1>/b"),
    ("USER=mireille", "mireille", "USER=<USER-1>"),
    ("mail mireille.k@lab.ac.uk now", "mireille", "mail <EMAIL-1> now"),
    (
        "UserId=mireille(5012) GroupId=mireille(5012) MCS",
        "mireille",
        "UserId=<USER-1>(5012) GroupId=<USER-1>(5012) MCS",
    ),
    (
        "uid=1001(mireille) gid=1001(mireille) groups=1001(mireille),27(sudo)",
        "mireille",
        "uid=1001(<USER-1>) gid=1001(<USER-1>) groups=1001(<USER-1>),27(sudo)",
    ),
    ("sudo: mireille : TTY=pts/0 ; PWD=/data", "mireille", "sudo: <USER-1> : TTY=pts/0 ; PWD=/data"),
    (
        "pam_unix(sudo:session): session opened for user root(uid=0) by mireille(uid=1001)",
        "mireille",
        "pam_unix(sudo:session): session opened for user root(uid=0) by <USER-1>(uid=1001)",
    ),
    (
        "Accepted publickey for mireille from 10.0.0.4 port 5022 ssh2",
        "mireille",
        "Accepted publickey for <USER-1> from 10.0.0.4 port 5022 ssh2",
    ),
    (
        "mireille   24410 99.9 12.3 81234567 60123456 ?     Rl   08:00 123:45 python3 train.py",
        "mireille",
        "<USER-1>   24410 99.9 12.3 81234567 60123456 ?     Rl   08:00 123:45 python3 train.py",
    ),
    (
        "mireill+   24410   24400 99 Nov20 pts/3 1-02:03:04 python3 train.py",
        "mireill",
        "<USER-1>+   24410   24400 99 Nov20 pts/3 1-02:03:04 python3 train.py",
    ),
    ("ssh -p 2222 mireille@10.0.0.4", "mireille", "ssh -p 2222 <USER-1>@10.0.0.4"),
    (
        "Command '['scp', 'a', 'mireille@larch:b']' failed",
        "mireille",
        "Command '['scp', 'a', '<USER-1>@larch:b']' failed",
    ),
    ("ssh -i /data/id mireille@larch nvidia-smi", "mireille", "ssh -i /data/id <USER-1>@<HOST-1> nvidia-smi"),
    (r"uid=1001(LAB\\mireille) euid", "mireille", r"uid=1001(LAB\\<USER-1>) euid"),
    ("from mireille@node17 now", "mireille", "from <USER-1>@<HOST-1> now"),
    ("mireille@192.168.3.4: step 3", "mireille", "<USER-1>@192.168.3.4: step 3"),
    ("mireille@larch: Permission denied (publickey).", "mireille", "<USER-1>@larch: Permission denied (publickey)."),
    ("tcp://54.201.7.9:29500", "54.201", "tcp://<IP-1>:29500"),
    ("(Worker pid=3, ip=54.201.7.9)", "54.201", "(Worker pid=3, ip=<IP-1>)"),
    ("MASTER_ADDR=203.0.113.7", "203.0", "MASTER_ADDR=<IP-1>"),
    ("raylet-54.201.7.9.log", "54.201", "raylet-<IP-1>.log"),
    ("peer 2600:1f18:24e6::9a1 closed", "1f18", "peer <IP-1> closed"),
    ("Nov 20 12:00:00 gpu-07 kernel: x", "gpu-07", "Nov 20 12:00:00 <HOST-1> kernel: x"),
    ("2026-11-20T12:00:00+0000 larch kernel: x", "larch", "2026-11-20T12:00:00+0000 <HOST-1> kernel: x"),
    ("gpu-07:4123:4158 [3] NCCL INFO Bootstrap", "gpu-07", "<HOST-1>:4123:4158 [3] NCCL INFO Bootstrap"),
    ("srun: error: nid004: task 1: Killed", "nid004", "srun: error: <HOST-1>: task 1: Killed"),
    ("*** STEP 88.0 ON nid004 CANCELLED", "nid004", "*** STEP 88.0 ON <HOST-1> CANCELLED"),
    ("SLURM_JOB_NODELIST=nid[004-007,9]", "nid[", "SLURM_JOB_NODELIST=<HOST-1>"),
    ("  host      : larch (local)", "larch", "  host      : <HOST-1> (local)"),
    ("ip-10-3-0-7.ec2.internal is up", "10-3", "<HOST-1> is up"),
    ("gpu3.cluster.uni-bonn.de", "bonn", "<HOST-1>"),
    ("http://trainer-0.train.svc.cluster.local:8000/x", "trainer", "http://<HOST-1>:8000/x"),
    ("pod verl-7d4b9c6f5d-x2v7q failed", "verl", "pod <HOST-1> failed"),
    ("raycluster-kuberay-worker-gpu-group-worker-9xk2v", "kuberay", "<HOST-1>"),
    ("https://minio.acme-ai.com:9000/x", "acme", "https://<HOST-1>:9000/x"),
    ("mireille@gpu-07:~/verl$ python x.py", "mireille", "<USER-1>@<HOST-1>:~/verl$ python x.py"),
    ("gpu-07 slots=8", "gpu-07", "<HOST-1> slots=8"),
    ("the memory on node larch is used", "larch", "the memory on node <HOST-1> is used"),
    ("/nfs/home/mireille/x", "mireille", "/nfs/home/<USER-1>/x"),
    ("[pod/trainer-0/main] step", "trainer-0", "[pod/<HOST-1>/main] step"),
    ("started on dgx-017 at once", "dgx", "started on <HOST-1> at once"),
    ("s3://acme-ckpt/step_9", "acme", "s3://<BUCKET-1>/step_9"),
    ("gs://acme-ckpt", "acme", "gs://<BUCKET-1>"),
    ("abfss://acme@acme7.dfs.core.windows.net/x", "acme", "abfss://<BUCKET-1>@<BUCKET-2>.dfs.core.windows.net/x"),
    ("https://acme-ckpt.s3.eu-west-1.amazonaws.com/k", "acme", "https://<BUCKET-1>.s3.eu-west-1.amazonaws.com/k"),
    ("https://s3.amazonaws.com/acme-ckpt/k", "acme", "https://s3.amazonaws.com/<BUCKET-1>/k"),
    ("https://storage.googleapis.com/acme-ckpt/k", "acme", "https://storage.googleapis.com/<BUCKET-1>/k"),
)
