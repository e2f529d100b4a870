"""Drives pages of a headless Chromium through the DevTools protocol, over a pair of pipes."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

# The first is Debian's build without windows, which needs half the CPU time.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSECURE_HOST = "insecure.test"
"""A name of the servers of tests. Without TLS, browsers trust `localhost` only."""
FLAGS = (
    "--headless",
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--site-per-process",  # frames of other origins are targets of their own
    "--disable-quic",
    f"--host-resolver-rules=MAP {INSECURE_HOST} 127.0.0.1",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Without it, clicks on frames that have just moved are discarded.
    "--disable-features=DiscardInputEventsToRecentlyMovedFrames",
    "--no-first-run",
    "--window-size=900,700",
    "--remote-debugging-pipe",
)
STOP_SECONDS = 30
# The middle of an element, or null until it is visible.
_MIDDLE = """(() => {
    const element = document.querySelector(%s)
    if (document.readyState !== 'complete' || !element) return null
    element.scrollIntoView({block: 'center'})
    const {x, y, width, height} = element.getBoundingClientRect()
    const point = {x: x + width / 2, y: y + height / 2}
    return element.contains(document.elementFromPoint(point.x, point.y)) ? point : null
})()"""


class CommandFailed(Exception):
    """The browser could not run a command, for example during navigation."""


def find() -> str | None:
    """Path of an installed browser."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Chromium:
    """A browser while its `with` block runs; `folder` is for its files. Times are in seconds.

    All methods but `profile` are about the page of the profile.
    """

    def __init__(self, *, program: str, folder: Path) -> None:
        self._arguments = [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._log = folder / "output.log"
        self._numbers = itertools.count(1)
        self._received = b""
        self._session = ""
        self._context = ""
        self._sessions: dict[str, str] = {}
        self._violations: list[str] = []
        self._authenticator = ""

    @contextlib.contextmanager
    def profile(self) -> Iterator[None]:
        """One page with its own cookies, storage, cache and security devices inside the block."""
        context = self._command("Target.createBrowserContext", session="")["browserContextId"]
        self._context = context
        page = self._command("Target.createTarget", session="", url="about:blank", browserContextId=context)
        self._session = self._attach(page["targetId"])
        self._violations = []
        try:
            # Without the focus of a window in front, pages may not use security devices.
            self._command("Page.bringToFront")
            yield
        finally:
            self._command("Target.disposeBrowserContext", session="", browserContextId=context)

    @contextlib.contextmanager
    def new_page(self) -> Iterator[None]:
        """The page that a link has opened in a new tab, inside the block."""
        former = self._session
        self._session = self._attach(self._wait(self._find_new_page, "a new page", 60))
        try:
            yield
        finally:
            self._session = former
            self._command("Page.bringToFront")

    def open(self, url: str) -> None:
        self._command("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression. Raises CommandFailed."""
        return self._evaluate(expression, self._session)

    def evaluate_in_frame(self, expression: str) -> Any:
        """The same in the page's only frame of another origin, such as a sandboxed one. Raises CommandFailed."""
        frames = self._targets("iframe")
        if len(frames) != 1:
            raise CommandFailed(f"{len(frames)} frames of another origin")
        return self._evaluate(expression, self._attach(frames[0]))

    def wait_for(self, expression: str, *, seconds: float = 60) -> Any:
        """The first value of an expression that is true. Raises TimeoutError with the page's text."""
        return self._wait(lambda: self.evaluate(expression), expression, seconds)

    def wait_for_in_frame(self, expression: str, *, seconds: float = 60) -> Any:
        return self._wait(lambda: self.evaluate_in_frame(expression), expression, seconds)

    def fill(self, **fields: str) -> None:
        """Write into the fields with these names."""
        for name, text in fields.items():
            self.wait_for(f"!!document.querySelector('[name={name}]')")
            self.evaluate(f"document.querySelector('[name={name}]').value = {json.dumps(text)}")

    def click(self, selector: str) -> None:
        """Click the middle of an element after it has become visible. Raises TimeoutError."""
        self._press(**self.wait_for(_MIDDLE % json.dumps(selector)))

    def double_click(self, selector: str) -> None:
        """Click twice in quick succession."""
        point = self.wait_for(_MIDDLE % json.dumps(selector))
        self._press(**point)
        self._press(**point, count=2)

    def click_in_frame(self, selector: str) -> None:
        """The same for an element in the only frame."""
        self.wait_for(_MIDDLE % "'iframe'")
        inside = self.wait_for_in_frame(_MIDDLE % json.dumps(selector))
        frame = self.evaluate(
            """(() => {
                const frame = document.querySelector('iframe'), {x, y} = frame.getBoundingClientRect()
                return {x: x + frame.clientLeft, y: y + frame.clientTop}
            })()"""
        )
        point = {"x": frame["x"] + inside["x"], "y": frame["y"] + inside["y"]}

        def hovers() -> Any:
            self._command("Input.dispatchMouseEvent", type="mouseMoved", **point)
            return self.evaluate_in_frame(f"document.querySelector({json.dumps(selector)}).matches(':hover')")

        # Before the frame is drawn, a click goes to the page around it.
        self._wait(hovers, f"{selector} under the mouse", 60)
        self._press(**point)

    def resize(self, *, width: int, height: int, mobile: bool = True) -> None:
        """Show pages as on a phone of this size, or in a window of this size."""
        self._command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if mobile else 1,
            mobile=mobile,
        )

    def prefer_color_scheme(self, scheme: str) -> None:
        """Show pages as for a user who prefers `light` or `dark`, and no motion: colours change at once."""
        preferences = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in preferences.items()]
        self._command("Emulation.setEmulatedMedia", features=features)

    def press_tab(self) -> None:
        """Move the focus to the next element, as users of a keyboard do."""
        for kind in ("keyDown", "keyUp"):
            self._command("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)

    def insert_text(self, text: str) -> None:
        """Insert a text into the focused field, and release a key: some fields wait for that."""
        self._command("Input.insertText", text=text)
        self._command("Input.dispatchKeyEvent", type="keyUp", key="Unidentified")

    def trust_any_certificate(self) -> None:
        """Accept invalid certificates from now on."""
        self._command("Security.setIgnoreCertificateErrors", ignore=True)

    def set_scripts(self, *, enabled: bool) -> None:
        """Disable or enable the scripts of pages. `evaluate` and the like work anyway."""
        self._command("Emulation.setScriptExecutionDisabled", value=not enabled)

    def add_authenticator(self, *, transport: str) -> None:
        """Add a virtual security device that stores credentials and confirms every request.

        `transport`: `internal` for one that is part of the machine, `usb` for a key.
        """
        device = {
            "protocol": "ctap2",
            "transport": transport,
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        self._command("WebAuthn.enable")
        self._authenticator = self._command("WebAuthn.addVirtualAuthenticator", options=device)["authenticatorId"]

    def forget_credentials(self) -> None:
        """Replace the device by another one without credentials."""
        self._command("WebAuthn.clearCredentials", authenticatorId=self._authenticator)

    def watch_policy_violations(self) -> None:
        """Record violations of the Content-Security-Policy from now on."""
        self._violations = []
        self.open("about:blank")  # the domains report earlier events of the page when they are enabled
        self._command("Log.clear")
        self._command("Log.enable")
        self._command("Audits.enable")

    def policy_violations(self) -> list[str]:
        """The violations recorded so far."""
        self._command("Log.disable")  # earlier events arrive before its response
        return self._violations

    def screenshot(self, *, max_height: int, scale: float = 1) -> bytes:
        """The page as a WebP image, from its top to at most `max_height` CSS pixels."""
        size = self.evaluate("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": min(size[1], max_height), "scale": scale}
        image = self._command(
            "Page.captureScreenshot", format="webp", quality=60, clip=clip, captureBeyondViewport=True
        )
        return base64.b64decode(image["data"])

    def _evaluate(self, expression: str, session: str) -> Any:
        response = self._command(
            "Runtime.evaluate", session=session, expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in response:
            raise CommandFailed(response["exceptionDetails"])
        return response["result"].get("value")

    def _wait(self, evaluate: Callable[[], Any], expression: str, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if value := evaluate():
                    return value
            except CommandFailed:
                pass  # between two pages
            time.sleep(0.05)
        text = self.evaluate("location.href + '\\n' + document.documentElement.outerHTML")
        raise TimeoutError(f"{expression} did not become true on {text}")

    def _press(self, *, x: float, y: float, count: int = 1) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self._command("Input.dispatchMouseEvent", type=kind, button="left", clickCount=count, x=x, y=y)

    def _targets(self, kind: str) -> list[str]:
        targets = self._command("Target.getTargets", session="")["targetInfos"]
        return [target["targetId"] for target in targets if target["type"] == kind]

    def _find_new_page(self) -> str | None:
        """The target of a page of the profile that is not attached yet."""
        targets = self._command("Target.getTargets", session="")["targetInfos"]
        pages = [target for target in targets if target["type"] == "page"]
        own = [target["targetId"] for target in pages if target.get("browserContextId") == self._context]
        return next((target for target in own if target not in self._sessions), None)

    def _attach(self, target: str) -> str:
        if target not in self._sessions:
            attached = self._command("Target.attachToTarget", session="", targetId=target, flatten=True)
            self._sessions[target] = attached["sessionId"]
        return self._sessions[target]

    def _command(
        self, method: str, *, session: str | None = None, timeout: float = 60, **parameters: Any
    ) -> dict[str, Any]:
        """`session` defaults to that of the page; an empty one addresses the browser."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if receiver := self._session if session is None else session:
            message["sessionId"] = receiver
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while (response := self._receive(deadline - time.monotonic())).get("id") != number:
            if "Content Security Policy" in str(response) or "contentSecurityPolicy" in str(response):
                self._violations.append(str(response))
        if "error" in response:
            raise CommandFailed(f"{method}: {response['error']}")
        return response["result"]  # type: ignore[no-any-return]

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
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        os.close(self._to_browser)  # ends the browser
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._from_browser)
