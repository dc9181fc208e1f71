"""Run the positional-encoding functions of real libraries, and write docs/conventions.md.

Usage: python -m tools.conventions [--check | --environments FOLDER]

Each library is installed at the version of `ENVIRONMENTS`, in a virtual environment below FOLDER.
The statements of one file run one by one, so a function works even if other imports of its library
are missing. The rows to compare go to tests/golden/conventions.npz, the measurements to
conventions.json beside it, and both to the page. ``--check`` installs nothing, and reports whether
the page agrees with those files and with posenc_cli/configs/library_functions.json. The calls are
in tools/conventions_calls.py.
"""

import argparse
import ast
import contextlib
import hashlib
import importlib
import inspect
import io
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tools.conventions_calls import CALLS, ENVIRONMENTS, Call

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "conventions.md"
STATEMENT = ROOT / "tests" / "golden" / "conventions.json"
DIM, HEADS, GRID, SHORT, FAR = 64, 8, (14, 14), 24, 131_072
SQUARE = 1024
"""Most positions for a function of scores, whose table is square."""
KEPT = (0, 1, 2, 7, 23)
"""Rows of a table that the golden keeps; also keys for a bias."""
ALONE = "alone"
"""The name of the module in which the definitions of a file run."""
_BASES = ("theta", "base", "temperature", "max_period", "max_timescale", "max_wavelength",
          "rope_theta", "min_freq", "max_freq", "base_freq", "config")  # fmt: skip
"""Libraries' names of the parameter that sets the base."""


# Below: what runs in the environment of a library, without posenc.


def definitions(file: str) -> dict[str, Any]:
    """Return the definitions of installed files, whose statements run one by one.

    Failing statements, such as imports of missing packages, are left out.
    """
    names: dict[str, Any] = {}
    for each in file.split():
        module = each.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        package = module if each.endswith("__init__.py") else module.rpartition(".")[0]
        names |= {"__name__": ALONE, "__package__": package}
        sys.modules[ALONE] = ModuleType(ALONE)
        for statement in _tree(each).body:
            with contextlib.suppress(Exception):
                _execute(statement, names)
                continue
            with contextlib.suppress(Exception):
                _execute(statement, {**_stand_ins(), **names}, names)
    return names


def _tree(file: str) -> ast.Module:
    return ast.parse((Path(sysconfig.get_path("purelib")) / file).read_text("utf-8"))


def _execute(statement: ast.stmt, *names: dict[str, Any]) -> None:
    exec(compile(ast.Module([statement], type_ignores=[]), ALONE, "exec"), *names)


def _stand_ins() -> dict[str, Any]:
    """Return plain classes and decorators in place of packages that are not installed.

    The base class of modules is torch's; registries and caches have no effect.
    """
    import torch

    class BaseModule(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, **_: Any) -> None:
            super().__init__()

    registry = SimpleNamespace(register_module=lambda: lambda made: made)
    return {"BaseModule": BaseModule, "MODELS": registry, "FromParams": object}


def method(file: str, name: str) -> Any:
    """Return a static method of a class in an installed file as a function.

    Raises: LookupError if the file has no such method.
    """
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            node.decorator_list = []
            names = definitions(file)
            _execute(node, names)
            return names[name]
    raise LookupError(f"{file} has no function {name}")


