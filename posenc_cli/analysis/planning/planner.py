"""Plan recipes for a length beyond the trained one, and compute their effects.

A model with ``trained`` positions has seen the angles 0 … trained · θ of each pair, and those of
the context that its config states. A pair that completed a period has seen all angles. Any other
pair reaches unseen angles from the position at which p · θ′ exceeds the seen ones, where θ′ is its
frequency under a recipe. Each recipe is written into the config. Its reported effects are those of
the frequencies in the resulting config, read as any config is.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.analysis.planning.cosine_sums import CosineSums, QualifyingBases, qualifying_bases
from posenc_cli.budget import check_size
from posenc_cli.configs.conclusions import Lengths, lengths_of
from posenc_cli.configs.config import override, resolve
from posenc_cli.configs.rope_rules import attention_factor
from posenc_cli.configs.spelling import (
    EngineFlags,
    Spelling,
    TargetRope,
    exact_rotation,
    merged,
    spelling_of,
)
from posenc_cli.errors import InvalidInput, PosencError
from posenc_cli.files.gguf import GGUFHeader
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from posenc_cli.configs.resolved import Layers, Resolved
    from posenc_cli.numerics.arrays import Reals

WIDEST = 1 << 12
"""The largest head dim: wider than any model's, and a few seconds."""
AS_IS = "as-is"
_SAME = 1e-9
"""Tolerance for a ratio of frequencies, because a config rounds its factor."""
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
"""The values of Llama 3.1, for a config without these."""
_BASE_DIGITS = 6
_BASE_ROUNDED = 10.0 ** (1 - _BASE_DIGITS)
"""Largest relative error of the lowest frequency if a base is rounded to `_BASE_DIGITS` digits."""
_PLAIN = ("rope", "mrope")
_OWN_FACTORS = ("rope-ntk", "rope-longrope")
"""Training-time rules whose base does not depend on the length."""
_RECIPES = ("linear", "ntk", "dynamic", "yarn", "llama3", "base")
_WRITTEN = ("rope-linear", "rope-dynamic", "rope-yarn", "rope-llama3", "rope-proportional")
"""The rules that a config names without the prefix ``rope-``."""
_RAISED = {"rope-ntk": "ntk", "rope-linear": "linear", "rope-proportional": "linear"}
"""The recipe that raises the factor of a rule used in training."""


class PairShares(Record):
    """The pairs that rotate, counted by the effect of a recipe on their frequency.

    ``kept`` pairs keep it. ``interpolated`` pairs have it divided by the full factor, ``blended``
    pairs by less. ``smallest`` is the smallest ratio of a frequency to the original.
    """

    kept: int
    blended: int
    interpolated: int
    smallest: float


class Recipe(Record):
    """A way to reach a length: the settings, and their effects on the pairs.

    ``scheme`` and ``params`` are the encoding of the resulting config. ``config`` has the keys to
    set, and ``overrides`` the same for an engine that has loaded the config. Both are None if there
    is no config to set them in. ``unseen`` are the pairs that reach unseen angles, ``unseen_from``
    the first position of any of them. ``negative_from`` is the first distance below the length at
    which the sum of cosines is negative.

    Units: ``step``, the rotation of the highest-frequency pair per position, in radians.
    """

    name: str
    scheme: str
    params: Mapping[str, Any]
    config: Mapping[str, Any] | None
    overrides: Mapping[str, Any] | None
    attention_factor: float
    logit_multiplier: float
    pairs: PairShares
    step: float
    unseen: tuple[int, ...]
    unseen_from: int | None
    negative_from: int | None
    sums: CosineSums
    engines: tuple[EngineFlags, ...] = ()


