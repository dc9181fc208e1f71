"""Chromium as tests move it: each call does in another process what a reader would do."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HEIGHT = 800
PATIENCE = 30


class Browser:
    """A browser in a process of its own; ``console`` has what pages said since one was opened."""

    def __init__(self, *, dark: bool = False) -> None:
        flags = ["--no-sandbox", "--disable-gpu"]  # 0 is dark, for want of a desktop that says so
        flags += ["--blink-settings=preferredColorScheme=0"] if dark else []
        said = {"QT_QPA_PLATFORM": "offscreen", "QTWEBENGINE_CHROMIUM_FLAGS": " ".join(flags)}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("window.py"))],
            env=os.environ | said,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.console: list[str] = []

    def ask(self, *request: Any) -> Any:
        """What a method of the window gives."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, f"the browser ended at {request}"
        answer = json.loads(line)
        self.console += answer["console"]
        return answer["value"]

    def open(self, page: Path, width: int = 1280, *, script: bool = True) -> None:
        self.console.clear()
        assert self.ask("open", str(page), width, HEIGHT, script), f"{page} was not opened"

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.ask("run", f"JSON.stringify({script})")
        return None if found in (None, "") else json.loads(found)

    def resize(self, width: int, height: int = HEIGHT) -> None:
        assert self.ask("resize", width, height)

    def place(self, element: str, across: float, down: float) -> tuple[int, int]:
        """Where a point of an element is, which is scrolled into the window."""
        left, top, width, height = self.run(
            f"(() => {{const e = document.querySelector({json.dumps(element)}); e.scrollIntoView("
            "{block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect();"
            "return [b.left, b.top, b.width, b.height]})()"
        )
        return int(left + across * width), int(top + down * height)

    def point_at(self, element: str, across: float = 0.5, down: float = 0.5) -> None:
        left, top = self.place(element, across, down)
        assert self.ask("move", left + 1, top)  # from elsewhere, or nothing moves
        assert self.ask("move", left, top)

    def click(self, element: str, across: float = 0.5, down: float = 0.5) -> None:
        assert self.ask("click", *self.place(element, across, down))

    def press(self, *keys: str) -> None:
        assert all(self.ask("press", key) for key in keys)

    def type(self, text: str) -> None:
        assert self.ask("type", text)

    def shot(self, file: Path) -> None:
        """What the window shows, as a PNG."""
        assert self.ask("shot", str(file))

    def close(self) -> None:
        self.process.communicate(timeout=PATIENCE)
