"""Write the generated parts of README.md and docs/, or check that they are up to date (--check).

Text derived from declarations is between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``. posenc
draws the pictures in docs/images. Those of the gallery take a minute or two: --gallery also draws
or checks them.
"""

import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.report import performance_markdown, truths
from posenc_cli.backends import native, registry
from posenc_cli.catalogue import BUILT_IN
from posenc_cli.checks.known_bugs import rotations
from posenc_cli.checks.known_bugs.bug import BugCode
from posenc_cli.checks.search import KNOWN_BUGS
from posenc_cli.cli.app import GROUPS
from posenc_cli.cli.command_line import function_of
from posenc_cli.configs import library
from posenc_cli.configs.config import resolve
from posenc_cli.configs.engines.runtimes import DIFFERENCES, RUNTIMES
from posenc_cli.files.formats import FORMATS
from posenc_cli.formulas.declare import Scheme
from posenc_cli.formulas.parameters import Parameter
from posenc_cli.formulas.tables import ROTARY_TABLES
from posenc_cli.inference.codes import Cause, FindingName, SubjectKind
from tests.diagnosis.mutants_table import caught, mutants_markdown, passing_markdown
from tools import gallery, ledger, screenshot

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
VIEWS = ("heatmap", "dot-similarity", "spectrum")
"""The pictures of each scheme in the gallery."""
_OWN = 2
"""The schemes whose pages describe a difference between engines."""
SCHEME_PAGES = ROOT / "docs" / "schemes"
MODEL_LAYERS = ROOT / "posenc_cli" / "inference" / "model_layers.json"
IMAGES = ROOT / "docs" / "images"
RESULT = ROOT / "benchmarks" / "results" / "measured.json"


def _table(header: str, rows: list[list[str]]) -> str:
    columns = header.count("|") + 1
    cells = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    lines = [header, " | ".join(["---"] * columns), *cells]
    return "\n".join(f"| {line} |" for line in lines)


def _parameter(parameter: Parameter) -> str:
    return f"`{parameter.name}={parameter.default_text}`".replace("=`", "`")


def commands() -> str:
    """Return the commands by group, each with the first sentence of its help."""
    rows = [
        [
            group if name == names[0] else "",
            f"`{name}`",
            (function_of(name).__doc__ or "").split("\n")[0],
        ]
        for group, names in GROUPS.items()
        for name in names
    ]
    return _table(" | command | what it does", rows)


def schemes() -> str:
    """Return the table of schemes."""
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
    """Return the matrices of each kind of scheme, and the tables of rotary schemes."""
    rows = [[f"`--table {name}`", shape] for name, shape in ROTARY_TABLES.items()]
    return _table("rotary | shape and content", rows)


def formats() -> str:
    """Return the table of file formats."""
    rows = [[f"`{each.suffix}`", each.summary] for each in FORMATS.values()]
    return _table("suffix | content", rows)


def backends() -> str:
    """Return the table of backends."""
    rows = [
        [f"`{name}`", f"`pip install {each.extra}`" if each.extra else "", each.summary]
        for name, each in registry.BUILT_IN.items()
    ]
    cost = f"Without the kernel, {native.COST} ([measured](performance.md))."
    return f"{_table('backend | needs | what it is', rows)}\n\n{cost}"


def models() -> str:
    """Return the models by the scheme of their layers."""
    rows = [[_code(scheme), " ".join(names)] for scheme, names in _models_by_scheme().items()]
    return _table("scheme | models", rows)


def engines() -> str:
    """Return the engines, their versions, and the model types traced through their code."""
    rows = [
        [f"`{runtime.name}`", runtime.version, " ".join(map(_code, sorted(runtime.model_types)))]
        for runtime in RUNTIMES.values()
    ]
    rows[0][-1] = "all types that posenc reads"
    return _table("engine | version | model types", rows)


def _evidence(evidence: str) -> str:
    """Return a link to the file of a difference, or to the folder if each model has a file."""
    folder, _, file = evidence.rpartition("/")
    if "{" not in file:
        return f"[{file}]({evidence})"
    return f"a file in [{folder.rpartition('/')[2]}]({folder.replace('/blob/', '/tree/')})"


def departures() -> str:
    """Return the differences of each engine from transformers, with their evidence."""
    rows = [
        [
            f"`{each.runtime}`",
            each.topic,
            " ".join(map(_code, sorted(each.schemes))),
            each.what.replace("this model", "some models"),
            _evidence(each.evidence),
        ]
        for each in sorted(DIFFERENCES, key=lambda each: [*RUNTIMES].index(each.runtime))
    ]
    return _table("engine | topic | schemes | difference | evidence", rows)


