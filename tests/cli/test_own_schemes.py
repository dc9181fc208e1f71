"""A scheme of a user's own, in a file: ``--scheme ./file.py:name`` wherever a scheme is taken."""

import json
import os
import sys

import numpy as np
import pytest

import posenc_cli as library
from posenc_cli import catalogue
from posenc_cli.errors import InvalidInput
from posenc_cli.loading import object_named

MINE = """
from neighbour import FACTOR
from posenc_cli.formulas.declare import Rotation, Waves, rotary
from posenc_cli.formulas.parameters import Base, Dim
from posenc_cli.formulas.rotary import PairLayout


@rotary(source="mine", formula="θ_i = base^(−2i/d) / 2")
def slow(*, dim: Dim = 8, base: Base = 10_000.0, layout: PairLayout = "interleaved") -> Rotation:
    \"\"\"Frequencies that are half of rope's.\"\"\"

    def frequencies(xp):
        return xp.asarray(1) / (FACTOR * base ** (xp.arange(0, dim, 2) / dim))

    return Rotation(Waves(dim // 2, frequencies), layout)


@rotary(source="mine", formula="θ_i = base^(−2i/d) · (1 + i)")
def bent(*, dim: Dim = 16, base: Base = 10_000.0) -> Rotation:
    \"\"\"A ladder with a slope of its own.\"\"\"

    def frequencies(xp):
        return (1 + xp.arange(0, dim // 2)) / base ** (xp.arange(0, dim, 2) / dim)

    return Rotation(Waves(dim // 2, frequencies), "interleaved")


number = 3


class Holder:
    held = slow
"""


