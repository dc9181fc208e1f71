"""Write the generated parts of README.md, or check that they are up to date (--check).

What is derived from declarations stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.report import readme_section
from posenc_cli.backends import registry
from posenc_cli.catalogue import BUILT_IN
from posenc_cli.checks.codes import FindingName, SubjectKind
from posenc_cli.configs import library
from posenc_cli.files.formats import FORMATS
from posenc_cli.formulas.tables import ROTARY_TABLES
from posenc_cli.inference.causes import Cause
from tests.checks.mutants_table import mutants_markdown

if TYPE_CHECKING:
    from posenc_cli.formulas.parameters import Parameter

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
RESULT = ROOT / "benchmarks" / "results" / "measured.json"


def _table(header: str, rows: list[list[str]]) -> str:
    columns = header.count("|") + 1
    cells = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    lines = [header, " | ".join(["---"] * columns), *cells]
    return "\n".join(f"| {line} |" for line in lines)


def _parameter(parameter: Parameter) -> str:
    return f"`{parameter.name}={parameter.default_text}`".replace("=`", "`")


def schemes() -> str:
    """The table of schemes."""
    rows = [
        [
            f"`{scheme.name}`",
            scheme.kind,
            scheme.summary.rstrip("."),
            " ".join(map(_parameter, scheme.parameters.values())),
        ]
        for scheme in BUILT_IN.values()
    ]
    return _table("scheme | kind | what it is | parameters and defaults", rows)


def tables() -> str:
    """The matrices that each kind of scheme gives, and the tables of rotary ones."""
    rows = [[f"`--table {name}`", shape] for name, shape in ROTARY_TABLES.items()]
    return _table("rotary | shape and content", rows)


def formats() -> str:
    """The table of file formats."""
    rows = [[f"`{each.suffix}`", each.summary] for each in FORMATS.values()]
    return _table("suffix | content", rows)


def backends() -> str:
    """The table of backends."""
    rows = [
        [
            f"`{name}`",
            f"`pip install 'posenc-cli[{each.extra}]'`" if each.extra else "",
            each.summary,
        ]
        for name, each in registry.BUILT_IN.items()
    ]
    return _table("backend | needs | what it is", rows)


def models() -> str:
    """The names of the models."""
    return textwrap.fill(
        " ".join(f"`{name}`" for name in library.names()), 140, break_on_hyphens=False
    )


def mutants() -> str:
    """The wrong implementations of the test suite, and what rope-check says of each."""
    return mutants_markdown()


def codes() -> str:
    """The words of rope-check's reports."""
    tables = (
        ("cause", Cause),
        ("finding (`check`)", FindingName),
        ("subject (`kind`)", SubjectKind),
    )
    return "\n\n".join(
        _table(f"{header} | what it means", [[f"`{code}`", code.meaning] for code in kind])
        for header, kind in tables
    )


def performance() -> str:
    """What the benchmark printed, from its saved result."""
    return readme_section(json.loads(RESULT.read_text()))


GENERATED = {"schemes": schemes, "tables": tables, "formats": formats}
GENERATED |= {
    "codes": codes,
    "mutants": mutants,
    "models": models,
    "backends": backends,
    "performance": performance,
}


def main(check: bool) -> int:
    """Rewrite the README, or give status 1 where that would change it."""
    old = README.read_text()
    new = old
    for name, text in GENERATED.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        before, _, rest = new.partition(begin)
        after = rest.partition(end)[2]
        new = f"{before}{begin}\n{text()}\n{end}{after}"
    if check and new != old:
        print("README.md: the generated parts are out of date; run make format", file=sys.stderr)
        return 1
    README.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
