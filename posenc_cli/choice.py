"""The encoding and positions of a request: by scheme, config or model."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.errors import InvalidInput, abbreviated, nearest, quoted_name
from posenc_cli.positions import Positions
from posenc_cli.records import Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.backends.registry import Arithmetic
    from posenc_cli.configs.resolved import Resolved
    from posenc_cli.encoding.engine import Engine
    from posenc_cli.encoding.precision import Precision
    from posenc_cli.encoding.request import Encoding, Plan, Request
    from posenc_cli.formulas.declare import Scheme

DRAWN_TABLE = (
    "has only the size of the table, not its trained values: they are randomly initialized"
)
"""The warning for a config that has a learned table."""
FIRST = 512
"""The default number of positions, for encodings that have as many."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""The letters that name several encodings, in order."""


class Choice(Record):
    """The encoding and the positions that a command line chooses.

    A hybrid ``A+B`` has one choice for each of its ``parts``. For a config or a model, ``origin``
    says which one it is and how it was read. ``warnings`` lists what a reader of the result should
    know. ``context`` is how many positions the model takes, and the key that says so. ``config`` is
    the content if it is a transformers config, and ``layer_type`` is its name for the layers.
    """

    scheme: Scheme
    given: Mapping[str, object]
    positions: Positions | None
    backend: str = "auto"
    device: str | None = None
    threads: int | None = None
    parts: tuple[Choice, ...] = ()
    warnings: tuple[str, ...] = ()
    origin: Mapping[str, str] = fresh(dict)
    context: tuple[int, str] | None = None
    config: Mapping[str, Any] | None = None
    layer_type: str | None = None

    @property
    def source(self) -> str:
        """The name of the config or model, or an empty text."""
        return self.origin.get("config") or self.origin.get("model", "")

    @property
    def name(self) -> str:
        """The name of the encoding: its scheme, or the schemes of its parts joined by ``+``."""
        return "+".join(part.scheme.name for part in self.parts) or self.scheme.name

    @property
    def as_given(self) -> str:
        """The names of the schemes that are a user's function, empty if there are none."""
        return ", ".join(part.scheme.name for part in self.parts or (self,) if part.scheme.as_given)

    @property
    def asked(self) -> str:
        """The encoding's name in errors: the option that chose it, and what that resolved to."""
        for kind in ("config", "model", "like"):
            if kind in self.origin:
                return f"--{kind} {quoted_name(self.origin[kind])} ({self.name})"
        return f"--scheme {self.name}"

    def engine(
        self, plan: Plan, *, arithmetic: Arithmetic = "exact", kernel_values: int | None = None
    ) -> Engine:
        """Return the engine that computes a plan: the backend asked for, or the one that suits it.

        ``kernel_values`` is the number of values that the process has asked for, if it is more than
        this plan's.

        Raises: InvalidInput, Unavailable if the backend does not exist, or cannot be used here.
        """
        from posenc_cli.backends.registry import choose, find
        from posenc_cli.encoding.engine import Engine, threads_for

        if arithmetic != "exact" and self.as_given:
            raise InvalidInput(
                f"--arithmetic {arithmetic}: {self.as_given} computes in its own arithmetic"
            )
        values = (kernel_values or plan.kernel_values) if arithmetic == "exact" else None
        chosen = choose(self.backend, device=self.device, values=values)
        # A backend chosen by name or device must exist, but NumPy computes rows and scores.
        backend = chosen.backend if plan.computed_as == "waves" else find("numpy")
        threads = threads_for(plan.values, self.threads)
        return Engine(backend, arithmetic, self.device, threads, chosen.lost)

    def encoding(self, seq_len: int | None = None) -> Encoding:
        """Return the scheme with its parameters resolved, for its positions or for ``seq_len``.

        Raises: InvalidInput if the choice is a hybrid: each of its parts has its own encoding.
        """
        from posenc_cli.encoding.request import Encoding, check_domain

        if self.parts:
            raise InvalidInput(
                f"--scheme {self.name} is {len(self.parts)} encodings; give one",
                hint=f"--scheme {self.scheme.name}",
            )
        if seq_len is None and self.positions is not None:
            seq_len = self.positions.length
        encoding = Encoding.of(self.scheme, self.given, seq_len=seq_len)
        if self.positions is not None:
            check_domain(encoding.bound, self.positions)
        return encoding

    def at_first(self, count: int) -> Choice:
        """Return the choice at its first ``count`` positions, or at as many as it has."""
        contents = [part.encoding().bound.content for part in self.parts or (self,)]
        rooms = [content.capacity.positions for content in contents if content.capacity]
        positions = Positions.contiguous(0, min(count, *rooms, count))
        parts = tuple(replace(part, positions=positions) for part in self.parts)
        return replace(self, positions=positions, parts=parts)

    def at_default(self, count: int = FIRST) -> Choice:
        """Return the choice at its first positions, unless an option or a grid gives positions."""
        parts = [part.encoding().bound.content for part in self.parts or (self,)]
        on_grid = any(content.waves is not None and content.capacity for content in parts)
        return self if self.positions is not None or on_grid else self.at_first(count)

    def requests(
        self, precision: Precision, *, table: str | None = None, head: int | None = None
    ) -> list[Request]:
        """Return the request for each part; ``table`` goes to rotary parts and ``head`` to biases.

        Raises: InvalidInput if a hybrid has no part that a table or a head applies to.
        """
        from posenc_cli.encoding.request import Request

        kinds = [part.scheme.kind for part in self.parts]
        for flag, value, kind in (("--table", table, "rotary"), ("--head", head, "bias")):
            if kinds and value is not None and kind not in kinds:
                raise InvalidInput(f"{flag} {value}: no part of {self.name} is {kind}")
        return [
            Request(
                part.encoding(),
                part.positions,
                precision,
                table=table if not kinds or part.scheme.kind == "rotary" else None,
                head=head if not kinds or part.scheme.kind == "bias" else None,
            )
            for part in self.parts or (self,)
        ]


