"""Chromium without a window and its user interface, driven over the DevTools protocol.

with Browser() as browser, browser.page() as page:
    page.goto(url)
    page.click("nav a[href='#/hosts']")
    page.wait_for("document.querySelectorAll('.host-card').length === 3")

Errors of the page (exceptions, console.error, violations of its Content-Security-Policy) fail the test at the end of the
block.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from neutrino.lab.timing import Deadline
from tests.support.process import ENDS_WITH_US

SECONDS = 40.0
PROGRAM = "/usr/lib/chromium/chromium-headless-shell"  # the one in /usr/bin starts it as a child
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-default-apps",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"


class BrowserError(AssertionError):
    """The page has an error, or does not reach the expected state."""


class Browser:
    """One process of Chromium with a profile of its own; its debugging port is on loopback."""

    def __init__(self) -> None:
        self._profile = tempfile.mkdtemp(prefix="neutrino-browser-")
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: ClientConnection | None = None
        self._stack = ExitStack()
        self._last = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._events: dict[str, list[dict[str, Any]]] = {}
        self._changed = threading.Condition()
        self._closed = False

    def __enter__(self) -> Self:
        log = Path(self._profile) / "log"
        environment = {**os.environ, "HOME": self._profile, "XDG_RUNTIME_DIR": self._profile}
        command = [
            *ENDS_WITH_US,
            PROGRAM,
            *OPTIONS,
            f"--user-data-dir={self._profile}",
            "about:blank",
        ]
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            url = self._debugging_url(log)
            connecting = connect(url, max_size=None, open_timeout=SECONDS, proxy=None, compression=None)
            self._connection = self._stack.enter_context(connecting)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stack.close()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    @contextmanager
    def page(self, width: int = 1360, height: int = 850) -> Iterator[Page]:
        """A page in a context of its own (storage, cache); it must end without errors."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        page.prepare(width, height)
        try:
            yield page
            page.check()
        finally:
            self.call("Target.disposeBrowserContext", browserContextId=context)

    def call(self, method: str, session: str | None = None, /, **params: Any) -> dict[str, Any]:
        assert self._connection is not None
        with self._changed:
            self._last += 1
            number = self._last
        message = {"id": number, "method": method, "params": params}
        self._connection.send(json.dumps(message | ({"sessionId": session} if session else {})))
        deadline = time.monotonic() + SECONDS * 2
        with self._changed:
            while number not in self._answers:
                if self._closed or not self._changed.wait(deadline - time.monotonic()):
                    raise BrowserError(f"Chromium does not answer {method}")
            answer = self._answers.pop(number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def events(self, session: str) -> list[dict[str, Any]]:
        """Events of a page since the last call."""
        with self._changed:
            return self._events.pop(session, [])

    def _read(self) -> None:
        assert self._connection is not None
        try:
            for text in self._connection:
                message = json.loads(text)
                with self._changed:
                    if "id" in message:
                        self._answers[message["id"]] = message
                    elif "sessionId" in message:
                        self._events.setdefault(message["sessionId"], []).append(message)
                    self._changed.notify_all()
        except ConnectionClosed:
            pass
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _debugging_url(self, log: Path) -> str:
        file = Path(self._profile) / "DevToolsActivePort"
        deadline = Deadline(60)
        while not deadline.has_passed():
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"Chromium ended: {log.read_text(errors='replace')[-2000:]}")
            lines = file.read_text().split("\n") if file.exists() else []
            if len(lines) == 2 and lines[1]:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            time.sleep(0.02)
        raise TimeoutError(f"Chromium does not start: {log.read_text(errors='replace')[-2000:]}")