class Function:
    """A function of a library, for the expression of its call."""

    def __init__(self, name: str, call: Call) -> None:
        self.call, self.name = call, name.partition(":")[2]
        self.names = self._modules(ENVIRONMENTS[call.environment].modules)
        if call.file:
            found = definitions(call.file)
            own = found.get(self.name) or method(call.file, self.name)
            self.names |= {"F": own, "G": found.__getitem__}

    @staticmethod
    def _modules(modules: Mapping[str, str]) -> dict[str, Any]:
        return {alias: importlib.import_module(module) for alias, module in modules.items()}

    def __call__(self, length: int, *, roomy: bool = False) -> tuple[np.ndarray, ...]:
        """Return the tables for some positions: one, or cosines and sines."""
        half = self.call.pairs == "half"
        firsts = np.zeros((length, DIM), "float32")
        firsts[:, : DIM // 2 if half else DIM : 1 if half else 2] = 1
        names = {
            **self.names, "np": np, "n": length, "d": DIM, "h": GRID[0], "w": GRID[1],
            "heads": HEADS, "firsts": firsts, "halves": _halves, "cos_sin": _cos_sin,
            "made": _made, "Options": SimpleNamespace,
        }  # fmt: skip
        if "torch" in names:
            torch = names["torch"]
            names |= {"x": torch.zeros(1, length, DIM), "ids": torch.arange(length)[None]}
            names["firsts"] = torch.from_numpy(firsts)
        found = eval(self.call.far if roomy and self.call.far else self.call.code, names)
        tables = found if isinstance(found, tuple) else (found,)
        return tuple(_array(table) for table in tables)

    @property
    def settable(self) -> str:
        """Return the parameter that sets the base; empty if there is none."""
        if self.call.base:
            return self.call.base
        function = self.names.get("F")
        if function is None:
            function = eval(self.call.code.partition("(")[0], self.names)
        with contextlib.suppress(TypeError, ValueError):
            parameters = inspect.signature(function).parameters
            return next((name for name in _BASES if name in parameters), "")
        return ""


def _array(table: Any) -> np.ndarray:
    table = table.detach() if hasattr(table, "detach") else table
    return np.asarray(table if not hasattr(table, "numpy") else table.numpy())


def _halves(table: Any) -> tuple[Any, Any]:
    """Return cosines and sines of a table whose columns are first sines, then cosines."""
    half = table.shape[-1] // 2
    return table[..., half:], table[..., :half]


def _cos_sin(angles: Any) -> tuple[Any, Any]:
    return angles.cos(), angles.sin()


def _made(module: Any) -> Any:
    """Return a module like fairseq's after filling its table."""
    module.make_weight(*module.weight.shape, module.padding_idx)
    return module


def measured(name: str, call: Call) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return facts about a function, its tables for `SHORT` positions, and the last of `FAR`."""
    function = Function(name, call)
    tables = function(SHORT)
    far = list[np.ndarray]()
    facts: dict[str, Any] = {"base": function.settable}
    if not call.grid:
        most = SQUARE if tables[0].ndim == 3 else FAR
        room, said = _room(function, most)
        facts |= {"room": None if room == most else room, "past": said}
        if tables[0].ndim == 2:
            far = [table[-1] for table in function(FAR, roomy=room < FAR)]
    return facts, [*tables, *far]


def _room(function: Callable[[int], tuple[np.ndarray, ...]], most: int) -> tuple[int, str]:
    """Return the number of positions of a function, up to ``most``, and its answer to one more."""

    def rows(length: int) -> int | str:
        try:
            return int(function(length)[0].shape[-2])
        except Exception as error:
            return type(error).__name__

    if rows(most) == most:
        return most, ""
    low, high = SHORT, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if rows(middle) == middle else (low, middle)
    return low, str(rows(high))


def run(environment: str, path: str, only: str = "") -> None:
    """Measure the functions of an environment, from within it."""
    warnings.filterwarnings("ignore")
    facts, arrays = dict[str, Any](), dict[str, Any]()
    for name, call in CALLS.items():
        if call.environment != environment or only not in name:
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                facts[name], tables = measured(name, call)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        arrays |= {f"{name}/{place}": table for place, table in enumerate(tables)}
    versions = {name: version(name.partition(":")[0]) for name in facts}
    np.savez(path, facts=json.dumps({"facts": facts, "versions": versions}), **arrays)


# Below: what runs beside posenc.


def gathered(folder: Path) -> Iterator[tuple[str, dict[str, Any], list[np.ndarray]]]:
    """Yield the results of the functions of all environments; missing ones are created."""
    for environment, (_, packages, alone) in ENVIRONMENTS.items():
        python, out = folder / environment / "bin" / "python", folder / f"{environment}.npz"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", folder / environment], check=True)
            for some in (packages, f"--no-deps {alone}"):
                pip: list[Any] = [python, "-m", "pip", "install", "--quiet", "--no-compile"]
                subprocess.run([*pip, *some.split()], check=True)
        command = f"from tools.conventions import run; run({environment!r}, {str(out)!r})"
        keras = {**os.environ, "KERAS_BACKEND": environment}
        subprocess.run([python, "-W", "ignore", "-c", command], check=True, cwd=ROOT, env=keras)
        with np.load(out) as arrays:
            said = json.loads(str(arrays["facts"]))
            for name, facts in said["facts"].items():
                tables = [arrays[key] for key in arrays.files if key.startswith(f"{name}/")]
                yield name, {"version": said["versions"][name], **facts}, tables


def exact(name: str, places: Sequence[int], *, sines: bool = False) -> np.ndarray:
    """Return posenc's float64 values at some places of a function's table, counted from 0."""
    import posenc_cli
    from posenc_cli.catalogue import BUILT_IN
    from posenc_cli.configs.library import find_function

    row = find_function(name)
    parameters: dict[str, Any] = dict(row.set)
    if "seq_len" in BUILT_IN[row.scheme].parameters:
        parameters["seq_len"] = str(places[-1] + 1)
    return np.asarray(
        posenc_cli.encode(
            row.scheme,
            [row.start + place for place in places],
            table=row.table.replace("cos", "sin") if sines and row.table else row.table,
            dtype="float64",
            **parameters,
        )
    )


def compared(name: str, facts: dict[str, Any], tables: list[np.ndarray]) -> dict[str, Any]:
    """Return the facts of a function with its maximum differences from posenc.

    ``near`` is the largest difference in `SHORT` positions, or in a whole grid; ``far`` that at the
    last of `FAR`, or None if there is no such position.
    """
    count = 1 + (len(tables) > 1 and tables[0].shape == tables[1].shape)
    places = range(tables[0].shape[-2])
    near, far = (
        [
            float(np.abs(table - exact(name, wanted, sines=place > 0)).max())
            for place, table in enumerate(given)
        ]
        for given, wanted in ((tables[:count], places), (tables[count:], [FAR - 1]))
    )
    return {**facts, "near": max(near), "far": max(far, default=None)}


def kept(tables: list[np.ndarray]) -> np.ndarray:
    """Return the rows of a function's first table that the golden stores."""
    table = tables[0]
    return table[..., KEPT, :] if table.ndim == 2 else table[:, KEPT][..., KEPT]


def measure(folder: Path) -> None:
    """Run the libraries, and write the golden of what they gave."""
    from tools.goldens import laid_out

    facts, golden = dict[str, Any](), dict[str, Any]()
    for name, said, tables in gathered(folder):
        facts[name] = compared(name, said, tables)
        golden[name] = kept(tables).astype(np.result_type(tables[0], np.float32), copy=False)
    if missing := sorted({*CALLS} - {*facts}):
        raise SystemExit(f"not run, and nothing was written: {', '.join(missing)}")
    archive = STATEMENT.with_suffix(".npz")
    np.savez_compressed(archive, **golden)
    statement = {
        "name": STATEMENT.stem,
        "source": "the libraries' own functions, called as tools/conventions_calls.py says",
        "npz_sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "cases": dict(sorted(facts.items())),
    }
    STATEMENT.write_text(laid_out(statement), "utf-8")


_ORDERS = {
    ("interleaved", "sin-first"): "sin and cos alternate",
    ("interleaved", "cos-first"): "cos and sin alternate",
    ("concat", "sin-first"): "sines, then cosines",
    ("concat", "cos-first"): "cosines, then sines",
}
_PAIRS = {"half": "i and i + d/2", "interleaved": "2i and 2i + 1"}
_EXPONENTS = {"vaswani": "−2i/d", "tensor2tensor": "−i/(d/2 − 1)"}


def page() -> str:
    """Return the page from the stored measurements."""
    facts = json.loads(STATEMENT.read_text("utf-8"))["cases"]
    libraries = {name.partition(":")[0] for name in facts}
    rows = [_line(name, facts[name]) for name in sorted(facts, key=str.casefold)]
    return "\n".join(
        [_INTRODUCTION.format(functions=len(facts), libraries=len(libraries)), _HEAD, *rows, ""]
    )


_INTRODUCTION = """\
# What libraries compute

This table compares {functions} positional-encoding functions of {libraries} libraries. `python -m
tools.conventions` ran each function at the version shown, with 64 columns, 8 heads or a small grid.
`posenc generate --like NAME` writes the default table of a function, and other options change its
parameters:

```console
$ posenc generate --like diffusers:get_2d_sincos_pos_embed --set grid=32x32
$ posenc generate --like transformers:LlamaRotaryEmbedding --base 500000 --len 8192
```

Three columns need an explanation:

- *base*: the default, and the parameter that changes it;
- *length*: the default number of positions, and what happens at one more. "Any" was tested up to
  131,072 positions, or 1024 keys for a bias;
- *error*: the maximum absolute error at position 131,071, caused by rounding the angle to float32
  (float64 in Marian and GluonTS). The entries of grids and biases are empty, because grids do not
  have this position, and biases have no angle. Models use timesteps below 131,071, so the error of
  a timestep is smaller in practice.

All functions ran with their defaults, with these exceptions:

- `mlx`, `uni2ts`, `curated-transformers` and `x-transformers` multiply their tables by a factor.
  The comparison leaves out this factor. x-transformers learns it; the other three use √(2/d).
- `lightly` ran without a class token.
- `OpenNMT-py:PositionalEncoding` ran with `SinusoidalInterleaved`.
- `timm:RotaryEmbeddingCat` ran with coordinates instead of pixels, as EVA uses it.

posenc has no scheme for these functions:

- `kornia:PositionEncodingSine` (LoFTR) repeats the columns sin x, cos x, sin y, cos y.
- `demucs:create_2d_sin_embedding` alternates sin x and cos x, then sin y and cos y.
- `labml-nn:get_alibi_biases` counts keys from 1.
- `pytorch-forecasting:PositionalEncoder` uses different frequencies for the sine and the
  cosine of a pair, so its dot products do not depend on the distance alone.

In equinox, all `RotaryPositionalEmbedding` objects of one size share a table. This table has the
`theta` of the object that was called first.
"""
_HEADS = ("library", "function", "columns", "frequency i", "base", "first position", "length",
          "error", "options of posenc")  # fmt: skip
_HEAD = f"\n| {' | '.join(_HEADS)} |\n| {' | '.join('---' for _ in _HEADS)} |"


def _line(name: str, facts: Mapping[str, Any]) -> str:
    from posenc_cli.catalogue import BUILT_IN
    from posenc_cli.configs.library import find_function

    row, library = find_function(name), name.partition(":")[0]
    parameters = BUILT_IN[row.scheme].bind(dict(row.set)).params
    base = next(
        (f"{parameters[key]:.10g}" for key in ("base", "max_period") if parameters.get(key)), ""
    )
    said = f" (`{facts['base']}`)" if facts["base"] else ", fixed" if base else ""
    far = facts["far"]
    cells = [
        f"{library} {facts['version']}",
        f"`{name.partition(':')[2]}`",
        *_columns(row.scheme, parameters),
        base + said,
        "" if CALLS[name].grid or "alibi" in row.scheme else str(row.start),
        _length(facts) if "past" in facts else "grid size",
        "" if far is None else f"{far:.1e}",
        f"`{_options(row)}`",
    ]
    return f"| {' | '.join(cells)} |"


def _columns(scheme: str, parameters: Mapping[str, Any]) -> tuple[str, str]:
    """Return where sines and cosines are, and the formula of their frequencies."""
    if scheme == "sinusoidal":
        order = _ORDERS[parameters["layout"], parameters["order"]]
        return order, f"base^({_EXPONENTS[parameters['spacing']]})"
    if scheme == "timestep":
        shift = parameters["downscale_freq_shift"]
        order = _ORDERS["concat", "cos-first" if parameters["flip_sin_to_cos"] else "sin-first"]
        scale = f"{parameters['scale']:g} · " if parameters["scale"] != 1 else ""
        return order, f"{scale}base^({_EXPONENTS['tensor2tensor' if shift else 'vaswani']})"
    if scheme == "alibi":
        return f"[{parameters['form']}](schemes/alibi.md)", "slopes 2^(−8h/H)"
    if "convention" in parameters and scheme != "xpos":
        return f"[{parameters['convention']}](schemes/{scheme}.md)", "per axis"
    pairs = (
        f"dimensions {_PAIRS[parameters['layout']]}"
        if "layout" in parameters
        else "dimensions 2i and 2i + 1"
    )
    rule = "" if scheme == "rope" else f", [{scheme}](schemes/{scheme}.md)"
    return pairs, f"base^(−2i/d){rule}"


def _length(facts: Mapping[str, Any]) -> str:
    if facts["room"] is None:
        return "any"
    past = facts["past"]
    then = f"returns only {past} rows" if past.isdecimal() else f"raises {past}"
    return f"{facts['room']}, then {then}"


def _options(row: Any) -> str:
    """Return the options of posenc generate that make a table."""
    parts = [f"--scheme {row.scheme}"]
    parts += [
        f"--{key} {value}" if key in ("base", "layout", "dim", "heads") else f"--set {key}={value}"
        for key, value in row.set.items()
    ]
    parts += [f"--table {row.table}"] if row.table else []
    return " ".join([*parts, *([f"--start {row.start}"] if row.start else [])])


def main(arguments: list[str]) -> int:
    """Measure and write the page, or check it; return 1 if it is not current."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--environments", type=Path, help="where environments are made, and kept")
    chosen = parser.parse_args(arguments)
    if chosen.check:
        return int(PAGE.read_text("utf-8") != page())
    with tempfile.TemporaryDirectory() as temporary:
        measure((chosen.environments or Path(temporary)).resolve())
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
