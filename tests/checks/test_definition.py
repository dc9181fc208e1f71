"""Where a user's function is defined, found without running any of its code."""

import pytest

from posenc_cli.checks.definition import SourcePlace, definition_place

TEXT = """import json as other
raise SystemExit("is never run")
def f(x, p):
    return x

try:
    from elsewhere import g
except ImportError:
    def g(x, p): ...

class Rope:
    scale: int = 1
    def __call__(self, x, p):
        return x
    def apply(self, x, p):
        return x

h, k = Rope(), lambda x, p: x
def f(x, p):
    return x
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "code.py").write_text(TEXT)
    (tmp_path / "broken.py").write_text("x = 1\n\ndef f(:\n")
    (tmp_path / "latin.py").write_bytes(b"# \xff\ndef f(): ...\n")
    (tmp_path / "pack" / "age").mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text("raise SystemExit\n")
    (tmp_path / "pack" / "age" / "__init__.py").write_text("from pack.other import f\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("f", 19),  # the last one counts
        ("g", 9),
        ("Rope", 11),
        ("Rope.apply", 11),
        ("h", 18),
        ("k", 18),
        ("h.apply", 18),
        ("other.dumps", 1),
        ("missing", None),
        ("", None),
    ],
)
def test_the_line_that_binds_a_name_is_found(name, line, folder):
    assert definition_place(f"./code.py:{name}") == SourcePlace("code.py", line)


def test_a_file_that_is_no_python_has_the_line_of_its_error(folder):
    assert definition_place("broken.py:f") == SourcePlace("broken.py", 3)
    assert definition_place("latin.py:f").file == "latin.py"
    assert definition_place("none.py:f") is None


def test_modules_are_found_where_python_would_look_and_not_in_the_current_folder(
    folder, monkeypatch
):
    assert definition_place("pack.age:f") is None
    monkeypatch.setenv("PYTHONPATH", str(folder))
    place = SourcePlace(str(folder / "pack" / "age" / "__init__.py"), 1)
    assert definition_place("pack.age:f") == place
    for target in ("pack.nothing:f", "code.more:f", "sys:f", "..:f", ":f", "a..b:f"):
        assert definition_place(target) is None
