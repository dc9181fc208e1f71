"""``posenc generate`` as a user types it: files, summaries, JSON, and all that is refused."""

import hashlib
import json
import sys

import numpy as np
import pytest


def test_writes_the_default_file_and_says_so(call, tmp_path):
    status, out, err = call("generate", "--scheme", "rope", "--len", "40")
    assert (status, out) == (0, "")
    assert err.startswith("wrote 'rope-40x64.npy': rope, 40 × 64 float32, 10368 bytes in ")
    table = np.load(tmp_path / "rope-40x64.npy")
    assert (table.shape, table.dtype) == ((40, 64), np.float32)
    angles = np.arange(40)[:, None] * 10_000.0 ** -(np.arange(0, 64, 2) / 64)
    np.testing.assert_allclose(table, np.hstack([np.cos(angles), np.sin(angles)]), atol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["-s", "alibi", "-l", "3"], "alibi-8x3x3.npy"),
        (["-s", "alibi", "-l", "3", "--head", "0"], "alibi-3x3.npy"),
        (["-s", "rope", "--table", "inv-freq"], "rope-32.npy"),
        (["-s", "t5-clipped", "-l", "2", "--format", "npz"], "t5-clipped-8x2x2.npz"),
        (["-s", "sinusoidal", "-l", "2", "-d", "6", "--format", "csv"], "sinusoidal-2x6.csv"),
    ],
)
def test_names_the_file_by_scheme_and_shape(arguments, name, call, tmp_path):
    assert call("generate", *arguments)[0] == 0
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_json_describes_what_was_written(tmp_path, document):
    arguments = ("-s", "rope", "--positions", "0:9,20", "--dim", "8", "--out", "a.npy")
    found = document("generate", *arguments)
    data = (tmp_path / "a.npy").read_bytes()
    assert found.pop("seconds") >= 0
    assert found == {
        "schema": "posenc/generate/1",
        "scheme": "rope",
        "params": {"dim": 8, "base": 10000.0, "layout": "interleaved", "partial": 1.0},
        "positions": "0:9,20",
        "table": "cos-sin",
        "head": None,
        "round_to": "float32",
        "weights": None,
        "shape": [10, 8],
        "dtype": "float32",
        "warnings": [],
        "arithmetic": "exact",
        "backend": "numpy",
        "path": "a.npy",
        "format": "npy",
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def test_archives_carry_the_request(call, tmp_path):
    from safetensors import safe_open

    arguments = ("-s", "alibi", "-l", "5", "--heads", "3", "--head", "2")
    assert call("generate", *arguments, "--out", "a.safetensors")[0] == 0
    assert call("generate", *arguments, "--out", "a.npz")[0] == 0
    with safe_open(tmp_path / "a.safetensors", "np") as opened:
        metadata = opened.metadata()
        tensor = opened.get_tensor("encoding")
    with np.load(tmp_path / "a.npz") as archive:
        assert json.loads(str(archive["metadata"])) == metadata
        assert (archive["encoding"] == tensor).all()
    assert metadata["scheme"] == "alibi"
    assert metadata["head"] == "2"
    assert json.loads(metadata["params"])["heads"] == 3
    assert metadata["positions"] == "0:5"


REFUSED = [
    ("", "--scheme, --config or --model: one of them is needed", "posenc schemes"),
    ("-s rope --model gpt2 -l 4", "--scheme and --model: give one of them", None),
    ("-s rope --layer-type full -l 4", "--layer-type 'full' needs --config", None),
    ("-s rope --as vllm -l 4", "--as 'vllm' needs --config", None),
    ("-s rope+t5 -l 4 --set form=mpt", "--set form: none of rope, t5 has a parameter", None),
    ("-s rope+t5 -l 4 -d 8 --set t5.dim=8", "--set t5.dim: none of rope, t5", None),
    ("-s rope+rope -l 4", "rope occurs twice", None),
    ("-s rope+nothing -l 4", "unknown scheme 'nothing'", None),
    ("-s rope+ -l 4", "--scheme 'rope+': must be a scheme, or A+B for a hybrid", None),
    ("-s rope+rope-yarn -l 4", "two of its parts rotate q and k", None),
    ("-s rope+t5 -l 4 -o a.npy", "--format npy holds one array, but rope+t5 has 2 parts", "npz"),
    ("-s sinusoidal+t5 -l 4 --table cos", "--table cos: no part of sinusoidal+t5 is rotary", None),
    ("-s sinusoidal+rope -l 4 --head 1", "--head 1: no part of sinusoidal+rope is bias", None),
    ("-s rop -l 4", "unknown scheme 'rop'", "did you mean 'rope'?"),
    ("-s rope -l 0", "--len 0: must be at least 1", None),
    ("-s rope -l -1", "--len -1: must be at least 1", None),
    ("-s rope -l 1.5", "--len '1.5': must be an integer", None),
    ("-s rope -l 4__096", "--len '4__096': must be an integer", None),
    ("-s rope -l x", "--len 'x': must be an integer", None),
    ("-s rope -l ٣", "--len '٣': must be an integer", None),
    (f"-s rope -l {10**50}", "past 2^53", None),
    (f"-s rope -l 1{'0' * 5000}", "past 2^53", None),
    (f"-s rope --positions 0:1{'0' * 5000}", "past 2^53", None),
    ("-s learned -l 2 --set weights=", "--set weights: must name a file", None),
    ("-s normalized -l 5 --set seq_len=2", "seq_len is 2", "follows --len"),
    ("-s alibi -l 5 --set seq_len=2 --set form=mpt", "seq_len is 2", "follows --len"),
    ("-s rope --table inv-freq -o a.csv --header", "--header: --table inv-freq has no", None),
    (f"-s rope -l {2**53 + 2}", f"--len {2**53 + 2}: position", None),
    ("-s learned -l 4 --start -1", "position -1 is negative", None),
    (f"-s rope -l 1 --start {2**53 + 1}", "past 2^53", None),
    ("-s rope --start 4", "--start '4' needs --len", None),
    ("-s rope -l 4 --positions 1:2", "--len '4' cannot go with --positions", None),
    ("-s rope --positions 5:5", "'5:5' holds no position", None),
    ("-s rope --positions 5:1", "'5:1' holds no position", None),
    ("-s rope --positions 0:9:0", "step of '0:9:0' must not be 0", None),
    ("-s learned --positions -3:4", "position -3 is negative; the first of learned is 0", None),
    ("-s learned --positions 1,0.5", "position 0.5 is not whole: the positions of learned", None),
    ("-s t5 --start 1/3 -l 4", "position 1/3 is not whole: the positions of t5 are whole", None),
    ("-s rope --positions 1:x", "'1:x' is neither a number nor", "for example"),
    (f"-s rope --positions 0.5,{2**53}", "in parts of 1/2, is past 2^53", None),
    (f"-s rope --positions 1/{2**53 - 1},1/11", "no part of 1 above 2^-53, or power of two", None),
    ("-s rope --start half -l 4", "--start 'half': must be a number", None),
    ("-s rope --start 1e99 -l 4", "--start '1e99' is past 2^53", None),
    ("-s rope --positions 1e99/3", "is past 2^53", None),
    ("-s alibi --positions -9007199254740992,9007199254740992", "more than 2^53 parts", None),
    ("-s rope --positions ,", "'' is neither", "for example"),
    (f"-s rope --positions 0,{2**53 + 1}", "past 2^53", None),
    ("-s rope -l 4 -d 0", "--dim 0: must be from 1 to 65536", None),
    ("-s rope -l 4 -d 7", "--dim 7: rotary encodings rotate pairs", None),
    ("-s rope -l 4 -d 1000000", "--dim 1000000: must be from 1", None),
    ("-s rope -l 4 --base nan", "--base 'nan': must be a number", None),
    ("-s rope -l 4 --base inf", "--base 'inf': must be a finite number", None),
    ("-s rope -l 4 --base -Infinity", "--base '-Infinity': must be a finite number", None),
    ("-s rope -l 4 --base 1", "--base 1: must be above 1", None),
    ("-s rope -l 4 --base -5", "--base -5: must be above 1", None),
    ("-s rope -l 4 --base 1e999", "--base '1e999': must be a finite number", None),
    ("-s rope -l 4 --heads 8", "--heads: rope has no parameter 'heads'", None),
    ("-s rope -l 4 --set partail=1", "rope has no parameter 'partail'", "did you mean 'partial'?"),
    ("-s rope -l 4 --set partial", "--set 'partial': must be NAME=VALUE", None),
    ("-s rope -l 4 --set =3", "--set '=3': must be NAME=VALUE", None),
    ("-s rope -l 4 -d 8 --set dim=9", "--set 'dim=9': dim is given twice", None),
    ("-s rope -l 4 --layout halv", "--layout 'halv': must be one of", "did you mean 'half'?"),
    ("-s rope -l 4 --table coss", "--table 'coss': must be one of", "did you mean 'cos'?"),
    ("-s alibi -l 4 --table cos", "--table cos: alibi is an attention bias, not rotary", None),
    ("-s rope -l 4 --head 0", "--head 0: rope is a rotary encoding without heads", None),
    ("-s alibi -l 4 --head 8", "--head 8: the heads are 0 to 7", None),
    ("-s rope -l 4 --dtype float8", "--dtype 'float8': must be one of", "did you mean 'float"),
    ("-s rope -l 4 --dtype bfloat16", "npy", "--round-to bfloat16"),
    ("-s rope -l 4 --dtype float16 --round-to bfloat16", "--round-to bfloat16: float16", None),
    ("-s rope -l 4 --format nyp", "--format 'nyp'", "did you mean 'np"),
    ("-s rope -l 4 -o a.nyp", "suffix", "did you mean"),
    ("-s rope -l 4 -o a", "suffix", "--format"),
    ("-s rope -l 4 --header", "--header: npy has no header line", None),
    ("-s rope -l 4 -o - --json", "--json: stdout is used by --out -", None),
    ("-s alibi -l 4 -o a.csv", "two axes", "--head H"),
    ("-s rope -l 4 --table complex -o a.csv", "complex", "--table interleaved"),
    ("-s learned -l 513", "position 512 is past the last", "extend=clamp"),
    ("-s sinusoidal -l 4 -d 7", "--dim 7: sinusoidal pairs", "odd=truncate"),
    ("-s no.such:thing -l 4", "cannot be loaded (ModuleNotFoundError", None),
    ("-s json:dumps -l 4", "json:dumps: its code raised TypeError", "is called as f(positions)"),
    ("-s rope -l 4 --color sometimes", "--color 'sometimes': must be one of", None),
]


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("arguments", "message", "hint"), REFUSED, ids=[r[0][:60] for r in REFUSED]
)
def test_refuses_in_one_line_with_status_2_and_no_file(arguments, message, hint, refused):
    line, *told = refused("generate", *arguments.split()).splitlines()
    assert message in line
    assert hint is None or hint in told[0]


