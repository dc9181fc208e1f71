"""Functions as subjects: what a user's code may do wrong is found, and never a pass."""

import json
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from posenc_cli.calls import function_process
from posenc_cli.calls.interpreter import worker_command
from posenc_cli.checks.calling import implementation
from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.errors import InvalidInput, Unavailable
from posenc_cli.inference.codes import Cause, FindingName
from posenc_cli.positions import Positions
from posenc_cli.rotary.verdict import examine
from tests.checks import rope
from tests.processes import PATIENCE, spawn

GOOD = """
import os, sys
import numpy as np
inv_freq = 1e4 ** -(np.arange(0, 8, 2) / 8)
def good(x, positions):
    angles = np.asarray(positions)[:, None] * inv_freq
    cos, sin = np.cos(angles), np.sin(angles)
    y = np.empty_like(x)
    y[:, ::2] = x[:, ::2] * cos - x[:, 1::2] * sin
    y[:, 1::2] = x[:, ::2] * sin + x[:, 1::2] * cos
    return y
"""


@pytest.fixture
def check(tmp_path):
    def run(body, *, name="f", positions="0:64,255:259", scheme="rope", whole=False, **given):
        file = tmp_path / "mine.py"
        file.write_text(GOOD + textwrap.dedent(body))
        right = rope.reference(scheme, **{"dim": 8, **given})
        subject = implementation(f"{file}:{name}", right, Positions.parse(positions), whole=whole)
        return examine(subject, right, "auto")

    return run


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    "body",
    [
        "f = good",
        "def f(x, p): return good(x.astype(float), p)",
        "def f(x, p): return good(x, p).tolist()",
        "def f(x, p): return good(x, p).astype(np.float16)",
        "def f(x, p): return good(x, p).astype('>f4')",
        "def f(x, p): return np.asfortranarray(good(x, p).astype(np.longdouble))",
        "def f(x, p): print('a'); os.write(1, b'b'); os.system('echo c'); return good(x, p)",
        "class f:\n    def __call__(self, x, p): return good(x, p)\nf = f()",
    ],
)
def test_right_functions_pass_however_they_are_written(body, check):
    assert check(body).ok


@pytest.mark.long
@pytest.mark.sweep(18)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def f(x, p): raise ValueError('no\\nway')", "raised ValueError: no"),
        ("def f(x, p): sys.exit(0)", "raised SystemExit"),
        ("def f(x, p): os._exit(0)", "ended its process with status 0"),
        ("def f(x, p): os._exit(1)", "ended its process with status 1"),
        ("import ctypes\ndef f(x, p): ctypes.string_at(0)", "crashed (SIGSEGV)"),
        ("def f(x, p): return good(x, p)[:, :-1]", "shape"),
        ("def f(x, p): return good(x, p)[:-1]", "shape"),
        ("def f(x, p): return None", "not real numbers"),
        ("def f(x, p): return 'text'", "not real numbers"),
        ("def f(x, p): return x + 1j", "not real numbers"),
        ("def f(x, p): x *= 2; return good(x, p)", "changed its input"),
        (
            "def f(x, p): p += 1; return good(x, p)",
            "changed its positions, which the next layer reads",
        ),
        ("def f(): return 1", "raised TypeError"),
        ("async def f(x, p): return good(x, p)", "is an async function"),
        ("def f(x, p): return f(x, p)", "raised RecursionError"),
        ("f = 3", "not a function"),
        ("raise RuntimeError('at import')", "cannot be loaded (RuntimeError: at import)"),
        ("import sys; sys.exit(0)", "cannot be loaded (SystemExit: 0)"),
        ("def other(): pass", "mine.py has no attribute 'f'"),
        ("import os; os._exit(0)", "ended its process"),
    ],
)
def test_a_function_that_gives_no_values_is_invalid(body, words, check):
    with pytest.raises(InvalidInput) as error:
        check(body)
    assert words in error.value.message
    assert error.value.message.startswith("--impl ")


