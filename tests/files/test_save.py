"""A format and a place together: what is checked before, during and after."""

import hashlib
import io
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from posenc_cli.cli.pictures import IMAGES
from posenc_cli.errors import InvalidInput, Unavailable
from posenc_cli.files.formats import FORMATS, Saved, format_of, ready, save
from posenc_cli.files.matrix import Matrix
from posenc_cli.numerics.dtypes import FLOAT32
from posenc_cli.records import replace
from tests.files.test_replacing import names
from tests.memory import HAS_HIGH_WATER, HIGH_WATER
from tests.processes import ran_code

ARRAY = np.arange(12, dtype="<f4").reshape(6, 2)
MATRIX = Matrix((6, 2), FLOAT32, lambda: iter([ARRAY[:4], ARRAY[4:]]), {"scheme": "integer"})


def test_no_format_takes_the_suffix_of_another():
    assert {"npy", "npz", "csv", "safetensors"} <= FORMATS.keys()
    suffixes = [s for form in FORMATS.values() for s in (form.suffix, *form.other_suffixes)]
    assert len(set(suffixes)) == len(suffixes)


each_format = pytest.mark.parametrize("name", list(FORMATS))


def uncomputed() -> Matrix:
    def blocks():
        pytest.fail("blocks were asked for")

    return replace(MATRIX, blocks=blocks)


@each_format
@pytest.mark.parametrize("digest", [True, False])
def test_what_was_saved_is_told(tmp_path, name, digest):
    path = str(tmp_path / "a")
    saved = save(MATRIX, path, format=FORMATS[name], digest=digest)
    data = Path(path).read_bytes()
    sha256 = hashlib.sha256(data).hexdigest() if digest else None
    assert saved == Saved(path, len(data), sha256)
    assert FORMATS[name].size(MATRIX) <= len(data)
    assert names(tmp_path) == ["a"]


@each_format
def test_refusals_come_before_the_first_block(tmp_path, name):
    form = FORMATS[name]
    (tmp_path / "a").touch()
    places = ((tmp_path, True), (tmp_path / "b" / "c", True), (tmp_path / "a", False))
    for target, clobber in places:
        with pytest.raises(Unavailable):
            save(uncomputed(), str(target), format=form, clobber=clobber)
    huge = replace(uncomputed(), shape=(10**15, 64))
    with pytest.raises(Unavailable, match=r"it takes at least \d{8,}\.\d GiB"):
        save(huge, str(tmp_path / "b"), format=form)
    assert names(tmp_path) == ["a"]


def test_what_a_format_cannot_hold_is_refused_before_the_first_block(tmp_path):
    with pytest.raises(InvalidInput, match="two axes"):
        save(replace(uncomputed(), shape=(2, 3, 2)), str(tmp_path / "a"), format=FORMATS["csv"])
    assert not names(tmp_path)


@each_format
def test_standard_output_carries_the_same_bytes(tmp_path, name, capfdbinary):
    expected = save(MATRIX, str(tmp_path / "a"), format=FORMATS[name], digest=True)
    saved = save(MATRIX, "-", format=FORMATS[name], digest=True)
    assert capfdbinary.readouterr().out == (tmp_path / "a").read_bytes()
    assert saved == replace(expected, path="-")


def test_standard_output_in_memory_is_written_too(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stream)
    save(MATRIX, "-", format=FORMATS["csv"])
    assert stream.buffer.getvalue().startswith(b"0.0,1.0\n")  # type: ignore[attr-defined]


@each_format
def test_binary_to_a_terminal_is_refused(name, monkeypatch):
    parent, terminal = os.openpty()
    with os.fdopen(parent, "rb"), os.fdopen(terminal, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        if not FORMATS[name].binary:
            ready(MATRIX, "-", format=FORMATS[name])
        else:
            with pytest.raises(InvalidInput, match="standard output is a terminal"):
                save(uncomputed(), "-", format=FORMATS[name])


class TestFormatOf:
    @each_format
    def test_by_name_whatever_the_suffix(self, name):
        assert format_of("a.unknown", name).name == name
        assert format_of("y", name).name == name

    @each_format
    def test_no_name_goes_with_a_suffix_of_something_else(self, name):
        own = FORMATS[name].suffix
        others = {each.suffix for each in FORMATS.values()} - {own}
        others |= {".json", ".xml", ".py", ".pt", ".gz", *IMAGES, ".PNG"}
        others |= {".txt"} if FORMATS[name].binary else set()
        for suffix in sorted(others):
            refusal = f"--format {name} cannot go with --out"
            with pytest.raises(InvalidInput, match=refusal) as caught:
                format_of(f"a{suffix}", name)
            assert caught.value.hint == f"--out 'a{own}'"

    @each_format
    def test_by_suffix_in_any_case(self, name):
        suffix = FORMATS[name].suffix
        for path in (f"a{suffix}", f"/b.c/a.b{suffix.upper()}"):
            assert format_of(path, None).name == name

    @pytest.mark.parametrize("path", [None, "-"])
    def test_npy_where_nothing_is_said(self, path):
        assert format_of(path, None).name == "npy"

    @pytest.mark.parametrize(
        ("path", "hint"),
        [("a.nyp", ".np"), ("a.safetensor", "'.safetensors'?"), ("a.pt", "--format")],
    )
    def test_an_unknown_suffix_is_refused(self, path, hint):
        known = f"(known: {', '.join(form.suffix for form in FORMATS.values())})"
        with pytest.raises(InvalidInput, match=re.escape(known)) as caught:
            format_of(path, None)
        assert hint in (caught.value.hint or "")

    @pytest.mark.parametrize("path", ["y", "a.b/y", ".npy", "y."])
    def test_no_suffix_is_refused(self, path):
        with pytest.raises(InvalidInput, match="suffix") as caught:
            format_of(path, None)
        assert f"--format {'|'.join(FORMATS)}" in (caught.value.hint or "")

    @pytest.mark.parametrize(("name", "hint"), [("NPY", "npy"), ("cvs", "'csv'?"), ("\n", None)])
    def test_an_unknown_name_is_refused(self, name, hint):
        with pytest.raises(InvalidInput, match=", ".join(FORMATS)) as caught:
            format_of("a.npy", name)
        assert caught.value.message.isprintable()
        assert (hint or "") in (caught.value.hint or "")


MEMORY = f"""
{HIGH_WATER}
import sys
import numpy as np
from posenc_cli.files.formats import FORMATS
from posenc_cli.files.matrix import Matrix
from posenc_cli.files.formats import save
from posenc_cli.numerics.dtypes import FLOAT32

def run(rows):
    block = np.full((4096, 64), 0.7, "<f4")
    matrix = Matrix((rows, 64), FLOAT32, lambda: (block for _ in range(rows // 4096)), {{}})
    return save(matrix, "/dev/null", format=FORMATS[sys.argv[1]], digest=True).bytes

run(4096)
before = high_water()
print(run(int(sys.argv[2])), high_water() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not HAS_HIGH_WATER, reason="needs /proc")
@each_format
def test_any_length_streams_in_constant_memory(name):
    rows = 2**22 if name != "csv" else 2**18  # 1 GiB; the text of 64 MiB
    size, grown = map(int, ran_code(MEMORY, name, str(rows)).stdout.split())
    assert size >= rows * 64 * 4
    assert grown < 16 << 20