@pytest.mark.parametrize("length", [10**12, 2**53])
def test_a_table_larger_than_the_disk_is_refused_with_its_size(length, refused):
    err = refused("generate", "-s", "rope", "--len", str(length), status=3)
    assert f"takes at least {(length * 64 * 4 + 128) / 2**30:.1f} GiB, the disk has " in err


def test_no_clobber_keeps_what_is_there(call, tmp_path, refused):
    def asked(length, *more):
        return ("generate", "-s", "rope", "-l", length, "-o", "a.npy", *more)

    call(*asked("4", "--no-clobber"))
    before = (tmp_path / "a.npy").read_bytes()
    assert "it exists" in refused(*asked("5", "--no-clobber"), status=3)
    assert (tmp_path / "a.npy").read_bytes() == before
    assert call(*asked("5"))[0] == 0
    assert (tmp_path / "a.npy").read_bytes() != before


@pytest.mark.parametrize(
    ("where", "length"), [("--start 90 --len 10", 100), ("--positions 3,49", 50), ("-l 7", 7)]
)
def test_schemes_that_count_on_a_length_take_the_last_position_plus_one(
    where, length, call, tmp_path
):
    asked = ("generate", "-o", "a.npy", *where.split(), "--dtype", "float64")
    assert call(*asked, "-s", "normalized")[0] == 0
    assert np.load(tmp_path / "a.npy")[-1, 0] == (length - 1) / length
    assert call(*asked, "-s", "alibi", "--heads", "1", "--set", "form=mpt")[0] == 0
    assert np.load(tmp_path / "a.npy")[0, 0, -1] == 0
    assert np.load(tmp_path / "a.npy")[0, 0, 0] < 0


