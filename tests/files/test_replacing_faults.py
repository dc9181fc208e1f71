"""What other processes and the system do to a file being written: each fault in a subprocess."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from posenc_cli.errors import Unavailable
from posenc_cli.files.atomic import replacing
from tests.files.test_replacing import names
from tests.processes import PATIENCE, UNMEASURED, ran_code, spawn, tiny_disk

REPORT = """
import sys
from posenc_cli.errors import Unavailable
from posenc_cli.files.atomic import preflight, replacing, standard_output

def attempt(work):
    try:
        work()
    except Unavailable as error:
        print(error.message, file=sys.stderr)
        return 3
    except BrokenPipeError:
        return 141
    return 0

def write(path, data=b"new", **options):
    with replacing(path, **options) as stream:
        stream.write(data)
"""
as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


def script(body: str, *arguments: object, **options) -> subprocess.CompletedProcess[bytes]:
    options.setdefault("stdout", subprocess.PIPE)
    # Coverage writes data of its own, which the limits of these tests would hit too.
    options |= {"stderr": subprocess.PIPE, "capture_output": False, "text": False, "check": False}
    return ran_code(REPORT + body, *map(str, arguments), env=UNMEASURED, **options)


def start(body: str, *arguments: object) -> AbstractContextManager[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", REPORT + body, *map(str, arguments)]
    return spawn(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    with tiny_disk(tmp_path / "disk") as folder:
        path = folder / "a"
        path.write_bytes(b"old")
        pattern = r"a': No space left on device$"
        with pytest.raises(Unavailable, match=pattern), replacing(path) as stream:  # noqa: PT012
            for _ in range(100):
                stream.write(b"x" * 4096)
        assert path.read_bytes() == b"old"
        assert names(folder) == ["a"]


@pytest.mark.long
@pytest.mark.parametrize("handler", ["SIG_DFL", "SIG_IGN"])
def test_a_file_size_limit_is_unavailable(tmp_path, handler):
    (tmp_path / "a").write_bytes(b"old")
    # Python ignores SIGXFSZ from its start, whatever it inherits.
    done = script(
        """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
sys.exit(attempt(lambda: write(sys.argv[1], bytes(1_000_000))))
""",
        tmp_path / "a",
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, getattr(signal, handler)),
        restore_signals=False,
    )
    assert (done.returncode, done.stderr.endswith(b"File too large\n")) == (3, True)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.fixture
def public_folder():
    """A folder that every user can reach and only we can write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


AS_NOBODY = """
import os
import shutil  # nobody may not read this Python's files
os.setgid(65534)
os.setuid(65534)
"""


def as_nobody(path: Path, action: str) -> subprocess.CompletedProcess[bytes]:
    return script(AS_NOBODY + f"sys.exit(attempt(lambda: {action}(sys.argv[1])))", path)


@as_root
@pytest.mark.parametrize("action", ["preflight", "write"])
def test_a_read_only_folder_is_unavailable(public_folder, action):
    done = as_nobody(public_folder / "a", action)
    assert done.returncode == 3
    assert b"write-protected" in done.stderr or b"Permission denied" in done.stderr
    assert not names(public_folder)


@as_root
@pytest.mark.parametrize("action", ["preflight", "write"])
def test_a_write_protected_file_is_unavailable(public_folder, action):
    public_folder.chmod(0o777)
    (public_folder / "a").write_bytes(b"old")
    done = as_nobody(public_folder / "a", action)
    assert (done.returncode, b"it is write-protected" in done.stderr) == (3, True)
    assert (public_folder / "a").read_bytes() == b"old"


@as_root
def test_an_owner_that_cannot_be_kept_is_no_failure(public_folder):
    public_folder.chmod(0o777)
    (public_folder / "a").write_bytes(b"old")
    (public_folder / "a").chmod(0o666)
    done = as_nobody(public_folder / "a", "write")
    assert done.returncode == 0, done.stderr
    assert (public_folder / "a").read_bytes() == b"new"
    assert (public_folder / "a").stat().st_mode & 0o777 == 0o666