def choice_of_layers(
    resolved: Resolved,
    given: Mapping[str, object],
    *,
    name: str,
    layer_type: str | None,
    origin: Mapping[str, str],
    **fields: Any,
) -> Choice:
    """Return the choice of the layers of a config, with the parameters in ``given`` replaced.

    ``name`` is how warnings name the config.

    Raises: InvalidInput if layers differ and no type is named, or if there is no such type.
    """
    layers = resolved.layer(layer_type)
    scheme = catalogue.find(layers.scheme)
    warnings = list(resolved.warnings)
    if scheme.weights and not {"weights", "seed"} & {*given}:
        warnings.append(f"{name}: {DRAWN_TABLE} (--set weights=FILE reads them)")
    context = layers.derived.get("context")
    return Choice(
        scheme,
        {**layers.values(), **given},
        **fields,
        warnings=tuple(warnings),
        origin=origin,
        context=None if context is None else (int(context.value), context.source),
        config=resolved.config,
        layer_type=layers.layer_type,
    )


def choice_of_schemes(name: str, given: dict[str, object], **fields: Any) -> Choice:
    """Return the choice of a scheme, or of the parts of a hybrid ``A+B``.

    Each part takes the parameters it has; ``part.name`` is a parameter of that part alone.
    """
    schemes = [catalogue.find(part) for part in part_names(name)]
    if len(schemes) == 1:
        return Choice(schemes[0], given, **fields)
    by_scheme = parameters_by_scheme(schemes, given)
    return hybrid(
        [Choice(scheme, mine, **fields) for scheme, mine in zip(schemes, by_scheme, strict=True)]
    )


def choice_like(name: str, given: Mapping[str, object], **fields: Any) -> Choice:
    """Return the choice that matches a library's function, with parameters replaced by ``given``.

    Raises: InvalidInput if posenc does not know the function.
    """
    from posenc_cli.configs.library import find_function

    function = find_function(name)
    return Choice(
        catalogue.find(function.scheme), {**function.set, **given}, **fields, origin={"like": name}
    )


def hybrid(parts: Sequence[Choice]) -> Choice:
    """Return the hybrid of these parts; a single part is returned as it is."""
    return parts[0] if len(parts) == 1 else replace(parts[0], given={}, parts=tuple(parts))


def part_names(name: str) -> list[str]:
    """Return the names of the parts of a hybrid ``A+B``, or the single name.

    Raises: InvalidInput if a name is empty or occurs twice.
    """
    names = [catalogue.ALIASES.get(part, part) for part in catalogue.parts_of(name)]
    if not all(names):
        raise InvalidInput(
            f"--scheme {abbreviated(name)}: must be a scheme, or A+B for a hybrid",
            hint="if a file name contains +, give a path with a slash" if "+" in name else None,
        )
    for part in names:
        if names.count(part) > 1:
            raise InvalidInput(f"--scheme {abbreviated('+'.join(names))}: {part} occurs twice")
    return names


def _meant(name: str, schemes: Sequence[Scheme]) -> str:
    """Return the schemes' own name for a parameter, if ``name`` is a config's key for it."""
    prefix, dot, key = name.rpartition(".")
    own = any(key in scheme.parameters for scheme in schemes)
    named = {key} if own else {scheme.parameter_named(key) for scheme in schemes} - {key}
    return f"{prefix}{dot}{named.pop() if named else key}"


def parameters_by_scheme(
    schemes: Sequence[Scheme], given: Mapping[str, object]
) -> list[dict[str, object]]:
    """Return the parameters of each of several schemes, from those given for all.

    Each scheme takes the parameters it has. ``a.NAME`` is for the first scheme alone, ``b.NAME``
    for the second, and ``scheme.NAME`` for the scheme of that name.

    Raises: InvalidInput for a parameter that no scheme has.
    """
    given = {_meant(name, schemes): value for name, value in given.items()}
    taken: set[str] = set()
    by_scheme = []
    for place, scheme in enumerate(schemes):
        letter, mine = LETTERS[place : place + 1], dict[str, object]()
        for key in scheme.parameters:
            # --set writes the dashes of a parameter's name as underscores, and so do these names.
            own = f"{letter}.{key}", f"{scheme.name}.{key}".replace("-", "_")
            if stated := [name for name in (*own, key) if name in given]:
                mine[key] = given[stated[0]]
            taken |= {key, *own}
        by_scheme.append(mine)
    for key in given:
        if key not in taken:
            names = ", ".join(dict.fromkeys(scheme.name for scheme in schemes))
            raise InvalidInput(
                f"--set {key}: none of {names} has a parameter {key!r}",
                hint=nearest(key, chain.from_iterable(scheme.parameters for scheme in schemes)),
                code="parameter",
            )
    return by_scheme
