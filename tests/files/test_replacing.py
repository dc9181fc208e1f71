"""A file is replaced only by a whole one; links, permissions and devices are respected."""

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from posenc_cli.errors import Unavailable
from posenc_cli.files.atomic import preflight, replacing


class Stopped(BaseException):
    pass


def write(path: Path | str, data: bytes = b"new", *, clobber: bool = True) -> None:
    with replacing(path, clobber=clobber) as stream:
        stream.write(data)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_new_file_appears_only_at_the_end(tmp_path):
    path = tmp_path / "a.npy"
    with replacing(path) as stream:
        stream.write(b"one ")
        stream.write(memoryview(b"two"))
        assert not path.exists()
        (temporary,) = names(tmp_path)
        assert temporary.startswith(".posenc-")
        assert temporary.endswith(".tmp")
        assert stream.name == str(tmp_path / temporary)
        assert Path(stream.name).read_bytes() == b"one two"
    assert path.read_bytes() == b"one two"
    assert names(tmp_path) == ["a.npy"]


def test_an_existing_file_is_replaced(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"an old and longer content")
    write(path)
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("kind", [ValueError, OSError, KeyboardInterrupt, SystemExit, Stopped])
@pytest.mark.parametrize("clobber", [True, False])
def test_any_exception_leaves_the_old_state_and_no_temporary(tmp_path, kind, clobber):
    path = tmp_path / "a"
    if clobber:
        path.write_bytes(b"old")
    before = names(tmp_path)
    with pytest.raises(kind), replacing(path, clobber=clobber) as stream:  # noqa: PT012
        stream.write(b"half")
        raise kind
    assert names(tmp_path) == before
    assert not clobber or path.read_bytes() == b"old"


def test_a_link_stays_and_its_referent_is_replaced(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "real").write_bytes(b"old")
    (folder / "middle").symlink_to("real")
    link = tmp_path / "link"
    link.symlink_to(Path("folder") / "middle")
    with replacing(link) as stream:
        assert Path(stream.name).parent.resolve() == folder
        stream.write(b"new")
    assert link.is_symlink()
    assert (folder / "middle").is_symlink()
    assert (folder / "real").read_bytes() == b"new"
    assert not (folder / "real").is_symlink()


@pytest.mark.parametrize("clobber", [True, False])
def test_a_dangling_link_creates_its_referent(tmp_path, clobber):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "later")
    write(link, clobber=clobber)
    assert link.is_symlink()
    assert (tmp_path / "later").read_bytes() == b"new"


def test_a_loop_of_links_is_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for refuse in (preflight, write):
        with pytest.raises(Unavailable, match="Too many levels of symbolic links"):
            refuse(tmp_path / "a")
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("mode", [0o640, 0o600, 0o755, 0o666])
def test_permissions_are_kept(tmp_path, mode):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(mode)
    with replacing(path) as stream:
        assert stat.S_IMODE(os.fstat(stream.fileno()).st_mode) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_the_owner_is_kept(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    os.chown(path, 1234, 4321)
    path.chmod(0o640)
    write(path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o640)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
@pytest.mark.parametrize("clobber", [True, False])
def test_a_new_file_honours_the_umask(tmp_path, umask, mode, clobber):
    before = os.umask(umask)
    try:
        write(tmp_path / "a", clobber=clobber)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


def test_a_fifo_whose_reader_leaves_is_unavailable(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: fifo.open("rb").close())
    reader.start()
    pattern = "fifo': Broken pipe"
    with pytest.raises(Unavailable, match=pattern), replacing(fifo) as stream:  # noqa: PT012
        reader.join(10)
        stream.write(b"x" * 1_000_000)


def test_the_null_device_is_written_directly():
    before = Path("/dev/null").stat()
    preflight("/dev/null", needed=10**18)
    write("/dev/null", b"x" * 100)
    after = Path("/dev/null").stat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


def test_a_full_device_is_unavailable():
    with pytest.raises(Unavailable, match=r"^cannot write '/dev/full': No space left on device$"):
        write("/dev/full", b"x")


NO_NAME = r"names no file|Not a directory|is a folder"


@pytest.mark.parametrize("refuse", [preflight, write])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        (".", r"^cannot write '.*': it is a folder$"),
        ("missing/a", r"no folder|No such file or directory"),
        ("file/a", "Not a directory"),
        ("new/", NO_NAME),
        ("new/.", NO_NAME),
        ("file/", NO_NAME),
        ("", NO_NAME),
        ("a\0b", r"a\\x00b': .*null"),
    ],
)
def test_what_names_no_file_to_write_is_refused_at_the_start(
    tmp_path, monkeypatch, refuse, name, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match=said) as caught:
        refuse(name)
    assert caught.value.status == 3
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("refuse", [preflight, write])
def test_a_name_of_300_bytes(tmp_path, refuse):
    with pytest.raises(Unavailable, match="File name too long"):
        refuse(tmp_path / ("a" * 300))


