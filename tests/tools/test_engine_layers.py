"""What counts as an engine's answer: its own error, and no tool's."""

import importlib.util

import pytest

from tools.engine_layers import answered, measured

CASE = {"name": "case", "engine": "engine", "config": {}}


def engine(folder, body):
    """A module of an engine, whose ``build`` holds a body."""
    place = folder / "engine.py"
    place.write_text(f"def build(call=None):\n    {body}\n", "utf-8")
    spec = importlib.util.spec_from_file_location("engine", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("body", ["raise ValueError('no such type')", "int('no number')"])
def test_an_error_of_the_engine_and_of_what_it_calls_is_its_answer(tmp_path, body):
    module = engine(tmp_path, body)
    filled, arrays = answered(CASE, lambda _case: module.build(), tmp_path)
    assert filled["fails"].startswith("ValueError: ")
    assert arrays == {}


def test_an_error_beside_the_engine_is_none(tmp_path):
    with pytest.raises(KeyError):
        answered(CASE, lambda case: case["missing"], tmp_path)


def test_an_error_of_a_tool_that_the_engine_calls_is_none(tmp_path):
    module = engine(tmp_path, "return call()")
    with pytest.raises(ValueError, match="no number"):
        answered(CASE, lambda _case: module.build(lambda: measured("no number", 0)), tmp_path)
