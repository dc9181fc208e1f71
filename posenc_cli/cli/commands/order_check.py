"""``posenc order-check``: whether attention with an encoding sees the order of tokens."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli import catalogue
from posenc_cli.budget import check_size
from posenc_cli.choice import Choice
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import option
from posenc_cli.cli.pictures import ColorPictureOptions, PlotOutput
from posenc_cli.cli.subjects import Encodings
from posenc_cli.errors import InvalidInput
from posenc_cli.records import items_by_key, replace
from posenc_cli.render.typesetting import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.checks.order import Deviation, OrderCheck, OrderFinding, PartRequest
    from posenc_cli.positions import Positions
    from posenc_cli.render.figure import Figure

_SENTENCE = "dog bites man"
_PAIRS = 32
_EXAMPLES: Mapping[str, Mapping[str, object]] = {
    "rope-longrope": {
        name: tuple(1 + 0.125 * pair for pair in range(_PAIRS))
        for name in ("short_factor", "long_factor")
    }
}
"""Example parameters of schemes that have no defaults for them."""


def order_check(
    encodings: Encodings,
    console: Console,
    *,
    tokens: Annotated[
        str | None,
        option(
            "--tokens",
            metavar="TEXT",
            help=f'a sentence, or a number of tokens [default: "{_SENTENCE}", or --len]',
        ),
    ] = None,
    causal: Annotated[bool, option("--causal", help="mask later tokens")] = False,
    expect: Annotated[
        Any,
        option(
            "--expect",
            metavar="WHAT",
            known=("auto", "order", "none"),
            help="expected result: order|none, or auto (as the scheme declares)",
        ),
    ] = "auto",
    picture: ColorPictureOptions,
    output: PlotOutput,
) -> int:
    """Test whether attention sees the order of tokens.

    Without positions, attention is blind to order: "dog bites man" equals "man bites dog". posenc
    runs one attention layer (float64, seeded weights) on the tokens in several orders. It measures
    how much the outputs change, and how much the scores change if all positions shift. Without a
    scheme, posenc tests all schemes. The status is 1 if an encoding does not behave as its
    scheme declares. --plot and --out draw the scores of each encoding in both orders. For a single
    encoding, they also draw the scores without positions.

    Examples:
      posenc order-check
      posenc order-check -s rope --tokens "the cat sat on the mat"
      posenc order-check -s nope --causal
      posenc order-check -s rope -s alibi
      posenc order-check -s rope --plot
      posenc order-check -s sinusoidal+t5 --expect order
    """
    output.check(picture)
    choices = encodings.whole
    if output.draws and not choices:
        raise InvalidInput(
            f"{'--plot' if output.plot else '--out'} needs an encoding to draw",
            hint="-s rope",
        )
    from posenc_cli.checks.order import OrderCheck

    words, positions = _words(tokens, choices[0].positions if choices else None)
    check = OrderCheck(words, causal, expect, positions)
    findings = _findings(check, choices)

    def figure() -> Figure:
        from posenc_cli.render.figures.attention import score_maps_figure

        maps = [check.score_maps(*_parts(choice)) for choice in choices]
        return score_maps_figure(maps, [finding.name for finding in findings])

    text, fields = _text(console, check, findings), partial(_fields, check, findings)
    output.present("order-check", text, figure, fields, look=picture, console=console)
    return 0 if all(finding.ok for finding in findings) else 1


def _words(
    tokens: str | None, positions: Positions | None
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the tokens, and the requested positions, one for each token.

    Raises: InvalidInput if there are too many, or their numbers differ.
    """
    from posenc_cli.checks.order import MOST_WORDS, words_of

    if positions is None:
        return words_of(_SENTENCE if tokens is None else tokens), ()
    check_size(positions.counted("order-check").option, positions.count, MOST_WORDS, "tokens")
    words = words_of(str(positions.count) if tokens is None else tokens)
    if len(words) != positions.count:
        raise InvalidInput(
            f"--tokens: {len(words)} tokens, but {positions.count} positions",
            hint="leave --tokens out to use one token per position",
        )
    return words, tuple(positions)


def _findings(check: OrderCheck, choices: Sequence[Choice]) -> list[OrderFinding]:
    """Return the finding on each chosen encoding, or on each scheme of the catalogue.

    With the catalogue comes a causal mask alone, which tells early tokens from late ones.
    """
    from posenc_cli.analysis.inspection.properties import names_apart
    from posenc_cli.checks.order import PartRequest

    if choices:
        found = [check.finding(*_parts(choice)) for choice in choices]
        names = names_apart([choice.source or choice.name for choice in choices])
        return [replace(each, name=name) for each, name in zip(found, names, strict=True)]
    findings = [
        check.finding(PartRequest(scheme, _EXAMPLES.get(name, {})))
        for name, scheme in catalogue.BUILT_IN.items()
    ]
    if not check.causal and check.expectation == "auto":
        nope = PartRequest(catalogue.BUILT_IN["nope"], {})
        findings.append(replace(check, causal=True).finding(nope))
    return findings