def test_values_too_large_for_the_format_are_told(call, tmp_path):
    asked = ("generate", "-s", "integer", "-o", "a.npy", "-d", "1", "--dtype", "float16", "-q")
    status, _, err = call(*asked, "--positions", "65504")
    assert (status, err) == (0, "")
    status, _, err = call(*asked, "--positions", "1,70000")
    assert status == 0
    assert err == "posenc: warning: some values are too large for float16: they are inf\n"
    assert np.isinf(np.load(tmp_path / "a.npy")[1, 0])


USERS = """
from decimal import Decimal
from posenc_cli.formulas.declare import *
from posenc_cli.formulas.parameters import Dim

@absolute(source="me", formula="?")
def nothing(*, dim: Dim = 4): return None

@rotary(source="me", formula="?")
def not_rotary(*, dim: Dim = 4): return Rows(dim, lambda xp, p, t: xp.zeros((len(p), dim)))

@absolute(source="me", formula="?")
def narrow(*, dim: Dim = 4): return Rows(dim, lambda xp, p, t: xp.zeros((len(p), dim - 1)))

@absolute(source="me", formula="?")
def long(*, dim: Dim = 4): return Rows(dim, lambda xp, p, t: xp.zeros((len(p) + 1, dim)))

@absolute(source="me", formula="?")
def raises(*, dim: Dim = 4): return Rows(dim, lambda xp, p, t: p / [])

@rotary(source="me", formula="?")
def short(*, dim: Dim = 4): return Rotation(Waves(2, lambda xp: xp.arange(0, 1, 1)), "half")

@bias(source="me", formula="?")
def few(): return Bias(1, "offset", lambda xp: xp.arange(0, 1, 1), lambda xp, c, i: i[:-1])

@absolute(source="me", formula="?")
def untyped(*, dim=4): return None
"""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "absolute schemes do not give a NoneType"),
        ("not_rotary", "rotary schemes do not give a Rows"),
        ("narrow", "rows of shape (3, 3) for 3 positions"),
        ("long", "rows of shape (4, 4) for 3 positions"),
        ("raises", "raised"),
        ("short", "1 frequencies"),
        ("few", "scores for"),
        ("untyped", "cannot be loaded"),
        ("missing", "cannot be loaded (AttributeError"),
    ],
)
def test_what_is_wrong_in_a_scheme_of_ones_own_is_said_of_it(
    name, reason, tmp_path, monkeypatch, refused
):
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "users_own.py").write_text(USERS)
    monkeypatch.syspath_prepend(tmp_path / "library")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    line = refused("generate", "-s", f"users_own:{name}", "-l", "3", "-o", "a.npy").splitlines()[0]
    assert f"users_own:{name}" in line
    assert reason in line


