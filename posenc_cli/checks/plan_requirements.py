"""Parse requirements on a plan such as ``context>=131072``, and check whether they hold.

A requirement bounds a number of the config as it is, or of a recipe if its name comes first:
``yarn.unseen<=0``. A plan that lacks the number does not pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from posenc_cli.analysis.planning.planner import AS_IS, LONGEST, LengthPlan, NoPlan, Recipe
from posenc_cli.checks.requirements import Judgement, Requirement, requirement_of
from posenc_cli.errors import InvalidInput, abbreviated

NUMBERS = {
    "context": "context length stated by the config",
    "long-wavelengths": "pairs whose wavelength is longer than the trained length",
    "negative-from": "the first distance at which the sum of cosines is negative",
    "unseen": "frequency pairs with unseen angles at the new length",
}
"""Numbers that can be required, and what they count."""
OF_RECIPES = ("negative-from", "unseen")
"""Numbers that every recipe has."""


def plan_requirements_of(flag: str, text: str) -> tuple[Requirement, ...]:
    """Parse a comma-separated list of requirements.

    >>> [each.name for each in plan_requirements_of("--require", "context>=4096,yarn.unseen<=0")]
    ['context', 'yarn.unseen']

    Raises: InvalidInput for a part that is not a requirement.
    """
    form, requirements = "NAME>=N or NAME<=N", []
    for part in map(str.strip, text.split(",")):
        requirement = requirement_of(flag, part, form, NUMBERS, OF_RECIPES)
        if requirement.relation is None:
            raise InvalidInput(f"{flag} {part}: must be {form}", hint=f"{part}>=131072")
        requirements.append(requirement)
    return tuple(requirements)


def plan_judgements(
    planned: LengthPlan | NoPlan, requirements: Sequence[Requirement]
) -> list[Judgement]:
    """Return for each requirement whether a plan meets it.

    Raises: InvalidInput for an unknown recipe, or a bound that is too far.
    """
    return [_judgement(planned, requirement) for requirement in requirements]


def _judgement(planned: LengthPlan | NoPlan, requirement: Requirement) -> Judgement:
    recipe, _, name = requirement.name.rpartition(".")

    def judgement(message: str, *, ok: bool) -> Judgement:
        return Judgement(recipe or AS_IS, requirement, ok, message)

    if isinstance(planned, NoPlan):
        if name != "context" or planned.trained is None:
            return judgement(f"does not apply: {planned.reason}", ok=False)
        return judgement(
            f"{NUMBERS[name]}: {planned.trained}", ok=requirement.allows(planned.trained)
        )
    if name == "negative-from":
        return _negative_sum_judgement(planned, _recipe(planned, requirement, recipe), requirement)
    if name == "context":
        value = planned.lengths.context or planned.trained
    elif name == "long-wavelengths":
        value = len(planned.never_turned)
    else:
        value = len(_recipe(planned, requirement, recipe).unseen)
    return judgement(f"{NUMBERS[name]}: {value}", ok=requirement.allows(value))


def _recipe(planned: LengthPlan, requirement: Requirement, name: str) -> Recipe:
    for recipe in planned.recipes:
        if recipe.name == (name or AS_IS):
            return recipe
    names = [recipe.name for recipe in planned.recipes]
    reason = planned.left_out.get(name)
    raise InvalidInput(
        f"--require {requirement.text}: there is no recipe {abbreviated(name)} here"
        + (f" ({reason})" if reason else f"; there are {', '.join(names)}")
    )


def _negative_sum_judgement(
    planned: LengthPlan, recipe: Recipe, requirement: Requirement
) -> Judgement:
    """Judge from which distance the sum of cosines is negative.

    Distances up to the bound and the planned length are checked.

    Raises: InvalidInput for a bound beyond the most distances that are checked.
    """
    if requirement.bound > LONGEST:
        raise InvalidInput(f"--require {requirement.text}: at most {LONGEST} distances are checked")
    length = max(planned.to, int(requirement.bound))
    found = recipe.sums.first_negative(length)
    message = (
        f"not negative at any distance below {length}"
        if found is None
        else f"{NUMBERS['negative-from']}: {found}"
    )
    ok = requirement.relation == ">=" if found is None else requirement.allows(found)
    return Judgement(recipe.name, requirement, ok, message)
