"""Heatmaps: weights stand on their own tokens, and what is not shown is counted."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnaudit.core.errors import InputError
from attnaudit.experiments import audit
from attnaudit.report.sections.heatmaps import (
    LONGEST,
    SMALLEST_GAP,
    Gap,
    full_colour,
    heatmap,
    marks_words,
    read_instances,
    shown_positions,
    visible,
)
from attnaudit.report.sections.instances import (
    CONFIDENT,
    LISTED,
    SHORTEST,
    STRIKING,
    check_same_instances,
    overview,
    rows_shown,
    select,
)
from attnaudit.results.record import RunRecord
from attnaudit.trace import Trace
from tests.traces import make_trace


def _audited(trace: Trace) -> tuple[Trace, pl.DataFrame]:
    results = audit(trace)
    record = RunRecord(
        "run", results.summary, tables={name: result.rows for name, result in results.items()}
    )
    return trace, record.rows(np.arange(len(trace)))


@given(st.integers(1, 200), st.integers(10, 60), st.integers(0, 1000))
def test_trimming_accounts_for_every_token_in_order(length: int, budget: int, seed: int):
    weights = np.random.default_rng(seed).random(length)
    positions, pieces = shown_positions([weights], budget)
    assert sum(piece.size if isinstance(piece, Gap) else 1 for piece in pieces) == length
    assert [piece for piece in pieces if not isinstance(piece, Gap)] == positions.tolist()
    assert (
        all(piece.size >= SMALLEST_GAP for piece in pieces if isinstance(piece, Gap))
        or length <= budget
    )
    assert int(weights.argmax()) in positions


def test_the_heaviest_tokens_of_every_strip_are_shown():
    weights = np.zeros((2, 500))
    weights[0, 400], weights[1, 17] = 1.0, 9.0
    positions, _ = shown_positions(list(weights), 40)
    assert {400, 17} <= set(positions.tolist())


def test_shades_are_the_weights_relative_to_the_top_of_their_own_strip():
    trace, rows = _audited(make_trace(30, (3, 25)))
    for instance in read_instances(trace, rows):
        picture = heatmap(instance, 120)
        assert [strip.kind for strip in picture.strips] == [
            "alpha",
            "adversary",
            "gradient",
            "loo",
            "ranges",
        ]
        for strip in picture.strips[:-1]:
            weights = instance.weights[strip.kind]
            assert np.array(strip.shades) * strip.full / 1000 == pytest.approx(
                weights, abs=strip.full / 1999
            )
            assert strip.top == pytest.approx(weights.max())
        assert f"{instance.probability:.3f}" in picture.strips[0].note
        assert f"{instance.adversarial_probability:.3f}" in picture.strips[1].note


def test_a_bar_spans_the_weights_of_a_token_and_its_mark_is_the_own_weight():
    trace, rows = _audited(make_trace(20, (2, 200), seed=4))
    for k, instance in enumerate(read_instances(trace, rows)):
        strip = next(one for one in heatmap(instance, 40).as_json()["strips"] if one[0] == "ranges")
        positions, _ = shown_positions(list(instance.weights.values()), 40)
        known = np.array([rows["necessary"][k].to_list(), rows["possible"][k].to_list()]).T[
            positions
        ]
        assert np.array(strip[-1]) / 1000 == pytest.approx(known, abs=5e-4)
        assert np.array(strip[-2]) / 1000 == pytest.approx(
            instance.weights["alpha"][positions], abs=5e-4
        )


def test_instances_whose_ranges_are_not_known_have_no_bars():
    trace, rows = _audited(make_trace(40, (2, 6), 3, seed=5))
    known = [
        any(strip.kind == "ranges" for strip in heatmap(one, 40).strips)
        for one in read_instances(trace, rows)
    ]
    assert known == rows["possible"].is_not_null().to_list()
    assert 0 < sum(known) < 40


def test_even_weights_are_pale_and_one_that_stands_out_is_not():
    assert full_colour(np.full(20, 0.05)) == pytest.approx(0.2)
    assert full_colour(np.array([0.9, 0.05, 0.05])) == pytest.approx(1.0)
    assert full_colour(np.array([0.8] + [0.01] * 20)) == pytest.approx(0.8)
    assert full_colour(np.ones(1)) == 1.0
    assert full_colour(np.zeros(3)) == 0.0


def test_an_instance_is_the_row_of_its_trace_and_of_its_tables():
    trace, rows = _audited(make_trace(20, (4, 9), outputs=1, seed=3))
    picks = np.array([2, 7])
    instances = read_instances(rows_shown(trace, picks), rows[picks])[::-1]
    assert [instance.name for instance in instances] == ["7", "2"]
    assert instances[0].tokens == trace.tokens(7)
    assert instances[0].figures["median_delta_y"] == rows["median_delta_y"][7]
    chosen = (
        trace.prediction[7, 0]
        if instances[0].predicted == "positive"
        else 1 - trace.prediction[7, 0]
    )
    assert instances[0].probability == pytest.approx(chosen)
    assert instances[0].correct == bool(rows["correct"][7])


def test_the_striking_keep_to_their_rule_and_the_draw_to_its_seed():
    trace, rows = _audited(make_trace(700, (2, 12), sharpness=0.5))
    seen = overview(trace)
    chosen = select(rows, seen, seed=1)
    confidence = np.maximum(trace.prediction[:, 0], 1 - trace.prediction[:, 0])
    fit = (confidence >= np.quantile(confidence, CONFIDENT)) & (
        trace.ragged("alpha").lengths >= SHORTEST
    )
    assert fit[chosen.striking].all()
    best = np.sort(rows["emax_jsd"].to_numpy()[fit])[::-1][:STRIKING]
    assert rows["emax_jsd"].to_numpy()[chosen.striking] == pytest.approx(best)
    assert f"{np.quantile(confidence, CONFIDENT):.2f} or more" in chosen.rule
    assert len(chosen.listed) == LISTED
    assert set(chosen.striking) | set(chosen.random) <= set(chosen.listed)
    again = select(rows, seen, seed=1)
    assert np.array_equal(chosen.listed, again.listed)
    assert not np.array_equal(chosen.random, select(rows, seen, seed=2).random)


def test_results_of_another_trace_are_refused():
    trace, rows = _audited(make_trace(20))
    for other in (make_trace(19), make_trace(20, first_instance=5)):
        with pytest.raises(InputError, match="trace and results"):
            check_same_instances(overview(other), rows)
    check_same_instances(overview(trace), rows)


def test_tokens_that_cannot_be_seen_are_made_visible():
    assert visible("word") == "word"
    assert visible(" ") == "␣"
    assert visible("") == "∅"
    assert visible("a\nb") == "a⏎b"
    assert visible("\x00") == "␀"
    assert visible("a\x9b31m\x85\u202e") == r"a\u009b31m\u0085\u202e"
    assert visible("x" * 5000) == "x" * LONGEST + "… (5000 characters)"
    sentence = (
        "a sentence is a position of a hierarchical model , and is shown whole where it can be"
    )
    assert visible(sentence) == sentence
    assert visible(f"{sentence} " * 50).endswith(f"… ({50 * (len(sentence) + 1)} characters)")


def test_pieces_are_known_by_the_mark_of_a_beginning() -> None:
    assert marks_words(["es", "▁relax"])
    assert not marks_words(["relax", "es▁", "_", "<eos>"])
