"""Report a plan as text on one screen and as JSON."""

from __future__ import annotations

import json
import math
import operator
from typing import TYPE_CHECKING, Any

from posenc_cli.analysis.planning.planner import AS_IS, LengthPlan, NoPlan, Recipe
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32
from posenc_cli.positions import range_texts
from posenc_cli.records import items_by_key, replace
from posenc_cli.render.ticks import counted
from posenc_cli.render.typesetting import Answer, Typesetter, continued_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.analysis.planning.cosine_sums import BaseInterval, QualifyingBases
    from posenc_cli.checks.requirements import Judgement

CAVEAT = "These conditions are necessary, not sufficient: run the model to test the plan."
_SHOWN_INTERVALS = 3
_PREFERRED = "yarn"
"""The recipe whose keys and flags are shown by default."""


def plan_fields(
    planned: LengthPlan | NoPlan,
    judgements: Sequence[Judgement],
    recipe: str | None = None,
    *,
    name: str | None = None,
) -> dict[str, Any]:
    """Return a plan for JSON; ``name`` is the model's."""
    required: dict[str, Any] = {}
    if judgements:
        required["requirements"] = [
            {
                "requirement": judgement.requirement.text,
                "ok": judgement.ok,
                "message": judgement.message,
            }
            for judgement in judgements
        ]
    common = {
        **plan_answer(planned, judgements, recipe, name=name).fields(),
        "model_type": planned.model_type,
        "layer_type": planned.layer_type,
        "to": planned.to,
        "trained": planned.trained,
    }
    if isinstance(planned, NoPlan):
        return {
            **common,
            "base": None,
            "never_turned": None,
            "negative_from": None,
            "recipes": [],
            "scheme": planned.scheme,
            "fits": planned.fits,
            "reason": planned.reason,
            **required,
        }
    return {
        **common,
        "base": planned.base,
        "never_turned": list(planned.never_turned),
        "negative_from": planned.negative_from,
        "recipes": [_recipe_fields(recipe) for recipe in planned.recipes],
        "trained_source": planned.trained_source,
        "trained_is_told": planned.told,
        "longer": planned.longer,
        "stated": planned.lengths.stated,
        "context": planned.lengths.context,
        "pairs": planned.pairs,
        "at_rest": planned.at_rest,
        "negative_from_with_rest": planned.negative_with_rest,
        "bases": None if planned.bases is None else _bases_fields(planned.bases),
        "left_out": dict(planned.left_out),
        "positions_exact_to": {
            dtype.name: 2**dtype.precision for dtype in (BFLOAT16, FLOAT16, FLOAT32)
        },
        "caveat": CAVEAT,
        **required,
    }


def _recipe_fields(recipe: Recipe) -> dict[str, Any]:
    pairs = recipe.pairs
    return {
        "recipe": recipe.name,
        "scheme": recipe.scheme,
        "params": dict(recipe.params),
        "attention_factor": recipe.attention_factor,
        "config": None if recipe.config is None else dict(recipe.config),
        "logit_multiplier": recipe.logit_multiplier,
        "pairs": {
            "kept": pairs.kept,
            "blended": pairs.blended,
            "interpolated": pairs.interpolated,
            "smallest": pairs.smallest,
        },
        "step": recipe.step,
        "unseen": list(recipe.unseen),
        "unseen_from": recipe.unseen_from,
        "negative_from": recipe.negative_from,
        "engines": {
            setting.engine: {"flags": setting.flags, "remark": setting.remark}
            for setting in recipe.engines
        },
    }


def _bases_fields(bases: QualifyingBases) -> dict[str, Any]:
    return {
        "length": bases.length,
        "from": bases.low,
        "to": bases.high,
        "per_decade": bases.per_decade,
        "tried": bases.tried,
        "qualify": sum(interval.count for interval in bases.intervals),
        "sample": True,
        "intervals": [
            {
                "first": interval.first,
                "last": interval.last,
                "count": interval.count,
                "below": interval.below,
                "above": interval.above,
            }
            for interval in bases.intervals
        ],
    }