def _code(name: str) -> str:
    return f"`{name}`"


def codes() -> str:
    """Return the words of rope-check's reports."""
    tables = (
        ("cause", Cause),
        ("finding (`check`)", FindingName),
        ("subject (`kind`)", SubjectKind),
    )
    return "\n\n".join(
        _table(f"{header} | what it means", [[f"`{code}`", code.meaning] for code in kind])
        for header, kind in tables
    )


def bugs() -> str:
    """Return the known bugs of `posenc check`, and where each was seen."""
    codes = _table("cause | what it means", [[f"`{code}`", code.meaning] for code in BugCode])
    rows = [
        [f"`{bug.code}`", ", ".join(bug.forms), bug.remedy, bug.seen]
        for bug in (*KNOWN_BUGS, *rotations.BUGS)
    ]
    return f"{codes}\n\n{_table('cause | applies to | what to do | seen in', rows)}"


def performance() -> str:
    """Return the benchmark's output from its saved result."""
    return performance_markdown(json.loads(RESULT.read_text()))


def truth() -> str:
    """Return posenc's claims beside the usual code."""
    error, *speeds = truths(json.loads(RESULT.read_text()))
    return _table("what | posenc | alternatives", [error, caught(), *speeds])


def _rows(pairs: dict[str, list[str]]) -> list[str]:
    """Lists under their names, but for empty ones."""
    return [f"**{name}:** {', '.join(items)}" for name, items in pairs.items() if items]


def _models_by_scheme() -> dict[str, list[str]]:
    """Return the models that use each scheme."""
    found: dict[str, list[str]] = {}
    for name in library.names():
        for group in resolve(library.find(name).config, name=name).layers:
            found.setdefault(group.scheme, []).append(_code(name))
    return {scheme: [*dict.fromkeys(names)] for scheme, names in found.items()}


