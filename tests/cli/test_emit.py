"""``posenc emit``: the folder that it writes, the results that it checks, and what it refuses."""

import hashlib
import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.long


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.fixture
def pack(call):
    """A pack of a small head in the current folder."""
    status, out, err = call("emit", "-s", "rope", "-d", "16", "--layout", "half", "-o", "pack")
    assert (status, out) == (0, "")
    assert "known bugs" in err
    return Path("pack")


def test_a_pack_has_the_files_that_its_manifest_names(call, pack):
    manifest = json.loads((pack / "pack.json").read_text())
    assert manifest["schema"] == "posenc/pack/1"
    assert {*manifest["files"], "pack.json"} == {*contents(pack)}
    for name, file in manifest["files"].items():
        assert hashlib.sha256((pack / name).read_bytes()).hexdigest() == file["sha256"]
        if name.endswith(".npy"):
            values = np.load(pack / name)
            assert (list(values.shape), values.dtype.name) == (file["shape"], file["dtype"])
    conventions = manifest["conventions"]
    assert conventions["first_columns"] == [*range(8)]
    assert conventions["second_columns"] == [*range(8, 16)]
    score = manifest["score"]
    assert score["killed"] == score["known"] > 90
    assert score["survivors"] == []
    assert all(one["reason"] for one in score["not_applicable"])


def test_the_same_request_gives_the_same_bytes(call, pack):
    assert call("emit", "-s", "rope", "-d", "16", "--layout", "half", "-o", "again")[0] == 0
    assert contents("again") == contents(pack)
    other = "--seed", "1", "-o", "other"
    assert call("emit", "-s", "rope", "-d", "16", "--layout", "half", *other)[0] == 0
    assert contents("other")["x.npy"] != contents(pack)["x.npy"]


def test_json_has_the_manifest_and_the_place(document):
    printed = document("emit", "-m", "llama-3-8b", "-o", "pack")
    assert printed["path"] == "pack"
    assert printed["encoding"]["model"] == "llama-3-8b"
    assert printed["encoding"]["context"] == 8192
    assert printed["score"]["killed"] == printed["score"]["known"] > 90


def test_the_right_result_passes_and_a_mistake_is_named(call, pack, printed):
    assert printed("emit", "--check", "pack", "pack/y.npy").startswith("ok: ")
    np.save("still.npy", np.load("pack/x.npy")[None])
    out = printed("emit", "--check", "pack", "still.npy", status=1)
    assert out.startswith("FAILED: 'still.npy' does not match 'pack': ")
    assert "cause: no-rotation: nothing rotates" in out
    status, out, _ = call("emit", "--check", "pack", "still.npy", "--json")
    report = json.loads(out)
    assert (status, report["ok"], report["diagnosis"][0]["cause"]) == (1, False, "no-rotation")


def test_what_is_no_number_is_wrong_and_told_so(call, pack):
    y = np.load("pack/y.npy")
    y[3, 5] = np.nan
    np.save("y.npy", y)
    status, out, _ = call("emit", "--check", "pack", "y.npy", "--json")
    report = json.loads(out)
    assert (status, report["wrong"], report["worst"], report["given"]) == (1, 1, None, None)
    assert report["at"] == {"row": 3, "column": 5, "position": 3}
    assert report["diagnosis"] == []
    assert "cause: unknown" in call("emit", "--check", "pack", "y.npy")[1]


def test_a_pack_that_was_changed_is_refused(pack, refused):
    y = np.load("pack/y.npy")
    np.save("y.npy", y)
    np.save("pack/tolerance.npy", 1 + y)
    assert "'pack/tolerance.npy' has changed since" in refused("emit", "--check", "pack", "y.npy")
    no_manifest = ("{}", "[]", "{", '{"schema": "posenc/pack/1"}', "null", '{"files": 3}')
    for text in (*no_manifest, "[" * 9999):
        (pack / "pack.json").write_text(text)
        said = refused("emit", "--check", "pack", "y.npy")
        assert "is not a folder of test vectors from posenc emit" in said


def rewritten(pack, name, content):
    """Another content of a file of a pack, whose manifest has its digest."""
    (pack / name).write_bytes(content)
    manifest = json.loads((pack / "pack.json").read_bytes())
    manifest["files"][name]["sha256"] = hashlib.sha256(content).hexdigest()
    (pack / "pack.json").write_text(json.dumps(manifest))