@pytest.mark.long
@pytest.mark.sweep(9)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def f(x, p): return good(x, p) * np.nan", "NaN or infinity"),
        ("def f(x, p):\n    y = good(x, p); y[p > 70] = np.nan; return y", "NaN or infinity"),
        ("def f(x, p): return np.tanh(good(x, p))", "not linear"),
        ("def f(x, p): return good(x, p) * np.abs(x).max()", "not linear"),
        ("def f(x, p): return good(x, p) - good(x, p).mean(0)", "results for vectors differ"),
        ("def f(x, p): return good(x, np.random.permutation(p))", "a second call with the same"),
        ("def f(x, p): return good(x, p + (p[0] > p[-1]))", "depends on the order of the rows"),
        ("def f(x, p): return good(x, p + (len(p) == 1))", "in a call of 1 row"),
    ],
)
def test_a_function_that_is_no_map_of_each_row_fails(body, words, check):
    found = check(body)
    failed = {each.check: each for each in found.findings if not each.ok}
    assert {"relative", "reference"} <= set(failed)
    told = [f"{why.message} {why.evidence}" for why in diagnose(found)]
    assert words in " ".join([failed["relative"].message, *told])


NOT_MAPS = {
    "is not linear in x": "def f(x, p): return np.tanh(good(x, p))",
    "are not the sum of the results for unit vectors": (
        "def f(x, p): return good(x, p) - good(x, p).mean(0)"
    ),
    "a second call with the same": "def f(x, p): return good(x, p) * os.getrandom(1)[0]",
    "rotates a row differently in": "def f(x, p): return good(x, np.arange(len(x)))",
}


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize(("why", "body"), NOT_MAPS.items())
def test_lengths_of_what_is_no_linear_map_are_not_measured_and_it_is_said_why(why, body, check):
    found = check(body)
    for finding in found.findings:
        if finding.check in (FindingName.NORM, FindingName.IDENTITY):
            assert (finding.ok, finding.worst, finding.at) == (False, None, None)
            assert finding.message.startswith("not measured, because ")
            assert why in finding.message


LOST_POSITIONS = {
    "rows are numbered from 0": "def f(x, p): return good(x, np.arange(len(x)))",
    "get the rotation of other positions": "def f(x, p): return good(x, p[0] + np.arange(len(x)))",
    "positions restart at 0 in ": "def f(x, p): return good(x, p - p.min())",
    "of other positions: in a call of": "def f(x, p): return good(x, np.sort(p))",
    "position": "def f(x, p): return good(x, p - (p[0] > 0))",
}


@pytest.mark.long
@pytest.mark.sweep(5)
@pytest.mark.parametrize(("words", "body"), LOST_POSITIONS.items())
def test_positions_that_get_lost_in_calls_are_named_as_they_were_reproduced(words, body, check):
    (why,) = diagnose(check(body, positions="0:64,509:512"))
    assert why.cause == Cause.POSITION_OFFSET
    assert words in why.message


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "body",
    [
        "return x / np.float32(0) * 0",
        "y = good(x, p); y[:, 4:6] = np.inf; return y",
        "y = good(x, p); y[:, 4:6] *= np.float32(np.inf); return y",
        "y = good(x, p); y[:, 4:6] = np.nan; return y",
    ],
)
def test_infinite_values_and_no_numbers_at_all_are_no_memory_that_nobody_wrote(body, check):
    found = check(f"def f(x, p): {body}")
    (why,) = diagnose(found)
    assert why.cause == "not-a-number"
    assert found.survey.reference.pair == (2 if "4:6" in body else 0)
    if "4:6] = np.inf" in body:
        assert why.evidence.startswith("68 of 272 rotations, first at position 0, pair 2")


ROUNDING = {
    "all values returned were rounded to float16, then stored in a wider format": (
        "return good(x, p).astype(np.float16).astype(np.float32)"
    ),
    "cosines and sines were rounded to float16, then stored in a wider format": """
        angles = np.asarray(p)[:, None] * inv_freq
        tables = np.stack([np.cos(angles), np.sin(angles)])
        cos, sin = tables.astype(np.float16).astype(np.float32)
        a, b = x[:, ::2], x[:, 1::2]
        return np.stack([a * cos - b * sin, a * sin + b * cos], 2).reshape(x.shape)""",
}