@pytest.mark.slow
def test_readers_never_see_a_torn_file(tmp_path):
    path, size = tmp_path / "a", 300_000
    path.write_bytes(b"0" * size)
    body = """
for _ in range(200):
    with replacing(sys.argv[1]) as stream:
        for _ in range(3):
            stream.write(sys.argv[2].encode() * 100_000)
"""
    seen = set()
    with ExitStack() as stack:
        writers = [stack.enter_context(start(body, path, letter)) for letter in "1234"]
        while any(writer.poll() is None for writer in writers):
            data = path.read_bytes()
            assert len(data) == size
            assert data == data[:1] * size
            seen.add(data[:1])
        assert [writer.wait() for writer in writers] == [0] * 4
    assert len(seen) > 1
    assert names(tmp_path) == ["a"]


def test_one_of_two_racing_processes_wins(tmp_path):
    body = """
import os, time
for turn in range(25):
    path = f"{sys.argv[1]}/{turn}"
    open(f"{path}-{sys.argv[2]}", "x").close()
    while not os.path.exists(f"{path}-{'21'[int(sys.argv[2]) - 1]}"):
        pass
    print(attempt(lambda: write(path, sys.argv[2].encode(), clobber=False)))
"""
    with start(body, tmp_path, 1) as one, start(body, tmp_path, 2) as two:
        statuses = [racer.communicate(timeout=PATIENCE)[0].split() for racer in (one, two)]
    for turn in range(25):
        winner = (tmp_path / str(turn)).read_bytes()
        assert sorted(column[turn] for column in statuses) == [b"0", b"3"]
        assert statuses[int(winner) - 1][turn] == b"0"
    assert not [name for name in names(tmp_path) if name.startswith(".")]


SLOW = """
import time
def slow():
    with replacing(sys.argv[1]) as stream:
        stream.write(b"half")
        print("writing", flush=True)
        time.sleep(60)
"""


@pytest.fixture
def writing(tmp_path):
    """A process that has written half of what replaces a file."""
    (tmp_path / "a").write_bytes(b"old")
    with start(SLOW + "slow()", tmp_path / "a") as process:
        assert process.stdout.readline() == b"writing\n"
        yield process


def test_a_killed_process_leaves_the_old_file_whole(writing, tmp_path):
    writing.kill()
    writing.wait(PATIENCE)
    assert (tmp_path / "a").read_bytes() == b"old"
    left = [name for name in names(tmp_path) if name != "a"]
    assert len(left) == 1
    assert left[0].startswith(".posenc-")


def test_an_interrupt_leaves_no_temporary(writing, tmp_path):
    writing.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in writing.communicate(timeout=PATIENCE)[1]
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


PRINT = """
def work():
    print("text first")
    with standard_output() as stream:
        for _ in range(4):
            stream.write(bytes(range(256)) * 1000)
sys.exit(attempt(work))
"""
PRINTED = b"text first\n" + bytes(range(256)) * 4000


def test_standard_output_carries_bytes_after_earlier_text():
    done = script(PRINT)
    assert (done.returncode, done.stdout) == (0, PRINTED)


def test_a_standard_output_that_is_closed_meanwhile_is_unavailable():
    done = script("import os\nos.close(1)\n" + PRINT.replace('print("text first")', "pass"))
    assert b"cannot write to standard output: Bad file descriptor" in done.stderr
    assert done.returncode == 3
    assert b"Traceback" not in done.stderr


@pytest.mark.long
def test_a_pipe_that_does_not_block_gets_everything():
    read, write = os.pipe()
    os.set_blocking(write, False)
    received = []

    def drain() -> None:
        with os.fdopen(read, "rb") as pipe:
            while data := pipe.read1(5000):
                received.append(data)
                time.sleep(0.0005)

    reader = threading.Thread(target=drain)
    reader.start()
    with os.fdopen(write, "wb") as pipe:
        done = script(PRINT, stdout=pipe)
    reader.join(30)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"".join(received) == PRINTED
