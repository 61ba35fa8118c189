"""A headless Chromium, spoken to over its debugging pipe (https://chromedevtools.github.io/devtools-protocol/)."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

# Google's first: on Ubuntu 24.04 its sandbox is allowed, that of an unpacked Chromium is not.
NAMES = ("google-chrome-stable", "google-chrome", "chromium", "chromium-browser")
FLAGS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
PATIENCE_S = 60.0
LOW_FD = 10  # the browser's own two are 3 and 4

MISSING = "no Chromium found: install it (Debian: apt-get install chromium), or name one in OOMDOCTOR_CHROMIUM"


def found() -> str | None:
    """The browser to take, None where there is none."""
    named = os.environ.get("OOMDOCTOR_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One process with one page, which is opened again and again."""

    def __init__(self, path: str) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (theirs_in, self._out), (self._in, theirs_out) = (_pipe(), _pipe())
        as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
        arguments = [path, *FLAGS, *as_root, f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *arguments],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest = b""
        self._number = 0
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None
        try:
            self._attach()
        except RuntimeError:
            self.close()
            raise

    def _attach(self) -> None:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits", "DOM"):
            self.ask(f"{domain}.enable")

    def close(self) -> None:
        os.close(self._out)  # it ends with its pipe
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        self._folder.cleanup()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The browser's answer; events that come before it are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, page: Path) -> list[str]:
        """Load this file; what went wrong, and every request but the one for the file."""
        address = page.resolve().as_uri()
        self._events.clear()
        self.ask("Page.navigate", url=address)
        deadline = time.monotonic() + PATIENCE_S
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._next(deadline)
        self.evaluate("document.body.offsetHeight")  # what only the layout would ask for is asked for now
        self.evaluate("0")
        return [trouble for event in self._events if (trouble := _trouble(event, address))]

    def evaluate(self, script: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def look(self, width: int, height: int = 800, *, dark: bool = False, media: str = "") -> None:
        """The size of the window, and what its person prefers."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        self.ask("Emulation.setScrollbarsHidden", hidden=True)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._settle()

    def picture(self, to: Path, *, whole: bool = False) -> None:
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole))
        to.write_bytes(base64.b64decode(shot["data"]))

    def paper(self, to: Path) -> None:
        printed = self.ask("Page.printToPDF", preferCSSPageSize=True, printBackground=False)
        to.write_bytes(base64.b64decode(printed["data"]))

    def _settle(self) -> None:
        """What is hidden or shown by the style is so from the next frame on."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            block = os.read(self._in, 1 << 20) if ready else b""
            if not block:
                raise RuntimeError(f"the browser does not answer (exit code {self._process.poll()})")
            self._rest += block
        line, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._events.append(message)
        return message


def _pipe() -> tuple[int, int]:
    """Numbers that do not stand in the way of the browser's own."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, LOW_FD) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]


def _trouble(event: dict[str, Any], address: str) -> str:
    method, params = event["method"], event.get("params", {})
    if method == "Network.requestWillBeSent":
        url = str(params["request"]["url"])
        return "" if url == address else f"request: {url}"
    if method == "Log.entryAdded":
        return f"log: {params['entry']['text']}"
    if method == "Runtime.exceptionThrown":
        return f"exception: {params['exceptionDetails']}"
    if method == "Runtime.consoleAPICalled":
        return f"console: {params}"
    if method == "Audits.issueAdded":
        return f"issue: {params['issue']}"
    if method in ("Page.javascriptDialogOpening", "Page.windowOpen", "Inspector.targetCrashed"):
        return str(method)
    return ""