def plan_text(
    planned: LengthPlan | NoPlan,
    judgements: Sequence[Judgement],
    typesetter: Typesetter,
    *,
    recipe: str | None = None,
    height: int | None = None,
    name: str | None = None,
) -> str:
    """Return a plan for a reader: the settings, why, the keys; the recipes; notes and engine flags.

    Without a ``recipe``, notes and flags are left out if they do not fit in ``height`` lines.
    """
    head = plan_answer(planned, judgements, recipe, name=name)
    first = replace(head, cause=None, number=head.cause).text(typesetter, hanging=2)
    lines = [typesetter.marked(first, r"\A[^:]+", "bold")]
    met = [f"ok: {_judgement_line(each)}" for each in judgements if each.ok]
    required = [typesetter.paragraph(line, hanging=2) for line in met]
    if isinstance(planned, NoPlan):
        return "\n".join([*lines, *required])
    shown = shown_recipe(planned, recipe)
    rows = [own for own in planned.recipes if recipe is None or own.name in (AS_IS, recipe)]
    lines += [_recipe_table(rows, typesetter), *required]
    notes = [typesetter.paragraph(note) for note in _notes(planned, recipe)]
    notes += [] if shown is None else ["", *_flag_lines(shown, typesetter)]
    if recipe is None and height is not None and "\n".join([*lines, *notes]).count("\n") >= height:
        named = shown.name if shown else AS_IS
        notes = [f"{CAVEAT} Notes, and flags for engines: --recipe {named}."]
    return "\n".join([*lines, *notes])


def shown_recipe(planned: LengthPlan, name: str | None) -> Recipe | None:
    """Return the recipe whose keys are shown: the named one, else YaRN or the first that improves.

    If none improves, it is ``as-is``, or None if there are no recipes. If the config's own scaling
    reaches the length, it is that scaling with the context stated, else ``as-is``.
    """
    by_name = {recipe.name: recipe for recipe in planned.recipes}
    if name is not None:
        return by_name.get(name)
    as_is, *others = planned.recipes
    if planned.served:
        current = as_is.scheme, as_is.params
        return next((own for own in others if (own.scheme, own.params) == current), as_is)
    better = {own.name: own for own in others if _improves(own, as_is)}
    return better.get(_PREFERRED) or next(iter(better.values()), as_is if others else None)


def _improves(recipe: Recipe, as_is: Recipe) -> bool:
    """Return whether a recipe is better in unseen angles or the sum, and not worse in either."""
    new, old = (
        (-len(own.unseen), own.unseen_from or math.inf, own.negative_from or math.inf)
        for own in (recipe, as_is)
    )
    return new != old and all(map(operator.ge, new, old))


def plan_answer(
    planned: LengthPlan | NoPlan,
    judgements: Sequence[Judgement],
    recipe: str | None,
    *,
    name: str | None = None,
) -> Answer:
    """Return the verdict, failed requirements or the basis of the verdict, and what to set.

    The verdict is about the model's ``name``, or else its type.
    """
    kind = f" ({planned.layer_type})" if planned.layer_type else ""
    subject = f"{name or planned.model_type}{kind}"
    if failed := "; ".join(_judgement_line(each) for each in judgements if not each.ok):
        basis = plan_answer(planned, (), recipe, name=name)
        return replace(basis, ok=False, verdict=f"FAILED: {failed}", cause=basis.verdict)
    if isinstance(planned, NoPlan):
        fits = {True: "fit", False: "do not fit", None: "need no setting"}[planned.fits]
        verdict = f"{subject}, {planned.scheme}: {counted(planned.to, 'position')} {fits}"
        return Answer(planned.fits is not False, verdict, planned.reason)
    shown = shown_recipe(planned, recipe)
    lengths = f"{'original context' if planned.told else 'the config states'} {planned.trained}"
    serves = planned.served
    extended = int(planned.lengths.reach or 0) if serves else planned.lengths.context
    if extended not in (None, planned.trained):
        lengths += f", extended to {extended}"
    if not planned.longer or shown is None:
        todo = "no recipe" if planned.longer else "set nothing"
    elif shown.name == AS_IS:
        todo = "leave it as it is" if recipe is None else "unchanged"
    else:
        todo = f"set {shown.name}, {_set_text(shown)},"
    verdict = f"{subject}: {todo} for {counted(planned.to, 'position')} ({lengths})"
    step = f"set in config.json {json.dumps(shown.config)}" if shown and shown.config else None
    why = _unseen_text(planned, shown)
    if planned.longer and recipe is None and shown is planned.recipes[0]:
        good = not shown.unseen and shown.negative_from is None
        no_better = _SCALING_SUFFICES if serves else _NO_BETTER
        why += "; the sum of cosines is never negative" if good else no_better
    return Answer(True, verdict, why, next=step)


_NO_BETTER = "; no recipe improves unseen angles or the sum of cosines without worsening the other"

_SCALING_SUFFICES = (
    "; the config's own scaling reaches this length; only the stated context is shorter"
)


