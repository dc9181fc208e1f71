"""Files that a search guided by coverage found still get an answer, each in its own way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets import CORPUS, TARGETS, corpus, seeds


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_every_file_of_the_corpus_is_read_or_refused(target):
    files = corpus(target)
    read = [name for name, content in files.items() if TARGETS[target](content)]
    assert 0 < len(read) < len(files), "some are read, and some are refused"


def test_the_corpus_is_small_and_of_known_targets():
    archives = sorted(CORPUS.glob("*"))
    assert [path.stem for path in archives] == sorted(TARGETS)
    assert sum(path.stat().st_size for path in archives) < 1 << 20


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_what_a_search_begins_with_is_read(target):
    assert any(TARGETS[target](content) for content in seeds(target))


def test_a_fault_that_is_no_error_of_posenc_is_seen(monkeypatch):
    def broken(*_, **__):
        raise KeyError("q")

    monkeypatch.setattr("tests.fuzz.targets.read_array", broken)
    with pytest.raises(KeyError):
        TARGETS["npy"](b"")


@pytest.mark.slow
def test_a_search_of_a_second_runs_and_keeps_what_it_found(tmp_path):
    pytest.importorskip("atheris")
    command = [sys.executable, "-m", "tools.fuzz", "csv", "--seconds", "1", "--out", str(tmp_path)]
    root = Path(__file__).parents[2]
    found = subprocess.run(command, cwd=root, env=os.environ, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "csv: " in found.stdout
    assert (tmp_path / "csv.zip").exists()