@pytest.fixture
def folder(call, tmp_path, monkeypatch):
    """The current folder, with files of the user's; what loading leaves behind goes again."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("code", "c++"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(MINE)
        (tmp_path / name / "neighbour.py").write_text("FACTOR = 2\n")
    yield tmp_path
    for name in loaded_from(tmp_path):
        del sys.modules[name]


def loaded_from(folder):
    """The names of the modules whose files lie in a folder, or below."""
    files = {name: getattr(module, "__file__", None) for name, module in [*sys.modules.items()]}
    return [name for name, file in files.items() if file and file.startswith(f"{folder}{os.sep}")]


SLOW = "./code/mine.py:slow"


@pytest.mark.long
@pytest.mark.usefixtures("folder")
def test_a_scheme_in_a_file_is_taken_as_any_other(call, tmp_path):
    assert call("generate", "-s", SLOW, "-l", "9", "-o", "a.npy")[0] == 0
    assert call("generate", "-s", "rope", "-d", "8", "-l", "5", "-o", "b.npy")[0] == 0
    slow, rope = (np.load(tmp_path / name) for name in ("a.npy", "b.npy"))
    assert (slow[::2] == rope).all()
    held = "./code/mine.py:Holder.held"
    drawing = ("heatmap", "curve", "rotation", "dot-similarity", "spectrum")
    for command in ("rope-check", "order-check", "inspect", *drawing):
        assert call(command, "-s", held, "-l", "9")[0] == 0
    assert call("compare", SLOW, "a.npy", "-l", "9", "--dtype", "float32")[0] == 0
    status, out, _ = call("schemes", SLOW, "--json")
    assert (status, json.loads(out)["schemes"][0]["source"]) == (0, "mine")
    # The whole path names the file, from any folder.
    assert call("schemes", f"{tmp_path}/code/mine.py:slow", "--json")[1] == out


@pytest.mark.usefixtures("own")
def test_a_bias_in_a_file_has_curves_and_weights(call):
    asked = ("-s", "./own.py:near", "-l", "4", "--json")
    curves = json.loads(call("curve", *asked)[1])["curves"]
    assert [curve["y"][0] for curve in curves] == [-3 / 8, -6 / 8]
    weights = json.loads(call("heatmap", *asked, "--softmax", "--head", "1")[1])["values"]
    powers = np.exp(-abs(np.subtract.outer(range(4), range(4))) / 4)
    np.testing.assert_allclose(weights, powers / powers.sum(axis=1, keepdims=True), rtol=1e-14)


@pytest.mark.usefixtures("folder")
def test_it_is_a_part_of_a_hybrid_and_a_plus_in_its_path_joins_nothing(call, tmp_path):
    for number, path in enumerate(("code", "c++")):
        name = f"sinusoidal+./{path}/mine.py:slow+t5"
        assert call("generate", "-s", name, "-l", "4", "-o", f"{number}.npz")[0] == 0
        with np.load(tmp_path / f"{number}.npz") as archive:
            assert {"sinusoidal", "slow", "t5"} < {*archive}
    assert call("compare", "./c++/mine.py:slow", SLOW, "-l", "4")[0] == 0


@pytest.mark.long
@pytest.mark.usefixtures("folder")
def test_identify_tries_it_where_it_is_named(call, document):
    bent = "./code/mine.py:bent"
    assert call("generate", "-s", bent, "--table", "inv-freq", "-o", "a.npy")[0] == 0
    answer = document("identify", "a.npy", "-s", bent)
    assert (answer["scheme"], answer["exact"]) == (bent, True)
    command = next(line for line in answer["commands"] if line.startswith("posenc generate"))
    assert f"--scheme {bent}" in command
    assert library.identify("a.npy", schemes=[bent]).match.scheme == bent
    assert library.identify("a.npy").match is None
    with catalogue.adopting([bent, "rope"]):
        assert [scheme.name for scheme in catalogue.adopted()] == [bent]
    assert catalogue.adopted() == ()
    with catalogue.adopting(["rope", bent]):
        assert [scheme.name for scheme in catalogue.adopted()] == [bent]


@pytest.mark.usefixtures("folder")
def test_the_library_takes_it_and_reads_the_file_as_it_is_now(tmp_path):
    before = library.encode(SLOW, 4)
    path = tmp_path / "code" / "mine.py"
    path.write_text(path.read_text().replace("FACTOR *", "1 *"))
    after = library.encode(SLOW, 4)
    assert (after == library.encode("rope", 4, dim=8)).all()
    assert (before != after).any()


def test_a_file_is_run_again_only_where_it_has_changed(folder, capsys):
    mine = folder / "code" / "mine.py"
    mine.write_text(MINE + "print('first')\n")
    first = [catalogue.find(SLOW) for _ in range(3)]
    assert capsys.readouterr().out == "first\n"
    assert first[0] == first[2]
    before = mine.stat()
    mine.write_text(MINE + "print('other')\n")
    os.utime(mine, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert catalogue.find(SLOW) != first[0]
    assert capsys.readouterr().out == "other\n"
    assert not [*mine.parent.rglob("mine*.pyc")]


def test_a_module_of_a_file_takes_the_place_of_no_other(folder):
    for name in ("a-b", "a_b"):
        (folder / f"{name}.py").write_text("def f(): pass\n")
    functions = [object_named(f"./{name}.py:f") for name in ("a-b", "a_b")]
    for function in functions:
        assert sys.modules[function.__module__].f is function


def test_a_file_that_raises_leaves_no_module(folder):
    (folder / "raises.py").write_text("raise SystemExit(1)\n")
    with pytest.raises(InvalidInput, match="SystemExit: 1"):
        catalogue.find("./raises.py:f")
    assert loaded_from(folder) == []


@pytest.mark.parametrize("name", ["sinusoidal+t5", "rope+./code/mine.py:slow+t5", "rope+"])
def test_what_takes_one_scheme_refuses_several_as_such(folder, name, refused):
    np.save("a.npy", np.ones((4, 4), np.float32))
    for words in (("identify", "a.npy", "-s", name), ("schemes", name), ("compare", name, "t5")):
        line, hint = refused(*words).splitlines()
        assert line.endswith(f": {name!r} is several encodings; give one")
        assert hint == "hint: name each by itself"


def test_a_plus_in_the_name_of_a_file_takes_a_slash(call, folder, refused):
    (folder / "c++" / "mine.py").rename(folder / "c++.py")
    name = "c++.py:slow"
    for words in (("generate", "-l", "4", "-s", name), ("schemes", name)):
        assert refused(*words).count("hint: ") == 1
    sys.path.append(str(folder / "code"))
    assert call("generate", "-s", f"./{name}", "-l", "4")[0] == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        ("./none.py:f", 3, "there is no file './none.py'"),
        ("./folder.py:f", 3, "there is no file './folder.py'"),
        ("./code/mine.py:none", 2, "./code/mine.py has no attribute 'none'"),
        ("./code/mine.py:number", 2, "is of the type int, not a scheme"),
        ("./code/mine.py", 2, "names a file, but no scheme in it"),
        ("./raises.py:f", 2, "cannot be loaded (RuntimeError: first line)"),
        ("./leaves.py:f", 2, "cannot be loaded (SystemExit: 0)"),
        ("./wrong.py:f", 2, "SyntaxError"),
        ("./needs.py:f", 2, "cannot be loaded (ModuleNotFoundError: No module named 'absent_one')"),
    ],
)
def test_a_file_that_gives_no_scheme_is_refused_in_one_line(call, folder, target, status, words):
    (folder / "folder.py").mkdir()
    for name, code in {
        "raises": "raise RuntimeError('first line\\nsecond')",
        "leaves": "raise SystemExit(0)",
        "wrong": "f = (",
        "needs": "import absent_one",
    }.items():
        (folder / f"{name}.py").write_text(code)
    given, out, err = call("generate", "-s", target, "-l", "4")
    assert (given, out) == (status, "")
    line, *hint = err.splitlines()
    assert line.startswith("posenc: error: --scheme")
    assert words in line
    assert len(hint) <= 1
    assert "searched" not in err


@pytest.mark.usefixtures("folder")
def test_the_current_folder_is_not_imported_from_unasked(tmp_path, refused):
    (tmp_path / "unasked.py").write_text("raise SystemExit(99)")
    err = refused("generate", "-s", "unasked:slow", "-l", "4")
    assert "No module named 'unasked'" in err
    assert "hint: the current folder is not searched: ./file.py:name" in err


def test_a_neighbour_of_the_file_hides_no_module(call, folder):
    (folder / "code" / "typing.py").write_text("raise SystemExit(99)")
    (folder / "code" / "sqlite3.py").write_text("raise SystemExit(99)")
    mine = folder / "code" / "mine.py"
    mine.write_text("import typing, sqlite3\n" + mine.read_text())
    assert call("schemes", SLOW)[0] == 0
    assert [path for path in sys.path if path == os.fspath(folder / "code")] == sys.path[-1:]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read_is_the_environments(call, folder):
    (folder / "code" / "mine.py").chmod(0)
    status, _, err = call("schemes", SLOW)
    assert (status, err) == (3, f"posenc: error: --scheme '{SLOW}': Permission denied\n")


def test_the_file_is_not_replaced_by_the_run_that_reads_it(call, folder):
    (folder / "link.npy").symlink_to("code/mine.py")
    assert call("generate", "-s", SLOW, "-l", "4", "-o", "link.npy")[0] == 2
    assert (folder / "code" / "mine.py").read_text() == MINE


@pytest.mark.usefixtures("folder")
def test_completion_runs_no_code_of_a_users(call, tmp_path, monkeypatch, capsys):
    (tmp_path / "code" / "mine.py").write_text("raise SystemExit(99)")
    monkeypatch.setenv("_POSENC_COMPLETE", "complete_bash")
    for line in (f"posenc generate -s {SLOW}", f"posenc generate -s sinusoidal+{SLOW} --set "):
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
        with pytest.raises(SystemExit) as end:
            call()
        assert end.value.code == 0
        assert "mine" not in capsys.readouterr().out


@pytest.mark.usefixtures("own")
def test_ones_own_scheme_has_the_positions_that_its_declaration_says(call):
    def table(name, positions):
        arguments = ("-s", f"./own.py:{name}", "--positions", positions, "--format", "csv")
        return call("generate", *arguments, "--out", "-", "-q")

    assert table("twice", "0.25,-3") == (0, "0.5,0.5\n-6.0,-6.0\n", "")
    assert table("added", "3") == (0, ",".join(["1.5"] * 16) + "\n", "")
    assert table("unit", "0.5,-0.5")[1] == "0.87758255,0.47942555\n0.87758255,-0.47942555\n"
    status, out, err = table("added", "0.5")
    assert (status, out) == (2, "")
    refusal = "position 0.5 is not whole: the positions of added are 0, 1, 2 and so on"
    assert err == f"posenc: error: {refusal}\n"
    assert "position -1 is negative; the first of added is 0" in table("added", "-1")[2]
    assert call("generate", "-s", "./own.py:near", "--positions", "-3:0", "-q")[0] == 0
    assert "the positions of near are whole" in table("near", "0.5")[2]
    arguments = ("generate", "-s", "./own.py:unit+./own.py:twice", "--positions", "0:1:0.5", "-q")
    assert call(*arguments, "--out", "h.npz")[0] == 0
