"""Controls a headless Chromium through the pipe of its DevTools protocol, without another package."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")


class BrowserError(RuntimeError):
    """The browser is missing or does not answer, or the page raised an exception."""


class Chromium:
    """One page of a browser without network.

    Attributes:
      problems: exceptions and console errors of the page.
      requests: addresses that the page requested, with its own address.
    """

    def __init__(self, profile: Path, width: int = 1500, height: int = 1400, deadline: float = 60.0) -> None:
        binary = next((found for name in NAMES if (found := shutil.which(name))), None)
        if binary is None:
            raise BrowserError("no Chromium: install one, such as with apt-get install chromium")
        self._deadline = deadline
        read_end, self._out = os.pipe()  # the browser reads from 3 and writes to 4
        self._in, write_end = os.pipe()
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        arguments += [f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{read_end} 4>&{write_end}', "bash", binary, *arguments],
            pass_fds=(read_end, write_end),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_end)
        os.close(write_end)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        (target,) = [one for one in self._call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        attached = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")
        self._call(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0
        )

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def open(self, page: Path) -> float:
        """Loads a page and returns the seconds until it is loaded and painted."""
        self._loaded = False
        begun = time.monotonic()
        self._call("Page.navigate", url=page.absolute().as_uri())
        while not self._loaded:
            self._receive()
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - begun

    def run(self, expression: str) -> Any:
        """Evaluates an expression in the page and returns its value. Waits for promises.

        Raises:
          BrowserError: the expression raised an exception.
        """
        answer = self._call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def click(self, x: float, y: float) -> None:
        """Clicks with the mouse at a position of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def resize(self, width: int, height: int = 1400) -> None:
        """Gives the page this size, in pixels; width 0 is that of the window."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height if width else 0, deviceScaleFactor=0,
            mobile=False,
        )  # fmt: skip

    def prefer(self, scheme: str) -> None:
        """Sets the preferred colour scheme of the system: ``"light"`` or ``"dark"``."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path) -> None:
        """Writes the window as PNG."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], self._deadline)[0]:
                raise BrowserError(f"no answer within {self._deadline} s")
            chunk = os.read(self._in, 1 << 20)
            if not chunk:
                raise BrowserError(f"the browser ended with {self._process.wait()}")
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
