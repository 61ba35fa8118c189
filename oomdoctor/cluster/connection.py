"""The way into a running Ray cluster, and why it is closed."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from oomdoctor.language import say
from oomdoctor.sources.trouble import shown

AUTO: Final = "auto"
PATIENCE_S: Final = 5.0  # for a connection to be taken
LONGEST: Final = 300  # characters of what Ray says
_CLIENT: Final = "ray://"


class ClosedError(Exception):
    """There is no way into a cluster; the text says why, and what to do."""


@contextlib.contextmanager
def connected(address: str, packages: Path | None = None) -> Iterator[Any]:
    """Ray, connected to the cluster. Its workers import from the folder of packages first, where there is one."""
    import ray  # noqa: PLC0415  (nothing else needs it)

    # Ray prints to standard output what its raylets complain of, whatever `log_to_driver` says; we read it in the logs.
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            check_answers(_resolved(address))
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"working_dir": str(packages)} if packages is not None else None,
            )
        except (OSError, RuntimeError, ValueError, AssertionError, ray.exceptions.RayError) as error:
            raise ClosedError(_why(address, error, ray.exceptions)) from error
        try:
            yield ray
        finally:
            ray.shutdown()


def check_answers(address: str | None) -> None:
    """Where nobody listens, Ray 2.60 tries for many minutes."""
    host, _, port = (address or "").removeprefix(_CLIENT).partition("/")[0].rpartition(":")
    if not (host and port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        return  # Ray says what is wrong with it
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S).close()
    except OSError as error:
        reason = (error.strerror or str(error) or type(error).__name__).lower()
        raise ClosedError(
            say("no Ray cluster answers at {address}: {why}", address=shown(address or ""), why=shown(reason))
        ) from error


def _resolved(address: str) -> str | None:
    """Where "auto" leads: RAY_ADDRESS, a cluster that runs on this machine, or what `ray start` wrote down here."""
    if address.startswith(_CLIENT):
        return address
    from ray._private import services  # noqa: PLC0415

    if address == AUTO and os.environ.get("RAY_ADDRESS", "").startswith(_CLIENT):
        return os.environ["RAY_ADDRESS"]
    resolve = getattr(services, "canonicalize_bootstrap_address", None)
    found = resolve(address) if resolve is not None else None
    return found if isinstance(found, str) else None


def _why(address: str, error: Exception, known: Any) -> str:
    if isinstance(error, ConnectionError) and address == AUTO:
        return say(
            "no Ray cluster runs here: run this on one of its nodes, or add --address HOST:PORT; "
            "for the session folder of a stopped cluster: `oomdoctor diagnose FOLDER`"
        )
    words = " ".join(shown(str(error)).split())[:LONGEST]
    told = say("cannot connect to the Ray cluster at {address}: {why}", address=shown(address), why=words)
    if not hasattr(known, "AuthenticationError"):
        return told
    # Ray 2.52 and newer; Ray's own message names the token only on its way to the log
    return told + say(
        ". If the cluster wants a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH=FILE)"
    )
