"""Shows a page in Chromium without a window, which is controlled through two pipes: no port, no library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_TIMEOUT_S = 60
_FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--mute-audio", "--force-color-profile=srgb",
)  # fmt: skip
Message = dict[str, Any]


def found() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """Messages end with NUL; an answer has the number of its request, and everything else is an event."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._number = 0
        self._read = b""
        self.events: list[Message] = []

    def ask(self, method: str, *, session: str | None = None, **about: object) -> Message:
        self._number += 1
        asked = {"id": self._number, "method": method, "params": about} | ({"sessionId": session} if session else {})
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        return self._until(lambda message: message.get("id") == self._number)

    def wait_for(self, method: str) -> Message:
        """Returns the first event of this name, and waits for it if necessary."""
        for event in self.events:
            if event["method"] == method:
                return event
        return self._until(lambda message: message.get("method") == method)

    def _until(self, wanted: Any) -> Message:
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            message = self._next(deadline)
            if "method" in message:
                self.events.append(message)
            if wanted(message):
                assert "error" not in message, message["error"]
                return message

    def _next(self, deadline: float) -> Message:
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._back], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"the browser has not answered for {_TIMEOUT_S} s"
            received = os.read(self._back, 1 << 20)
            assert received, "the browser has ended"
            self._read += received
        one, _, self._read = self._read.partition(b"\0")
        message: Message = json.loads(one)
        return message


class Page:
    """Represents a file in a tab."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        target = browser.ask("Target.createTarget", url="about:blank")["result"]["targetId"]
        attached = browser.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["result"]["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **about: object) -> Message:
        result: Message = self.browser.ask(method, session=self._session, **about)["result"]
        return result

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.browser.events.clear()
        self.ask("Page.navigate", url=path.resolve().as_uri())
        self.browser.wait_for("Page.loadEventFired")

    def run(self, script: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def click(self, selector: str) -> None:
        """Clicks on the first element that matches."""
        self.run(f"globalThis.clicked = document.querySelector({json.dumps(selector)}); undefined")
        self.run("clicked.scrollIntoView({ block: 'center', behavior: 'instant' })")
        box = self.run("clicked.getBoundingClientRect().toJSON()")
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, **at, button="left", clickCount=1)

    def pasted(self) -> list[str]:
        """Returns what is on the clipboard, as text and as HTML."""
        self.run(
            "document.addEventListener('paste', (event) => { globalThis.pasted = ['text/plain', 'text/html']"
            ".map((kind) => event.clipboardData.getData(kind)); }, { once: true })"
        )
        self.ask("Input.dispatchKeyEvent", type="keyDown", key="v", commands=["paste"])
        found: list[str] = self.run("pasted")
        return found

    def events(self, method: str) -> list[Message]:
        return [event["params"] for event in self.browser.events if event["method"] == method]

    def printed(self) -> bytes:
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"])


@contextmanager
def browser() -> Iterator[Browser]:
    program = found()
    assert program is not None
    profile = Path(tempfile.mkdtemp(prefix="recovery-browser-"))
    its_in, to = os.pipe()
    back, its_out = os.pipe()
    flags = [*_FLAGS, f"--user-data-dir={profile}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    # It reads from descriptor 3 and writes to 4.
    script = f'exec "$0" "$@" 3<&{its_in} 4>&{its_out}'
    process = subprocess.Popen(
        ["bash", "-c", script, program, *flags],
        pass_fds=(its_in, its_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(its_in)
    os.close(its_out)
    try:
        yield Browser(to, back)
    finally:
        os.close(to)  # it ends when its pipes are closed
        os.close(back)
        try:
            process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(profile, ignore_errors=True)
