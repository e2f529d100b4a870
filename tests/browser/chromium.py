"""Drives one page of a headless Chromium through the DevTools protocol, spoken over a pair of pipes."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=900,700",
    "--remote-debugging-pipe",
)
STOP_SECONDS = 10


class CommandFailed(Exception):
    """The browser's answer to a command that it could not carry out, as during a change of page."""


def find() -> str | None:
    """Path of an installed browser."""
    return next((found for found in map(shutil.which, PROGRAMS) if found), None)


class Chromium:
    """A browser with one page while its `with` block runs; `folder` is for its profile. Times are in seconds."""

    def __init__(self, *, program: str, folder: Path) -> None:
        self._arguments = [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._log = folder / "output.log"
        self._numbers = itertools.count(1)
        self._received = b""
        self._session: dict[str, str] = {}

    def open(self, url: str) -> None:
        self._command("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression. Raises CommandFailed."""
        answer = self._command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise CommandFailed(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait_for(self, expression: str, *, seconds: float = 20) -> Any:
        """The first value of an expression that is true. Raises TimeoutError with the page's text."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if value := self.evaluate(expression):
                    return value
            except CommandFailed:
                pass  # between two pages
            time.sleep(0.05)
        text = self.evaluate("location.href + '\\n' + document.documentElement.outerHTML")
        raise TimeoutError(f"{expression} did not become true on {text}")

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of an element, which has to be there and visible within some time."""
        point = self.wait_for(
            f"""(() => {{
                const element = document.querySelector({json.dumps(selector)})
                if (document.readyState !== 'complete' || !element) return null
                element.scrollIntoView({{block: 'center'}})
                const {{x, y, width, height}} = element.getBoundingClientRect()
                const point = {{x: x + width / 2, y: y + height / 2}}
                return element.contains(document.elementFromPoint(point.x, point.y)) ? point : null
            }})()"""
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._command("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **point)

    def screenshot(self, file: Path) -> None:
        """Write the page as it is seen to a PNG file."""
        file.write_bytes(base64.b64decode(self._command("Page.captureScreenshot")["data"]))

    def _command(self, method: str, *, timeout: float = 30, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **self._session}
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while (answer := self._receive(deadline - time.monotonic())).get("id") != number:
            pass  # an event
        if "error" in answer:
            raise CommandFailed(f"{method}: {answer['error']}")
        return answer["result"]  # type: ignore[no-any-return]

    def _receive(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._received:
            readable, _, _ = select.select([self._from_browser], [], [], max(0, deadline - time.monotonic()))
            chunk = os.read(self._from_browser, 1 << 16) if readable else b""
            if not chunk:
                raise RuntimeError(f"the browser does not answer:\n{self._log.read_text()}")
            self._received += chunk
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)  # type: ignore[no-any-return]

    def __enter__(self) -> Chromium:
        its_input, self._to_browser = os.pipe()
        self._from_browser, its_output = os.pipe()
        # The browser reads commands at descriptor 3 and answers at 4; a shell puts the pipes there.
        shell = ["sh", "-c", f'exec "$@" 3</dev/fd/{its_input} 4>/dev/fd/{its_output}', "sh"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*shell, *self._arguments],
                pass_fds=(its_input, its_output),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        os.close(its_input)
        os.close(its_output)
        [page] = [target for target in self._command("Target.getTargets")["targetInfos"] if target["type"] == "page"]
        attached = self._command("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        os.close(self._to_browser)  # without its commander it ends
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._from_browser)
