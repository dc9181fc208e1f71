"""The files of one run: what a command reads it never replaces, and what it writes comes last."""

import ast
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import posenc_cli
from posenc_cli.configs import library
from posenc_cli.errors import InvalidInput
from posenc_cli.files.atomic import replacing
from posenc_cli.files.formats import FORMATS
from posenc_cli.transaction import note_read, open_input, transaction

FUNCTION = "def f(x, positions):\n    return x\n"

READING = [
    ("generate -s learned --set weights={} -l 3 -o {out}", "w.npy", "w.npy"),
    ("generate -s learned --set weights={} -l 3", "w.npy", "learned-3x4.npy"),
    ("generate --config {} -l 4 -o {out}", "config.json", "out.npy"),
    ("generate --config folder -l 4 -o {out}", "folder/config.json", "out.npy"),
    ("generate -s mrope --set axes={} -l 4 -o {out}", "axes.npy", "axes.npy"),
    (
        "generate -s rope-longrope -d 4 --set short_factor={} --set long_factor=1,1 -l 4 -o {out}",
        "list.json",
        "out.npy",
    ),
    ("dot-similarity --in {} --out {out}", "w.npy", "w.npy"),
    ("dot-similarity --in {} --out {out}", "w.npy", "w.png"),
    ("dot-similarity --in {}:encoding --out {out}", "two.npz", "two.npz"),
    ("heatmap --in {} --out {out}", "w.npy", "w.png"),
    ("alibi-slopes --check {} --heads 2 --out {out}", "slopes.json", "slopes.json"),
    ("alibi-slopes --check {} --heads 2 --out {out}", "slopes.npy", "slopes.txt"),
    ("rope-check -s rope -d 4 --tables {} b.npy --out {out}", "w.npy", "w.txt"),
    ("rope-check -s rope -d 4 --tables b.npy {} --out {out}", "w.npy", "w.json"),
    ("rope-check -s rope -d 4 --inv-freq {} --out {out}", "slopes.npy", "report"),
    ("rope-check -s rope -d 4 --rotated b.npy {} --out {out}", "w.npy", "w.xml"),
    ("rope-check -s rope -d 4 -l 4 --impl ./{}:f --out {out}", "function.py", "report"),
    ("rope-check --config {} -l 4 --out {out}", "config.json", "config.json"),
]
"""A command, a file that it reads, and a name of which it would write."""


@pytest.fixture
def folder(tmp_path):
    config = json.dumps(dict(library.find("llama-2-7b").config))
    (tmp_path / "folder").mkdir()
    for name in ("config.json", "folder/config.json"):
        (tmp_path / name).write_text(config)
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "slopes.json").write_text("[0.0625, 0.00390625]")
    (tmp_path / "function.py").write_text(FUNCTION)
    table = np.arange(12.0).reshape(3, 4) / 100
    for name in ("w.npy", "b.npy"):
        np.save(tmp_path / name, table)
    np.save(tmp_path / "axes.npy", np.arange(12).reshape(3, 4))
    np.save(tmp_path / "slopes.npy", [0.0625, 0.00390625])
    np.savez(tmp_path / "two.npz", encoding=table, other=table)
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("link", ["symbolic", "hard"])
@pytest.mark.parametrize("case", READING, ids=" ".join)
def test_no_command_replaces_what_it_reads(case, link, folder, refused):
    command, source, out = case
    if out != source:
        (folder / out).unlink(missing_ok=True)
        made = (folder / out).symlink_to if link == "symbolic" else (folder / out).hardlink_to
        made(folder / source)
    elif link == "hard":
        out = f"./folder/../{out}"
    before = contents(folder)
    message, hint = refused(*command.format(source, out=out).split()).splitlines()
    assert "this command reads that file" in message
    assert "--out" in hint
    assert contents(folder) == before


