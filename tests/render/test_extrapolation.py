"""The report on models trained short: its tables, its JSON, and its figure."""

import json

import pytest

from posenc_cli.errors import InvalidInput
from posenc_cli.experiments.request import ExperimentRequest
from posenc_cli.experiments.summary import RULE, STOPPED
from posenc_cli.records import replace
from posenc_cli.render.reports.extrapolation import ExperimentReport
from posenc_cli.render.typesetting import Typesetter
from tests.experiments.made import request_of, results


def law(label, stretch, seed, _length, place):
    """Rope fails past 8 places unless it is stretched; seeds differ by a constant."""
    fails = label == "rope" and stretch == "none" and place >= 8
    return 1.4 + 0.01 * seed + 2.0 * fails


def report_of(*names, jobs=slice(None), made=None, **fields):
    request = request_of(*names, **fields)
    return ExperimentReport.of(request, results(request, law, **(made or {}))[jobs])


def lines_of(report, width=140):
    return [" ".join(line.split()) for line in report.text(Typesetter(width)).splitlines()]


def test_verdicts_come_first_then_the_loss_by_position_whose_parts_are_the_lengths():
    lines = lines_of(report_of("rope", "alibi"))
    assert lines[:3] == ["rope: fails from 2x", "alibi: holds to 8x", ""]
    text = " ".join(report_of("rope", "alibi").text(Typesetter(80)).split())
    assert RULE in text
    assert "Encodings are not ranked." in text
    assert lines[3].startswith("text, trained length 8 characters: loss by position at 64")
    assert lines[5] == "encoding 0:8 8:16 16:32 32:64"
    assert lines[7:9] == [
        "rope 1.41 ±.02 3.41 ±.02 3.41 ±.02 3.41 ±.02",
        "alibi 1.41 ±.02 1.41 ±.02 1.41 ±.02 1.41 ±.02",
    ]


def test_the_last_places_of_each_length_follow_and_the_mean_that_hides_them():
    lines = lines_of(report_of("rope", tests=("2x",)))
    row = next(place for place, line in enumerate(lines) if line.startswith("loss over the last 4"))
    assert lines[row].endswith("last 4 places of each length, and over all of 16")
    assert lines[row + 2] == "encoding 8 16 mean 16"
    assert lines[row + 4] == "rope 1.41 ±.02 3.41 ±.02 2.41 ±.02"


def test_what_has_not_learnt_is_named_once_and_no_rule_is_told():
    report = report_of("rope", stretches=("none", "yarn"), made={"learnt": lambda *_: False})
    text = " ".join(report.text(Typesetter(80)).split())
    assert text.count(STOPPED) == 1
    told = "0 of 3 seeds have learned the task (seed 0: 2.500 nats at 8; needs at most 2.000)"
    assert f"{told} next: train longer (--steps)" in text
    assert report.fields()["next"] == "train longer (--steps)"
    assert RULE not in text


def test_stretches_have_rows_and_what_they_do_not_change_is_said():
    report = report_of(
        "rope", "alibi", stretches=("none", "yarn"), made={"unstretched": ("alibi",)}
    )
    lines = lines_of(report)
    head = lines.index("") + 5
    rows = [" ".join(line.split()[:2]) for line in lines[head : head + 3]]
    assert rows == ["rope none", "rope yarn", "alibi none"]
    assert "yarn does not change alibi." in lines
    assert "rope, yarn: holds to 8x" in lines


def test_untrained_buckets_are_named_with_the_lengths_that_meet_them():
    met = {16: "bucket 30 of t5", 32: "buckets 30–31 of t5", 64: "buckets 30–31 of t5"}
    untrained = {("t5", length): what for length, what in met.items()}
    text = " ".join(lines_of(report_of("t5", made={"untrained": untrained})))
    said = "bucket 30 of t5 at 16; buckets 30–31 of t5 at 32, 64."
    assert f"t5: used in tests without training: {said}" in text


def test_answers_have_a_share_and_a_needle_its_depths():
    lines = lines_of(report_of("rope", tasks=("needle",), trained=16, tests=("2x",)))
    assert lines[2].startswith("needle, trained length 16 symbols: loss by position at 32")
    assert lines[4] == "encoding 0:2 2:4 4:6 6:8 8:10"
    shares = lines.index("share of sequences answered without a mistake")
    assert lines[shares + 4] == "rope 0.50 ±.00 0.50 ±.00"


