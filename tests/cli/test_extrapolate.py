"""``posenc extrapolate``: what is asked for, what runs, what is kept, and what is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from posenc_cli.cli.commands.extrapolate import _check_torch
from posenc_cli.experiments.folder import RunFolder
from posenc_cli.experiments.job_processes import run_jobs
from posenc_cli.experiments.request import EncodingRequest, ExperimentRequest, ModelSize
from tests.experiments.made import run_made_jobs

SMALL = ("--size", "1x2x4", "--train", "8", "--steps", "4", "--seeds", "2")


@pytest.fixture
def made(monkeypatch):
    """Let jobs run that need no torch."""
    monkeypatch.setattr("posenc_cli.experiments.job_processes.run_jobs", run_made_jobs)
    monkeypatch.setattr("posenc_cli.cli.commands.extrapolate._check_torch", lambda _: None)


def request_of(folder: Path | str) -> ExperimentRequest:
    return RunFolder.found(Path(folder)).request


@pytest.mark.long
def test_what_nobody_says_is_one_encoding_of_each_way_to_tell_positions(call, made):
    assert call("extrapolate", "--train", "8", "--out", "run")[0] == 0
    request = request_of("run")
    names = ["nope", "sinusoidal", "rope", "alibi", "t5"]
    assert [encoding.label for encoding in request.encodings] == names
    encodings = tuple(EncodingRequest(name, ((name, {}),)) for name in names)
    assert request == ExperimentRequest(encodings, trained=8)


def test_every_option_comes_into_the_request(call, made):
    arguments = "-s rope --stretch none,yarn,yarn --task text,copy --train 6 --test 1e1,3x"
    arguments += " --seeds 4 --steps 7 --batch 3 --size 1x2x8 --last 2 --device cpu --out run"
    status, _, err = call("extrapolate", *arguments.split())
    assert status == 0, err
    request = request_of("run")
    assert (request.stretches, request.tasks) == (("none", "yarn"), ("text", "copy"))
    assert (request.trained, request.tests, request.lengths(6)) == (6, ("10", "3x"), (6, 10, 18))
    assert (request.seeds, request.steps, request.batch, request.last) == (4, 7, 3, 2)
    assert request.size == ModelSize(1, 2, 8)
    assert request.device == "cpu"


@pytest.mark.long
def test_labels_are_schemes_and_the_parameters_that_are_not_the_default(call, made):
    arguments = "-s rope -s rope -s sinusoidal+t5 --set a.base=5e5 --set b.base=10000"
    arguments += " --set t5.num_buckets=16 --dim 16"
    assert call("extrapolate", *arguments.split(), "--size", "1x1x16", "--out", "run")[0] == 0
    labels = [encoding.label for encoding in request_of("run").encodings]
    assert labels == ["rope base=500000", "rope", "sinusoidal+t5 num_buckets=16"]


def test_a_scheme_of_ones_own_is_found_from_any_folder(call, made, own):
    asked = ("-s", "./own.py:halving", "--set", "rate=3")
    assert call("extrapolate", *asked, *SMALL, "--out", "run")[0] == 0
    (encoding,) = request_of("run").encodings
    assert encoding.label == "halving rate=3"
    assert encoding.parts == ((f"{own}:halving", {"rate": 3.0}),)


@pytest.mark.long
def test_code_and_tables_of_ones_own_are_known_by_what_they_hold(
    call, made, tmp_path, refused, own
):
    np.save(tmp_path / "rows.npy", np.ones((200, 8)))
    asked = {"code": ("-s", "./own.py:halving"), "table": ("-s", "learned")}
    asked["table"] += ("--set", "weights=rows.npy")
    for out, arguments in asked.items():
        assert call("extrapolate", *arguments, *SMALL, "--out", out)[0] == 0
        assert call("extrapolate", *arguments, "--out", out, "--resume")[0] == 0
    assert call("extrapolate", "--out", "table", "--resume")[0] == 0
    np.save(tmp_path / "rows.npy", np.full((200, 8), 2.0))
    own.write_text(own.read_text() + "# changed")
    for again in (*((*asked[out], "--out", out) for out in asked), ("--out", "table")):
        assert "has changed since the run began" in refused("extrapolate", *again, "--resume")


@pytest.mark.long
@pytest.mark.parametrize("hybrid", ["", "rope+"])
def test_a_run_folder_runs_no_code_that_the_command_line_does_not_name(
    hybrid, call, made, refused, own
):
    own.write_text(own.read_text() + "open('ran', 'a').close()\n")
    asked = ("-s", "alibi", "-s", f"{hybrid}./own.py:halving", "--set", "rate=3")
    assert call("extrapolate", *asked, *SMALL, "--out", "run")[0] == 0
    next(Path("run/results").iterdir()).unlink()
    Path("ran").unlink()
    own.rename("not_run_yet.py")
    place = Path("run/request.json")
    place.write_text(place.read_text().replace("own.py", "not_run_yet.py"))
    said = refused("extrapolate", "--out", "run", "--resume")
    assert "'run/request.json' names the code of a scheme, '" in said
    assert "other encodings" in refused("extrapolate", "--out", "run", "--resume", "-s", "alibi")
    assert not Path("ran").exists()
    assert "repeat all -s and --set of the run" in said
    again = [word.replace("own.py", "not_run_yet.py") for word in asked]
    assert call("extrapolate", "--out", "run", "--resume", *again)[0] == 0
    assert Path("ran").exists()


@pytest.mark.parametrize("name", ["os.path:join", "a-plugin", "mine.py:x"])
def test_modules_and_plugins_that_a_run_folder_names_are_not_imported(
    name, call, made, tmp_path, refused
):
    assert call("extrapolate", "-s", "rope", *SMALL, "--out", "run")[0] == 0
    place = tmp_path / "run" / "request.json"
    place.write_text(place.read_text().replace('"rope"', json.dumps(name)))
    said = refused("extrapolate", "--out", "run", "--resume")
    assert f"names the code of a scheme, '{name}'; --resume runs only code that" in said


def test_a_run_is_kept_where_out_says_and_nowhere_else(call, made, tmp_path):
    status, out, err = call("extrapolate", "-s", "rope", *SMALL)
    assert (status, [*tmp_path.iterdir()]) == (0, [])
    assert err == "this run is not saved; --out FOLDER saves it for --resume\n"
    assert call("extrapolate", "-s", "rope", *SMALL, "-q") == (0, out, "")
    assert call("extrapolate", "-s", "rope", *SMALL, "--out", "run") == (0, out, "")
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"request.json", "results"}


@pytest.mark.long
def test_a_run_goes_on_only_with_what_it_was_asked_for(call, made, refused):
    assert call("extrapolate", "-s", "rope", *SMALL, "--out", "run")[0] == 0
    whole = call("extrapolate", "--out", "run", "--resume")
    assert whole[0] == 0
    assert call("extrapolate", "-s", "rope", *SMALL, "--out", "run", "--resume") == whole
    for option, said in (
        ("-s alibi", "other encodings"),
        ("--steps 5", "other steps: 4, not 5"),
        ("--size 1x1x4", "other size"),
        ("--set base=500", "other encodings"),
        ("--task copy", "other tasks"),
    ):
        assert said in refused("extrapolate", "--out", "run", "--resume", *option.split())
    assert "--resume continues" in refused("extrapolate", "-s", "rope", *SMALL, "--out", "run")
    said = refused("extrapolate", "-s", "rope", *SMALL, "--out", "run/request.json")
    assert "--out 'run/request.json' is a file, not a folder" in said


@pytest.mark.long
def test_a_picture_goes_to_its_file_and_the_terminal(call, made, tmp_path):
    asked = ("-s", "rope", "-s", "alibi", *SMALL)
    status, out, err = call("extrapolate", *asked, "--picture", "loss.svg")
    assert (status, "<svg" in (tmp_path / "loss.svg").read_text()) == (0, True)
    title = "rope, alibi: loss past the trained length, text at 8"
    assert f"wrote 'loss.svg': {title}, " in err
    assert "rope: fails from 2x" in out
    assert title in " ".join(call("extrapolate", *asked, "--plot", "-q")[1].split())
    document = json.loads(call("extrapolate", *asked, "--plot", "--json")[1])
    assert next(iter(document.items())) == ("schema", "posenc/extrapolate/1")
    assert {run["scheme"] for run in document["runs"]} == {"rope", "alibi"}
    assert [panel["y_label"] for panel in document["panels"]] == ["loss, in nats a token"] * 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--size 2x4", "LAYERSxHEADSxDIM"),
        ("--size 99999999999999999999999x1x1", "at most 16 are allowed"),
        ("--seeds 0", "at least 1"),
        ("--seeds 1e9", "must be at most 31"),
        ("--steps 1e9", "must be at most 1048576"),
        ("--batch 1000000", "must be at most 4096"),
        ("--batch 4096", "scores of a step; at most"),
        ("--train 9007199254740992", "columns of a sequence; at most 8192"),
        ("--test 1.5x", "must be an integer"),
        ("--test 50", "--test 50 is shorter than --train 100"),
        ("--last 101", "is more than --train 100"),
        ("--task text,foo", "must be one of text, copy"),
        ("--stretch foo", "must be one of none, linear"),
        ("--task needle --train 3", "it needs at least 12"),
        ("--randomize 99", "must be at least 800, the positions"),
        ("--randomize 800 --stretch yarn", "no context extension applies to drawn positions"),
        ("-s rope -s rope", "is given twice"),
        ("-s rope -s rope --set base=10000", "is given twice"),
        ("-s rope+rope", "occurs twice"),
        ("-s rope --set max_bias=3", "none of rope has a parameter"),
        ("-s rope --base x", "must be a number"),
        ("-s rope --dim 32", "of --size 2x4x16"),
        ("-s alibi --heads 3", "of --size 2x4x16"),
        ("-s foo", "unknown scheme 'foo'"),
        ("--resume", "--resume needs --out"),
        ("--out -", "must be a folder"),
        ("--device cuda:x", "must be a device"),
        ("--workers 0", "at least 1"),
        ("--width 400", "needs --plot, or --picture with a file"),
        ("--picture - --json", "stdout is used by --picture -"),
        ("--picture loss.gif --out run", "loss.gif"),
    ],
)
def test_what_is_wrong_is_one_line_before_anything_is_made(arguments, said, refused):
    assert said in refused("extrapolate", *arguments.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("-s ./nothere.py:x", "nothere"),
        ("--out nothere --resume", "'nothere' holds no run"),
        ("--picture no/loss.png --out run", "no/loss.png"),
    ],
)
def test_what_is_not_there_is_status_3(arguments, said, refused):
    assert said in refused("extrapolate", *arguments.split(), status=3)


def test_without_torch_there_is_a_hint_and_nothing_is_made(monkeypatch, refused):
    monkeypatch.setattr("posenc_cli.backends.torch.installed", lambda _: False)
    assert refused("extrapolate", "-s", "rope", "--out", "run", status=3) == (
        "posenc: error: extrapolate needs torch, which is not installed\n"
        "hint: pip install torch; posenc heads runs without it\n"
    )


@pytest.mark.long
def test_results_that_are_there_need_no_torch(call, made, monkeypatch, refused):
    assert call("extrapolate", "-s", "rope", *SMALL, "--out", "run")[0] == 0
    monkeypatch.setattr("posenc_cli.experiments.job_processes.run_jobs", run_jobs)
    monkeypatch.setattr("posenc_cli.cli.commands.extrapolate._check_torch", _check_torch)
    monkeypatch.setattr("posenc_cli.backends.torch.installed", lambda _: False)
    assert call("extrapolate", "--out", "run", "--resume")[0] == 0
    next(Path("run/results").iterdir()).unlink()
    err = refused("extrapolate", "--out", "run", "--resume", status=3)
    assert "needs torch, which is not installed" in err


@pytest.fixture
def trained(call):
    """A run of two encodings, and what it printed."""
    pytest.importorskip("torch", reason="torch is not installed")
    asked = ("extrapolate", "-s", "rope", "-s", "alibi", *SMALL, "--workers", "2", "--json")
    status, out, err = call(*asked, "--out", "run")
    assert (status, err) == (0, "")
    return asked, out


@pytest.mark.slow
def test_models_are_trained_kept_and_gone_on_with(trained, call):
    asked, out = trained
    document = json.loads(out)
    assert [len(run["lengths"]) for run in document["runs"]] == [4] * 4
    # Of 4 steps nobody has learnt; chance is the logarithm of how many characters there are.
    assert not any(run["learnt"] for run in document["runs"])
    assert {4 < run["lengths"][0]["loss"] < 5 for run in document["runs"]} == {True}
    before = {path: path.read_bytes() for path in Path("run").rglob("*.json")}
    assert call("extrapolate", "--out", "run", "--resume", "--json") == (0, out, "")
    next(path for path in before if "rope" in path.name).unlink()
    assert call(*asked, "--out", "run", "--resume") == (0, out, "")
    assert {path: path.read_bytes() for path in before} == before


def test_the_help_says_what_is_promised(call):
    text = " ".join(call("extrapolate", "--help")[1].split())
    promised = ("the same bytes", "the printed 95% intervals", "has learned")
    assert all(said in text for said in (*promised, "does not rank encodings"))
    assert re.search(r"--stretch NAMES context extension at test time.*: none\| ?linear", text)


@pytest.mark.long
def test_too_many_curves_are_refused_before_anything_is_trained(call, made, tmp_path, refused):
    asked = ("-s", "rope", "-s", "alibi", "-s", "t5", "--stretch", "none,window,log-n,clip,linear")
    kept = (*asked, *SMALL, "--out", "run")
    assert "13 encodings share one set of axes" in refused(
        "extrapolate", *kept, "--picture", "all.png"
    )
    assert not (tmp_path / "run").exists()
    assert call("extrapolate", *kept)[0] == 0
