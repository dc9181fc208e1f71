"""``posenc heads``: which attention patterns an encoding can express, and how far."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from posenc_cli.choice import DRAWN_TABLE, Choice
from posenc_cli.cli.choosing import (
    ComputeOptions,
    ParameterOptions,
    PositionOptions,
)
from posenc_cli.cli.console import Console, steps_shown
from posenc_cli.cli.options import TestLengths, option, some_of, whole_option
from posenc_cli.cli.pictures import PictureOptions, PlotOutput
from posenc_cli.cli.subjects import Encodings, EncodingSourceOptions
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.context_extension.stretches import NONE, ROPE_STRETCH_NAMES
from posenc_cli.formulas.parameters import Param, parameter
from posenc_cli.records import Record

_TIMES = ("2x", "4x", "8x")
"""The default test lengths, as multiples of the trained length."""
_L2 = parameter(
    "l2", Annotated[float, Param("weight of the penalty", minimum=1e-12, maximum=1e6)], default=1e-4
)


class _Unheard(Console):
    """A console that drops warnings, because not all of them concern heads."""

    def warning(self, *texts: str) -> None:
        """Print nothing."""


class HeadEncodings(Record):
    """The encodings that a command line names, in order, without positions."""

    choices: tuple[Choice, ...]

    @staticmethod
    def of_options(
        source: EncodingSourceOptions,
        parameters: ParameterOptions,
        console: Console,
    ) -> HeadEncodings:
        """Return the encodings that the options name, with the warnings that concern heads.

        Raises: InvalidInput if none is named, or an option concerns an encoding that is not named.
        """
        where, computing = PositionOptions(), ComputeOptions()
        choices = Encodings.of_options(source, where, parameters, computing, _Unheard()).parts
        for choice in choices:
            for warning in choice.warnings:
                if choice.scheme.kind != "bias" or DRAWN_TABLE not in warning:
                    console.warning(f"{choice.source}: {warning}" if choices[1:] else warning)
        return HeadEncodings(choices)


def heads(
    encodings: HeadEncodings,
    console: Console,
    *,
    train: Annotated[
        int, whole_option("--train", minimum=2, help="number of positions to fit the head on")
    ] = 100,
    test: TestLengths = None,
    targets: Annotated[
        list[str] | None,
        option(
            "--target",
            metavar="WHAT",
            help="previous|back:K|first|same:K|window:W, or a file; repeatable [default: previous]",
        ),
    ] = None,
    stretches: Annotated[
        Any,  # tuple[str, ...] | None
        option(
            "--stretch",
            metavar="NAMES",
            help=f"RoPE scaling at test time: {'|'.join(ROPE_STRETCH_NAMES)}; comma-separated "
            "[default: none]",
            parse=partial(some_of, known=ROPE_STRETCH_NAMES),
        ),
    ] = None,
    l2: Annotated[
        float,
        option(
            "--l2",
            metavar="X",
            help="weight of the L2 penalty",
            parse=lambda flag, text: _L2.value(text, flag=flag),
        ),
    ] = 1e-4,
    head: Annotated[
        int | None,
        whole_option("--head", metavar="H", minimum=0, help="head of a bias [default: 0]"),
    ] = None,
    require: Annotated[
        list[str] | None,
        option(
            "--require",
            metavar="RULE",
            help="status 1 unless RULE holds for every encoding; repeatable",
        ),
    ] = None,
    picture: PictureOptions,
    output: PlotOutput,
) -> int:
    """Test which attention patterns an encoding can express.

    posenc fits one attention head to a target pattern at the trained length, and tests it at longer
    lengths. The head sees only positions. The fit has a single optimum, so it needs no seed. posenc
    tests the parts of a hybrid one by one.

    --target names the tokens to attend to. The target previous is the token before the query, and
    first is the first token. The target back:K is the token K positions back. The target same:K is
    the tokens K, 2K, … positions back. The target window:W is the last W tokens, including the
    query's own. A file holds a matrix of zeros and ones (queries × keys).

    The rule previous@8x>=0.9 means: at 8 times the trained length, at least 0.9 of the attention is
    on the target. The rule first@400.right<=0.5 means: at length 400, at most half of the queries
    have their largest score on the target.

    --plot and --out draw the fitted head's scores by offset. For rotary schemes, they also draw the
    amplitude of each frequency pair.

    Examples:
      posenc heads -s rope -s sinusoidal -s t5 -s alibi --dim 32
      posenc heads -s rope --dim 32 --target back:40 --stretch none,linear,ntk,yarn
      posenc heads -m llama-3-8b --train 128 --test 4x --target first
      posenc heads -s rope -d 32 --require "previous@8x.right>=0.9"
      posenc heads -s rope -d 32 --target first --out first.png
    """
    output.check(picture)
    from posenc_cli.analysis.head_patterns.heads import (
        HeadRequirement,
        HeadsRequest,
        check_requirements,
        findings,
        target_of,
    )

    required = [HeadRequirement.parse(text) for text in require or ()]
    names = dict.fromkeys(targets or [rule.target for rule in required] or ["previous"])
    numbers = {
        int(text.removesuffix("x")) * (train if text.endswith("x") else 1)
        for text in test or _TIMES
    }
    lengths = tuple(sorted(numbers))
    check_requirements(required, [*names], train, lengths)
    request = HeadsRequest(
        tuple(map(target_of, names)),
        train,
        lengths,
        stretches or (NONE,),
        l2,
        head,
    )
    if output.draws and len(names) > 1:
        raise InvalidInput(
            f"{'--plot' if output.plot else '--out'}: a figure shows one target, and "
            f"{len(names)} are given: {', '.join(names)}",
            hint="draw each target by itself; the report and --json show all of them",
        )
    with steps_shown(console, "heads") as progress:
        results = request.results(encodings.choices, progress)
    checked = findings(required, results)
    ok = all(finding.ok for finding in checked)
    if not (console.quiet and checked and ok and not output.draws and not output.json):
        from posenc_cli.render.reports.heads import heads_fields, heads_figure, heads_text

        output.present(
            "heads",
            heads_text(results, checked, console.typesetter, pictured=output.draws),
            partial(heads_figure, results),
            partial(heads_fields, results, checked),
            look=picture,
            console=console,
        )
    return 0 if ok else 1