@pytest.mark.long
@pytest.mark.sweep(100)
@pytest.mark.parametrize(("words", "body"), ROUNDING.items())
def test_a_half_precision_inside_is_no_lack_of_linearity(words, body, check):
    why = diagnose(check(f"def f(x, p): {body}"))[0]
    assert why.cause == Cause.TABLE_PRECISION
    assert words in why.message


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    "body",
    [
        "def f(x, p): return np.ones_like(x)",
        "def f(x, p): return np.full(x.shape, 2**64 - 1, np.uint64)",
        "def f(x, p): return (good(x, p) * np.float32(1e38)).astype(np.float32)",
        "def f(x, p): return np.random.standard_normal(x.shape)",
    ],
)
def test_what_ignores_more_than_positions_is_no_offset_of_them(body, check):
    found = check(body, positions="0:16")
    assert not found.ok
    assert diagnose(found)[0].cause != "position-offset"


@pytest.mark.slow
def test_a_mixture_of_pairs_is_not_taken_for_turns(check):
    found = check(
        """
        def f(x, p):
            y = good(x, p)
            y[:, 0] += 1e-3 * x[:, 5]
            return y
        """
    )
    failed = [each.check for each in found.findings if not each.ok]
    assert failed == ["relative", "norm", "identity", "reference"]
    assert diagnose(found)[0].cause == "unknown"
    assert "272 of 272 rotations (positions × pairs) differ" in diagnose(found)[0].evidence


@pytest.mark.slow
def test_a_known_mistake_does_not_explain_a_mixture_beside_it(check):
    body = """
    def f(x, p):
        y = good(x, 2 * np.asarray(p))
        y[:, 0] += {size} * x[:, 5]
        return y
    """
    causes = {size: diagnose(check(body.format(size=size)))[0].cause for size in (0, 1e-3)}
    assert causes == {0: "frequency-rule", 1e-3: "unknown"}


def test_a_function_finds_no_module_of_posenc_by_accident(check):
    with pytest.raises(Unavailable, match="No module named 'slopes'"):
        check("import slopes\nf = good")


@pytest.mark.long
def test_a_file_finds_the_modules_beside_it(tmp_path, check):
    (tmp_path / "neighbour_of_mine.py").write_text("twice = 2\n")
    assert check("from neighbour_of_mine import twice\nf = good").ok


@pytest.mark.slow
def test_k_that_follows_from_q_is_no_fault_of_q_and_not_called_bent(check):
    body = """
    def f(q, k, positions):
        y = good(q, positions)
        return y, good(k, positions) + 0.5 * y[..., ::-1]
    """
    queries = check(body)
    assert queries.ok, queries.findings
    assert queries.subject.key.no_map
    assert "not linear" not in queries.subject.key.no_map


@pytest.mark.slow
def test_heads_that_are_turned_differently_are_named_and_not_called_bent(check):
    body = """
    def f(q, k, positions):
        angles = np.asarray(positions)[..., :, None] * inv_freq
        cos, sin = np.cos(angles), np.sin(angles)
        def turn(x):
            a, b = x[..., ::2], x[..., 1::2]
            return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)
        y = turn(q)
        y[..., 3:, :, :] = q[..., 3:, :, :]
        return y, turn(k)
    """
    queries = check(body)
    text = "rows of heads 4–12 of q are returned unrotated in calls with several heads: "
    assert queries.subject.no_map.startswith(text)
    assert not queries.subject.key.no_map


@pytest.mark.slow
def test_the_current_folder_is_not_imported_from(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    right = rope.reference("rope", dim=8)
    with pytest.raises(InvalidInput, match="No module named") as error:
        implementation("mine:good", right, Positions.parse("0:8"))
    assert "PYTHONPATH" in (error.value.hint or "")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert implementation("mine:good", right, Positions.parse("0:8")).own.pairs == 4
    assert implementation("./mine.py:good", right, Positions.parse("0:8")).own.pairs == 4


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("f = 3", "mistyped"),
        ("def other(): pass", "mistyped"),
        ("def f(", "mistyped"),
        ("raise RuntimeError('f = 3 is not a function')", "raised"),
        ("def f(x, p): return x.cos_()", "misused"),
        ("def f(x, p): return x + None", "misused"),
        ("def f(x, p): raise ValueError('raised TypeError')", "raised"),
        ("def f(x, p): x *= 2; return good(x, p)", "changed"),
    ],
)
def test_a_refusal_has_a_code_by_its_kind_and_not_by_its_words(body, code, check):
    with pytest.raises(InvalidInput) as error:
        check(body)
    assert error.value.code == code


