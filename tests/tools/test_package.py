"""The distributions are tried, or it is said that they were not."""

from __future__ import annotations

import pytest

from tools import package


def test_where_no_python_is_here_nothing_passes(tmp_path, monkeypatch):
    monkeypatch.setattr(package, "run", lambda *command, **_: pytest.fail(str(command)))
    monkeypatch.setattr(package, "interpreter", {}.get)
    for versions in ([], ["3.11", "3.12"]):
        with pytest.raises(SystemExit, match="There is no Python to try it on"):
            package.main(str(tmp_path), versions)


def test_every_python_that_is_here_is_tried_with_functions_of_another(
    tmp_path, monkeypatch, capsys
):
    def run(*command, **_):
        if "build" in command:
            for name in ("posenc_cli-1.tar.gz", "posenc_cli-1-py3-none-any.whl"):
                (tmp_path / name).touch()

    tried = []
    monkeypatch.setattr(package, "run", run)
    monkeypatch.setattr(package, "interpreter", {"3.11": "/a", "3.13": "/c"}.get)
    monkeypatch.setattr(package, "try_on", lambda *given: tried.append(given[2:]))
    package.main(str(tmp_path), ["3.11", "3.12", "3.13"])
    assert tried == [("/a", "/c"), ("/c", "/a")]
    assert "Python 3.12 is not here\n" in capsys.readouterr().out
