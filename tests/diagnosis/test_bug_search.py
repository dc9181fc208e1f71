"""A known bug is named only where it reproduces every value."""

import re
from pathlib import Path

import numpy as np

from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.inference.codes import Cause
from tests.checks import rope

ROWS, COLUMNS = 24, 40
RIGHT = rope.reference("rope-axial", dim=32, grid=f"{ROWS}x{COLUMNS}")


def causes_of(places, spoil=None):
    """What is said of tables whose tokens stand at these places, with one value spoilt."""
    rungs = 1e4 ** -(np.arange(16) / 16)
    angles = np.concatenate([np.outer(places[0], rungs[::2]), np.outer(places[1], rungs[1::2])], 1)
    cos, sin = np.cos(angles), np.sin(angles)
    if spoil is not None:
        cos[spoil] += 0.25
    tables = cos.astype(np.float32), sin.astype(np.float32)
    return diagnose(rope.of_tables(*tables, RIGHT, f"0:{ROWS * COLUMNS}"))


def test_tokens_that_are_counted_by_columns_are_named_where_every_value_is_theirs():
    tokens = np.arange(ROWS * COLUMNS)
    by_columns = tokens % ROWS, tokens // ROWS
    (cause,) = causes_of(by_columns)
    assert cause.cause == "position-offset"
    assert cause.message.endswith("are numbered column by column, not row by row")
    assert cause.residual.whole
    for cause in causes_of(by_columns, spoil=(333, 5)):
        assert "column by column" not in cause.message


def test_positions_of_float32_collide_from_the_first_that_it_has_not():
    first, right = 2**24 - 10, rope.reference("rope", dim=16)
    angles = np.outer(np.arange(first, first + 24).astype(np.float32), 1e4 ** -(np.arange(8) / 8))
    tables = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    (cause,) = diagnose(rope.of_tables(*tables, right, f"{first}:{first + 24}"))
    assert cause.message == "positions were rounded to float32"
    assert cause.evidence.startswith("positions collide from 16777217 on: float32 cannot represent")


def test_axes_of_equal_coordinates_are_said_not_to_be_told_apart(tmp_path, call):
    at = np.arange(ROWS)
    np.save(tmp_path / "axes.npy", np.stack([at, at]))
    angles = np.outer(at, 1e4 ** -(np.arange(16) / 16))
    rungs = np.concatenate([angles[:, ::2], angles[:, 1::2]], 1)
    np.save(tmp_path / "cos.npy", np.cos(rungs).astype(np.float32))
    np.save(tmp_path / "sin.npy", np.sin(rungs).astype(np.float32))
    tables = ("--tables", str(tmp_path / "cos.npy"), str(tmp_path / "sin.npy"))
    check = ("rope-check", "-s", "rope-axial", "--dim", "32", *tables)
    note = "axes 0 and 1 have equal coordinates at every position here"
    status, out, _ = call(*check, "--set", f"axes={tmp_path / 'axes.npy'}", "--len", f"{ROWS}")
    assert (status, note in " ".join(out.split())) == (0, True)
    np.save(tmp_path / "axes.npy", np.stack([at, at // 2]))
    status, out, _ = call(*check, "--set", f"axes={tmp_path / 'axes.npy'}", "--len", f"{ROWS}")
    assert (status, note in " ".join(out.split())) == (1, False)


def test_every_cause_that_is_named_was_reported_in_public():
    page = (Path(__file__).parents[2] / "docs" / "rope-check.md").read_text(encoding="utf-8")
    reports = re.findall(r"^\| `([a-z-]+)` \| .*https://github.com/", page, flags=re.MULTILINE)
    assert sorted(reports) == sorted({*Cause} - {Cause.UNKNOWN})