@pytest.mark.parametrize("target", ["good", ":good", "mine:", "./mine.py"])
def test_a_target_without_a_function_is_invalid(target):
    with pytest.raises(InvalidInput, match="must be module:function") as error:
        implementation(target, rope.reference("rope", dim=8), Positions.parse("0:8"))
    assert error.value.code == "mistyped"


def test_a_file_that_is_not_there_cannot_be_read():
    with pytest.raises(Unavailable, match="there is no file"):
        implementation("./none.py:f", rope.reference("rope", dim=8), Positions.parse("0:8"))


@pytest.mark.long
def test_a_function_that_depends_on_the_length_is_given_the_length(check):
    body = """
    def f(x, p):
        global inv_freq
        n = max(int(np.max(p)) + 1, 16)
        base = 1e4 * (4 * n / 16 - 3) ** (8 / 6)
        inv_freq = base ** -(np.arange(0, 8, 2) / 8)
        return good(x, p)
    """
    given = {"scheme": "rope-dynamic", "max_position_embeddings": 16, "factor": 4.0, "whole": True}
    assert check(body, positions="0:17", seq_len=17, **given).ok
    assert not check("f = good", positions="0:17", seq_len=17, **given).ok


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("body", ["f = good", "def f(x, p): return other(x, p)"])
def test_a_function_whose_base_follows_the_length_is_said_to(body, check):
    dynamic = """
    def other(x, p):
        base = 1e4 if np.max(p) < 256 else 3e4
        angles = np.asarray(p)[:, None] * base ** -(np.arange(0, 8, 2) / 8)
        turned = (x[:, ::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)
        return np.stack([turned.real, turned.imag], 2).reshape(x.shape)
    """
    found = check(textwrap.dedent(dynamic) + body)
    assert found.ok is ("other" not in body)
    for why in diagnose(found):
        assert (why.cause, why.message) == ("base", "the base is 30000, not 10000")


@pytest.mark.slow
def test_torch_is_used_where_a_function_needs_it(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "mine.py").write_text(
        GOOD
        + textwrap.dedent(
            """
            import torch
            def of(x, p): return torch.from_numpy(good(x.numpy(), p.numpy())).bfloat16()
            def annotated(x: "torch.Tensor", p): return of(x, p)
            def plain(x, p): return of(x, p)
            def wants(x, p):
                if isinstance(x, torch.Tensor): raise RuntimeError("of tensors")
                raise AttributeError("of arrays")
            def arrays(x, p):
                if isinstance(x, torch.Tensor): raise RuntimeError("of tensors")
                return good(x, p)
            """
        )
    )
    right = rope.reference("rope", dim=8)
    with pytest.raises(InvalidInput, match="RuntimeError: of tensors"):
        implementation(f"{tmp_path / 'mine.py'}:wants", right, Positions.parse("0:64"))
    for name, dtype in (("annotated", "bfloat16"), ("plain", "bfloat16"), ("arrays", "float32")):
        target = f"{tmp_path / 'mine.py'}:{name}"
        subject = implementation(target, right, Positions.parse("0:64"))
        assert subject.dtype == dtype
        assert examine(subject, right, "auto").ok


@pytest.mark.slow
def test_long_lists_of_positions_are_read_in_pieces(check):
    told = []
    right = rope.reference("rope", dim=64, layout="half")
    where = Positions.parse("0:9000")
    subject = implementation(
        f"{rope.MUTANTS}:right_plain", right, where, progress=lambda *each: told.append(each)
    )
    assert told[-1] == (9000, 9000)
    assert len(told) > 1
    assert told == sorted(told)
    assert examine(subject, right, "auto").ok
    assert np.isclose(subject.own.read(slice(8999, 9000)).turned[0, 0], np.exp(8999j), atol=1e-6)