WRITING = {
    "rope-check -s rope -l 4": {"txt", "md", "json", "xml", "png", "svg", "pdf"},
    "rope-check -s rope -l 4 --format table": {"txt", "md", "png", "svg", "pdf"},
    "rope-check -s rope -l 4 --json": {"txt", "md", "json"},
    "rope-check -s rope -l 4 --format junit": {"txt", "md", "xml"},
    "rope-check -s rope -l 4 --format github": {"txt", "md"},
    "alibi-slopes": {"txt", "md", "csv", "json"},
    "alibi-slopes --format csv": {"txt", "md", "csv"},
    "alibi-slopes --json": {"txt", "md", "json"},
    "alibi-slopes --plot": {"png", "svg", "pdf"},
    "generate -s rope -l 4": {*FORMATS},
    "generate -s rope -l 4 --format csv": {"txt", "md", "csv"},
    "generate -s rope -l 4 --format npy": {"npy"},
    "dot-similarity -s rope -l 4": {*FORMATS, "png", "svg", "pdf"},
    "dot-similarity -s rope -l 4 --format npz": {"npz"},
    "heatmap -s rope -l 9": {"png", "svg", "pdf"},
    "spectrum -s rope -l 9": {"png", "svg", "pdf"},
}
"""What may hold the result of a command, of the suffixes below."""

SUFFIXES = [
    *("txt", "md", "csv", "json", "xml", "npy", "npz", "safetensors"),
    *("png", "svg", "pdf", "jpg", "py", "gz", "pt", "jsonl"),
]


@pytest.mark.sweep(9)
@pytest.mark.parametrize("command", WRITING)
def test_no_result_gets_a_name_that_says_it_is_something_else(command, call, refused):
    for suffix in (each for each in SUFFIXES if each not in WRITING[command]):
        refused(*command.split(), "--out", f"a.{suffix}")
    for suffix in WRITING[command] - {"png", "svg", "pdf"}:
        assert call(*command.split(), "--out", f"a.{suffix}")[0] == 0


@pytest.mark.parametrize(
    ("words", "out", "meant"),
    [
        ("generate -s rope -l 4 --format npy", "x.npz", "an .npz archive"),
        ("generate -s rope -l 4 --format npz", "x.NPY", "an .npy array"),
        ("generate -s rope -l 4 --format npy", "x.safetensors", "a safetensors file"),
        ("generate -s rope -l 4 --format csv", "x.tsv", "a TSV table"),
        ("generate -s rope -l 4 --format npy", "x.pt", "a checkpoint"),
        ("alibi-slopes --format json", "x.jsonl", "JSON lines"),
        ("rope-check -s rope -l 4 --format junit", "x.html", "an HTML page"),
    ],
)
def test_a_refused_name_is_told_what_its_suffix_means(words, out, meant, refused):
    message = f"{' '.join(words.split()[-2:])} cannot go with --out '{out}', the name of {meant}"
    assert refused(*words.split(), "--out", out).splitlines()[0] == f"posenc: error: {message}"


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["bin", "dat", "raw", "v2", "embedding"])
@pytest.mark.parametrize("form", ["npy", "npz", "csv", "safetensors"])
def test_a_suffix_that_means_no_format_is_free_where_the_format_is_given(
    form, suffix, call, tmp_path
):
    out = f"x.{suffix}"
    assert call("generate", "-s", "rope", "-l", "4", "--format", form, "--out", out)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == [out]


def test_what_one_run_read_the_next_may_replace(folder, call):
    assert call("heatmap", "--in", "w.npy")[0] == 0
    assert call("generate", "-s", "rope", "-l", "3", "-o", "w.npy")[0] == 0
    assert np.load(folder / "w.npy").shape == (3, 64)


@pytest.mark.long
def test_standard_input_is_an_input_where_it_is_a_file(folder, posenc):
    before = contents(folder)
    with (folder / "w.npy").open("rb") as file:
        done = posenc("dot-similarity", "--in", "-", "-o", "w.npy", stdin=file)
    assert done.returncode == 2, done.stderr
    assert contents(folder) == before


def test_a_device_may_be_both(folder, call):
    """It holds nothing that could be lost."""
    assert call("dot-similarity", "--in", "w.npy", "-o", "/dev/null", "--format", "npy")[0] == 0
    with transaction() as files:
        files.note_replaced(Path("/dev/null").stat(), "it")
        open_input("/dev/null").close()