@pytest.mark.parametrize(
    "command",
    [
        "generate -s rope --len 4",
        "dot-similarity -s rope --len 4",
        "heatmap -s rope --len 4",
        "spectrum -s rope",
        "rope-check -s rope",
        "alibi-slopes --heads 4",
    ],
)
@pytest.mark.parametrize("name", ["results", "results.d"])
def test_a_folder_as_the_file_to_write_is_told_as_that(command, name, tmp_path, refused):
    (tmp_path / name).mkdir()
    err = refused(*command.split(), "--out", str(tmp_path / name), status=3)
    assert (err.count("it is a folder"), err.count("\n"), "suffix" in err) == (1, 1, False)


@pytest.mark.parametrize(
    ("asked", "shape"),
    [
        ("generate -s rope", [512, 64]),
        ("generate -s alibi", [8, 512, 512]),
        ("generate -s sinusoidal-nd --set grid=4,6", [24, 64]),
        ("apply -s rope --seed 1 -o y.npy", [512, 64]),
    ],
)
def test_without_a_length_there_are_512_positions_or_as_many_as_a_grid_has(asked, shape, document):
    assert document(*asked.split())["shape"] == shape


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ("-s vaswani -l 4", "-s sinusoidal -l 4"),
        ("-s ntk -l 4k -d 8", "-s rope-ntk -l 4096 -d 8"),
        ("-s vaswani+t5 -l 4", "-s sinusoidal+t5 -l 4"),
        ("-s yarn -l 4 --set rope_theta=5e5", "-s rope-yarn -l 4 --base 5e5"),
        ("-s rope+t5 -l 4 --set rope_theta=5e5", "-s rope+t5 -l 4 --base 5e5"),
        ("-s rope --positions 0:1M:256k", "-s rope --positions 0:1048576:262144"),
        ("-s rope -l 4 --dtype fp16", "-s rope -l 4 --dtype float16"),
        ("-s rope -l 4 --round-to bf16", "-s rope -l 4 --round-to bfloat16"),
        ("-m llama-3-8b -l 4 --set rope_theta=1e4", "-m llama-3-8b -l 4 --base 1e4"),
    ],
)
def test_what_people_type_means_what_posenc_calls_it(given, same, document):
    asked = [("generate", *each.split(), "-o", "a.npz") for each in (given, same)]
    assert len({document(*each)["sha256"] for each in asked}) == 1
