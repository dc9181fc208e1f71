"""The distributions are tried, or it is said that they were not."""

import pytest

from posenc_cli.backends.native import PLATFORM
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
    built = []

    def run(*command, env=None, **_):
        if "build" in command:
            env = env or {}
            built.append(env.get("POSENC_PLATFORM", "any"))
            name = f"1-py3-none-{built[-1]}.whl" if "--wheel" in command else "1.tar.gz"
            (tmp_path / f"posenc_cli-{name}").touch()
            if built[-1] != "any":
                target = package.ZIG_TARGETS[built[-1]]
                assert env["CC"].endswith(f" python-zig cc -target {target}")

    tried, wheels = [], set()
    monkeypatch.setattr(package, "run", run)
    monkeypatch.setattr(package, "interpreter", {"3.11": "/a", "3.13": "/c"}.get)
    monkeypatch.setattr(
        package, "try_on", lambda *given: (tried.append(given[2:]), wheels.add(given[1].name))
    )
    package.main(str(tmp_path), ["3.11", "3.12", "3.13"])
    assert built == ["any", *package.ZIG_TARGETS, "any"]  # the source comes first
    own = PLATFORM if PLATFORM in package.ZIG_TARGETS else "any"
    assert wheels == {f"posenc_cli-1-py3-none-{own}.whl"}
    assert tried == [("/a", "/c"), ("/c", "/a")]
    assert "Python 3.12 is not here\n" in capsys.readouterr().out
