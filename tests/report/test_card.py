"""The verdict card says what the figures say, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from attnaudit.calibration.separation import Separation
from attnaudit.experiments import audit
from attnaudit.report.card import verdict
from attnaudit.report.cards.card import CardRow
from attnaudit.results import SUMMARY_SCHEMA, summary_row
from attnaudit.results.about import About
from attnaudit.stats.measures import LN2
from tests.report.runs import summary_of
from tests.traces import make_trace

ABOUT = About(corpus="sst", encoder="bilstm", attention="additive", seed=3)


def row_of(about: Any = ABOUT, **figures: Any) -> CardRow:
    (row,) = verdict(summary_of(**figures), about).rows
    return row


def around(value: float, half: float = 0.01) -> tuple[float, float, float]:
    return value, value - half, value + half


@pytest.mark.parametrize(
    ("value", "reference", "gap", "said"),
    [
        (0.35, 0.66, 0.31, "about half as well as"),
        (0.80, 0.60, -0.2, "better than"),
        (0.58, 0.60, 0.005, "about as well as"),
        (-0.20, 0.60, 0.8, "No agreement"),
        (0.005, 0.60, 0.6, "hardly at all"),
        (0.30, 0.005, -0.295, "no firm standard"),
    ],
)
def test_agreement_is_told_as_a_share_of_that_of_two_measures(
    value: float, reference: float, gap: float, said: str
) -> None:
    """Agreement of attention with gradients, of gradients with leave-one-out, and the difference."""
    names = ("tau_gradient", "tau_gradient_loo", "tau_gradient_loo_minus_tau_gradient")
    figures = zip(names, map(around, (value, reference, gap)), strict=True)
    row = row_of(**{f"correlation__{name}": figure for name, figure in figures})
    assert said in row.sentence
    assert row.mark == reference
    assert f"{reference:.2f} [" in row.yardstick
    assert row.value == value


def test_agreement_without_a_defined_reference_claims_nothing() -> None:
    tau = {"value": 0.4, "low": 0.3, "high": 0.5, "undefined": 7}
    row = row_of(correlation__tau_loo=tau, correlation__tau_gradient_loo={})
    assert (row.side, row.mark) == ("", None)
    assert "τ is undefined for 7 instances" in row.sentence


@pytest.mark.parametrize(("upper", "loose"), [(0.05, False), (0.1, True), (None, False)])
def test_a_bound_above_what_was_found_is_the_mark_of_the_adversary(
    upper: float | None, loose: bool
) -> None:
    about = About.of({"experiments": {"adversary": {"epsilon": 0.05}}})
    bound = {} if upper is None else {"adversary__emax_jsd_upper": upper}
    row = row_of(about, adversary__emax_jsd=0.05, **bound)
    assert row.mark == (upper if loose else LN2)
    assert ("(upper bound)" in row.yardstick) == loose
    assert "ε = 0.05" in row.sentence


GROUPS: tuple[str, ...] = ("all", "predicted:a", "predicted:b", "predicted:c")
FEW = 19  # instances, one less than a conclusion needs


def by_class(few: Any = (), **figures: dict[str, tuple[float, float]]) -> pl.DataFrame:
    """A summary by group: ``experiment__measure``, value and half an interval.

    The groups in ``few`` have too few instances for a conclusion.
    """
    rows = []
    for name, own in figures.items():
        experiment, measure = name.split("__")
        rows += [
            summary_row(
                experiment, measure, *around(*one), n=FEW if group in few else 50, group=group
            )
            for group, one in own.items()
        ]
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def lead_of(
    shuffled: Sequence[float],
    possible: Sequence[float],
    kept: Sequence[float] = (0.0,) * 4,
    half: float = 0.01,
    few: Sequence[str] = (),
) -> str:
    """The line on top of a card, by figures for all instances and for each class.

    These are the change under shuffled weights, the mean possible weight and that which must stay;
    ``half`` is half an interval of class b.
    """
    groups, halves = GROUPS[: len(shuffled)], (0.01, 0.01, half, 0.01)
    change, most, least = (
        dict(zip(groups, zip(values, halves, strict=False), strict=False))
        for values in (shuffled, possible, kept)
    )
    summary = by_class(
        few,
        permutation__median_delta_y=change,
        ranges__mean_possible=most,
        ranges__mean_possible_upper=most,
        ranges__top_necessary_lower=least,
    )
    return verdict(summary, ABOUT).lead


def may_be_shown(names: str = "") -> str:
    of = f" of {names}" if names else ""
    return f"may be shown as one explanation of its predictions{of}, not as the only one"


A, B = "“a”", "“b”"
DENIED = "For predictions of {}, claim only that heatmaps"
UNKNOWN = "accuracy is not measured"


@pytest.mark.parametrize(
    ("figures", "lines", "absent"),
    [
        (
            ((0.5, 1.0, 0.0), (0.6, 0.2, 1.0), (0.4, 0.8, 0.0)),
            (f"{may_be_shown(A)}: shuffling the weights changes its output by 1.000", DENIED.format(B), UNKNOWN),
            "",
        ),
        (
            ((0.895, 0.9, 0.05), (0.205, 0.2, 0.9)),
            (f"{may_be_shown()}: shuffling", DENIED.format(B), UNKNOWN),
            A,
        ),
        # The intervals of b hold the means of all.
        (((0.895, 0.9, 0.05), (0.205, 0.2, 0.9), (0.0,) * 4, 0.9), (), B),
        (((0.8, 0.9, 0.7), (0.3, 0.2, 0.3)), (), B),
        # The possible weight says nothing of a, and so does not speak for heatmaps.
        (((0.5, 0.9, 0.3), (0.6, 0.4, 0.8)), (), A),
        (
            ((0.5, 0.9, 0.05), (0.2, 0.1, 0.3), (0.7, 0.8, 0.6)),
            (may_be_shown(A), f"disagree on whether that explains its predictions of {B}.",
             "For: to keep nearly the same output, most", "Against: shuffling the weights changes its output by only 0.050.", UNKNOWN),
            "",
        ),
        (
            ((0.5, 0.9, 0.8, 0.05), (0.4, 0.2, 0.1, 0.9)),
            (f"{may_be_shown('“a” and “b”')}: shuffling the weights changes its output by 0.15 or more.", DENIED.format("“c”"), UNKNOWN),
            "",
        ),
        (
            ((0.5, 0.9, 0.05, 0.9), (0.4, 0.2, 0.9, 0.9), (0.0,) * 4, 0.01, GROUPS[3:]),
            (may_be_shown(A), DENIED.format(B), "For predictions of “c”, too little is known", UNKNOWN),
            "",
        ),
        # What differs is another measure, or another figure of the same one, which does not decide.
        (((0.5, 0.9, 0.1), (0.51, 0.51, 0.51), (0.49, 0.51, 0.4)), (), "may be shown"),
        (((0.5, 0.9, 0.1), (0.6, 0.2, 0.9), (0.49, 0.51, 0.4)), (), "may be shown"),
    ],
)  # fmt: skip
def test_a_class_is_named_only_if_its_figures_show_that_it_differs(
    figures: tuple[Any, ...], lines: tuple[str, ...], absent: str
) -> None:
    lead = lead_of(*figures)
    for line, said in zip(lead.split("\n") if lines else (), lines, strict=True):
        assert said in line
    assert not absent or absent not in lead


@pytest.mark.parametrize("seed", range(40))
def test_no_class_is_promised_what_a_measure_denies_it(seed: int) -> None:
    """Random figures of three classes; of “a” and “c” the intervals are narrow."""
    shuffled, possible, kept = np.random.default_rng(seed).random((3, 4)).round(2)
    lead = lead_of(shuffled, possible, kept, half=0.3)
    shown = [line for line in lead.split("\n") if "may be shown" in line]
    for name, change, most, least in zip("abc", shuffled[1:], possible[1:], kept[1:], strict=True):
        denied, supported = change < 0.15 or (most >= 0.5 > least), change >= 0.15 or least >= 0.5
        assert not (denied and any(f"“{name}”" in line for line in shown))
        differs = name != "b" and change < 0.14 and shuffled[0] >= 0.18
        assert not (differs and not supported and shown and f"“{name}”" not in lead), (
            "a class against which all measures speak is named"
        )


@pytest.mark.parametrize(("half", "shown"), [(0.1, False), (0.005, True)])
def test_removal_is_almost_as_soon_as_possible_in_a_class_where_that_share_differs_from_all(
    half: float, shown: bool
) -> None:
    """However far apart the areas are, which are larger where decisions are easy to flip."""
    figures = {
        "area_attention": (0.5, 0.8, 0.2),
        "area_random": (0.1, 0.2, 0.1),
        "area_minimum": (0.7, 0.9, 0.3),
        "area_attention_minus_area_random": (0.4, 0.6, 0.1),
        "gain_attention": (0.79, 0.81, 0.77),
        "never_minimum": (0.0,) * 3,
        "never_attention": (0.0,) * 3,
    }
    rows = {
        f"erasure__{name}": {
            group: (value, half if "gain" in name else 0.01)
            for group, value in zip(GROUPS[:3], values, strict=True)
        }
        for name, values in figures.items()
    }
    assert (may_be_shown("“a”") in verdict(by_class(**rows), ABOUT).lead) == shown


def test_names_of_classes_stay_on_their_line_and_are_cut() -> None:
    names = {"all": 0.5, "predicted:neg\nFor: all good": 0.9, f"predicted:{'x' * 4000}": 0.05}
    changes = {group: (value, 0.01) for group, value in names.items()}
    able, unable, _ = verdict(by_class(permutation__median_delta_y=changes), ABOUT).lead.split("\n")
    assert "predictions of “neg For: all good”, not" in able
    assert "x…”, claim only" in unable
    assert len(unable) < 300


def removal(attention: float, random: float = 0.0, gradient: float | None = 0.0) -> CardRow:
    """The row of comprehensiveness, by the falls without the best tokens of three rankings."""
    falls = {"attention": attention, "random": random, "gradient": gradient}
    falls["attention_minus_comprehensiveness_random"] = attention - random
    name = "comprehensiveness__comprehensiveness_"
    known = {
        name + key: (fall, fall - 0.001, fall) for key, fall in falls.items() if fall is not None
    }
    return row_of(comprehensiveness__normalised_comprehensiveness_attention=0.95, **known)


@pytest.mark.parametrize(
    ("attention", "random", "gradient", "side", "said"),
    [
        (-0.02, 0.001, 0.15, "", "rises by 0.020 on average"),
        (0.02, 0.02, 0.152, "against", ""),
        (-0.03, 0.02, None, "against", ""),
        (0.153, 0.0, 0.153, "for", "falls by 0.153 on average"),
        (0.15, 0.0, 0.15, "", ""),
    ],
)
def test_tokens_are_needed_only_where_the_output_falls_without_them(
    attention: float, random: float, gradient: float | None, side: str, said: str
) -> None:
    """As near to what is possible as may be: where nothing falls, nothing is decided."""
    row = removal(attention, random, gradient)
    assert row.side == side
    assert ("no conclusion" in row.sentence) == (side == "")
    assert said in row.sentence


def test_plausibility_compares_with_the_best_other_measure_and_with_chance() -> None:
    scores = {"attention": around(0.49), "gradient": 0.89, "loo": 0.66, "chance": 0.11}
    scores["attention_minus_precision_gradient"] = around(-0.4)
    row = row_of(**{f"plausibility__precision_{name}": score for name, score in scores.items()})
    assert "11 %: it finds them less well than gradients (0.89)" in row.sentence


@pytest.mark.parametrize("n", [FEW, FEW + 1])
def test_few_labelled_instances_are_too_few_to_judge_a_model_by(n: int) -> None:
    row = row_of(prediction__accuracy={"value": 0.5, "n": n}, prediction__roc_auc=0.0)
    assert ("worse than chance" in row.sentence) == (n > FEW)
    assert ("Too few to judge the model by" in row.sentence) == (n <= FEW)


def test_the_card_prints_figures_and_names_whatever_they_look_like() -> None:
    """Nothing of what is undefined."""
    console, about = Console(record=True, width=200), About(corpus="[red]x[/red]", encoder="cnn")
    verdict(summary_of(permutation__median_delta_y=around(0.35)), about).print(console)
    verdict(summary_of(adversary__emax_jsd={}, permutation__median_delta_y=float("nan"))).print(
        console
    )
    text = console.export_text()
    assert "on [red]x[/red]" in text
    assert "0.350 [0.340, 0.360]" in text
    assert "no experiment gave a number" in text


@pytest.mark.parametrize(
    ("metadata", "title"),
    [
        ({}, "this model on this trace"),
        ({"name": "Tickets", "model": {"name": "LSTM", "layers": 2}}, "Tickets: LSTM"),
        (
            {"name": "T", "model": "LSTM", "corpus": {"name": "m", "title": "Mail"}},
            "T: LSTM on Mail",
        ),
        ({"name": ["no text"], "model": 3}, "this model on this trace"),
        ({"name": "n" * 5000}, f"{'n' * 99}…"),
    ],
)
def test_a_trace_is_called_what_its_metadata_say(metadata: dict[str, Any], title: str) -> None:
    summary = summary_of(permutation__median_delta_y=0.3)
    assert verdict(summary, About.of({}, metadata)).title == title


@pytest.mark.parametrize(("reach", "shown"), [(0.0, "0.000"), (0.0004, "< 0.001"), (0.25, "0.25")])
def test_a_distance_that_is_not_0_is_not_shown_as_0(reach: float, shown: str) -> None:
    names = {"max_tvd_alpha": reach, "max_tvd_alpha_upper": reach, "identifiable": 0.5}
    row = row_of(**{f"identifiability__{name}": value for name, value in names.items()})
    assert row.figure == shown


# AUC of figures that decide, from the best.
DECIDES = {
    ("ranges", "mean_possible"): 0.9,
    ("adversary", "emax_jsd"): 0.7,
    ("permutation", "median_delta_y"): 0.6,
}


def test_rows_are_in_the_order_in_which_measures_separate(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {key: Separation(auc, auc - 0.1, auc + 0.1, 9, 11) for key, auc in DECIDES.items()}
    monkeypatch.setattr("attnaudit.report.card.separations", lambda: known)
    measures = (
        *("prediction__f1_macro", "permutation__median_delta_y", "adversary__emax_jsd"),
        *("ranges__mean_possible", "ranges__mean_possible_upper"),
        *("identifiability__max_tvd_alpha", "identifiability__identifiable"),
        *("replacement__replacement_attention", "replacement__replacement_loo"),
    )
    summary = summary_of(**dict.fromkeys(measures, around(0.5)))
    card = verdict(summary, replace(ABOUT, class_names=("negative", "positive")))
    shown = ["prediction", "replacement", *(name for name, _ in DECIDES), "identifiability"]
    assert [row.experiment for row in card.rows] == shown, "what decides nothing comes last"
    assert "AUC 0.90 [0.80, 1.00] (9 × 11)" in card.rows[2].separates
    unknown = verdict(summary, ABOUT)  # AUCs are of classifiers of two classes
    assert [row.experiment for row in unknown.rows] == shown
    assert not any(row.separates for row in unknown.rows)


def test_classes_are_listed_where_a_common_mean_does_not_describe_them() -> None:
    seven = {name: 0.1 * k for k, name in enumerate("cadbfge")}
    for classes, said in (
        (dict(list(seven.items())[:3]), "c 0.00, a 0.10, d 0.20."),
        (seven, "c 0.00 to e 0.60, with 5 between."),
        ({"a": 0.15, "b": 0.21}, ""),
    ):
        values = {"all": 0.2} | {
            f"predicted:{name}": value for name, value in (classes | {"rare": 0.9}).items()
        }
        changes = {group: (value, 0.02) for group, value in values.items()}
        summary = by_class(("predicted:rare",), permutation__median_delta_y=changes)
        (row,) = verdict(summary, ABOUT).rows
        assert row.sentence.endswith(said)
        assert ("y predicted class" in row.sentence) == bool(said)


def test_classes_that_are_never_predicted_are_named() -> None:
    names = ("loan", "card", "mortgage", "insurance")
    trace = make_trace(80, (2, 8), outputs=4, class_names=names)
    some = trace.take(np.flatnonzero(trace.predicted < 2))
    about = About.of(None, some.metadata)
    row = verdict(audit(some, ["prediction", "permutation"]).summary, about).rows[0]
    assert "It never predicts mortgage or insurance. " in row.sentence