@pytest.mark.parametrize("width", [20, 40, 80])
def test_no_line_is_wider_than_the_screen(width):
    report = report_of("rope base=500000", "alibi", stretches=("none", "window"))
    assert max(map(len, report.text(Typesetter(width)).splitlines())) <= max(width, 25)


def test_json_has_what_was_promised():
    report = report_of("rope", "alibi", stretches=("none", "yarn"))
    document = json.loads(json.dumps(report.fields(), allow_nan=False))
    run = document["runs"][0]
    promised = {"scheme", "stretch", "task", "seed", "learnt", "lengths"}
    assert promised | {"encoding", "reason", "induction"} == {*run}
    assert len(document["runs"]) == 2 * 2 * 3
    assert [item["length"] for item in run["lengths"]] == [8, 16, 32, 64]
    assert run["lengths"][1]["last"] == pytest.approx(3.4)
    losses = {0: 1.4, 4: 1.4, 8: 3.4, 12: 3.4}
    curve = [{"from": at, "to": at + 4, "loss": loss} for at, loss in losses.items()]
    assert run["lengths"][1]["curve"] == curve
    assert document["summary"][0]["verdict"] == "fails from 2x"
    assert ExperimentRequest.from_fields(document["request"]) == report.request
    assert document["environment"] == {"torch": "2.13", "numpy": "2"}


def test_a_curve_in_json_has_means_of_many_places():
    curve = report_of("rope", trained=100, tests=("2x",)).fields()["runs"][0]["lengths"][1]["curve"]
    assert [(part["from"], part["to"]) for part in curve] == [
        (at, at + 50) for at in range(0, 200, 50)
    ]
    assert [part["loss"] for part in curve] == [3.08, 3.4, 3.4, 3.4]


def test_environments_that_differ_are_all_told():
    report = report_of("rope", "alibi")
    first, second = report.results
    other = replace(second, environment={"torch": "2.14", "numpy": "2"})
    fields = replace(report, results=(first, other)).fields()
    assert fields["environment"] == {"torch": "2.13 / 2.14", "numpy": "2"}


def test_the_figure_is_the_loss_by_position_and_by_length():
    by_position, by_length = report_of("rope", "alibi").figure().panels
    assert by_position.x_label == "position, in characters"
    assert by_position.spans == ((0.0, 7.0, "trained"),)
    assert [curve.name for curve in by_position.curves] == ["rope", "alibi"]
    assert by_position.curves[0].y[:9] == (*[pytest.approx(1.41)] * 8, pytest.approx(3.41))
    assert by_length.curves[0].x == (8.0, 16.0, 32.0, 64.0)
    assert by_length.x_scale == "log"
    assert by_position.y_label == by_length.y_label == "loss, in nats a token"


def test_the_intervals_are_drawn_of_few_curves_with_several_seeds():
    (curve,) = report_of("alibi").figure().panels[1].curves
    assert curve.envelope.low[0] < curve.y[0] < curve.envelope.high[0]
    assert report_of("alibi", seeds=1).figure().panels[1].curves[0].envelope is None
    many = report_of("alibi", "rope", "t5", "nope").figure().panels[1].curves
    assert {curve.envelope for curve in many} == {None}


def test_no_interval_of_losses_is_drawn_below_zero():
    def apart(_label, _stretch, seed, _length, _place):
        return 1.4 + 2.0 * seed

    request = request_of("rope", seeds=2)
    panels = ExperimentReport.of(request, results(request, apart)).figure().panels
    lows = [low for panel in panels for curve in panel.curves for low in curve.envelope.low]
    assert {*lows} == {0.0}


def test_a_figure_of_several_tasks_has_panels_of_each():
    panels = report_of("rope", tasks=("text", "needle"), trained=16, tests=("2x",)).figure().panels
    assert [panel.title.partition(":")[0] for panel in panels] == ["text", "text", *["needle"] * 2]
    assert panels[2].x_label == "depth of the needle, in tenths"
    assert panels[2].spans == ()


def test_more_encodings_than_looks_are_refused_in_one_figure():
    names = [f"rope base={number}" for number in range(40)]
    with pytest.raises(InvalidInput, match="which shows at most"):
        report_of(*names, seeds=1, tests=("2x",)).figure()