@pytest.mark.parametrize("refuse", [preflight, write])
@pytest.mark.parametrize("data", [b"", b"old"])
def test_an_existing_file_not_to_be_clobbered_is_refused_at_the_start(tmp_path, refuse, data):
    (tmp_path / "a").write_bytes(data)
    (tmp_path / "link").symlink_to("a")
    for name in ("a", "link"):
        with pytest.raises(Unavailable, match=f"{name}': it exists") as caught:
            refuse(tmp_path / name, clobber=False)
        assert "--no-clobber" in (caught.value.hint or "")
    assert (tmp_path / "a").read_bytes() == data
    assert names(tmp_path) == ["a", "link"]


@pytest.mark.parametrize(
    "name",
    ["a" * 255, "a b", "θ😀", "two\nlines", "it's", '"', os.fsdecode(b"\xff\xfe"), "-", ".npy"],
)
@pytest.mark.parametrize("clobber", [True, False])
def test_names_are_used_exactly_as_given(tmp_path, name, clobber):
    preflight(tmp_path / name, needed=3)
    write(tmp_path / name, clobber=clobber)
    assert names(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == b"new"


@pytest.mark.parametrize("name", ["two\nlines", os.fsdecode(b"\xff"), "\x1b[31m", "\u2028"])
def test_a_message_stays_on_one_printable_line(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(Unavailable) as caught:
        write(tmp_path / name)
    assert caught.value.message.isprintable()


def test_too_little_room_is_told_with_both_sizes(tmp_path):
    told = r"it takes at least 931322574\.6 GiB, the disk has \d+\.\d GiB"
    with pytest.raises(Unavailable, match=told):
        preflight(tmp_path / "a", needed=10**18)
    preflight(tmp_path / "a", needed=1)


def test_of_two_that_must_not_clobber_the_second_to_finish_fails(tmp_path):
    path = tmp_path / "a"
    pattern = "it exists"
    with pytest.raises(Unavailable, match=pattern), replacing(path, clobber=False) as first:  # noqa: PT012
        first.write(b"first")
        write(path, b"second", clobber=False)
    assert path.read_bytes() == b"second"
    assert names(tmp_path) == ["a"]


class TestWithoutHardLinks:
    @pytest.fixture(autouse=True)
    def no_links(self, monkeypatch):
        def refuse(*args: object, **named: object) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)

    def test_a_file_that_came_meanwhile_stays(self, tmp_path):
        path = tmp_path / "a"
        with pytest.raises(Unavailable, match="it exists"), replacing(path, clobber=False):
            path.write_bytes(b"other")
        assert path.read_bytes() == b"other"
        assert names(tmp_path) == ["a"]

    def test_nothing_is_left_where_the_last_step_fails(self, tmp_path, monkeypatch):
        def refuse(*args: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "replace", refuse)
        with pytest.raises(Unavailable, match="Input/output error"):
            write(tmp_path / "a", clobber=False)
        assert not names(tmp_path)


@pytest.mark.parametrize("clobber", [True, False])
def test_a_failure_of_the_last_step_is_unavailable(tmp_path, monkeypatch, clobber):
    def refuse(*args: object, **named: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(Unavailable, match="a': Input/output error"):
        write(tmp_path / "a", clobber=clobber)
    assert not names(tmp_path)
