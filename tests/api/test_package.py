"""The package as people import it: lazy, complete, and typed."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import posenc_cli as posenc
from tests.processes import ran_code

USE = """
import numpy as np
from numpy.typing import NDArray
from typing import Any, assert_type

import posenc_cli as posenc

table = assert_type(posenc.encode("rope", 4, dim=8), NDArray[Any])
vectors: NDArray[np.float64] = np.ones((4, 8))
assert_type(posenc.encode("rope", 4, dim=8, like=vectors), NDArray[np.float64])
cos, sin = posenc.tables("llama-3-8b", 8)
assert_type(cos, NDArray[Any])
report = posenc.rope_check("llama-3-8b", tables=(cos, sin))
assert_type(report.ok, bool)
assert_type(report.findings[0].worst, float | None)
cause: str | None = report.cause
assert_type(posenc.rotate(vectors, None, 4, "rope", dim=8), NDArray[np.float64])
q, k = posenc.rotate(vectors, vectors, 4, "rope", dim=8)
assert_type(q, NDArray[np.float64])
assert_type(posenc.frequencies("rope", dim=8, like=vectors), NDArray[np.float64])
assert_type(str(posenc.compare(table, "rope", dim=8)), str)
match = posenc.identify(table).match
scheme: str | None = None if match is None else match.scheme
kind: str = posenc.schemes()["rope"].kind
assert_type(posenc.__version__, str)
"""


def test_importing_it_imports_no_numpy():
    code = "import sys, posenc_cli; print(sorted({'numpy', 'typer', 'rich'} & {*sys.modules}))"
    assert ran_code(code).stdout == "[]\n"


def test_what_is_exported_is_there_and_says_what_it_is():
    for name in dir(posenc):
        value = getattr(posenc, name)
        assert isinstance(value, str) or value.__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'encoed'"):
        _ = posenc.encoed


def test_no_package_inside_has_the_name_of_what_is_exported():
    # Once imported, it would take its place.
    folder = Path(posenc.__file__).parent
    inside = {path.stem for path in folder.glob("*.py")}
    inside |= {path.parent.name for path in folder.glob("*/__init__.py")}
    assert not inside & {*dir(posenc)}


def public_functions():
    for exported in dir(posenc):
        value = getattr(posenc, exported)
        if inspect.isfunction(value):
            yield value
        elif inspect.isclass(value):
            for base in value.__mro__:
                own = vars(base).items() if base.__module__.startswith("posenc_cli") else ()
                for name, one in own:
                    if not name.startswith("_"):
                        yield one.fget if isinstance(one, property) else one


def test_what_is_exported_says_its_types():
    functions = [one for one in public_functions() if inspect.isfunction(one)]
    assert {posenc.encode, posenc.RopeReport.as_json, posenc.RopeReport.cause.fget} <= {*functions}
    for function in functions:
        signature = inspect.signature(function)
        said = [one.annotation for name, one in signature.parameters.items() if name != "self"]
        assert inspect.Parameter.empty not in [*said, signature.return_annotation], function


@pytest.mark.slow
def test_a_user_of_it_passes_mypys_strictest_check(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    (tmp_path / "use.py").write_text(USE)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "use.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
