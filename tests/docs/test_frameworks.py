"""The examples of docs/frameworks.md give what they show, where their frameworks are installed."""

import doctest
import importlib.util
import os
import re
import shutil
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
SECTIONS = {
    name: text.partition("```python\n")[2].partition("```")[0]
    for name, text in re.findall(r"^### (.*?)\n(.*?)(?=^### |\Z)", PAGE.read_text(), re.M | re.S)
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SECTIONS)
def test_each_example_gives_what_it_shows(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = re.search(r"(?:import|from) (\w+)", SECTIONS[name])[1]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    if shutil.which("clang") is None:
        os.environ.setdefault("DEV", "PYTHON")  # of tinygrad, before it is imported
    test = doctest.DocTestParser().get_doctest(SECTIONS[name], {}, name, str(PAGE), 0)
    assert len(test.examples) > 2
    said: list[str] = []
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)


def test_every_framework_of_the_table_has_an_example():
    from posenc_cli.frameworks import FRAMEWORKS

    named = {re.search(r"(?:import|from) (\w+)", code)[1] for code in SECTIONS.values()}
    assert named == {"onnx", *(row.module.partition(".")[0] for row in FRAMEWORKS)}
