"""``posenc emit``: test vectors for ports of an encoding in any language."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.choice import Choice
from posenc_cli.cli.choosing import required_choice
from posenc_cli.cli.commands.rope_check import TOLERANCE
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import (
    LARGEST_SEED,
    Json,
    argument,
    completed_from,
    option,
    refuse,
    some_of,
    whole_option,
)
from posenc_cli.errors import InvalidInput, quoted_name, sizes_text
from posenc_cli.examples import READERS
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32
from posenc_cli.render.typesetting import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.vectors.pack import VectorPack
    from posenc_cli.vectors.pack_folder import PackComparison

FORMATS = {dtype.name: dtype for dtype in (FLOAT32, BFLOAT16, FLOAT16)}


def emit(
    choice: Choice | None,
    console: Console,
    result: Annotated[
        str | None,
        argument(metavar="[Y]", help="with --check: the output of your code for x"),
    ] = None,
    *,
    out: Annotated[
        str | None,
        option("--out", "-o", metavar="DIR", help="the folder of the test vectors, new or empty"),
    ] = None,
    check: Annotated[
        str | None,
        option(
            "--check",
            metavar="DIR",
            help="compare Y with the expected outputs in DIR; status 1 if Y is wrong",
        ),
    ] = None,
    reader: Annotated[
        Any,
        option(
            "--reader",
            metavar="NAME",
            help=f"add a reader program that calls your code: {','.join(READERS)}",
            parse=partial(some_of, known=READERS),
            autocompletion=completed_from(READERS),
        ),
    ] = (),
    dtype: Annotated[
        str,
        option(
            "--dtype",
            known=FORMATS,
            help=f"round y to {'|'.join(FORMATS)}; y is stored as float32",
        ),
    ] = "float32",
    tol: TOLERANCE = "auto",
    seed: Annotated[
        int, whole_option("--seed", minimum=0, most=LARGEST_SEED, help="seed of x")
    ] = 0,
    as_json: Json = False,
) -> int:
    """Write test vectors for a port, or check its results.

    posenc writes a folder of JSON and .npy files. They hold positions, input vectors x, expected
    outputs y, the tolerance of each value, and tables. In any language, about thirty lines of code
    can read this folder. For a bias, y holds the scores. The file pack.json says how many known
    bugs the vectors detect.

    Without --len or --positions, posenc chooses positions that expose many bugs. The same request
    always produces the same bytes. posenc rope-check --help explains --tol.

    Examples:
      posenc emit -m llama-3-8b --out pack
      posenc emit -s rope -d 128 --layout half --reader c,rust --out port
      posenc emit --config config.json --dtype bfloat16 --out halves
      posenc apply -m llama-3-8b --in pack/x.npy --positions pack/positions.npy --out y.npy
      posenc emit --check pack y.npy
    """
    if check is not None:
        own = {"--reader": bool(reader), "--dtype": dtype != "float32", "--tol": tol != "auto"}
        refuse(own | {"--seed": seed > 0}, "needs --out, which writes test vectors")
        return _check(choice, check, result, out, console, as_json=as_json)
    if result is not None:
        raise InvalidInput(
            f"{quoted_name(result)} needs --check DIR, the test vectors to compare with",
            hint="to write test vectors, name an encoding with --scheme, --model or --config",
        )
    chosen = required_choice(choice)
    if out is None:
        raise InvalidInput("--out is missing; name the folder for the test vectors")
    from posenc_cli.vectors.pack import VectorPack
    from posenc_cli.vectors.pack_folder import write_pack

    pack = VectorPack.of(chosen, seed=seed, dtype=FORMATS[dtype], rule=tol)
    why = "left out, because it changes scores, not vectors"
    console.warning(*(f"{part}: {why}" for part in pack.content.left_out))
    manifest = write_pack(pack, out, reader)
    if as_json:
        fields = {name: value for name, value in manifest.items() if name != "schema"}
        console.json("emit", {"path": out, **fields})
    else:
        console.done(_summary(pack, out, manifest))
    return 0


def _summary(pack: VectorPack, out: str, manifest: Mapping[str, Any]) -> str:
    """Return a summary of the files written, and of the known bugs that the vectors detect."""
    content = pack.content
    text = (
        f"wrote {quoted_name(out)}: {content.text}, {sizes_text(content.shape, ' × ')} "
        f"{content.dtype.name}, positions "
        f"{content.positions.min()} to {content.positions.max()}, {len(manifest['files']) + 1} "
        f"files; {pack.score}"
    )
    survivors = len(pack.known) - pack.detected
    if survivors:
        text += f" ({survivors} undetected: pack.json says why)"
    return text


def _check(
    choice: Choice | None,
    pack: str,
    result: str | None,
    out: str | None,
    console: Console,
    *,
    as_json: bool,
) -> int:
    """Compare a result with a pack."""
    if choice is not None or out is not None:
        other = "--out" if choice is None else "--scheme, --config or --model"
        raise InvalidInput(f"--check cannot go with {other}: the folder names its own encoding")
    if result is None:
        raise InvalidInput(
            "--check needs the output of your code for x.npy",
            hint=f"posenc emit --check {pack} FILE",
        )
    from posenc_cli.vectors.pack_folder import compare_with_pack

    comparison = compare_with_pack(pack, result)
    answer = _comparison_answer(comparison)
    console.either(
        "emit",
        lambda: {**answer.fields(), **comparison.fields},
        lambda: answer.text(console.typesetter),
        as_json=as_json,
    )
    return 0 if comparison.ok else 1


def _comparison_answer(comparison: PackComparison) -> Answer:
    """Return the comparison of a result with a pack, in words."""
    name, pack = quoted_name(comparison.path), quoted_name(comparison.pack)
    if comparison.ok:
        within = f"{comparison.worst:.2g} times the tolerance"
        told = f"ok: {name} matches {pack}: all {comparison.values} values, within {within}"
        return Answer(True, told)
    place = f"row {comparison.row}, column {comparison.column} (position {comparison.position})"
    right = f"{comparison.right:.9g} ± {comparison.tolerance:.2g}"
    causes = [f"{cause}: {message}" for cause, message in comparison.causes]
    files = f"--positions {comparison.pack}/positions.npy --rotated {comparison.pack}/x.npy"
    wrong = f"{comparison.wrong} of {comparison.values} values"
    return Answer(
        False,
        f"FAILED: {name} does not match {pack}: {wrong} are wrong",
        "; or ".join(causes) or "unknown: no known bug produces these values",
        f"largest error: {place} is {comparison.given:.9g}, not {right}",
        None if causes else f"run posenc check … {files} {comparison.path} to see where",
    )
