"""What ``posenc dot-similarity`` looks at, and how it tells of it.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from posenc_cli.analysis.profile import Profile
from posenc_cli.analysis.similarity import similarity, similarity_of_array
from posenc_cli.analysis.verdict import Verdict, verdict
from posenc_cli.cli.choosing import check_subject
from posenc_cli.cli.pictures import page_of, said
from posenc_cli.cli.pictures import show as show_picture
from posenc_cli.cli.progress import with_overflow_warning, with_progress
from posenc_cli.encode.engine import Engine, threads_for
from posenc_cli.encode.precision import Precision
from posenc_cli.encode.request import Request
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files.matrix import Matrix
from posenc_cli.files.reading import read_array
from posenc_cli.files.save import save
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.numerics.rounding import narrow
from posenc_cli.records import Record, replace
from posenc_cli.render.similarities import (
    maps_figure,
    profile_figure,
    sentences,
    similarity_fields,
    similarity_figure,
)
from posenc_cli.render.terminal import LOWEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from posenc_cli.analysis.similarity import Similarity
    from posenc_cli.cli.choosing import Choice
    from posenc_cli.cli.console import Console
    from posenc_cli.cli.options import OutputOptions
    from posenc_cli.cli.pictures import PictureOptions
    from posenc_cli.files.declare import Format
    from posenc_cli.files.save import Saved
    from posenc_cli.numerics.dtypes import DType

_PANEL, _WIDEST = 825, 9600
"""Pixels of a panel of a figure in a file, and of all side by side."""

_CURVE_HEIGHT = 13
_POINTS = 320
"""Points of a curve in the terminal."""

_LOWEST_MAP, _HIGHEST_MAP = 22, 44
"""Lines of a map that is not for a screen, within these."""

_BESIDE = 76
"""Columns from which a map and a curve stand side by side."""


class SimilarityRequest(Record):
    """A similarity, what computes it, and what was asked for."""

    similarity: Similarity
    engine: Engine
    asked: Mapping[str, Any]

    @property
    def metadata(self) -> dict[str, str]:
        """What goes with its values in a file."""
        told = {"quantity": self.similarity.quantity, **self.asked}
        return {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in told.items()
            if value is not None
        }


class Judged(Record):
    """A subject and the verdict on it."""

    subject: SimilarityRequest
    verdict: Verdict

    @property
    def pair(self) -> tuple[Similarity, Verdict]:
        """The similarity and its verdict."""
        return self.subject.similarity, self.verdict


def subjects(
    choice: Choice | None,
    source: str | None,
    *,
    content: str | None,
    normalize: str,
    head: int | None,
) -> list[SimilarityRequest]:
    """What is looked at: a file, or an encoding, of a hybrid each of its parts.

    Raises: InvalidInput, Unavailable: options contradict each other, or the file cannot be read.
    """
    check_subject(choice, source)
    if source is not None:
        return [_of_file(source, content=content, normalize=normalize, head=head)]
    assert choice is not None
    parts = choice.parts or (choice,)
    for flag, value, kind in (("--content", content, "rotary"), ("--head", head, "bias")):
        if value is not None and all(part.scheme.kind != kind for part in parts):
            kinds = " and ".join(dict.fromkeys(part.scheme.kind for part in parts))
            raise InvalidInput(
                f"{flag} {value}: goes with {kind} schemes; {choice.name} is {kinds}"
            )
    return [_of_part(part, content=content, normalize=normalize, head=head) for part in parts]


def _of_file(
    source: str, *, content: str | None, normalize: str, head: int | None
) -> SimilarityRequest:
    for flag, value in (("--content", content), ("--head", head)):
        if value is not None:
            raise InvalidInput(f"{flag} {value}: cannot go with --in, whose rows are as they are")
    loaded = read_array(source)
    of = similarity_of_array(
        loaded.values,
        loaded.dtype,
        name=quoted_name(source),
        normalize=normalize,  # type: ignore[arg-type]
    )
    shape = list(loaded.values.shape)
    asked = {"in": source, "shape": shape, "dtype": loaded.dtype, "normalize": normalize}
    return SimilarityRequest(of, Engine(threads=threads_for(of.count**2, None)), asked)


def _of_part(
    part: Choice, *, content: str | None, normalize: str, head: int | None
) -> SimilarityRequest:
    kind = part.scheme.kind
    request = Request(
        encoding=part.encoding(),
        positions=part.positions,
        precision=Precision.of(FLOAT64, None),
        head=(head or 0) if kind == "bias" else None,
    )
    engine = part.engine(request.plan())
    held = (content or "ones") if kind == "rotary" else None
    of = similarity(
        request,
        engine,
        content=held or "ones",  # type: ignore[arg-type]
        normalize=normalize,  # type: ignore[arg-type]
    )
    engine = replace(engine, threads=threads_for(of.count**2, part.threads))
    told = request.description()
    asked = {name: told[name] for name in ("scheme", "params", "positions", "head", "weights")}
    return SimilarityRequest(of, engine, {**asked, "content": held, "normalize": normalize})


def single(chosen: Sequence[SimilarityRequest], output: OutputOptions) -> SimilarityRequest:
    """The one subject that a file of numbers can hold.

    Raises: InvalidInput where there are several.
    """
    if len(chosen) > 1:
        raise InvalidInput(
            f"--out {output.place}: holds one matrix, and these are {len(chosen)}",
            hint="write them one by one, or draw them: --out similarity.png",
        )
    return chosen[0]


def judged(chosen: Sequence[SimilarityRequest], console: Console) -> list[Judged]:
    """The verdict on each, with a warning of what is not finite."""
    found = [Judged(subject, verdict(subject.similarity)) for subject in chosen]
    for each in found:
        looked = "" if each.verdict.measured_all else " looked at"
        if each.verdict.dropped:
            console.warning(
                f"{each.subject.similarity.name}: {each.verdict.dropped} of {each.verdict.pairs} "
                f"products{looked} are not finite, and left out"
            )
    return found


def show(
    found: Sequence[Judged],
    options: PictureOptions,
    output: OutputOptions,
    console: Console,
    *,
    profile: bool,
) -> None:
    """Print the maps, the curves and the verdicts.

    On a terminal they fill its screen, the map beside the curve where that is wide enough.
    """
    pairs = [each.pair for each in found]
    profile = profile or _of_means_alone(found)
    words = [said(sentences(*pair), options, console) for pair in pairs]
    page = page_of(options, console)
    if sys.stdout.isatty() and options.height is None:
        rest: int | None = max(LOWEST, page.height - sum(map(len, words)))
    else:
        rest = page.height if options.height is not None else None
    if len(pairs) == 1 and not profile and rest is not None and page.width >= _BESIDE:
        both = replace(options, height=rest)
        show_picture(similarity_figure(pairs), both, output, console)
        print("\n".join(words[0]))
        return
    curve = _CURVE_HEIGHT
    if rest is not None:
        shares = len(pairs) + (not profile)
        curve = max(LOWEST, rest if shares == 1 else min(rest // shares, _CURVE_HEIGHT))
    if not profile:
        lines = max(_LOWEST_MAP, min(console.height - _CURVE_HEIGHT - 6, _HIGHEST_MAP))
        if rest is not None:
            lines = max(LOWEST, rest - curve * len(pairs))
        show_picture(maps_figure(pairs), replace(options, height=lines), output, console)
    curves = replace(options, height=curve)
    for (of, told), lines_of_words in zip(pairs, words, strict=True):
        show_picture(profile_figure(of, told, most=_POINTS), curves, output, console)
        print("\n".join(lines_of_words))


def draw(
    found: Sequence[Judged],
    options: PictureOptions,
    output: OutputOptions,
    console: Console,
    *,
    profile: bool,
) -> None:
    """Save the maps and the curves as a figure."""
    profile = profile or _of_means_alone(found)
    figure = similarity_figure([each.pair for each in found], profile_alone=profile)
    usual = None
    if not profile or len(found) > 1:
        columns, rows = max(len(found), 1 if profile else 2), 1
        if len(found) > 1 and not profile:
            rows = 2
        usual = (min(_PANEL * columns, _WIDEST), _PANEL * rows)
    show_picture(figure, options, output, console, usual=usual)


def _of_means_alone(found: Sequence[Judged]) -> bool:
    """Whether there is no map to see: all are means that are 0 everywhere."""
    return all(each.subject.similarity.content == "independent" for each in found)


def fields(found: Sequence[Judged]) -> Mapping[str, Any]:
    """What was asked and what was found, as JSON has it; of several encodings, of each."""
    each = [{**one.subject.asked, **similarity_fields(*one.pair)} for one in found]
    return each[0] if len(each) == 1 else {"parts": each}


def save_values(
    subject: SimilarityRequest,
    output: OutputOptions,
    form: Format,
    dtype: DType,
    console: Console,
    *,
    profile: bool,
) -> Saved:
    """Write the matrix, or its values by offset."""
    if subject.similarity.content == "independent":
        raise InvalidInput(
            f"--out {output.place}: of independent q and k there are a mean, which is 0 "
            "everywhere, and a deviation; no matrix",
            hint="--json has both, and --out similarity.png draws them",
        )
    matrix = _profile(subject, dtype) if profile else _matrix(subject, dtype)
    matrix = replace(matrix, header=profile and not form.binary)
    if not isinstance(subject.similarity.source, Profile):
        matrix = with_overflow_warning(matrix, console)
    if console.shows_progress and not output.to_stdout:
        matrix = with_progress(matrix, sys.stderr)

    def announce(saved: Saved) -> None:
        size = " × ".join(map(str, matrix.shape))
        what = " by offset" if profile else ""
        console.summary(
            f"wrote {output.place}: {subject.similarity.name}, {subject.similarity.quantity}"
            f"{what}, {size} {dtype.name}, {saved.bytes} bytes"
        )

    return save(matrix, output.out or "", format=form, clobber=output.clobber, announce=announce)


def _matrix(subject: SimilarityRequest, dtype: DType) -> Matrix:
    of = subject.similarity
    return Matrix(
        shape=(of.count, of.count),
        dtype=dtype,
        blocks=lambda: of.blocks(dtype, subject.engine),
        metadata=subject.metadata,
    )


def _profile(subject: SimilarityRequest, dtype: DType) -> Matrix:
    found = verdict(subject.similarity)

    def blocks() -> Iterator[NDArray[Any]]:
        yield narrow(found.profile, None, dtype)

    return Matrix(
        shape=found.profile.shape,
        dtype=dtype,
        blocks=blocks,
        metadata=subject.metadata,
        row_labels=lambda: iter(found.offsets.tolist()),
        row_label="offset",
    )