def scheme_page(scheme: Scheme, known: list[str]) -> str:
    """Return the page of an encoding: formula, pictures, engines, models and commands."""
    drawn = [name for name in gallery.files() if name.startswith(f"{scheme.name}-")]
    views = [name for view in VIEWS if (name := f"{scheme.name}-{view}-light.png") in drawn]
    engines = [
        f"`{each.runtime}` {each.what.replace('this model', 'some models')} "
        f"({_evidence(each.evidence)})"
        for each in DIFFERENCES
        if scheme.name in each.schemes and len(each.schemes) <= _OWN
    ]
    parameters = [
        [_parameter(parameter), parameter.rules.help, parameter.rules.source or ""]
        for parameter in scheme.parameters.values()
    ]
    commands = [f"posenc schemes {scheme.name}", *(_shown(scheme.name, view) for view in views)]
    blocks = [
        f"# {scheme.name}",
        f"{scheme.summary} ({scheme.kind})",
        f"```text\n{scheme.formula}\n```" if scheme.formula else "",
        *(f"![{_shown(scheme.name, name)}](../{gallery.FOLDER}/{name})" for name in views),
        scheme.convention or "",
        _table("parameter and default | meaning | source", parameters) if parameters else "",
        *_rows({"Source": [scheme.source] if scheme.source else [], "Models": known}),
        "## Engines that differ\n\n"
        + "\n".join(f"- {each}" for each in engines)
        + "\n\n[Engines](../engines.md) lists all differences."
        if engines
        else "",
        "## Commands\n\n```sh\n" + "\n".join(commands) + "\n```",
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _shown(scheme: str, picture: str) -> str:
    """Return the command of a picture of the gallery."""
    view = picture.removeprefix(f"{scheme}-").removesuffix("-light.png")
    return f"posenc {gallery.scheme_command(scheme, view)}"


def scheme_pages() -> dict[Path, str]:
    """Return the page of each encoding, and their list."""
    known = _models_by_scheme()
    pages = {
        SCHEME_PAGES / f"{scheme.name}.md": scheme_page(scheme, known.get(scheme.name, []))
        for scheme in BUILT_IN.values()
    }
    rows = [
        [f"[{each.name}]({each.name}.md)", each.kind, each.summary] for each in BUILT_IN.values()
    ]
    listed = f"# Encodings, one by one\n\n{_table('scheme | kind | what it is', rows)}\n"
    return {SCHEME_PAGES / "index.md": listed, **pages}


_PARTS = (
    *(commands, schemes, tables, formats, backends, models, engines, departures, codes, bugs),
    *(truth, performance),
)
_OTHERS = {
    "mutants": mutants_markdown,
    "passing": passing_markdown,
    "pictures": gallery.markdown,
}
GENERATED = {part.__name__: part for part in _PARTS} | _OTHERS | ledger.PARTS

SCREENSHOTS = {
    "heatmap.png": "heatmap --scheme sinusoidal --len 128",
    "rope-check.png": "rope-check -m llama-3.1-8b -l 4096 --impl posenc_cli.examples.llama:rotate",
}
FIGURES = {"spectrum.png": "spectrum --model llama-3.1-8b --width 1000 --height 560"}


def written(page: str) -> str:
    """Return a page with its generated parts written again.

    Raises: KeyError for an unknown part.
    """
    return re.sub(
        r"(<!-- begin (\w+) -->\n).*?(<!-- end \2 -->)",
        lambda part: f"{part[1]}{GENERATED[part[2]]()}\n{part[3]}",
        page,
        flags=re.DOTALL,
    )


def draw_images(folder: Path) -> None:
    """Draw every picture that the pages show into a folder."""
    for name, command in SCREENSHOTS.items():
        output = screenshot.printed(shlex.split(command))
        screenshot.draw(f"posenc {command}", output, folder / name)
    for name, command in FIGURES.items():
        posenc = [sys.executable, "-m", "posenc_cli", *shlex.split(command)]
        subprocess.run([*posenc, "--quiet", "--out", folder / name], check=True)


def stale_images() -> list[Path]:
    """Return the pictures that posenc now draws differently."""
    with tempfile.TemporaryDirectory() as folder:
        draw_images(Path(folder))
        return [
            IMAGES / name
            for name in (*SCREENSHOTS, *FIGURES)
            if not _look_alike(IMAGES / name, Path(folder, name))
        ]


def stale_gallery() -> list[Path]:
    """Return the pictures of the gallery that posenc now draws differently, or not at all."""
    folder = ROOT / "docs" / gallery.FOLDER
    with tempfile.TemporaryDirectory() as drawn:
        gallery.draw(Path(drawn))
        new = {path.name for path in Path(drawn).iterdir()}
        gone = {path.name for path in folder.glob("*")} - new
        stale = [name for name in new if not _look_alike(folder / name, Path(drawn, name))]
        return [folder / name for name in sorted({*gone, *stale})]


def draw_gallery() -> None:
    """Draw the gallery, and drop what is no more in it."""
    folder = ROOT / "docs" / gallery.FOLDER
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*"):
        if path.name not in gallery.files():
            path.unlink()
    gallery.draw(folder)


def _look_alike(one: Path, other: Path) -> bool:
    """Return whether two pictures are equal except for the smoothed edges of letters.

    A quarter of a pixel moves the mean of 4 × 4 pixels by 18 of 255, another digit by 27 and more.
    """
    if not one.exists():
        return False
    first, second = (
        np.asarray(Image.open(path).convert("RGB").reduce(4), np.int16) for path in (one, other)
    )
    return first.shape == second.shape and int(np.abs(first - second).max()) < 22


def model_layers() -> str:
    """Return the encodings of all models, which ``posenc identify`` reads."""
    rows = [
        json.dumps([name, own.layer_type, own.scheme, own.values()])
        for name in library.names()
        for own in resolve(library.find(name).config, name=name).layers
    ]
    return "[\n" + ",\n".join(rows) + "\n]\n"


def main(check: bool, *, with_gallery: bool = False) -> int:
    """Rewrite the pages and their pictures, or give status 1 where that would change them."""
    pages = {path: path.read_text("utf-8") for path in PAGES}
    changed = {path: new for path, old in pages.items() if (new := written(old)) != old}
    if (layers := model_layers()) != MODEL_LAYERS.read_text("utf-8"):
        changed[MODEL_LAYERS] = layers
    schemes = scheme_pages()
    there = {path: path.read_text("utf-8") for path in SCHEME_PAGES.glob("*.md")}
    gone = [path for path in there if path not in schemes]
    changed |= {path: text for path, text in schemes.items() if there.get(path) != text}
    stale = stale_images()
    if check:
        stale += stale_gallery() if with_gallery else []
        remedy = "make gallery DRAW=1" if with_gallery else "make format"
        for path in (*changed, *gone, *stale):
            print(f"{path.relative_to(ROOT)}: out of date; run {remedy}", file=sys.stderr)
        return int(bool(changed or gone or stale))
    SCHEME_PAGES.mkdir(exist_ok=True)
    for path in gone:
        path.unlink()
    for path, text in changed.items():
        path.write_text(text, "utf-8")
    if stale:
        draw_images(IMAGES)
    if with_gallery:
        draw_gallery()
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:], with_gallery="--gallery" in sys.argv[1:]))
