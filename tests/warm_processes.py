"""Processes of functions as copies of one that has imported NumPy: most of a start is that import.

A function whose file begins with the import of torch is served by a copy of one that has imported
torch too, in two seconds less.

A copy is what `subprocess.Popen` would start: it has the same arguments, environment, folder and
descriptors, and a process group of its own. Its parent waits for it and writes its status to a
pipe. Coverage does not measure copies.
"""

import atexit
import json
import os
import re
import select
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = """
import array, json, os, socket, sys
import inspect, re, ctypes, select, signal, pathlib, numpy
for module in sys.argv[2:]: __import__(module)
requests = socket.socket(fileno=int(sys.argv[1]))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for who waits for a copy
while True:
    message, ancillary, *_ = requests.recvmsg(1 << 20, 1 << 10)
    if not message:
        os._exit(0)
    given = array.array("i", ancillary[0][2])
    if os.fork():
        for number in given:
            os.close(number)
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, spoken, told = given
    process = os.fork()
    if process:
        for number in (*standard, spoken):
            os.close(number)
        os.write(told, b"%d\\n" % process)
        os.write(told, b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
        os._exit(0)
    os.setpgid(0, 0)
    os.close(told)
    requests.close()
    for own, number in enumerate(standard):
        os.dup2(number, own)
        os.close(number)
    asked = json.loads(message)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    code, *arguments = asked["arguments"]
    sys.argv = ["-c", *(str(spoken) if each == asked["spoken"] else each for each in arguments)]
    break
for name in ("array", "json", "socket", "inspect", "re", "ctypes", "select", "signal", "pathlib",
             "numpy", "requests", "message", "ancillary", "given", "standard", "told", "process",
             "own", "number", "asked", "arguments", "_", "module", "name"):
    globals().pop(name, None)
exec(code)
"""


IMPORTS_TORCH = re.compile(r"^(?:try:\n    )?(?:import|from) torch\b", re.MULTILINE)


def _imports_torch(target: str) -> bool:
    """Whether what loads a function imports the installed torch before anything calls it."""
    file = Path(target.rpartition(":")[0])
    if file.suffix != ".py" or not file.is_file():
        return False
    shadowed = any((file.parent / name).exists() for name in ("torch", "torch.py"))
    return not shadowed and bool(IMPORTS_TORCH.search(file.read_text(errors="replace")))


@cache
def _first(process: int, environment: str, *modules: str) -> socket.socket:
    """The socket of the process that is copied, which ends when this one ends."""
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with other:
        first = subprocess.Popen(
            [sys.executable, "-c", SOURCE, str(other.fileno()), *modules],
            pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL,
            env=json.loads(environment),
            cwd="/",
        )

    def end() -> None:
        own.close()
        first.wait()

    atexit.register(end)
    return own


READ_AT_THE_START = ("PYTHON", "OMP", "MKL", "OPENBLAS", "MALLOC", "LD_", "PATH", "HOME", "TMPDIR")
"""Variables that Python, NumPy and the C library read when they start."""


class WarmProcess:
    """What is used of `subprocess.Popen`, of a copy."""

    def __init__(self, command: list[str], *, stderr: Any, pass_fds: list[int], env: Any) -> None:
        early = {k: v for k, v in env.items() if not k.startswith("COVERAGE")}
        start = {k: v for k, v in early.items() if k.startswith(READ_AT_THE_START)}
        theirs, self._into = os.pipe()
        self._from, answers = os.pipe()
        self._status, told = os.pipe()
        given = [theirs, answers, stderr.fileno(), *pass_fds, told]
        asked = {
            "arguments": command[2:],
            "environment": early,
            "folder": str(Path.cwd()),
            "spoken": str(pass_fds[0]),
        }
        modules = ("torch",) * _imports_torch(command[-1])
        requests = _first(os.getpid(), json.dumps(start, sort_keys=True), *modules)
        socket.send_fds(requests, [json.dumps(asked).encode()], given)
        for number in (theirs, answers, told):
            os.close(number)
        self.stdin, self.stdout = os.fdopen(self._into, "wb", 0), os.fdopen(self._from, "rb", 0)
        self._said = b""
        self.returncode: int | None = None
        while b"\n" not in self._said:
            self._said += os.read(self._status, 64)
        first, _, self._said = self._said.partition(b"\n")
        self.pid = int(first)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0] and not self._said:
                raise subprocess.TimeoutExpired("a copy", timeout or 0)
            self._said += os.read(self._status, 64)
            self.returncode = int(self._said or b"-9")
            os.close(self._status)
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None


def started(command: list[str], **settings: Any) -> Any:
    """A process of this Python as a copy, of another by `subprocess.Popen`."""
    if command[0] != sys.executable:
        return subprocess.Popen(command, **settings)
    return WarmProcess(command, **{name: settings[name] for name in ("stderr", "pass_fds", "env")})
