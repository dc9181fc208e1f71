"""``posenc --version --verbose`` and the options that choose an engine."""

import itertools
import json
import sys
from pathlib import Path

import pytest

from posenc_cli import __version__
from posenc_cli.backends import registry
from posenc_cli.backends.registry import Status


def described(call):
    status, out, err = call("--version", "--json")
    assert (status, err) == (0, "")
    return json.loads(out)["backends"]


def test_version_lists_every_backend_where_more_is_asked_for(call, printed):
    assert call("--version", "extra") == call("-V") == (0, f"posenc {__version__}\n", "")
    out = printed("--version", "--verbose", err="")
    assert call("-V", "-v")[1] == out
    assert out.startswith(f"posenc {__version__}, Python {sys.version.split()[0]}, ")
    assert all(f"\n{name} " in out for name in registry.BUILT_IN)
    assert max(map(len, out.splitlines()[1:])) <= 80
    assert [each["name"] for each in described(call)] == list(registry.BUILT_IN)
    numpy = described(call)[0]
    assert set(numpy) == {"name", "available", "version", "devices", "reason"}
    assert (numpy["available"], numpy["devices"]) == (True, ["cpu"])


def _with_devices(monkeypatch, *devices):
    from posenc_cli.backends.torch import TorchBackend

    there = Status(True, "2.9", devices, "torch")
    monkeypatch.setattr(TorchBackend, "status", lambda _: there)
    monkeypatch.setattr(TorchBackend, "exact", lambda *_, **__: None)


@pytest.mark.parametrize(
    ("devices", "rule"),
    [
        (("cpu",), "auto does not use it:"),
        (("cpu", "cuda", "mps"), "auto uses it for --device cuda, mps;"),
    ],
)
def test_says_of_torch_when_auto_takes_it_and_why_not(devices, rule, call, monkeypatch):
    _with_devices(monkeypatch, *devices)
    (reason,) = (each["reason"] for each in described(call) if each["name"] == "torch")
    assert f"; {rule} on the CPU, numpy and fast write tables faster (measured)" in reason
    assert set(rule.split()) <= set(call("--version", "--verbose")[1].split())
    for device in devices:
        chosen = registry.choose("auto", device=device, values=1 << 30)
        assert (chosen.backend.name == "torch") == (device != "cpu")


def test_what_is_said_of_torch_was_measured():
    """In the benchmark that is quoted, torch writes a table in more time than NumPy."""
    saved = Path(__file__).parents[2] / "benchmarks" / "results" / "measured.json"
    streaming = json.loads(saved.read_text())["sections"]["streaming"]["measurements"]
    medians = {(m["name"], m["threads"]): m["spread"]["median"] for m in streaming if m["spread"]}
    for form, threads in itertools.product(("npy", "safetensors"), (1, 2)):
        torch = medians[f"posenc torch to {form}", threads]
        for rival in ("numpy", "fast"):
            assert medians[f"posenc {rival} to {form}", threads] < torch


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("--backend nump", 2, "unknown backend 'nump'"),
        ("--threads 0", 2, "--threads 0: must be at least 1"),
        ("--threads 1000", 2, "--threads 1000: must be at most 256"),
        ("--backend numpy --device cuda", 3, "the numpy backend finds only cpu"),
        ("--device CPU", 2, "--device 'CPU': must be a device"),
        ("--device cpu:99", 2, "--device 'cpu:99': must be a device"),
        ("--arithmetic float16", 2, "--arithmetic 'float16': must be one of"),
    ],
)
def test_bad_engines_are_refused_in_one_line(arguments, status, message, refused):
    asked = ("generate", "-s", "rope", "-l", "9", *arguments.split())
    assert message in refused(*asked, status=status).splitlines()[0]


def test_the_environment_chooses_where_no_option_does(call, document, refused, monkeypatch):
    asked = ("generate", "-s", "rope", "-l", "9")
    monkeypatch.setenv("POSENC_BACKEND", "nump")
    err = refused(*asked)
    assert "POSENC_BACKEND 'nump': must be one of" in err
    assert "did you mean 'numpy'?" in err
    assert document(*asked, "--backend", "numpy")["backend"] == "numpy"
    monkeypatch.setenv("POSENC_BACKEND", "")
    monkeypatch.setenv("POSENC_THREADS", "0")
    assert "POSENC_THREADS 0" in refused(*asked)
    assert call(*asked, "--threads", "2")[0] == 0


@pytest.mark.parametrize("works", [True, False])
def test_auto_takes_the_compiled_kernel_for_large_jobs_where_it_works(works, document, monkeypatch):
    if not registry.status("fast").available:
        pytest.skip("there is no compiled library")
    monkeypatch.setattr(registry, "FAST_FROM", 1000)
    if not works:
        from posenc_cli.backends.fast import FastBackend

        damaged = Status(False, None, (), "the compiled kernel cannot be loaded")
        monkeypatch.setattr(FastBackend, "status", lambda _: damaged)
    for length, backend in (("100", "fast" if works else "numpy"), ("3", "numpy")):
        assert document("generate", "-s", "rope", "-l", length)["backend"] == backend


@pytest.mark.parametrize(
    "arguments",
    [
        "-s alibi -l 50",
        "-s rope -l 100 --arithmetic float32",
        "-s rope -l 100 --table angles",
        "-s rope --positions=-100:900",
        "-s learned -l 100",
    ],
)
def test_auto_takes_numpy_for_what_the_kernel_does_not_compute(arguments, document, monkeypatch):
    monkeypatch.setattr(registry, "FAST_FROM", 1000)
    assert document("generate", *arguments.split())["backend"] == "numpy"


@pytest.mark.parametrize("scheme", ["alibi", "normalized"])
def test_scores_and_rows_are_numpys_on_every_backend_and_said_to_be(scheme, call, document):
    pytest.importorskip("torch")
    asked = ("generate", "-s", scheme, "-l", "5", "-o", "a.npy")
    assert document(*asked, "--backend", "torch")["backend"] == "numpy"
    assert call(*asked, "--device", "cuda:7")[0] == 3


@pytest.mark.parametrize("threads", ["1", "3"])
def test_the_number_of_threads_reaches_the_engine(threads, call, monkeypatch):
    from posenc_cli.encoding import engine

    seen = []
    monkeypatch.setattr(
        engine.Engine,
        "in_order",
        lambda self, function, items: seen.append(self.threads) or map(function, items),
    )
    assert call("generate", "-s", "rope", "-l", "9", "-o", "a.npy", "--threads", threads)[0] == 0
    assert seen == [int(threads)]