CLIPPED = """
import numpy as np

def turned(x, p, clip=False):
    half = x.shape[1] // 2
    angles = p[:, None] * 10_000.0 ** (-np.arange(half) / half)
    cos, sin = np.cos(angles), np.sin(angles)
    x = np.clip(x, -1, 1) if clip else x
    a, b = x[:, :half], x[:, half:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], 1).astype(np.float32)

def clipped(x, p):
    return turned(x, p, clip=True)

def forked(x, p):
    import os
    os.fork()
    return turned(x, p)

def masked(x, p):
    return np.ma.array(turned(x, p), mask=True)

class Speechless(Exception):
    def __str__(self):
        raise ValueError

def speechless(x, p):
    raise Speechless

def cached(x, p):
    return np.zeros((2048, 64), np.float32)[p]

def endless(x, p):
    import time
    time.sleep(60)
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own.py").write_text(CLIPPED)
    return lambda name: ("--impl", f"./own.py:{name}")


DYNAMIC = ("-s", "rope-dynamic", "--set", "max_position_embeddings=256", "--layout", "half")


@pytest.mark.slow
def test_a_function_of_a_scheme_that_follows_the_length_is_held_to_linearity_too(call, own):
    status, out, _ = call("rope-check", *DYNAMIC, *own("clipped"), "--len", "256")
    assert status == 1
    assert "not linear in x" in out
    assert call("rope-check", *DYNAMIC, *own("turned"), "--len", "256")[0] == 0


@pytest.mark.long
@pytest.mark.sweep(100)
@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("masked", 2, "a masked array"),
        ("speechless", 2, "raised Speechless"),
        ("cached", 2, "raised IndexError"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused_in_words(name, status, words, call, own):
    found, out, err = call("rope-check", "-s", "rope", *own(name))
    assert (found, out) == (status, "")
    assert words in err.splitlines()[0]
    if name == "cached":
        assert "--len N asks for fewer" in err


@pytest.mark.slow
def test_a_function_that_copies_its_process_answers_once(call, own):
    assert call("rope-check", "-s", "rope", "--layout", "half", *own("forked"))[0] == 0


@pytest.mark.slow
def test_a_function_that_never_returns_is_given_up(call, own, monkeypatch):
    monkeypatch.setattr("posenc_cli.calls.function_process.SECONDS", 0.5)
    status, _, err = call("rope-check", "-s", "rope", *own("endless"))
    assert status == 2
    assert "gave no answer" in err


def test_position_zero_alone_is_no_check(call, own):
    status, _, err = call("rope-check", "-s", "rope", *own("turned"), "--len", "1")
    assert status == 2
    assert "position 0 alone shows nothing" in err


@pytest.mark.slow
def test_it_says_that_not_every_position_was_tried(call, own):
    given = ("rope-check", "-s", "rope", "--layout", "half", *own("turned"))
    assert "--len N tries all N" in " ".join(call(*given)[1].split())
    assert "--len N" not in call(*given, "--len", "300")[1]


def test_a_module_that_a_function_needs_and_is_not_there_is_the_environments_fault(call, tmp_path):
    (tmp_path / "own.py").write_text("import no_such_package\n")
    status, _, err = call("rope-check", "-s", "rope", "--impl", "./own.py:f")
    assert status == 3
    assert "no_such_package" in err


@pytest.mark.slow
def test_a_report_in_a_file_leaves_a_line_where_the_check_failed(call, own, tmp_path):
    given = ("rope-check", "-s", "rope", "--base", "500000", "--layout", "half", *own("turned"))
    status, out, err = call(*given, "--out", "rope.xml")
    assert (status, out) == (1, "")
    assert err.startswith("FAILED: impl")
    assert "cause: base" in err
    (tmp_path / "rope.xml").read_bytes().decode("ascii")


def test_the_subject_is_not_overwritten(call, tmp_path):
    np.save(tmp_path / "cos.npy", np.ones((4, 32)))
    np.save(tmp_path / "sin.npy", np.zeros((4, 32)))
    before = (tmp_path / "cos.npy").read_bytes()
    # By another name, which a report may have.
    (tmp_path / "report.txt").symlink_to("cos.npy")
    given = ("--tables", "cos.npy", "sin.npy", "--out", "./report.txt")
    status, _, err = call("rope-check", "-s", "rope", *given)
    assert status == 2
    assert "this command reads that file" in err
    assert (tmp_path / "cos.npy").read_bytes() == before


EVERYWHERE = """
def f(x, p):
    for number in range(3, 9):
        try:
            os.write(number, b'{}\\n' + bytes(8))
        except OSError:
            pass
    return good(x, p)