def test_the_order_of_reading_and_writing_is_one(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def write_and_read():
        with transaction():
            with replacing(path) as stream:
                stream.write(b"new")
            note_read(path)

    with pytest.raises(InvalidInput, match="reads that file"):
        write_and_read()
    assert [path.read_bytes(), *tmp_path.iterdir()] == [b"old", path]


def test_a_file_takes_its_name_when_its_run_ends(tmp_path):
    path = tmp_path / "a"
    with transaction():
        with replacing(path) as stream:
            stream.write(b"new")
        assert not path.exists()
    assert [path.read_bytes(), *tmp_path.iterdir()] == [b"new", path]


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_stdout_that_fails_adds_nothing_to_the_summary_of_a_step(posenc, tmp_path):
    (tmp_path / "summary.md").write_text("before\n")
    with Path("/dev/full").open("w") as full:
        done = posenc(
            *["rope-check", "-s", "rope", "-l", "8", "--format", "github"],
            stdout=full,
            stderr=subprocess.PIPE,
            env={"GITHUB_STEP_SUMMARY": "summary.md"},
        )
    assert done.returncode == 3, done.stderr
    assert (tmp_path / "summary.md").read_text() == "before\n"


def test_a_summary_that_fails_is_a_warning_and_the_report_is_there(folder, call, monkeypatch):
    words = ["rope-check", "-s", "rope", "-l", "4", "--format", "github", "--out", "report"]
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "folder")
    status, _, err = call(*words, "-q")
    assert status == 0
    assert err.endswith("\nposenc: warning: GITHUB_STEP_SUMMARY: Is a directory\n")
    assert (folder / "report").read_text().startswith("::notice")


OWN = {
    "transaction.py",  # where they are opened
    "files/atomic.py",  # what is written
    "files/npz.py",  # members of an archive
    "backends/native.py",
    "catalogue.py",  # what distributions say of plugins
    "configs/families.py",
    "configs/library.py",
    "configs/nonrotary.py",
    "configs/position_rules.py",
    "inference/candidates.py",
    "render/style.py",  # data of posenc's own
    "render/html/page.py",
    "render/terminal/blocks.py",  # a picture in memory
    "loading.py",  # code, here and in the process of a function
    "examples/__init__.py",  # programs of posenc's own
    "experiments/corpus.py",  # a text of posenc's own
    "experiments/folder.py",  # what runs keep
    "experiments/job_processes.py",  # another process
    "calls/worker.py",  # another process
    "calls/onnx.py",  # runs in the process of a user's function
    "cli/check_reports.py",  # the summary of a GitHub step, which is added to
    "cli/help/known_answers.py",  # a text of posenc's own
}

OPENING = re.compile(r"(?:.*\.)?(?:open|read_bytes|read_text|fromfile|memmap|load|loadtxt)\(")
"""What opens a file, by a name that it may have."""


@pytest.mark.long
def test_files_of_a_user_are_opened_in_one_place():
    root = Path(posenc_cli.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text()
        if path.relative_to(root).as_posix() in OWN or not OPENING.search(text):
            continue
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        names = {ast.unparse(call.func) for call in calls} - {"os.open"}
        assert not list(filter(OPENING.match, (f"{name}(" for name in names))), path


def test_a_refusal_closes_what_it_opened(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    before = len(os.listdir("/dev/fd"))
    with transaction() as files:
        files.note_replaced(path.stat(), "it")
        for _ in range(3):
            with pytest.raises(InvalidInput):
                open_input(path)
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize(
    "command",
    [
        "generate -s rope -l 4 --out a.npy",
        "apply -s rope --in w.npy --out a.npy",
        "resize w.npy --len 6 --out a.npy",
        "dot-similarity --in w.npy --out a.npy",
        "heatmap --in w.npy --out a.png",
        "emit -s rope -d 4 --out a",
    ],
)
def test_a_file_that_does_not_get_its_name_is_not_said_to_be_written(
    command, folder, monkeypatch, refused
):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    monkeypatch.setattr(Path, "rename", full)
    assert refused(*command.split(), status=3).endswith(": No space left on device\n")


def test_a_similarity_that_cannot_be_reported_is_not_said_to_be_written(refused):
    np.save("nan.npy", np.full((4, 8), np.nan))
    asked = ("--in", "nan.npy", "--json", "--normalize", "cosine", "--out", "o.npy")
    said = "posenc: error: 'nan.npy': no cosine of its rows is a finite number\n"
    assert refused("dot-similarity", *asked) == said


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize(
    "words",
    ["spectrum -s rope -l 9 -o a.png --json", "dot-similarity -s rope -l 9 -o a.npy --json"],
)
def test_a_stdout_that_fails_leaves_no_file(words, posenc, tmp_path):
    with Path("/dev/full").open("w") as full:
        done = posenc(*words.split(), stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 3, done.stderr
    assert not list(tmp_path.iterdir())
