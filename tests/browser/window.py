"""A window of Chromium that nobody sees, moved by calls that come as lines of JSON.

It runs in a process of its own, for Qt wants its environment set before it is imported. A line of
standard input is a list, the name of a method and its arguments; a line of standard output answers
with its value and with what the page said to its console.
"""

import json
import sys
from typing import Any

LIMIT = 30_000
"""Milliseconds that a page, or an answer of its script, may take."""
FRAMES = 100
"""Hundredths of a second within which a page has drawn two frames."""

SHOWN = 300
"""Milliseconds within which the window shows what the page has drawn."""


class Window:
    """A page, and what a reader does to it: each method is one action."""

    def __init__(self) -> None:
        from PySide6.QtTest import QTest
        from PySide6.QtWebEngineCore import QWebEnginePage, QWebEngineSettings
        from PySide6.QtWebEngineWidgets import QWebEngineView
        from PySide6.QtWidgets import QApplication

        def javaScriptConsoleMessage(_page, _level, message, line, source):  # noqa: N802
            self.said.append(f"{source}:{line}: {message}")

        self.said: list[str] = []
        self.app = QApplication(sys.argv[:1])
        self.view = QWebEngineView()
        kind = type(
            "Page", (QWebEnginePage,), {"javaScriptConsoleMessage": javaScriptConsoleMessage}
        )
        self.page = kind(self.view)
        self.view.setPage(self.page)
        self.test, self.scripted = QTest, QWebEngineSettings.WebAttribute.JavascriptEnabled

    def open(self, file: str, width: int, height: int, script: bool) -> Any:
        from PySide6.QtCore import QUrl

        self.page.settings().setAttribute(self.scripted, script)
        self.view.resize(width, height)

        def begin(answer: Any) -> None:
            self.page.loadFinished.connect(answer)
            self.page.load(QUrl.fromLocalFile(file))
            self.view.show()

        return self._awaited(begin)

    def run(self, script: str) -> Any:
        return self._awaited(lambda answer: self.page.runJavaScript(script, answer))

    def resize(self, width: int, height: int) -> bool:
        self.view.resize(width, height)
        return self._painted()

    def shot(self, file: str) -> bool:
        self._painted()
        self.test.qWait(SHOWN)  # what is drawn is shown a little later
        return self.view.grab().save(file)

    def move(self, left: int, top: int) -> bool:
        from PySide6.QtCore import QPoint

        self.test.mouseMove(self.view.focusProxy(), QPoint(left, top))
        return self._painted()

    def click(self, left: int, top: int) -> bool:
        from PySide6.QtCore import QPoint, Qt

        button, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        self.test.mouseClick(self.view.focusProxy(), button, none, QPoint(left, top))
        return self._painted()

    def press(self, key: str) -> bool:
        from PySide6.QtCore import Qt

        self.test.keyClick(self.view.focusProxy(), getattr(Qt.Key, f"Key_{key}"))
        return self._painted()

    def type(self, text: str) -> bool:
        self.test.keyClicks(self.view.focusProxy(), text)
        return self._painted()

    def _awaited(self, begin: Any) -> Any:
        """What a call gives that answers later."""
        from PySide6.QtCore import QEventLoop, QTimer

        loop, answers, timer = QEventLoop(), [], QTimer()

        def answer(value: Any) -> None:
            answers.append(value)
            loop.quit()

        timer.setSingleShot(True)
        timer.timeout.connect(loop.quit)
        timer.start(LIMIT)
        begin(answer)
        loop.exec()
        return answers[0] if answers else None

    def _painted(self) -> bool:
        """Wait until the page has handled what came before, and drawn it."""
        if not self.page.settings().testAttribute(self.scripted):
            self.test.qWait(10 * FRAMES)
            return True
        self.run(
            "window.drawn = 0; requestAnimationFrame(() => requestAnimationFrame(() => drawn = 1))"
        )
        for _ in range(FRAMES):
            self.test.qWait(10)
            if self.run("drawn"):
                return True
        return False


if __name__ == "__main__":
    window = Window()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        value = getattr(window, name)(*arguments)
        print(json.dumps({"value": value, "console": window.said}), flush=True)
        window.said.clear()
    window.view.setPage(None)
    window.page.deleteLater()