"""
"""Writes into every pipe it may have."""


def asked(number, data=b""):
    header = {"do": "describe", "id": number, "bytes": len(data)}
    return json.dumps(header).encode() + b"\n" + data


def worker(target):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return spawn(worker_command(sys.executable, target), **pipes)


def test_a_worker_that_has_no_function_answers_each_request_and_nothing_between():
    # The rest of a request that holds a line feed would be taken for another.
    with worker("absent_for_sure:f") as process:
        out, err = process.communicate(asked(1, b"\n{}\n") + asked(2))
    hello, *answers = [json.loads(line) for line in out.splitlines()]
    assert hello["python"].startswith("3.")
    assert [(each["id"], each["why"]) for each in answers] == [(1, "missing"), (2, "missing")]
    assert err == b""


def test_a_worker_whose_answers_nobody_reads_ends_in_silence():
    with worker("absent_for_sure:f") as process:
        process.stdout.close()
        process.stdin.write(asked(1))
        process.stdin.close()
        assert process.wait(PATIENCE) == 1
        assert process.stderr.read() == b""


@pytest.mark.long
@pytest.mark.sweep(7)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        # A copy of the process that outlives it keeps its pipes open.
        (
            "def f(x, p):\n    if os.fork(): os.abort()\n    import time; time.sleep(60)",
            "crashed (SIGABRT)",
        ),
        ("def f(x, p): os.closerange(3, 64); return good(x, p)", "ended its process with status 1"),
        (
            "def f(x, p):\n    os.closerange(3, 64)\n    import time; time.sleep(2)",
            "ended its process with status 1",
        ),
        ("import signal\ndef f(x, p): os.kill(os.getpid(), signal.SIGTERM)", "crashed (SIGTERM)"),
        (EVERYWHERE.format("no answer"), "wrote into the pipe that carries its results"),
        (EVERYWHERE.format("[1]"), "wrote into the pipe that carries its results"),
        (
            EVERYWHERE.format('{{"id": 2, "bytes": 8, "results": [{{"stored": "float32"}}]}}'),
            "wrote into the pipe that carries its results",
        ),
        ("def f(x, p): raise KeyboardInterrupt", "raised KeyboardInterrupt"),
        (
            "class Odd(Exception):\n    def __str__(self): sys.exit()\ndef f(x, p): raise Odd",
            "raised Odd",
        ),
    ],
)
def test_what_a_function_does_to_its_process_is_told(body, words, check, capfd):
    with pytest.raises(InvalidInput) as error:
        check(body, positions="0:8")
    assert words in error.value.message, error.value.message
    assert capfd.readouterr() == ("", "")


@pytest.mark.long
@pytest.mark.sweep(6)
@pytest.mark.parametrize(
    "body",
    [
        "import subprocess\ndef f(x, p): subprocess.run(['cat']); return good(x, p)",
        "def f(x, p): os.read(0, 100); print(sys.stdin.read()); return good(x, p)",
        "def f(x, p):\n    if not os.fork(): return None\n    return good(x, p)",
        "os.fork()\nf = good",
        "def f(x, p):\n    if not os.fork(): sys.exit(3)\n    return good(x, p)",
        "os.close(2)\nsys.stderr = None\ndef f(x, p): return good(x, p)",
        "own = os.getpid()\ndef f(x, p):\n    assert os.getpid() == own\n    return good(x, p)",
    ],
)
def test_a_right_function_may_read_print_and_copy_its_process(body, check):
    assert check(body, positions="0:8").ok


@pytest.mark.long
def test_what_a_function_prints_is_shown(check, capfd):
    assert check("def f(x, p): os.write(1, b'aloud\\n'); return good(x, p)", positions="0:8").ok
    assert capfd.readouterr().err.startswith("aloud\n")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["call", "import"])
def test_a_function_that_hangs_is_ended_with_all_that_it_started(where, check, monkeypatch):
    hang = "import subprocess; subprocess.run(['sleep', '60'])"
    body = {"call": f"def f(x, p): {hang}", "import": hang}[where]
    monkeypatch.setattr(function_process, "SECONDS", 1.5)
    began = time.monotonic()
    with pytest.raises(InvalidInput, match="gave no answer within 1.5 seconds"):
        check(body, positions="0:8")
    assert time.monotonic() - began < 30


PAIRED = {
    "the code pairs dimensions 0 and 7, 1 and 6, 2 and 5, …": [0, 1, 2, 3, 7, 6, 5, 4],
    "the code pairs dimensions 0 and 7, 1 and 2, 3 and 4, …": [1, 3, 5, 7, 2, 4, 6, 0],
    "the code pairs dimensions 0 and 5, 1 and 4, 2 and 6, …": [5, 7, 4, 2, 0, 3, 1, 6],
}


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize(("words", "columns"), PAIRED.items())
def test_any_columns_may_be_paired_and_turn_by_their_distance(words, columns, check):
    found = check(
        f"""
        columns = np.array({columns})
        def f(x, p):
            angles = np.asarray(p)[:, None] * inv_freq
            a, b, y = x[:, columns[:4]], x[:, columns[4:]], np.empty_like(x)
            y[:, columns[:4]] = a * np.cos(angles) - b * np.sin(angles)
            y[:, columns[4:]] = a * np.sin(angles) + b * np.cos(angles)
            return y
        """
    )
    assert [each.check for each in found.findings if not each.ok] == ["reference"]
    why, *others = diagnose(found)
    assert (why.cause, why.message.partition("; ")[0]) == (Cause.LAYOUT, words)
    assert {other.cause for other in others} <= {Cause.UNKNOWN}


@pytest.mark.long
def test_half_a_head_that_turns_is_no_inconsistency(check):
    body = "def f(x, p): y = x.copy(); y[:, :4] = narrow(x[:, :4], p); return y"
    narrow = """
    def narrow(x, p):
        angles = np.asarray(p)[:, None] * inv_freq[:2]
        c, s, a, b = np.cos(angles), np.sin(angles), x[:, :2], x[:, 2:]
        return np.concatenate([a * c - b * s, a * s + b * c], 1)
    """
    found = check(textwrap.dedent(narrow) + body)
    assert [each.check for each in found.findings if not each.ok] == ["reference"]
    (why,) = diagnose(found)
    assert (why.cause, why.message) == (
        Cause.ROTARY_DIM,
        "4 dimensions rotate; the reference rotates 8",
    )


@pytest.mark.long
def test_columns_that_come_out_in_an_order_of_their_own_are_no_equal(check):
    found = check("def f(x, p): return good(x, p)[:, ::-1].copy()")
    assert [each.check for each in found.findings if not each.ok] == ["reference"]
    (why,) = diagnose(found)
    assert why.cause == Cause.LAYOUT
    assert why.message == "rotated dimensions are returned in another order"


ODD = """
def odd(x, p, base=1e4):
    angles = np.asarray(p, float)[:, None] * base ** -(np.arange(0, 8, 2) / 8)
    c, s, a, b = np.cos(angles), np.sin(angles), x[:, :4], x[:, :3:-1]
    return np.concatenate([a * c - b * s, (a * s + b * c)[:, ::-1]], 1)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "failed", "causes"),
    [
        ("def f(x, p): return odd(x, p + 1)", ["identity"], ["layout", "position-offset"]),
        ("def f(x, p): return odd(x, p, 7e5)", [], ["layout", "base"]),
    ],
)
def test_with_columns_paired_otherwise_other_mistakes_are_named_too(body, failed, causes, check):
    found = check(ODD + body, positions="0:64")
    assert [each.check for each in found.findings if not each.ok] == [*failed, "reference"]
    assert [why.cause for why in diagnose(found)] == causes


