"""What is found, in words, for people: of each kind's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oomdoctor.language import mark, translated

WORDS: Final[Mapping[str, str]] = {
    "anthropic": mark("an Anthropic API key"),
    "authorization": mark("an Authorization header"),
    "aws-key-id": mark("an AWS access key ID"),
    "aws-session": mark("an AWS session token"),
    "azure-key": mark("an Azure account key"),
    "azure-sas": mark("an Azure SAS signature"),
    "bearer": mark("a bearer token"),
    "bucket": mark("a bucket name"),
    "command": mark("a password in a command"),
    "cookie": mark("a cookie"),
    "cut": mark("the first part of a secret"),
    "email": mark("an email address"),
    "gcp-key": mark("a Google API key"),
    "gcp-oauth": mark("a Google OAuth token"),
    "github": mark("a GitHub token"),
    "gitlab": mark("a GitLab token"),
    "host": mark("a host name"),
    "hugging-face": mark("a Hugging Face token"),
    "ip": mark("a public IP address"),
    "jwt": mark("a JSON Web Token"),
    "named": mark("a password, key or token"),
    "netrc": mark("a password of a .netrc file"),
    "openai": mark("an OpenAI API key"),
    "other-token": mark("an access token"),
    "pem": mark("a private key"),
    "registry": mark("a registry password"),
    "signed-url": mark("a signature in a URL"),
    "slack": mark("a Slack token"),
    "url-password": mark("a password in a URL"),
    "url-token": mark("a token in a URL"),
    "user": mark("a name of a person or team"),
    "wandb": mark("a Weights & Biases key"),
    "webhook": mark("a webhook URL"),
}


def in_words(kind: str) -> str:
    return translated(WORDS[kind])
