"""The causes of parts of a subject: rows from some position on, some of the pairs, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.claims import Claim
from posenc_cli.diagnosis.defects import Defect, holds
from posenc_cli.diagnosis.localise import Rightness, localise
from posenc_cli.diagnosis.uninitialised_rows import unwritten_rows_cause
from posenc_cli.diagnosis.wording import either, pairs_text, spec, together, words_of
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.position_maps import position_maps
from posenc_cli.positions import ordinal
from posenc_cli.records import replace
from posenc_cli.rotary.residual import Residual
from posenc_cli.rotary.verdict import MOST, Explanation, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.diagnosis.localise import Localisation, Regime
    from posenc_cli.diagnosis.wording import Suspect

_MOST_LEFT = 0.5
"""Of the wrong rows: parts that leave more of them unknown do not tell what is wrong, as where the
rows of one block happen to be right but for a sign."""

_ONE_PAIR = 1e-3
"""What may be left over of one pair that is said to stand at other positions: of a turn, less than
one of thousands of positions gives by chance."""


def regime_causes(suspect: Suspect) -> list[Explanation]:
    """The causes of rows, or pairs, that are wrong in ways of their own."""
    whole, sample = suspect.whole, suspect.sample
    right = Claim(Defect(), sample.reference.scale)
    rightness = Rightness.of(whole, right)
    if not _ascend(suspect):
        return []
    moved = _moved_pairs(suspect, rightness)
    if moved:
        return moved
    first_wrong = int(np.argmin(rightness.rows))
    unwritten = unwritten_rows_cause(suspect, first_wrong) if first_wrong else None
    if unwritten is not None:
        return [unwritten]
    found = localise(whole, rightness)
    if not found.regimes or _is_chance(found, rightness):
        return []
    causes: list[Explanation] = []
    for regimes in _alike_regimes(found):
        causes += _regime_words(regimes, suspect, found)
    return causes if found.complete else _with_the_rest(causes, found, suspect, rightness)


def _with_the_rest(
    causes: list[Explanation], found: Localisation, suspect: Suspect, rightness: Rightness
) -> list[Explanation]:
    """The causes of parts and that of the rows after them; none where most wrong rows are left."""
    unwritten = unwritten_rows_cause(suspect, found.regimes[-1].rows.stop)
    if unwritten is not None:
        return [*causes[: MOST - 1], unwritten]
    wrong = int(np.count_nonzero(~rightness.rows))
    rest = wrong - sum(regime.rows.count for regime in found.regimes)
    if rest > _MOST_LEFT * wrong:
        return []
    if rest <= 0:
        return causes
    unknown = Explanation(
        Cause.UNKNOWN,
        f"after position {found.regimes[-1].last} no known mistake gives what is wrong",
        f"{rest} of {suspect.whole.count} positions are left",
    )
    return [*causes[: MOST - 1], unknown]


def _is_chance(found: Localisation, rightness: Rightness) -> bool:
    """Whether one pair alone is explained, and not closely, as some number of positions may."""
    left = max(max(each.largest for each in regime.residuals) for regime in found.regimes)
    return np.count_nonzero(~rightness.pairs) == 1 and left > _ONE_PAIR


def _moved_pairs(suspect: Suspect, rightness: Rightness) -> list[Explanation]:
    """The causes of some pairs that are all turned as other positions are, by one rule."""
    pairs = ~rightness.pairs
    sample = replace(suspect.sample, seen=suspect.sample.seen & pairs)
    if pairs.all():
        return []
    for moved in position_maps(sample):
        claim = Claim(Defect(moved=moved), sample.amplitude, pairs)
        if not holds(sample, claim.defect):
            continue
        residual = suspect.whole.residual(claim)
        if residual.whole:
            place = pairs_text(np.flatnonzero(pairs).tolist(), pairs.size)
            return [
                replace(
                    word,
                    message=f"{place}: {word.message}",
                    evidence=f"{word.evidence}; the other pairs are right",
                    where=replace(
                        word.where or Where(None, None), pairs=spec(np.flatnonzero(pairs))
                    ),
                )
                for word in words_of(claim, suspect, residual, in_part=True)
            ]
    return []


def _ascend(suspect: Suspect) -> bool:
    """Whether the rows stand at ascending positions, so that runs of rows are runs of them."""
    places = suspect.examination.subject.own.places
    ends = places.starts + places.steps * (np.diff(places.rows) - 1)
    return bool((places.steps > 0).all() and (places.starts[1:] > ends[:-1]).all())


def _alike_regimes(found: Localisation) -> list[list[Regime]]:
    """The regimes, those of the same claims together."""
    groups: list[list[Regime]] = []
    for regime in found.regimes:
        for group in groups:
            if all(a is b for a, b in zip(group[0].claims, regime.claims, strict=False)) and len(
                group[0].claims
            ) == len(regime.claims):
                group.append(regime)
                break
        else:
            groups.append([regime])
    return groups


def _regime_words(
    regimes: list[Regime], suspect: Suspect, found: Localisation
) -> Iterator[Explanation]:
    """The causes of regimes that the same claims explain, each with its place."""
    first = regimes[0]
    count = suspect.sample.reference.pairs
    rows = _rows_text(regimes)
    for index, claim in enumerate(first.claims):
        part = suspect.whole.read(first.rows.sample(96))
        if claim.pairs is not None:
            part = replace(part, seen=part.seen & claim.pairs)
        residual = joined_residual([regime.residuals[index] for regime in regimes])
        here = replace(
            suspect,
            sample=replace(part, amplitude=claim.amplitude),
            whole=suspect.whole.part(first.rows),
        )
        pairs = None if claim.pairs is None else np.flatnonzero(claim.pairs)
        places = [rows] if rows else []
        if pairs is not None:
            places.append(pairs_text(pairs.tolist(), count))
        words = list(words_of(claim, here, residual, in_part=True))
        alike = [
            together(other, here, residual, in_part=True)
            for other in (first.alike if index == 0 else ())
        ]
        others = ""
        after_right = first is found.regimes[0] and first.rows.step == 1 and not first.shared
        if rows and first.begins and after_right and found.right_before is not None:
            others += f"; all is right up to position {found.right_before}"
        if first.shared and first.begins:
            before = "position before it fits" if first.shared == 1 else "positions before it fit"
            others += f"; {first.shared} {before} this as well"
        where = Where(
            _positions_spec(regimes) if rows else None,
            None if pairs is None else spec(pairs),
        )
        for word in either(words, alike) if alike else words:
            message = word.message
            along = suspect.sample.reference.coordinates is not None
            if (
                word.cause == Cause.POSITION_OFFSET
                and claim.defect.offset
                and first.first + claim.defect.offset == 0
                and rows
                and not along
            ):
                message += ": they start again at 0"
            prefix = ", ".join(places)
            if message.startswith(tuple(places[-1:])) and places:
                prefix = ", ".join(places[:-1])
            yield replace(
                word,
                message=_placed(message, prefix),
                alike=tuple(
                    replace(other, message=_placed(other.message, prefix)) for other in word.alike
                ),
                evidence=f"{word.evidence}{others}",
                detail=word.detail or prefix or None,
                where=where if (rows or pairs is not None) else None,
            )


def _placed(message: str, place: str) -> str:
    return f"{place}: {message}" if place else message


def _rows_text(regimes: list[Regime]) -> str:
    """Where regimes lie, in words; empty where they are all rows."""
    texts = []
    for regime in regimes:
        span = f"{regime.first}–{regime.last}" if regime.last > regime.first else str(regime.first)
        if regime.rows.step > 1:
            texts.append(f"every {ordinal(regime.rows.step)} position from {regime.first} on")
        elif regime.begins and regime.ends:
            texts.append(f"{'position' if regime.first == regime.last else 'positions'} {span}")
        elif regime.begins:
            texts.append(f"from position {regime.first} on")
        elif regime.ends:
            texts.append(f"up to position {regime.last}")
    return " and ".join(texts)


def _positions_spec(regimes: list[Regime]) -> str:
    """Where regimes lie, as --positions takes it."""
    return ",".join(
        f"{regime.first}:{regime.last + 1}" + (f":{regime.rows.step}" * (regime.rows.step > 1))
        for regime in regimes
    )


def joined_residual(residuals: list[Residual]) -> Residual:
    """The residual of several parts together."""
    first, *others = residuals
    for other in others:
        first = Residual(
            max(first.largest, other.largest),
            max(first.within, other.within),
            first.cells + other.cells,
            first.of_cells + other.of_cells,
            first.rows + other.rows,
            first.of_rows + other.of_rows,
            other.first if first.first is None else first.first,
            first.pairs & other.pairs,
        )
    return first