@pytest.mark.long
def test_positions_that_are_clamped_between_rows_of_the_sample_are_said_to_be(check):
    clamped = "def f(x, p): return good(x, np.minimum(p, 300))"
    (why,) = diagnose(check(clamped, positions="0:64,509:512"))
    assert why.message == "positions are clamped at 300"


@pytest.mark.long
def test_a_factor_of_q_alone_is_not_said_to_be_squared_in_scores(check):
    found = check("def f(q, k, positions): return good(q, positions) / 8, good(k, positions)")
    (why,) = diagnose(found)
    assert why.evidence.startswith(
        "cos and sin are multiplied by 0.125; if q and k both are, logits are 64× too small"
    )


@pytest.mark.long
def test_calls_of_one_row_that_start_again_are_not_said_of_all_calls(check):
    (why,) = diagnose(check("def f(x, p): return good(x, p * (len(p) > 1))"))
    assert why.message.startswith("positions restart at 0 in ")


@pytest.mark.long
def test_positions_past_float16_are_not_said_to_follow_the_length(check):
    found = check("def f(x, p): return good(x, p.astype(np.float16))", positions="0:64,70000:70002")
    assert not any("depends on the length" in note for note in found.subject.notes)


LEFT = """
def f(x, p):
    y, end = good(x, p), len(x) // 64 * 64
    y[end:] = x[end:]
    return y
"""
SHARED = "def f(x, p): return good(x, p[np.arange(len(p)) // 64 * 64])"


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "positions", "said"),
    [
        (LEFT, "0:17", "in some calls rows are returned unrotated"),
        (LEFT, "0:100", "in some calls rows are returned unrotated"),
        (
            SHARED,
            "0:300",
            (
                "rows get the rotation of other positions: in a call of 64 rows from 0 on, "
                "position 1 is rotated as 0"
            ),
        ),
    ],
)
def test_what_the_rows_of_a_block_have_is_told(body, positions, said, check):
    assert diagnose(check(body, positions=positions))[0].message == said