def _parts(choice: Choice) -> list[PartRequest]:
    from posenc_cli.checks.order import PartRequest

    return [PartRequest(part.scheme, part.given) for part in choice.parts or (choice,)]


def _fields(check: OrderCheck, findings: list[OrderFinding]) -> dict[str, Any]:
    from posenc_cli.checks.order import SEED

    return {
        **_answer(findings).fields(),
        "tokens": list(check.words),
        "causal": check.causal,
        "expect": check.expectation,
        "seed": SEED,
        "schemes": [
            {
                "name": finding.name,
                "scheme": finding.scheme,
                "kind": finding.kind,
                "params": dict(finding.params),
                "weights": finding.random_weights,
                "causal": finding.causal,
                "ok": finding.ok,
                "sees_order": finding.sees_order,
                "sees_direction": finding.sees_direction,
                "by_distance": finding.by_distance,
                "expected_order": finding.expected,
                "order": finding.order.as_dict(),
                "direction": finding.direction.as_dict(),
                "shift": finding.shift and finding.shift.as_dict(),
                "verdict": finding.verdict,
            }
            for finding in findings
        ],
    }


def _answer(findings: list[OrderFinding]) -> Answer:
    """Return whether all encodings do what they declare, or which do not."""
    ok = all(finding.ok for finding in findings)
    step = None if ok else "add --plot to draw the scores of the tokens forward and backward"
    return Answer(ok, "\n".join(_verdict_lines(findings)), next=step)


def _text(console: Console, check: OrderCheck, findings: list[OrderFinding]) -> str:
    forward, backward = " ".join(check.words), " ".join(check.words[::-1])
    if len(forward) > 60:
        forward, backward = f"{len(check.words)} tokens", "the same in other orders"
    mask = ", under a causal mask" if check.causal else ""
    header = ["scheme", "reordered", "reversed", "shifted", "sees", "scores by"]
    rows = [
        [
            f"{finding.name}{', causal' if finding.causal and not check.causal else ''}",
            *map(_deviation_text, (finding.order, finding.direction, finding.shift)),
            finding.sees if finding.ok else f"{finding.sees} (FAILED)",
            finding.scores_by,
        ]
        for finding in findings
    ]
    about = (
        f"{forward} → {backward}{mask}: change of the outputs when tokens are reordered or "
        "reversed, and of the scores when all positions shift (0: rounding only)"
    )
    answer = _answer(findings)
    answers = [*answer.verdict.splitlines(), *answer.lines()[1:]]
    lines = _random_lines(findings)
    if any(finding.sees_order and not finding.sees_direction for finding in findings):
        lines.append("distance only: cannot tell before from after")
    blocks = [
        "\n".join(map(console.typesetter.paragraph, [*answers, about])),
        console.typesetter.table(header, rows),
        "\n".join(map(console.typesetter.paragraph, lines)),
    ]
    return "\n\n".join(filter(None, blocks))


def _deviation_text(deviation: Deviation | None) -> str:
    if deviation is None:
        return "-"
    return "0" if deviation.zero else f"{deviation.value:.2g}"


def _verdict_lines(findings: list[OrderFinding]) -> list[str]:
    """Return what was measured on functions, and whether encodings behave as declared."""
    measured = [
        f"{'' if finding.expected is None else 'ok: '}{finding.name}: {finding.verdict}"
        for finding in findings
        if finding.ok and not finding.declares
    ]
    declared = [finding.name for finding in findings if finding.declares]
    if all(finding.ok for finding in findings):
        if len(declared) < 2:
            return [*measured, *(f"ok: {name} behaves as declared" for name in declared)]
        return [*measured, f"ok: all{' others' if measured else ''} behave as declared"]
    return measured + [
        f"FAILED: {finding.name}: {finding.verdict}; expected: "
        f"{'to see order' if finding.expected else 'to be blind to order'}"
        f"{', scores by distance' if finding.expected_distance else ''}"
        for finding in findings
        if not finding.ok
    ]


def _random_lines(findings: list[OrderFinding]) -> list[str]:
    """Return which encodings have randomly initialized tables, and how."""
    names = items_by_key(
        (each.random_weights, each.name) for each in findings if each.random_weights
    )
    return [f"{how}: {', '.join(schemes)}" for how, schemes in names.items()]
