"""Headless Chromium, driven through the two pipes of its DevTools protocol: no server, no library, no other host."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import time
from typing import Any, Self

LIMIT_S = 60.0
"""How long an answer of the browser is waited for."""
_QUIET = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-quic", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-extensions", "--remote-debugging-pipe"),
)


def program() -> str | None:
    """Where Chromium is; ``None`` where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """One browser with one page, and all that this page asked for and complained about."""

    def __init__(self, browser: str, home: pathlib.Path) -> None:
        self.asked: list[str] = []
        """The addresses that the page requested, since they were last cleared."""
        self.complaints: list[str] = []
        """Errors of scripts, and of what could not be loaded."""
        self._answers: dict[int, dict[str, Any]] = {}
        self._happened: list[str] = []
        self._number = 0
        self._left = b""
        theirs_in, self._write = os.pipe()
        self._read, theirs_out = os.pipe()
        command = [browser, *_QUIET, f"--user-data-dir={home}/browser", "about:blank"]
        # The browser reads commands from 3 and writes to 4.
        shell = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "chromium", *command],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(home)},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session: str | None = None
        pages = self.ask("Target.getTargets")["targetInfos"]
        (page,) = [one["targetId"] for one in pages if one["type"] == "page"]
        self._session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)
        self._process.terminate()
        self._process.wait()
        os.close(self._read)

    def ask(self, method: str, **values: object) -> dict[str, Any]:
        """One command and its result; raises RuntimeError with what the browser says against it."""
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": values}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        number = self._number
        self._listen(lambda: number in self._answers, method)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def show(self, url: str, width: int, scheme: str) -> None:
        """Load a page on a screen of this width, in this colour scheme, and wait until all of it is there."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **metrics)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._happened.clear()
        self.ask("Page.navigate", url=url)
        self._listen(lambda: "Page.loadEventFired" in self._happened, url)

    def told(self, script: str) -> Any:
        """What a script of the page gives, its promise kept."""
        found = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{found['exceptionDetails']}")
        return found["result"].get("value")

    def picture(self, file: pathlib.Path) -> None:
        """The screen as PNG."""
        file.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot")["data"]))

    def _listen(self, done: Any, what: str) -> None:
        end = time.monotonic() + LIMIT_S
        while not done():
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            text = os.read(self._read, 1 << 20) if ready else b""
            if not text:
                raise RuntimeError(f"the browser says nothing to {what}")
            *whole, self._left = (self._left + text).split(b"\0")
            for message in whole:
                self._heard(json.loads(message))

    def _heard(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers[message["id"]] = message
            return
        name, values = message["method"], message["params"]
        self._happened.append(name)
        if name == "Network.requestWillBeSent":
            self.asked.append(values["request"]["url"])
        elif name == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(values["exceptionDetails"]))
        elif name == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(values["args"]))
        elif name == "Log.entryAdded" and values["entry"]["level"] == "error":
            self.complaints.append(f"{values['entry']['text']} {values['entry'].get('url')}")
