"""Headless Chromium, driven by its DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECONDS = 60.0
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1400,900",
    "--remote-debugging-pipe",
)


def chromium() -> str | None:
    """Where Chromium is, None where there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """A page that is open, and what it asked the network for.

    Attributes:
        requests: the address of each request.
        messages: what the page wrote to its console, and what went wrong in it.
    """

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._count = 0
        self._left = b""
        self.requests: list[str] = []
        self.messages: list[str] = []
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Network", "Page", "Runtime", "Log"):
            self._send(f"{domain}.enable")

    def open(self, file: Path) -> None:
        """Opens a file, and waits until the page says that it is ready."""
        self._send("Page.navigate", url=file.as_uri())
        self.wait("document.documentElement?.dataset.ready")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self._send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("exception", {}).get("description", str(found)))
        return found["result"].get("value")

    def wait(self, script: str) -> Any:
        """The value of an expression once it is one that counts as true."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            found = self.run(script)
            if found:
                return found
            time.sleep(0.02)
        raise TimeoutError(f"{script} did not come true; {self.messages}")

    def frame(self) -> None:
        """Waits until the page has drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def press(self, key: str) -> None:
        """Presses a key."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self._send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self._send("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.frame()

    def type(self, words: str) -> None:
        """Types a text where the cursor is."""
        self._send("Input.insertText", text=words)
        self.frame()

    def dark(self) -> None:
        """Has the page believe that its user likes it dark."""
        self._send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.frame()

    def shot(self, file: Path) -> None:
        """Takes a picture of the page."""
        self.frame()
        file.write_bytes(base64.b64decode(self._send("Page.captureScreenshot")["data"]))

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                found: dict[str, Any] = answer["result"]
                return found
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + SECONDS
        while b"\0" not in self._left:
            if not select.select([self._read], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self._read, 1 << 20)
            if not got:
                raise RuntimeError("the browser is gone")
            self._left += got
        message, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Log.entryAdded":
            self.messages.append(parameters["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.messages.append(str(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.messages.append(str(parameters["args"]))


@contextlib.contextmanager
def browsing(command: str) -> Iterator[Page]:
    """An empty page of a fresh browser, which is gone afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        to_browser, write = os.pipe()
        read, from_browser = os.pipe()
        quiet = os.open(os.devnull, os.O_WRONLY)
        # The browser reads from 3 and writes to 4. Over high numbers, neither is overwritten before it is read.
        high = [os.dup2(fd, number, inheritable=True) for fd, number in ((to_browser, 203), (from_browser, 204))]
        actions = [
            (os.POSIX_SPAWN_DUP2, high[0], 3),
            (os.POSIX_SPAWN_DUP2, high[1], 4),
            (os.POSIX_SPAWN_DUP2, quiet, 2),
        ]
        arguments = [command, *_OPTIONS, f"--user-data-dir={folder}"]
        process = os.posix_spawn(command, arguments, os.environ, file_actions=actions, setsid=True)
        for fd in (to_browser, from_browser, quiet, *high):
            os.close(fd)
        try:
            yield Page(read, write)
        finally:
            os.close(write)
            os.close(read)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