def _unseen_text(planned: LengthPlan, shown: Recipe | None) -> str:
    """Return the number of pairs with unseen angles, for the present config and with the recipe."""
    as_is, never = planned.recipes[0], planned.never_turned
    if not never:
        return f"all {planned.pairs} pairs complete a period in {planned.trained} positions"
    which = f"{len(never)} of {planned.pairs} pairs ({', '.join(range_texts(never))})"
    have = "has a wavelength" if len(never) == 1 else "have wavelengths"
    text = f"{which} {have} longer than {planned.trained} positions; as is, "
    start = as_is.unseen_from
    text += "no angle is unseen" if start is None else f"angles from position {start} on are unseen"
    if shown is not None and shown.name != AS_IS:
        text += f"; with {shown.name}, " + (
            "none are" if shown.unseen_from is None else f"those from {shown.unseen_from} on"
        )
    return text


def _notes(planned: LengthPlan, recipe: str | None) -> Iterator[str]:
    """Yield notes on the sum, the bases and the recipes that were left out, and the caveat."""
    yield _sum_note(planned)
    if planned.bases is not None:
        yield _bases_line(planned.bases)
    if recipe is None:
        yield from _left_out_note(planned)
    yield CAVEAT


def _sum_note(planned: LengthPlan) -> str:
    negative_from, with_unrotated = planned.negative_from, planned.negative_with_rest
    text = "The sum of the cosines of all pairs should stay ≥ 0 (Men et al. 2024); as is, "
    if negative_from is None:
        return f"{text}it is not negative below distance {planned.to}."
    text += f"it is negative from distance {negative_from}"
    if planned.at_rest:
        rest = "never" if with_unrotated is None else f"from {with_unrotated}"
        text += f", with the {planned.at_rest} unrotated pairs {rest}"
    return f"{text}."


def _bases_line(bases: QualifyingBases) -> str:
    count = sum(interval.count for interval in bases.intervals)
    tried = f"of {bases.tried} bases tried from {bases.low:g} to {bases.high:g} keep the sum ≥ 0"
    if not count:
        return f"None {tried}."
    shown = [_interval_text(interval) for interval in bases.intervals[:_SHOWN_INTERVALS]]
    if len(bases.intervals) > len(shown):
        shown[-1:] = ["…", _interval_text(bases.intervals[-1])]
    return f"{count} {tried}: {', '.join(shown)}; bases between were not tried."


def _interval_text(interval: BaseInterval) -> str:
    """Return the text of an interval from its ends.

    >>> from posenc_cli.analysis.planning.cosine_sums import BaseInterval
    >>> _interval_text(BaseInterval(4293.51, 4293.51, 1, 4216.97, 4371.44))
    '4293.51'
    """
    if interval.count == 1:
        return f"{interval.first:.6g}"
    if interval.above is None:
        return f"every one tried from {interval.first:.6g} up"
    return f"{interval.first:.6g} to {interval.last:.6g}"


def _recipe_table(recipes: Sequence[Recipe], typesetter: Typesetter) -> str:
    rows = [
        [
            recipe.name,
            _set_text(recipe),
            f"{recipe.logit_multiplier:.4g}",
            str(len(recipe.unseen)),
            "never" if recipe.negative_from is None else str(recipe.negative_from),
        ]
        for recipe in recipes
    ]
    return typesetter.table(
        ["recipe", "set", "logits ×", "pairs with unseen angles", "sum < 0 at"], rows
    )


def _set_text(recipe: Recipe) -> str:
    """Return the most important setting, in few letters."""
    if recipe.name == AS_IS:
        return "-"
    if recipe.scheme in ("rope", "mrope"):
        return f"base {recipe.params['base']:.6g}"
    return f"factor {recipe.params['factor']:.5g}"


def _left_out_note(planned: LengthPlan) -> Iterator[str]:
    names = items_by_key((reason, name) for name, reason in planned.left_out.items())
    if names:
        texts = (f"{', '.join(own)} ({reason})" for reason, own in names.items())
        yield f"Not planned: {'; '.join(texts)}."


def _flag_lines(recipe: Recipe, typesetter: Typesetter) -> Iterator[str]:
    """Yield the flags with which engines override the config."""
    for setting in recipe.engines:
        name = f"{recipe.name}, {setting.engine}"
        if setting.flags is None:
            yield typesetter.paragraph(f"{name}: none; {setting.remark}", hanging=2)
            continue
        remark = f" ({setting.remark})" if setting.remark else ""
        if len(name) + 2 + len(setting.flags) <= typesetter.width and not remark:
            yield f"{name}: {setting.flags}"
        else:
            yield typesetter.paragraph(f"{name}{remark}:", hanging=2)
            narrower = replace(typesetter, width=typesetter.width - 2)
            lines = continued_command(setting.flags, typesetter.width).split(" \\\n")
            # Quoted JSON may go on in the next line.
            yield " \\\n".join(narrower.paragraph(line) for line in lines)


def _judgement_line(judgement: Judgement) -> str:
    return f"{judgement.requirement.text}: {judgement.message}"