class LengthPlan(Record):
    """A model's properties at a length, and the recipes for it.

    ``trained`` is the number of positions of the first training. If the config does not distinguish
    it from the stated context (``told`` is False), it is the stated one. ``trained_source`` is
    where it was read. ``longer`` says whether the length exceeds the config's context.
    ``never_turned`` are the pairs whose wavelength is longer than ``trained``. ``negative_from``
    belongs to the config as it is; ``negative_with_rest`` also counts the head's ``at_rest`` pairs,
    which do not rotate. ``left_out`` has the reason for each missing recipe.
    """

    model_type: str
    layer_type: str | None
    to: int
    trained: int
    trained_source: str
    told: bool
    longer: bool
    lengths: Lengths
    base: float
    pairs: int
    at_rest: int
    never_turned: tuple[int, ...]
    negative_from: int | None
    negative_with_rest: int | None
    bases: QualifyingBases | None
    recipes: tuple[Recipe, ...]
    left_out: Mapping[str, str]

    @property
    def served(self) -> bool:
        """Whether the config's own scaling reaches the length, whatever context it states."""
        return self.longer and (self.lengths.reach or 0) >= self.to


class Planner:
    """A planner for the rotation of some layers at a length."""

    def __init__(
        self,
        config: Mapping[str, Any] | GGUFHeader,
        resolved: Resolved,
        layers: Layers,
        to: int,
        *,
        changed: bool,
        per_decade: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.given = None if isinstance(config, GGUFHeader) else config
        self.resolved = resolved
        self.layers = layers
        self.to = to
        self.lengths = lengths_of(layers)
        self.written = not changed and self.given is not None
        self.left_out: dict[str, str] = {}
        self.per_decade = per_decade
        self.progress = progress
        check_size("the rotation", int(layers.values()["dim"]), WIDEST, "columns")
        self.trained, self.source, self.plain = self._training()
        self.rotating = _rotating(exact_rotation(self.plain, self.trained).frequencies)
        self.seen = self.rotating * self.trained
        if (context := self.lengths.context) is not None:
            scaled = _rotating(exact_rotation(layers, context).frequencies)
            self.seen = np.maximum(self.seen, scaled * context)
        beside = layers.derived.get("beside_slice")
        width = int(layers.values()["dim"]) + int(beside.value or 0 if beside else 0)
        self.at_rest = width // 2 - len(self.rotating)  # pairs of the whole head
        self.spelling: Spelling | None = None
        if self.written and self.given is not None:
            others = [g for g in resolved.layers if g.layer_type != layers.layer_type]
            self.spelling = spelling_of(self.given, layers, others)

    def _training(self) -> tuple[int, str, Layers]:
        """Return the trained length, its source, and the layers as they were in training.

        Raises: InvalidInput if no length is stated.
        """
        params, lengths = self.layers.params, self.lengths
        if self.layers.scheme == "rope-dynamic":
            limit = params["max_position_embeddings"]
            return int(limit.value), limit.source, self._with_rule("rope", {})
        if lengths.trained is not None:
            original = params["original_max_position_embeddings"]
            return lengths.trained, original.source, self._with_rule("rope", {})
        context = self.layers.derived.get("context")
        if context is None:
            raise InvalidInput(
                "--to: the config does not state a trained length: max_position_embeddings is "
                "missing"
            )
        return int(context.value), context.source, self.layers

    def _with_rule(self, scheme: str, more: Mapping[str, Any]) -> Layers:
        """Return the layers with another rule, and otherwise the same parameters."""
        kept = {
            name: self.layers.params[name]
            for name in ("dim", "base", "layout", "partial")
            if name in self.layers.params
        }
        return override(replace(self.layers, scheme=scheme, params=kept), more)

    def plan(self) -> LengthPlan:
        """Return the plan."""
        never = np.flatnonzero(self.rotating * self.trained < 2 * math.pi)
        nothing: dict[str, Any] | None = {} if self.written else None
        as_is = self.recipe(AS_IS, self.layers, nothing, nothing)
        longer = self.to > max(self.trained, self.lengths.context or 0)
        bases = self._bases() if longer and self.layers.scheme not in _OWN_FACTORS else None
        recipes = [as_is, *(self._recipes(bases) if longer else ())]
        whole = replace(as_is.sums, at_rest=self.at_rest)
        return LengthPlan(
            model_type=self.resolved.model_type,
            layer_type=self.layers.layer_type,
            to=self.to,
            trained=self.trained,
            trained_source=self.source,
            longer=longer,
            told=self.lengths.trained is not None and self.layers.scheme != "rope-dynamic",
            lengths=self.lengths,
            base=float(self.layers.values()["base"]),
            pairs=len(self.rotating),
            at_rest=self.at_rest,
            never_turned=tuple(never.tolist()),
            negative_from=as_is.negative_from,
            negative_with_rest=whole.first_negative(self.to)
            if self.at_rest
            else as_is.negative_from,
            bases=bases,
            recipes=tuple(recipes),
            left_out=self.left_out,
        )

    def _bases(self) -> QualifyingBases:
        values = self.plain.values()
        proportional = self.plain.scheme == "rope-proportional"
        ladder_pairs = int(values["dim"]) // 2 if proportional else len(self.rotating)
        exponents = np.arange(len(self.rotating)) / ladder_pairs
        factor = float(values.get("factor") or 1.0)
        return qualifying_bases(
            exponents,
            self.to,
            per_decade=self.per_decade,
            factor=factor,
            progress=self.progress,
        )

    def _recipes(self, bases: QualifyingBases | None) -> Iterator[Recipe]:
        """Yield the available recipes; add the reasons for missing ones to ``left_out``."""
        times, pairs = self.to / self.trained, len(self.rotating)
        own = self.layers.scheme if self.layers.scheme == "rope-longrope" else self.plain.scheme
        self.left_out["longrope"] = "its factors are found by a search on the model's loss"
        if own not in _PLAIN:
            reason = f"a config can state only one rule, and this model was trained with {own}"
            self.left_out |= {name: reason for name in _RECIPES if name != _RAISED.get(own)}
            if own in _RAISED:
                factor = times * float(self.plain.values().get("factor") or 1.0)
                yield from self._written(_RAISED[own], own, {"factor": factor}, None)
            return
        for name, scheme, more in self._scaled_recipes(times):
            yield from self._written(name, scheme, more, None)
        base = float(self.layers.params["base"].value)
        if pairs < 2:
            reason = "one pair rotates, and its frequency is 1 whatever the base"
            self.left_out |= dict.fromkeys(("dynamic", "ntk"), reason)
        else:
            scaled_base = float(f"{base * times ** (pairs / (pairs - 1)):.{_BASE_DIGITS}g}")
            yield from self._written("ntk", "rope", {}, scaled_base)
        larger = None if bases is None else bases.first_from(math.nextafter(base, math.inf))
        sums = CosineSums.of([*map(float, self.rotating)])
        if bases is not None and sums.first_negative(self.to) is None:
            self.left_out["base"] = "the current base keeps the sum from being negative"
        elif larger is None:
            self.left_out["base"] = "no larger base that was tried qualifies"
        else:
            yield from self._written("base", "rope", {}, larger)

    def _scaled_recipes(self, times: float) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield the recipes that scale plain RoPE by a factor, with their rules and parameters."""
        original = {"original_max_position_embeddings": self.trained}
        yield "linear", "rope-linear", {"factor": times}
        if len(self.rotating) > 1:
            limit = {"max_position_embeddings": self.trained}
            yield "dynamic", "rope-dynamic", {"factor": times, **limit}
        yield "yarn", "rope-yarn", {"factor": times, **original, **self._kept("rope-yarn")}
        bend, grown = self._kept("rope-llama3") or _LLAMA3, times
        if self.layers.scheme == "rope-llama3" and self.lengths.stated:
            grown = float(self.layers.values()["factor"]) * self.to / self.lengths.stated
        yield "llama3", "rope-llama3", {"factor": grown, **bend, **original}

    def _kept(self, scheme: str) -> dict[str, Any]:
        """Return the rule's parameters that the config already has, except lengths and factors."""
        if self.layers.scheme != scheme:
            return {}
        changed = ("dim", "base", "layout", "partial", "factor", "original_max_position_embeddings")
        return {
            name: value
            for name, value in self.layers.values().items()
            if name not in changed and not self._is_computed(name, value)
        }

    def _is_computed(self, name: str, value: Any) -> bool:
        """Return whether a parameter is an attention factor that the rule would compute anyway."""
        if name != "attention_factor":
            return False
        ruled = attention_factor("rope-yarn", {"factor": self.layers.values()["factor"]})
        return ruled is not None and math.isclose(value, ruled, rel_tol=1e-6)

    def _written(
        self, name: str, scheme: str, more: Mapping[str, Any], base: float | None
    ) -> Iterator[Recipe]:
        """Yield a recipe, as read from the config it is written into.

        If that fails, yield nothing; ``left_out`` gets the reason.
        """
        changes = {**more} if base is None else {**more, "base": base}
        layers = self._with_rule(scheme, changes)
        config, overrides = None, None
        if self.spelling is not None:
            try:
                config, overrides, layers = self._config(layers, more, base)
            except PosencError as error:
                self.left_out[name] = error.message.removeprefix("config.json: ")
                return
        recipe = self.recipe(name, layers, config, overrides)
        angles = _rotating(exact_rotation(layers, self.to).frequencies)
        if (angles > self.rotating * (1 + _SAME)).any():
            self.left_out[name] = "pairs would rotate faster than they did in training"
            return
        yield recipe

    def _config(
        self, wanted: Layers, more: Mapping[str, Any], base: float | None
    ) -> tuple[dict[str, Any], dict[str, Any] | None, Layers]:
        """Return the keys to set, those for an engine, and the layers of the resulting config.

        Raises: InvalidInput if the config cannot have them.
        """
        assert self.spelling is not None
        assert self.given is not None
        rope: dict[str, Any] = {}
        if wanted.scheme in _WRITTEN:
            kept = {key: more[key] for key in more if key != "max_position_embeddings"}
            rope = {"rope_type": wanted.scheme.removeprefix("rope-"), **kept}
        elif wanted.scheme == "rope-ntk":
            rope = {"rope_type": "dynamic", "alpha": more["factor"]}
        elif self.layers.scheme not in _PLAIN:
            rope = {"rope_type": "default"}
        context = self.trained if wanted.scheme == "rope-dynamic" else self.to
        snippet = self.spelling.snippet(rope, base=base, context=context)
        layers, others = self._planned_layers(merged(self.given, snippet), wanted)
        overrides = self.spelling.override(layers, others, rope, context)
        if overrides is not None:
            try:
                self._planned_layers(self.spelling.loaded(self.given, overrides), wanted)
            except InvalidInput:
                overrides = None
        return snippet, overrides, layers

    def _planned_layers(
        self, config: Mapping[str, Any], wanted: Layers
    ) -> tuple[Layers, list[Layers]]:
        """Return the planned layers as read from a written config, and the others that rotate.

        Other layers may change only if they had the same rotation before. Then they must still have
        the same one.

        Raises: InvalidInput if the config does not read as planned.
        """
        after = resolve(config, name="config.json")
        kind = self.layers.layer_type
        found = next((group for group in after.layers if group.layer_type == kind), None)
        known = {"rope": _PLAIN}.get(wanted.scheme, (wanted.scheme,))
        if found is None or found.scheme not in known:
            raise InvalidInput(f"{after.model_type} does not read this rule")
        before = {group.layer_type: group for group in self.resolved.layers}
        others = [group for group in after.layers if group is not found]
        for group in others:
            old = before.get(group.layer_type)
            shared = old is not None and old.same_encoding(self.layers)
            if not (group.same_encoding(found) if shared else old and group.same_encoding(old)):
                raise InvalidInput(f"{group.layer_type} uses the same rope keys of the config")
        angles = exact_rotation(found, self.to).frequencies
        if angles != exact_rotation(wanted, self.to).frequencies:
            raise InvalidInput(f"{after.model_type} reads it differently")
        return found, [group for group in others if group.scheme != "nope"]

    def recipe(
        self,
        name: str,
        layers: Layers,
        config: Mapping[str, Any] | None,
        overrides: Mapping[str, Any] | None,
    ) -> Recipe:
        """Return a recipe: layers, and their effects at the length."""
        bound = catalogue.find(layers.scheme).bind(layers.values(), seq_len=self.to)
        frequencies = exact_rotation(layers, self.to).frequencies
        angles = _rotating(frequencies)
        shares = angles / self.rotating
        ends = self._first_unseen(angles)
        unseen = [place for place, end in ends.items() if end < self.to]
        derived = layers.derived
        attention, softmax = (
            float(derived[name].value) if name in derived else 1.0
            for name in ("attention_factor", "softmax_multiplier")
        )
        whole = min(1.0, self.trained / self.to) * (1 + _BASE_ROUNDED)
        sums = CosineSums.of(frequencies)
        kept = int((shares >= 1 - _SAME).sum())
        interpolated = int((shares <= whole).sum()) if whole < 1 else 0
        return Recipe(
            name=name,
            scheme=layers.scheme,
            params={key: value for key, value in bound.params.items() if value is not None},
            config=config,
            overrides=overrides,
            attention_factor=attention,
            logit_multiplier=attention**2 * softmax,
            pairs=PairShares(
                kept, len(angles) - kept - interpolated, interpolated, float(shares.min())
            ),
            step=float(angles.max()),
            unseen=tuple(unseen),
            unseen_from=min((ends[place] for place in unseen), default=None),
            negative_from=sums.first_negative(self.to),
            sums=sums,
            engines=self._engines(layers, overrides),
        )

    def _engines(
        self, layers: Layers, overrides: Mapping[str, Any] | None
    ) -> tuple[EngineFlags, ...]:
        """Return the flags for engines, if a file describes the model."""
        unwritten = self.given is not None and not self.written
        if unwritten or layers is self.layers:  # as-is sets nothing
            return ()
        config = None
        if self.spelling is not None and self.given is not None and overrides:
            config = self.spelling.loaded(self.given, overrides)
        return TargetRope(self.layers, layers, self.to, config, overrides, self.given).flags()

    def _first_unseen(self, angles: Reals) -> dict[int, int]:
        """Return the first position with an unseen angle, for each pair without a full period."""
        return {
            int(place): math.ceil(float(self.seen[place] / angles[place]) * (1 - _SAME))
            for place in np.flatnonzero(self.seen < 2 * math.pi)
        }


def _rotating(frequencies: Sequence[Any]) -> Reals:
    return np.array([float(angle) for angle in frequencies if angle != 0])


class NoPlan(Record):
    """The reason why there is nothing to set, and what limits the model's length instead.

    ``fits`` says whether the length is within that limit, or None if no limit is known.
    """

    model_type: str
    layer_type: str | None
    to: int
    scheme: str
    trained: int | None
    reason: str
    fits: bool | None


def not_planned(layers: Layers, resolved: Resolved, to: int) -> NoPlan | None:
    """Return what limits layers without recipes, or None if recipes exist.

    Raises: InvalidInput if positions are not a sequence.
    """
    stated = lengths_of(layers).stated
    window = window_of(layers)
    scheme = catalogue.find(layers.scheme)

    def answer(reason: str, *, fits: bool | None = None) -> NoPlan:
        return NoPlan(
            resolved.model_type, layers.layer_type, to, layers.scheme, stated, reason, fits
        )

    if layers.scheme == "nope":
        return answer("these layers have no positions: nothing in them limits the length")
    if scheme.kind == "rotary":
        if layers.scheme in ("rope-axial", "xpos"):
            raise InvalidInput(
                f"--to {to}: {layers.scheme} does not encode positions in a sequence"
            )
        if window is None or (stated is not None and window > stated):
            return None
        return answer(
            f"these layers see a window of {window} positions: no distance is longer, so "
            "there is nothing to extend",
            fits=True,
        )
    content = scheme.bind(layers.values()).content
    if content.capacity is not None:
        rows = content.capacity.positions
        return answer(
            f"the learned table has {rows} rows, one for each position; no recipe adds trained "
            "rows (posenc resize interpolates the table)",
            fits=to <= rows,
        )
    if scheme.kind == "bias":
        return answer(
            "scores are defined at any distance, so there is no known limit; distances beyond "
            "those in training are unseen"
        )
    known = f"; the config states {stated} positions, later ones are unseen"
    trained = "" if stated is None else known
    return answer(
        f"{layers.scheme} is defined at any position{trained}: no known recipe extends it "
        "without training"
    )


def window_of(layers: Layers) -> int | None:
    """Return the number of positions that these layers see, or None if they see all."""
    window = layers.derived.get("window") or layers.derived.get("window_of_all")
    return None if window is None else int(window.value)


LONGEST = 1 << 24
"""The most positions of a plan: every distance is computed, for each recipe and many bases."""


def plan_length(
    config: Mapping[str, Any] | GGUFHeader,
    to: int,
    *,
    name: str,
    layer_type: str | None = None,
    given: Mapping[str, object] | None = None,
    per_decade: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[LengthPlan | NoPlan, Resolved]:
    """Return the plan of some layers for ``to`` positions, and the reading of the config.

    ``per_decade`` bases are tried per decade, by default as many as take a moment.

    Raises: InvalidInput if the config cannot be read, if layers differ and none is named, or if the
    length exceeds the limit.
    """
    check_size(f"--to {to}", to, LONGEST, "positions")
    resolved = resolve(config, name=name)
    layers = layers_to_plan(resolved, layer_type)
    if given:
        layers = override(layers, given)
    reason = not_planned(layers, resolved, to)
    if reason is not None:
        return reason, resolved
    window = window_of(layers)
    if window is not None and window < to:
        notice = f"these layers see a window of {window} positions, so no distance"
        notice += f" is longer: the plan is for {window} positions"
        resolved, to = replace(resolved, warnings=(*resolved.warnings, notice)), window
    if not given:
        resolved = replace(resolved, warnings=(*resolved.warnings, *_already_served(layers, to)))
    planner = Planner(
        *(config, resolved, layers, to),
        changed=bool(given),
        per_decade=per_decade,
        progress=progress,
    )
    return planner.plan(), resolved


def _already_served(layers: Layers, to: int) -> Iterator[str]:
    """Yield a warning if linear scaling may reach the length already.

    That is so if the stated context is the one before scaling.
    """
    context = layers.derived.get("context")
    # If layers have types, as in Gemma 3, the stated context is the one after scaling.
    if context is not None and layers.scheme == "rope-linear" and layers.layer_type is None:
        reach = int(context.value * layers.params["factor"].value)
        if context.value < to <= reach and lengths_of(layers).trained is None:
            yield (
                f"if {context.source} {context.value} is the length before scaling, as in Vicuna, "
                f"the factor already reaches {reach} positions: set nothing"
            )


def layers_to_plan(resolved: Resolved, layer_type: str | None) -> Layers:
    """Return the layers of a type; by default the only type that sees all positions.

    If none does, it is the only type with a window.

    Raises: InvalidInput, with the choices.
    """
    if layer_type is not None:
        return resolved.layer(layer_type)
    far = [each for each in resolved.layers if each.scheme != "nope" and not each.slides]
    alone = far or [each for each in resolved.layers if each.slides]
    return alone[0] if len(alone) == 1 else resolved.layer(None)
