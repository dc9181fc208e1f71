"""``posenc order-check``: whether attention with an encoding sees the order of its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_cli import catalogue
from posenc_cli.budget import check_size
from posenc_cli.cli.choosing import Choice
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import Json, one_of
from posenc_cli.errors import InvalidInput
from posenc_cli.records import replace

if TYPE_CHECKING:
    from posenc_cli.checks.order import Deviation, OrderCheck, OrderFinding, PartRequest
    from posenc_cli.positions import Positions

SENTENCE = "dog bites man"
_PAIRS = 32
_EXAMPLES = {
    "rope-longrope": {
        name: tuple(1 + 0.125 * pair for pair in range(_PAIRS))
        for name in ("short_factor", "long_factor")
    }
}
"""Parameters of the schemes that have no defaults for them."""


def order_check(
    choice: Choice | None,
    console: Console,
    *,
    tokens: Annotated[
        str | None,
        typer.Option(
            "--tokens",
            metavar="TEXT",
            help=f'a sentence, or a number of tokens [default: "{SENTENCE}", or --len]',
        ),
    ] = None,
    causal: Annotated[
        bool, typer.Option("--causal", help="let no token see those to its right")
    ] = False,
    expect: Annotated[
        str,
        typer.Option(
            "--expect",
            metavar="WHAT",
            help="auto (what the scheme declares), order or none",
        ),
    ] = "auto",
    as_json: Json = False,
) -> int:
    """Check that attention sees the order of its tokens.

    Without positions attention is blind to order: to it, dog bites man is man bites dog. One
    attention layer (float64, seeded weights) reads the tokens in several orders; how far outputs
    change is measured, and how far scores change when all positions move on. Without a scheme,
    all of them. Status 1 where one does not do what it declares.

    \b
    Examples:
      posenc order-check
      posenc order-check -s rope --tokens "the cat sat on the mat"
      posenc order-check -s nope --causal
      posenc order-check -s sinusoidal+t5 --expect order
    """
    from posenc_cli.checks.order import EXPECTATIONS, OrderCheck

    expectation: Any = one_of("--expect", expect, EXPECTATIONS)
    words, positions = _words(tokens, choice.positions if choice else None)
    check = OrderCheck(words, causal, expectation, positions)
    findings = _findings(check, choice)
    if choice is None and not causal and expectation == "auto":
        nope = _asked(catalogue.BUILT_IN["nope"], {})
        findings.append(replace(check, causal=True).finding(nope))
    if as_json:
        console.json("order-check", _fields(check, findings))
    else:
        console.result(_text(console, check, findings))
    return 0 if all(each.ok for each in findings) else 1


def _words(
    tokens: str | None, positions: Positions | None
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The tokens, and the positions asked for, of which each has one.

    Raises: InvalidInput where they are too many, or not as many as each other.
    """
    from posenc_cli.checks.order import MOST_WORDS, words_of

    if positions is None:
        return words_of(SENTENCE if tokens is None else tokens), ()
    check_size(positions.option, positions.count, MOST_WORDS, "tokens")
    words = words_of(str(positions.count) if tokens is None else tokens)
    if len(words) != positions.count:
        raise InvalidInput(
            f"--tokens: {len(words)} of them cannot be at {positions.count} positions",
            hint="without --tokens there are as many as positions",
        )
    return words, tuple(positions)


def _findings(check: OrderCheck, choice: Choice | None) -> list[OrderFinding]:
    """The finding on the encoding chosen, or on each of the catalogue."""
    if choice is not None:
        parts = choice.parts or (choice,)
        return [check.finding(*(_asked(part.scheme, part.given) for part in parts))]
    return [
        check.finding(_asked(scheme, _EXAMPLES.get(name, {})))
        for name, scheme in catalogue.BUILT_IN.items()
    ]


def _asked(scheme: Any, given: Any) -> PartRequest:
    from posenc_cli.checks.order import PartRequest

    return PartRequest(scheme, given)


def _fields(check: OrderCheck, findings: list[OrderFinding]) -> dict[str, Any]:
    from posenc_cli.checks.order import SEED

    return {
        "ok": all(each.ok for each in findings),
        "tokens": list(check.words),
        "causal": check.causal,
        "expect": check.expectation,
        "seed": SEED,
        "schemes": [
            {
                "scheme": each.scheme,
                "kind": each.kind,
                "params": dict(each.params),
                "weights": each.random_weights,
                "causal": each.causal,
                "ok": each.ok,
                "sees_order": each.sees_order,
                "sees_direction": each.sees_direction,
                "by_distance": each.by_distance,
                "expected_order": each.expected,
                "order": _deviation(each.order),
                "direction": _deviation(each.direction),
                "shift": None if each.shift is None else _deviation(each.shift),
                "verdict": each.verdict,
            }
            for each in findings
        ],
    }


def _deviation(found: Deviation) -> dict[str, float]:
    return {"value": found.value, "tolerance": found.tolerance}


def _text(console: Console, check: OrderCheck, findings: list[OrderFinding]) -> str:
    shown = " ".join(check.words)
    backward = " ".join(check.words[::-1])
    if len(shown) > 60:
        shown, backward = f"{len(check.words)} tokens", "the same in other orders"
    mask = ", under a causal mask" if check.causal else ""
    lines = [
        console.paragraph_text(f"{shown} → {backward}{mask}"),
        "",
        console.table_text(
            ["scheme", "order", "backward", "shift", "sees", "scores by"],
            [_row(each, causal=check.causal) for each in findings],
        ),
        "",
        *(console.paragraph_text(line) for line in (*_verdict(findings), *_random(findings))),
        console.paragraph_text(
            "order, backward: how far outputs change when tokens change places, of the largest; "
            "shift: how far scores change when all positions move on. 0: no more than rounding. "
            "distance only: not which of two tokens came first."
        ),
    ]
    return "\n".join(lines)


def _verdict(findings: list[OrderFinding]) -> list[str]:
    """Whether all do what is expected, or which do not."""
    failed = [each for each in findings if not each.ok]
    if not failed:
        does = "does what it declares" if len(findings) == 1 else "do what they declare"
        return [f"ok: {findings[0].scheme if len(findings) == 1 else 'all'} {does}"]
    return [
        f"FAILED: {each.scheme}: {each.verdict}; expected: "
        f"{'to see order' if each.expected else 'to be blind to order'}"
        f"{', scores by distance' if each.expected_distance else ''}"
        for each in failed
    ]


def _random(findings: list[OrderFinding]) -> list[str]:
    """Which encodings had their tables drawn, and how."""
    names: dict[str, list[str]] = {}
    for each in findings:
        if each.random_weights:
            names.setdefault(each.random_weights, []).append(each.scheme)
    return [f"{how}: {', '.join(schemes)}" for how, schemes in names.items()]


def _row(each: OrderFinding, *, causal: bool) -> list[str]:
    mask = ", causal" if each.causal and not causal else ""
    return [
        f"{each.scheme}{mask}",
        _number(each.order),
        _number(each.direction),
        "-" if each.shift is None else _number(each.shift),
        each.sees if each.ok else f"{each.sees} (FAILED)",
        each.scores_by,
    ]


def _number(found: Deviation) -> str:
    return "0" if found.zero else f"{found.value:.2g}"