OF_LENGTHS = """
import numpy as np

def scaled(length, d=64, limit=256, factor=2.0):
    length = max(length, limit)
    base = 1e4 * (factor * length / limit - factor + 1) ** (d / (d - 2))
    return base ** (-np.arange(0, d, 2) / d)

def rotated(x, angles):
    a, b = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

def right(x, positions):
    return rotated(x, positions[:, None] * scaled(positions.max() + 1))

def one_too_few(x, positions):
    return rotated(x, positions[:, None] * scaled(positions.max()))

def by_rows(x, positions):
    return rotated(x, positions[:, None] * scaled(x.shape[-2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("one_too_few", "frequency-rule: the base is scaled for a length of 511"),
        ("by_rows", "results for vectors differ from the sums over their unit vectors"),
        ("right", ""),
    ],
)
def test_the_length_that_dynamic_ntk_follows_is_named(name, words, call, tmp_path):
    (tmp_path / "own.py").write_text(OF_LENGTHS)
    asked = ("rope-check", *DYNAMIC, "--set", "factor=2", "--len", "512", "--json")
    status, out, _ = call(*asked, "--impl", f"own.py:{name}")
    assert status == bool(words)
    assert words in (json.loads(out)["cause"] or ""), out


@pytest.mark.long
def test_heads_that_all_come_out_as_the_first_are_heads_not_sequences(call, tmp_path):
    (tmp_path / "own.py").write_text(
        "import numpy as np\n"
        "def f(q, k, cos, sin):\n"
        "    def rotate(x):\n"
        "        a, b = np.split(x, 2, axis=-1)\n"
        "        return x * cos + np.concatenate([-b, a], -1) * sin\n"
        "    return rotate(q), np.broadcast_to(rotate(k)[..., :1, :, :], k.shape)\n"
    )
    asked = ("rope-check", "-s", "rope", "--layout", "half", "--len", "64", "--json")
    status, out, _ = call(*asked, "--impl", "own.py:f")
    cause = json.loads(out)["cause"]
    assert (status, "heads 2–12 of k" in cause) == (1, True), cause
    assert "sequence" not in cause


def test_axes_that_do_not_fit_are_not_replaced_by_those_of_a_wrong_function(call, tmp_path):
    file = tmp_path / "equal.py"  # every head gets the result of the first
    file.write_text(
        textwrap.dedent(GOOD) + "def equal(x, positions):\n"
        "    first = np.stack([good(each, positions) for each in x[:, :, 0]])\n"
        "    return np.repeat(first[:, :, None], x.shape[2], axis=2)\n"
    )
    asked = ("rope-check", "-s", "rope", "-d", "8", "-l", "64", "--impl", f"{file}:equal")
    assert call(*asked)[0] == 1
    status, out, err = call(*asked, "--axes", "nhd")
    assert (status, out) == (2, "")
    assert "raised" in err