def test_an_encoding_of_a_pack_that_is_none_names_no_cause(call, pack):
    np.save("y.npy", np.load(pack / "x.npy") + 1)
    manifest = json.loads((pack / "pack.json").read_bytes())
    for encoding in (
        *(1, None, {}, {"scheme": "rope"}, {"scheme": [], "params": {}}),
        *({"scheme": name, "params": params} for name in ("rope", "alibi") for params in ([1], 3)),
        *({"scheme": "rope", "params": {"dim": dim}} for dim in ("x", 10**400)),
        {"scheme": "own", "params": {}},
    ):
        (pack / "pack.json").write_text(json.dumps({**manifest, "encoding": encoding}))
        status, out, _ = call("emit", "--check", "pack", "y.npy")
        assert (status, "cause: unknown" in out) == (1, True), encoding


@pytest.mark.parametrize("name", ["y.npy", "tolerance.npy", "positions.npy"])
def test_arrays_of_a_pack_that_do_not_go_together_are_refused(pack, name, refused):
    shutil.copy(pack / "y.npy", "y.npy")
    for array in (np.zeros((0, 8)), np.zeros(()), np.zeros((2, 2), complex), np.full(52, np.inf)):
        content = io.BytesIO()
        np.save(content, array)
        rewritten(pack, name, content.getvalue())
        assert refused("emit", "--check", "pack", "y.npy")


def test_an_empty_folder_is_filled_and_another_is_left_alone(call, refused):
    Path("empty").mkdir()
    assert call("emit", "-s", "rope", "-d", "4", "-o", "empty")[0] == 0
    written = contents("empty")
    assert "pack.json" in written
    assert "is not empty" in refused("emit", "-s", "rope", "-d", "4", "-o", "empty")
    assert "--out '-': must be a folder" in refused("emit", "-s", "rope", "-d", "4", "-o", "-")
    assert contents("empty") == written
    Path("file").write_text("mine")
    assert "is a file" in refused("emit", "-s", "rope", "-d", "4", "-o", "file")
    assert Path("file").read_text() == "mine"


def test_a_run_that_fails_leaves_no_folder(call, monkeypatch):
    from posenc_cli.vectors import pack_folder

    monkeypatch.setattr(pack_folder, "_manifest", lambda *_: 1 / 0)
    assert call("emit", "-s", "rope", "-d", "4", "-o", "pack")[0] == 70
    assert os.listdir() == []


CHECK = "--check pack pack/y.npy"


def test_what_turns_nothing_or_goes_with_nothing_is_refused(pack, refused):
    shape = np.load("pack/cos.npy").shape
    for asked, said in (
        ("-s shaw -o new", "is a relative encoding"),
        ("-s nope -o new", "adds nothing"),
        ("-s alibi --reader c -o new", "readers call a function of one vector"),
        ("-s rope", "--out is missing"),
        ("-o new", "one of them is needed"),
        ("y.npy -s rope -o new", "needs --check"),
        ("rope -o new", "name an encoding with --scheme"),
        ("--check pack", "needs the output of your code"),
        (f"{CHECK} -s rope", "cannot go with"),
        (f"{CHECK} --reader c", "--reader needs --out"),
        (f"{CHECK} -o new", "cannot go with --out"),
        ("--check pack pack/cos.npy", f"has the shape {shape}"),
        ("-s rope --reader java -o new", "must be one of c, rust"),
        ("-s rope --positions 0.5 -o new", "is not whole"),
        ("-s rope -l 1e9 -o new", "at most 262144"),
        ("-s rope -d 65536 -o a", "--scheme rope: 3407872 values"),
        ("-s alibi --heads 4096 -o a", "--scheme alibi: 11075584 scores"),
        ("-s alibi --heads 4097 -o a", "at most 4096"),
        ("-s xpos --set side=key --positions 99999 -o new", "a value of y exceeds float32"),
    ):
        assert said in refused("emit", *asked.split()), asked


@pytest.mark.usefixtures("own")
def test_a_scheme_of_ones_own_and_a_hybrid_have_packs(call):
    assert call("emit", "-s", "./own.py:halving", "-o", "own")[0] == 0
    score = json.loads(Path("own/pack.json").read_text())["score"]
    assert score["killed"] == score["known"] > 60
    status, _, err = call("emit", "-s", "rope+alibi", "-d", "8", "-o", "hybrid")
    assert status == 0
    assert "alibi: left out, because it changes scores, not vectors" in err


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_vectors_that_were_rounded_to_a_half_precision_are_told_so(half, pack, printed):
    formats = pytest.importorskip("ml_dtypes")
    y = np.load(pack / "y.npy")
    np.save("half.npy", y.astype(getattr(formats, half, np.float16)).astype(np.float32))
    out = printed("emit", "--check", "pack", "half.npy", status=1)
    assert f"cause: table-precision: the rotated vectors were rounded to {half}" in out


def test_a_write_protected_folder_is_told_in_words_of_ours(monkeypatch, refused):
    def protected(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", protected)
    err = refused("emit", "-s", "rope", "-d", "8", "--out", "pack", status=3)
    assert err == "posenc: error: --out 'pack': its folder is write-protected\n"