class Page:
    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.errors: list[str] = []
        self.refused: list[str] = []  # requests that were answered with an error
        self._traced: list[dict[str, Any]] = []
        self._is_traced = False  # whether the trace is complete

    def prepare(self, width: int, height: int) -> None:
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    # --- state ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Fail if the page has had an error."""
        self._collect()
        if self.errors:
            raise BrowserError("\n".join(dict.fromkeys(self.errors)))

    def _collect(self) -> None:
        for event in self._browser.events(self._session):
            params = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    details = params["exceptionDetails"]
                    self.errors.append(details.get("exception", {}).get("description") or details["text"])
                case "Runtime.consoleAPICalled" if params["type"] in ("error", "assert"):
                    self.errors.append(" ".join(str(a.get("value") or a.get("description")) for a in params["args"]))
                case "Log.entryAdded" if params["entry"]["level"] == "error":
                    entry = params["entry"]
                    text = f"{entry['text']} {entry.get('url', '')}"
                    (self.refused if entry["source"] == "network" else self.errors).append(text)
                case "Tracing.dataCollected":
                    self._traced += params["value"]
                case "Tracing.tracingComplete":
                    self._is_traced = True

    @contextmanager
    def tasks(self) -> Iterator[list[float]]:
        """The tasks of the thread that runs the page's code, in milliseconds of processor time, once the block has ended.

        While such a task runs the page does not react. Its processor time is what it is on an idle machine.
        """
        found: list[float] = []
        self._traced, self._is_traced = [], False
        self.call("Tracing.start", categories="toplevel", transferMode="ReportEvents")
        yield found
        self.evaluate("new Promise((done) => requestIdleCallback(done))")
        self.call("Tracing.end")
        deadline = Deadline(SECONDS)
        while not self._is_traced:
            self._collect()
            if deadline.has_passed():
                raise BrowserError("the trace does not end")
            time.sleep(0.02)
        names = [
            (each["pid"], each["tid"], each["args"]["name"]) for each in self._traced if each["name"] == "thread_name"
        ]
        threads = {(process, thread) for process, thread, name in names if name == "CrRendererMain"}
        tasks = [each for each in self._traced if each["name"] == "ThreadControllerImpl::RunTask"]
        found += [each["tdur"] / 1000 for each in tasks if (each["pid"], each["tid"]) in threads and "tdur" in each]

    def evaluate(self, expression: str) -> Any:
        """The value of an expression; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def module(self, path: str, call: str, *arguments: Any) -> Any:
        """The result of a function of a module of the page, as JSON: `page.module("js/core/format.js", "clean", "x")`."""
        given = ", ".join(json.dumps(each) for each in arguments)
        return self.evaluate(
            f"import(new URL({json.dumps(path)}, location.href.split('#')[0])).then((m) => m.{call}({given}))"
        )

    def wait_for(self, expression: str, timeout: float = SECONDS) -> Any:
        """Wait until the expression is true; returns its value. It may fail meanwhile, while elements are missing."""
        deadline = Deadline(timeout)
        while True:
            try:
                found = self.evaluate(f"(() => {{ return {expression}; }})()")
            except BrowserError:
                if deadline.has_passed():
                    raise
                found = None
            if found:
                return found
            if deadline.has_passed():
                self._collect()
                text = self.evaluate("document.body.innerText")
                raise BrowserError(f"not true after {timeout:.0f} s: {expression}\n{self.errors[:3]}\n{text[:2000]}")
            time.sleep(0.05)

    def wait_for_text(self, text: str, selector: str = "body", timeout: float = SECONDS) -> None:
        self.wait_for(_contains(text, selector), timeout)

    def wait_until_gone(self, text: str, selector: str = "body", timeout: float = SECONDS) -> None:
        self.wait_for(f"!{_contains(text, selector)}", timeout)

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent.trim())"
        )
        return found

    def count(self, selector: str) -> int:
        return int(self.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length"))

    # --- actions --------------------------------------------------------------------------------------------------

    def goto(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def click(self, selector: str, *, containing: str = "") -> None:
        """A click with the mouse, in the middle of the first element that is visible and contains the text.

        Again, if the page has moved the element between its look-up and the click. One that has replaced it meanwhile
        serves as well: the click may have led to another view, where no such element will appear.
        """
        find = (
            f"[...document.querySelectorAll({json.dumps(selector)})].find((e) => e.getClientRects().length"
            f" && e.textContent.includes({json.dumps(containing)}))"
        )
        place = (
            f"(() => {{ const e = {find}; if (e === undefined) return null; e.scrollIntoViewIfNeeded?.();"
            " window.clicked = false; document.addEventListener('click', (event) => {"
            f" const hit = event.target.closest({json.dumps(selector)});"
            f" if (hit?.textContent.includes({json.dumps(containing)})) window.clicked = true; }}, {{capture: true}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        deadline = Deadline(SECONDS)
        while True:
            x, y = self.wait_for(place)
            self.click_at(x, y)
            if self.evaluate("window.clicked !== false"):  # a new document has no such variable
                return
            if deadline.has_passed():
                raise BrowserError(f"a click does not reach {selector} {containing!r}")

    def click_at(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drag(self, start: Sequence[float], end: Sequence[float]) -> None:
        common = {"button": "left", "buttons": 1, "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], **common)
        for part in (0.3, 0.6, 1.0):
            x, y = (a + (b - a) * part for a, b in zip(start, end, strict=True))
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, **common)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], **common)

    def wheel(self, x: float, y: float, delta: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta)

    def fill(self, selector: str, text: str) -> None:
        """Replace the text of a field, as typing does."""
        found = f"document.querySelector({json.dumps(selector)})"
        deadline = Deadline(SECONDS)
        while True:
            self.wait_for(
                f"(() => {{ const e = {found}; e.focus(); e.select(); return document.activeElement === e; }})()"
            )
            self.call("Input.insertText", text=text)
            if self.evaluate(f"{found}?.value") == text:
                return
            # The page has replaced the field between the two steps.
            if deadline.has_passed():
                raise BrowserError(f"{selector} does not take the text {text!r}")

    def choose(self, selector: str, value: str) -> None:
        found = f"document.querySelector({json.dumps(selector)})"
        self.wait_for(f"[...{found}.options].some((o) => o.value === {json.dumps(value)})")
        self.evaluate(
            f"(() => {{ const e = {found}; e.value = {json.dumps(value)};"
            " e.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def press(self, key: str) -> None:
        text = {"Enter": "\r", "Space": " "}.get(key, key if len(key) == 1 else "")
        name = " " if key == "Space" else key
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "Space": 32, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37}
        codes |= {"ArrowRight": 39, "Home": 36, "End": 35}
        code = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
        common = {"key": name, "code": key, "windowsVirtualKeyCode": code}
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.call("Input.dispatchKeyEvent", **down, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, **features: str) -> None:
        """`page.prefer(prefers_color_scheme="dark")`"""
        values = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=values)

    def set_offline(self, offline: bool) -> None:
        self.call(
            "Network.emulateNetworkConditions", offline=offline, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )

    def screenshot(self, name: str) -> Path:
        """Written to build/screenshots, to be looked at."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
        return path


def _contains(text: str, selector: str) -> str:
    found = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return f"{found}.some((e) => e.textContent.includes({json.dumps(text)}))"
