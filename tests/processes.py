"""Processes that a test starts, and that end with it."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 600.0
"""Seconds for what takes a few on an idle machine: only a process that hangs takes as long."""

UNMEASURED = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}
"""An environment without coverage: limits would hit the data it writes, and a signal that arrives
while it holds a lock would leave posenc's threads waiting for that."""


@contextlib.contextmanager
def spawn(command: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that is killed where the test has not seen its end."""
    with subprocess.Popen(command, **settings) as process:
        try:
            yield process
        finally:
            process.kill()


def await_that(holds: Callable[[], object], process: subprocess.Popen[Any]) -> None:
    """Wait until something holds, which it must before the process ends."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def ran(*command: str, **settings: Any) -> subprocess.CompletedProcess[Any]:
    """Run a program, which must end well unless ``check=False``."""
    how = {"capture_output": True, "text": True, "check": True, "timeout": PATIENCE, **settings}
    return subprocess.run(command, **how)


def ran_code(code: str, *arguments: str, **settings: Any) -> subprocess.CompletedProcess[Any]:
    """Run Python code in a process of its own."""
    return ran(sys.executable, "-c", code, *arguments, **settings)


@contextlib.contextmanager
def tiny_disk(folder: Path) -> Iterator[Path]:
    """Within it ``folder`` is a disk of 64 KiB; the test is skipped where none can be mounted."""
    folder.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no mount here")
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
