"""The verdict card says what the figures say, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from attnaudit.calibration.separation import Separation
from attnaudit.experiments import audit
from attnaudit.report.card import verdict
from attnaudit.report.cards.card import CardRow
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.about import About
from attnaudit.stats.measures import LN2
from tests.report.runs import summary_of
from tests.traces import make_trace

ABOUT = About(corpus="sst", encoder="bilstm", attention="additive", seed=3)


def _tau(value: float, yardstick: float, gap: tuple[float, float] | None = None) -> pl.DataFrame:
    rows = {
        "correlation__tau_gradient": {"value": value, "low": value - 0.01, "high": value + 0.01},
        "correlation__tau_gradient_loo": {
            "value": yardstick,
            "low": yardstick - 0.01,
            "high": yardstick + 0.01,
        },
    }
    if gap is not None:
        rows["correlation__tau_gradient_loo_minus_tau_gradient"] = {
            "value": sum(gap) / 2,
            "low": gap[0],
            "high": gap[1],
        }
    return summary_of(**rows)


def test_agreement_is_told_as_a_share_of_the_yardstick_with_figures_and_intervals():
    (row,) = verdict(_tau(0.35, 0.66, gap=(0.30, 0.32)), ABOUT).rows
    assert (row.figure, row.interval) == ("0.35", "[0.34, 0.36]")
    assert "0.66 [0.65, 0.67]" in row.yardstick
    assert (
        row.sentence
        == "Attention agrees with gradients about half as well as the two importance measures agree with each other."
    )
    assert row.mark == 0.66


@pytest.mark.parametrize(
    ("value", "yardstick", "gap", "said"),
    [
        (0.05, 0.66, (0.5, 0.7), "hardly at all"),
        (0.22, 0.66, (0.4, 0.5), "about a third as well as"),
        (0.80, 0.60, (-0.3, -0.1), "better than"),
        (0.58, 0.60, (-0.01, 0.05), "about as well as"),
        (-0.20, 0.60, (0.7, 0.9), "No agreement"),
        (0.005, 0.60, (0.5, 0.7), "hardly at all"),
        (0.30, 0.04, (-0.3, -0.2), "no firm standard"),
    ],
)
def test_degrees_of_agreement(value: float, yardstick: float, gap: tuple[float, float], said: str):
    (row,) = verdict(_tau(value, yardstick, gap), ABOUT).rows
    assert said in row.sentence


def test_agreement_without_a_defined_yardstick_claims_nothing():
    summary = summary_of(
        correlation__tau_loo={"value": 0.4, "low": 0.3, "high": 0.5, "undefined": 7},
        correlation__tau_gradient_loo={},
    )
    (row,) = verdict(summary, ABOUT).rows
    assert "no reference value to compare that with" in row.sentence
    assert "τ is undefined for 7 instances" in row.sentence
    assert row.mark is None


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (0.004, "hardly changes"),
        (0.046, "changes a little"),
        (0.1, "changes moderately"),
        (0.2, "changes clearly"),
        (0.6, "strongly"),
    ],
)
def test_shuffling_is_told_by_how_far_the_output_moves(value: float, word: str):
    (row,) = verdict(
        summary_of(permutation__median_delta_y={"value": value, "low": value, "high": value}), ABOUT
    ).rows
    assert word in row.sentence
    assert f"{value:.3f}" in row.sentence
    assert ("below 0.15, a limit chosen for this card, the output" in row.sentence) == (
        value < 0.15
    )
    assert row.side == ("against" if value < 0.15 else "for")
    assert (
        row.clause
        == f"shuffling the weights changes its output by {'only ' if value < 0.15 else ''}{value:.3f}"
    )


def _by_class(measure: str, **classes: tuple[float, int]) -> pl.DataFrame:
    rows = [
        {"experiment": "correlation", "measure": measure, "group": f"predicted:{name}", "value": value, "low": value - 0.02,
         "high": value + 0.02, "n": n, "undefined": 0}
        for name, (value, n) in classes.items()
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def test_the_adversary_stands_beside_its_bound_and_ln_2_and_claims_existence_only():
    summary = summary_of(
        adversary__emax_jsd={"value": 0.656, "low": 0.65, "high": 0.66},
        adversary__emax_jsd_upper={"value": 0.67},
        adversary__certified={"value": 0.5},
    )
    (row,) = verdict(summary, {"experiments": {"adversary": {"epsilon": 0.05}}}).rows
    assert row.figure == "0.656"
    assert "0.670 (upper bound)" in row.yardstick
    assert "ln 2 = 0.693" in row.yardstick
    assert "almost as much as two attentions can" in row.sentence
    assert "ε = 0.05" in row.sentence
    assert "does not mean that training would find them" in row.sentence
    assert "50 % of instances" in row.sentence
    assert row.scale == (0.0, LN2)


def test_an_exact_adversary_stands_beside_ln_2_alone():
    summary = summary_of(
        adversary__emax_jsd={"value": 0.656},
        adversary__emax_jsd_upper={"value": 0.656},
        adversary__certified={"value": 1.0},
    )
    (row,) = verdict(summary, ABOUT).rows
    assert "upper bound" not in row.yardstick
    assert row.mark == LN2
    assert "100 % of instances" in row.sentence


@pytest.mark.parametrize(
    ("found", "upper", "side"),
    [
        (0.05, 0.05, "for"),
        (0.05, 0.1, "for"),
        (0.05, 0.4, ""),
        (0.05, None, ""),
        (0.4, 0.4, "against"),
    ],
)
def test_closeness_is_claimed_only_where_the_bound_proves_it(
    found: float, upper: float | None, side: str
):
    bound = {} if upper is None else {"adversary__emax_jsd_upper": {"value": upper}}
    (row,) = verdict(summary_of(adversary__emax_jsd={"value": found}, **bound), ABOUT).rows
    assert row.side == side


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (-0.2, -0.01, "flips predictions no sooner than a random order does"),
        (-0.01, 0.09, "later than necessary"),
        (0.01, 0.2, "later than necessary"),
    ],
)
def test_no_gain_over_a_random_order_is_claimed_only_where_the_interval_shows_it(
    low: float, high: float, says: str
):
    summary = summary_of(
        erasure__area_attention={"value": 0.4}, erasure__area_minimum={"value": 0.6}, erasure__area_random={"value": 0.38},
        erasure__area_attention_minus_area_random={"value": (low + high) / 2, "low": low, "high": high},
        erasure__never_minimum={"value": 0.1}, erasure__never_attention={"value": 0.2}, erasure__gain_attention={"value": 0.1},
    )  # fmt: skip
    (row,) = verdict(summary, ABOUT).rows
    assert row.side == "against"
    assert says in row.clause


FEW = 19  # instances, one less than a conclusion needs


def by_class(few: Sequence[str] = (), **figures: dict[str, tuple[float, float]]) -> pl.DataFrame:
    """A summary with the figures of all instances and of each class: ``experiment__measure``, and by group value and half an interval.

    The groups in ``few`` have too few instances for a conclusion.
    """
    rows = []
    for name, groups in figures.items():
        experiment, measure = name.split("__")
        for group, (value, half) in groups.items():
            n = FEW if group in few else 50
            row = {
                "experiment": experiment,
                "measure": measure,
                "group": group,
                "n": n,
                "undefined": 0,
                "value": value,
            }
            rows.append(row | {"low": value - half, "high": value + half})
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


GROUPS = ("all", "predicted:a", "predicted:b", "predicted:c")


def lead_of(
    shuffled: tuple[float, ...], possible: tuple[float, ...], kept: tuple[float, ...] = (0.0,) * 4, half: float = 0.01,
    of_few: tuple[float, ...] = (),
) -> str:  # fmt: skip
    """The line on top of a card, by the change under shuffled weights, the mean possible weight and that which must stay.

    A figure for all instances and one for each class; ``half`` is half an interval of class b, and ``of_few`` the first two figures of
    class c, which has too few instances for a conclusion.
    """
    groups = [
        {group: (value, half if group == "predicted:b" else 0.01) for group, value in zip(GROUPS, values, strict=False)}
        for values in ((*shuffled, *of_few[:1]), (*possible, *of_few[1:]), kept[: len(possible)])
    ]  # fmt: skip
    summary = by_class(
        GROUPS[3:] if of_few else (),
        permutation__median_delta_y=groups[0], ranges__mean_possible=groups[1], ranges__mean_possible_upper=groups[1],
        ranges__top_necessary_lower=groups[2],
    )  # fmt: skip
    return verdict(summary, ABOUT).lead


def may_be_shown(names: str = "") -> str:
    of = f" of {names}" if names else ""
    return f"may be shown as one explanation of its predictions{of}, not as the only one"


def test_a_mean_over_two_classes_that_disagree_is_no_verdict_on_either():
    lead = lead_of((0.5, 1.0, 0.0), (0.6, 0.2, 1.0), (0.4, 0.8, 0.0))
    able, unable, _ = lead.split("\n")  # the last line says that accuracy is not known
    assert f"{may_be_shown('“a”')}: shuffling" in able
    assert "by 1.000" in able
    assert unable.startswith("For predictions of “b”, claim only that heatmaps")


def test_a_class_against_which_all_measures_speak_is_named():
    # What is said of all is true of “a”.
    first, exception, _ = lead_of((0.895, 0.9, 0.05), (0.205, 0.2, 0.9)).split("\n")
    assert f"{may_be_shown()}: shuffling" in first
    assert exception.startswith("For predictions of “b”, claim only that heatmaps")
    assert "“b”" not in lead_of((0.8, 0.9, 0.7), (0.3, 0.2, 0.3))


def test_a_class_whose_measures_disagree_is_no_part_of_a_verdict_on_all():
    able, both, *ends = lead_of((0.5, 0.9, 0.05), (0.2, 0.1, 0.3), kept=(0.7, 0.8, 0.6)).split("\n")
    assert may_be_shown("“a”") in able
    assert both.endswith("disagree on whether that explains its predictions of “b”.")
    assert ends[0].startswith("For: to keep nearly the same output, most")
    assert ends[1] == "Against: shuffling the weights changes its output by only 0.050."
    first, exception, *_ = lead_of((0.895, 0.9, 0.05), (0.2, 0.2, 0.2), kept=(0.7,) * 3).split("\n")
    assert may_be_shown() in first
    assert exception.endswith("disagree on whether that explains its predictions of “b”.")
    kept = lead_of((0.16, 0.16, 0.14), (0.2, 0.2, 0.1), kept=(0.7, 0.6, 0.8), half=0.03)
    assert "“b”" not in kept, "what speaks against is not apart"


def test_each_of_three_classes_has_the_verdict_that_is_true_of_it():
    changes = (0.5, 0.9, 0.8, 0.05), (0.4, 0.2, 0.1, 0.9)
    able, unable, _ = lead_of(*changes).split("\n")
    reason = "shuffling the weights changes its output by 0.15 or more"
    assert able.endswith(f"{may_be_shown('“a” and “b”')}: {reason}."), "their figures differ"
    assert unable.startswith("For predictions of “c”, claim only that heatmaps")
    alike, _, _ = lead_of(*changes, kept=(0.3, 0.8, 0.9, 0.0)).split("\n")
    assert f"{reason}; to keep nearly the same output, most of the attention must stay" in alike
    unable, both, *_ = lead_of((0.2, 0.05, 0.06, 0.9), (0.8, 0.9, 0.95, 0.6)).split("\n")
    assert unable.startswith("For predictions of “a” and “b”, claim only that heatmaps")
    assert both.endswith("disagree on whether that explains its predictions of “c”.")


def test_a_class_of_which_nothing_is_known_does_not_hide_that_others_disagree():
    able, unable, silent, _ = lead_of((0.5, 0.9, 0.05), (0.4, 0.2, 0.9), of_few=(0.9, 0.9)).split(
        "\n"
    )
    assert "its predictions of “a”, not" in able
    assert unable.startswith("For predictions of “b”, claim only")
    assert (
        silent
        == "For predictions of “c”, too little is known: claim only that heatmaps show where it puts weight."
    )


@pytest.mark.parametrize("seed", range(40))
def test_no_class_is_promised_what_a_measure_denies_it(seed: int):
    """Random figures of three classes; of “a” and “c” the intervals are narrow."""
    shuffled, possible, kept = np.random.default_rng(seed).random((3, 4)).round(2)
    lead = lead_of(tuple(shuffled), tuple(possible), tuple(kept), half=0.3)
    shown = [line for line in lead.split("\n") if "may be shown" in line]
    for name, change, most, least in zip("abc", shuffled[1:], possible[1:], kept[1:], strict=True):
        denied, supported = change < 0.15 or (most >= 0.5 > least), change >= 0.15 or least >= 0.5
        assert not (denied and any(f"“{name}”" in line for line in shown))
        differs = name != "b" and change < 0.14 and shuffled[0] >= 0.18
        assert not (differs and not supported and shown and f"“{name}”" not in lead), (
            "a class against which all measures speak is named"
        )


def test_a_verdict_on_a_class_does_not_undo_one_on_all_within_an_interval():
    """Half of the attention could be elsewhere, in “a” hardly less: what is apart is another measure, which speaks for all anyway.

    Or another figure of the same measure, which does not decide.
    """
    for possible in ((0.51, 0.51, 0.51), (0.6, 0.2, 0.9)):
        lead = lead_of((0.5, 0.9, 0.1), possible, kept=(0.49, 0.51, 0.4))
        assert "may be shown" not in lead
        assert "disagree" in lead.split("\n")[0]


@pytest.mark.parametrize(("half", "shown"), [(0.1, False), (0.005, True)])
def test_removal_is_almost_as_soon_as_possible_in_a_class_where_that_share_differs_from_all(
    half: float, shown: bool
):
    """However far apart the areas are, which are larger where decisions are easy to flip."""
    figures = {
        "area_attention": (0.5, 0.8, 0.2),
        "area_random": (0.1, 0.2, 0.1),
        "area_minimum": (0.7, 0.9, 0.3),
        "never_minimum": (0.0,) * 3,
    }
    figures |= {
        "area_attention_minus_area_random": (0.4, 0.6, 0.1),
        "gain_attention": (0.79, 0.81, 0.77),
    }
    rows = {
        f"erasure__{name}": {group: (value, half if "gain" in name else 0.01) for group, value in zip(GROUPS, values, strict=False)}
        for name, values in {**figures, "never_attention": (0.0,) * 3}.items()
    }  # fmt: skip
    lead = verdict(by_class((), **rows), ABOUT).lead
    assert ("may be shown as one explanation of its predictions of “a”" in lead) == shown


def test_names_of_classes_stay_on_their_line_and_are_cut():
    names = {"all": 0.5, "predicted:neg\nFor: all good": 0.9, f"predicted:{'x' * 4000}": 0.05}
    summary = by_class(
        permutation__median_delta_y={group: (value, 0.01) for group, value in names.items()}
    )
    able, unable, _ = verdict(summary, ABOUT).lead.split("\n")
    assert "predictions of “neg For: all good”, not" in able
    assert "x…”, claim only" in unable
    assert len(unable) < 300


def comprehensiveness(fall: float) -> pl.DataFrame:
    attention, gap = (
        "comprehensiveness__comprehensiveness_attention",
        "comprehensiveness_attention_minus_comprehensiveness_random",
    )
    rows = {
        attention: fall,
        "comprehensiveness__comprehensiveness_random": 0.0,
        f"comprehensiveness__{gap}": fall,
    }
    rows["comprehensiveness__normalised_comprehensiveness_attention"] = 0.95
    rows[attention.replace("attention", "gradient")] = fall
    return summary_of(
        **{
            name: {"value": value, "low": value - 0.001, "high": value + 0.001}
            for name, value in rows.items()
        }
    )


def test_tokens_are_needed_only_where_the_output_falls_without_them():
    """As near to what is possible as may be: where nothing falls, nothing is needed."""
    assert "needs the most attended tokens" in verdict(comprehensiveness(0.152), ABOUT).lead
    assert "needs the most attended tokens" not in verdict(comprehensiveness(0.15), ABOUT).lead
    assert "needs the most attended tokens" not in verdict(comprehensiveness(0.03), ABOUT).lead


def test_a_class_has_a_line_only_where_its_figures_show_that_it_differs():
    """Neither a wide interval nor a measure that says nothing of a class makes it an exception."""
    assert "“b”" in lead_of((0.895, 0.9, 0.05), (0.205, 0.2, 0.9))
    wide = lead_of((0.895, 0.9, 0.05), (0.205, 0.2, 0.9), half=0.9)
    assert "“b”" not in wide, "its intervals hold the means of all"
    # Of a the possible weight says nothing, and so does not speak for heatmaps.
    lead = lead_of((0.5, 0.9, 0.3), (0.6, 0.4, 0.8))
    assert "the measures below disagree" in lead
    assert "“a”" not in lead


def test_plausibility_compares_with_the_best_other_measure_and_with_chance():
    summary = summary_of(
        plausibility__precision_attention={"value": 0.49, "low": 0.47, "high": 0.51},
        plausibility__precision_gradient={"value": 0.89},
        plausibility__precision_loo={"value": 0.66},
        plausibility__precision_chance={"value": 0.11},
        plausibility__precision_attention_minus_precision_gradient={
            "value": -0.4,
            "low": -0.42,
            "high": -0.38,
        },
    )
    (row,) = verdict(summary, ABOUT).rows
    assert row.sentence == (
        "49 % of attention's top tokens are known to matter, where a random order would give 11 %: "
        "it finds them less well than gradients (0.89)."
    )


def test_few_labelled_instances_are_too_few_to_judge_a_model_by():
    for n, enough in ((19, False), (20, True)):
        scores = {
            "prediction__accuracy": {"value": 0.5, "n": n},
            "prediction__roc_auc": {"value": 0.0, "low": 0.0, "high": 0.0},
        }
        (row,) = verdict(summary_of(**scores), ABOUT).rows
        assert ("worse than chance" in row.sentence) == enough
        assert (
            row.sentence.endswith("Too few to judge the model by: 20 or more are needed.") != enough
        )


def test_experiments_that_are_missing_or_undefined_are_left_out():
    assert verdict(pl.DataFrame(schema=SUMMARY_SCHEMA), ABOUT).rows == ()
    assert (
        verdict(
            summary_of(adversary__emax_jsd={}, permutation__median_delta_y={"value": float("nan")}),
            ABOUT,
        ).rows
        == ()
    )


def test_the_card_prints_figures_and_names_whatever_they_look_like():
    console = Console(record=True, width=120)
    verdict(
        _tau(0.35, 0.66), About(corpus="[red]x[/red]", encoder="bilstm", attention="dot")
    ).print(console)
    text = console.export_text()
    assert "bilstm + dot on [red]x[/red]" in text
    assert "0.35" in text
    assert "[0.34, 0.36]" in text
    verdict(pl.DataFrame(schema=SUMMARY_SCHEMA)).print(console)
    assert "no experiment gave a number" in console.export_text()


@pytest.mark.parametrize(
    ("metadata", "title"),
    [
        ({}, "this model on this trace"),
        ({"name": "Support tickets"}, "Support tickets"),
        ({"name": "Support tickets", "model": "LSTM of March"}, "Support tickets: LSTM of March"),
        (
            {"name": "Support tickets", "model": {"name": "LSTM of March", "layers": 2}},
            "Support tickets: LSTM of March",
        ),
        ({"model": "LSTM of March"}, "LSTM of March on this trace"),
        (
            {"name": "Tickets", "model": "LSTM of March", "corpus": "mail"},
            "Tickets: LSTM of March on mail",
        ),
        (
            {"name": "Tickets", "corpus": {"name": "mail", "title": "Mail of March"}},
            "Tickets: this model on Mail of March",
        ),
        ({"name": ["no text"], "model": 3}, "this model on this trace"),
        ({"name": "n" * 5000}, f"{'n' * 99}…"),
    ],
)
def test_a_trace_is_called_what_its_metadata_say(metadata: dict[str, object], title: str):
    assert verdict(_tau(0.35, 0.66), About.of({}, metadata)).title == title


@pytest.mark.parametrize(("seed", "known"), [(3, 3), (-1, None), ("3", None), (2.5, None)])
def test_a_seed_that_metadata_give_draws_rows_where_it_is_one(seed: object, known: int | None):
    assert About.of({}, {"seed": seed}).seed == known


def removal(attention: float, random: float = 0.0, gradient: float | None = 0.0) -> CardRow:
    """The card row of comprehensiveness, by the falls of the probability without the best tokens of three rankings."""
    falls = {
        "attention": attention,
        "random": random,
        "gradient": gradient,
        "attention_minus_comprehensiveness_random": attention - random,
    }
    known = {
        f"comprehensiveness__comprehensiveness_{name}": fall
        for name, fall in falls.items()
        if fall is not None
    }
    rows = {
        name: {"value": fall, "low": fall - 0.001, "high": fall} for name, fall in known.items()
    }
    return verdict(summary_of(**rows), ABOUT).rows[0]


@pytest.mark.parametrize(("attention", "random", "gradient", "side"), [
    (0.02, 0.02, 0.03, ""), (-0.02, 0.001, 0.15, ""), (0.02, 0.02, 0.152, "against"), (0.02, 0.4, 0.0, "against"),
    (0.3, 0.3, 0.0, "against"),
])  # fmt: skip
def test_attention_is_not_contradicted_where_nothing_makes_the_output_fall(
    attention: float, random: float, gradient: float, side: str
):
    row = removal(attention, random, gradient)
    assert row.side == side
    assert ("no conclusion" in row.sentence) == (side == "")
    assert ("0.15, a limit chosen for this card" in row.sentence) == (attention < 0.15)


def test_attention_and_random_tokens_alone_do_not_show_that_nothing_makes_the_output_fall():
    row = removal(-0.03, 0.02, gradient=None)
    assert row.side == "against"
    assert "no conclusion" not in row.sentence


def test_a_fall_below_0_is_told_as_a_rise():
    assert (
        "rises by 0.020 on average; with those of random tokens, it falls by less than 0.001."
        in removal(-0.02, 0.0001).sentence
    )
    assert (
        "falls by 0.200 on average; with those of random tokens, it rises by 0.100."
        in removal(0.2, -0.1).sentence
    )


@pytest.mark.parametrize(
    ("reach", "shown"), [(0.0, "0.000"), (0.0004, "< 0.001"), (0.0005, "0.001"), (0.25, "0.25")]
)
def test_a_distance_that_is_not_0_is_not_shown_as_0(reach: float, shown: str):
    names = {"max_tvd_alpha": reach, "max_tvd_alpha_upper": reach, "identifiable": 0.5}
    (row,) = verdict(
        summary_of(
            **{f"identifiability__{name}": {"value": value} for name, value in names.items()}
        ),
        ABOUT,
    ).rows
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
    monkeypatch.setattr("attnaudit.report.card.shipped", lambda: None)
    measures = (
        *("prediction__f1", "permutation__median_delta_y", "adversary__emax_jsd"),
        *("ranges__mean_possible", "ranges__mean_possible_upper"),
        *("identifiability__max_tvd_alpha", "identifiability__identifiable"),
    )
    numbers = {name: {"value": 0.5, "low": 0.4, "high": 0.6} for name in measures}
    summary = summary_of(**numbers)
    card = verdict(summary, replace(ABOUT, class_names=("negative", "positive")))
    shown = ["prediction", *(experiment for experiment, _ in DECIDES), "identifiability"]
    assert [row.experiment for row in card.rows] == shown, "what decides nothing comes last"
    assert "AUC 0.90 [0.80, 1.00] (9 × 11)" in card.rows[1].separates
    unknown = verdict(summary, ABOUT)  # AUCs are of classifiers of two classes
    assert [row.experiment for row in unknown.rows] == shown
    assert not any(row.separates for row in unknown.rows)


def test_classes_are_listed_where_a_common_mean_does_not_describe_them() -> None:
    overall, values = _tau(0.2, 0.41), {name: (0.1 * k, 100) for k, name in enumerate("cadbfge")}
    three, alike = dict(list(values.items())[:3]), {"a": (-0.05, 100), "b": (0.01, 100)}
    for classes, said in (
        ({**three, "rare": (0.9, 3)}, "c 0.00, a 0.10, d 0.20."),
        (values, "c 0.00 to e 0.60, with 5 between."),
        (alike, ""),
    ):
        (row,) = verdict(pl.concat([overall, _by_class("tau_gradient", **classes)]), ABOUT).rows
        assert row.sentence.endswith(said)
        assert ("y predicted class" in row.sentence) == bool(said)


def test_classes_that_are_never_predicted_are_named() -> None:
    names = ("loan", "card", "mortgage", "insurance")
    trace = make_trace(80, (2, 8), outputs=4, class_names=names)
    some = trace.take(np.flatnonzero(trace.predicted < 2))
    about = About.of(None, some.metadata)
    row = verdict(audit(some, ["prediction", "permutation"]).summary, about).rows[0]
    assert "It never predicts mortgage or insurance. " in row.sentence
