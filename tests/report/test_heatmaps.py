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
    shown_pieces,
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
    tables = {name: result.rows for name, result in results.items()}
    return trace, RunRecord("run", results.summary, tables=tables).rows(np.arange(len(trace)))


@given(st.integers(1, 200), st.integers(10, 60), st.integers(0, 1000))
def test_trimming_accounts_for_every_token_in_order(length: int, budget: int, seed: int):
    weights = np.random.default_rng(seed).random(length)
    positions = shown_positions([weights], budget)
    pieces = list(shown_pieces(list(map(str, range(length))), positions))
    gaps = [piece.size for piece in pieces if isinstance(piece, Gap)]
    assert [int(piece) for piece in pieces if isinstance(piece, str)] == positions.tolist()
    assert len(positions) + sum(gaps) == length
    assert all(size >= SMALLEST_GAP for size in gaps)
    assert int(weights.argmax()) in positions


def test_the_heaviest_tokens_of_every_strip_are_shown():
    weights = np.zeros((2, 500))
    weights[0, 400], weights[1, 17] = 1.0, 9.0
    assert {400, 17} <= set(shown_positions(list(weights), 40).tolist())


def test_shades_are_the_weights_relative_to_the_top_of_their_own_strip():
    trace, rows = _audited(make_trace(30, (3, 25)))
    for instance in read_instances(trace, rows):
        *strips, ranges = heatmap(instance, 120).strips
        assert [one.kind for one in strips] == ["alpha", "adversary", "gradient", "loo"]
        assert ranges.kind == "ranges"
        for strip in strips:
            weights = instance.weights[strip.kind]
            shades = np.array(strip.shades) * strip.full / 1000
            assert shades == pytest.approx(weights, abs=strip.full / 1999)
            assert strip.top == pytest.approx(weights.max())
        assert f"{instance.probability:.3f}" in strips[0].note
        assert f"{instance.adversarial_probability:.3f}" in strips[1].note


def test_a_bar_spans_the_weights_of_a_token_and_its_mark_is_the_own_weight():
    trace, rows = _audited(make_trace(20, (2, 200), seed=4))
    for k, instance in enumerate(read_instances(trace, rows)):
        ranges = heatmap(instance, 40).as_json()["strips"][-1]
        positions = shown_positions(list(instance.weights.values()), 40)
        known = np.array([rows["necessary"][k].to_list(), rows["possible"][k].to_list()]).T
        assert np.array(ranges[-1]) / 1000 == pytest.approx(known[positions], abs=5e-4)
        own = instance.weights["alpha"][positions]
        assert np.array(ranges[-2]) / 1000 == pytest.approx(own, abs=5e-4)


@pytest.mark.slow
def test_instances_whose_ranges_are_not_known_have_no_bars():
    trace, rows = _audited(make_trace(40, (2, 6), 3, seed=5))
    known = [heatmap(one, 40).strips[-1].kind == "ranges" for one in read_instances(trace, rows)]
    assert known == rows["possible"].is_not_null().to_list()
    assert 0 < sum(known) < 40


def test_even_weights_are_pale_and_one_that_stands_out_is_not():
    cases = {0.2: [0.05] * 20, 1.0: [0.9, 0.05, 0.05], 0.8: [0.8] + [0.01] * 20, 0.0: [0.0] * 3}
    for full, weights in cases.items():
        assert full_colour(np.array(weights)) == pytest.approx(full)
    assert full_colour(np.ones(1)) == 1.0


def test_an_instance_is_the_row_of_its_trace_and_of_its_tables():
    trace, rows = _audited(make_trace(20, (4, 9), outputs=1, seed=3))
    picks = np.array([2, 7])
    two, seven = read_instances(rows_shown(trace, picks), rows[picks])
    assert (two.name, seven.name) == ("2", "7")
    assert seven.tokens == trace.tokens(7)
    assert seven.figures["median_delta_y"] == rows["median_delta_y"][7]
    positive = trace.prediction[7, 0]
    chosen = positive if seven.predicted == "positive" else 1 - positive
    assert seven.probability == pytest.approx(chosen)
    assert seven.correct == bool(rows["correct"][7])


def test_the_striking_keep_to_their_rule_and_the_draw_to_its_seed():
    trace, rows = _audited(make_trace(700, (2, 12), sharpness=0.5))
    seen = overview(trace)
    chosen, again = select(rows, seen, seed=1), select(rows, seen, seed=1)
    confidence = np.maximum(trace.prediction[:, 0], 1 - trace.prediction[:, 0])
    least = np.quantile(confidence, CONFIDENT)
    fit = (confidence >= least) & (trace.alpha.lengths >= SHORTEST)
    assert fit[chosen.striking].all()
    jsd = rows["emax_jsd"].to_numpy()
    assert jsd[chosen.striking] == pytest.approx(np.sort(jsd[fit])[::-1][:STRIKING])
    assert f"{least:.2f} or more" in chosen.rule
    assert len(chosen.listed) == LISTED
    assert set(chosen.striking) | set(chosen.random) <= set(chosen.listed)
    assert np.array_equal(chosen.listed, again.listed)
    assert not np.array_equal(chosen.random, select(rows, seen, seed=2).random)


def test_results_of_another_trace_are_refused():
    trace, rows = _audited(make_trace(20))
    for other in (make_trace(19), make_trace(20, first_instance=5)):
        with pytest.raises(InputError, match="trace and results"):
            check_same_instances(overview(other), rows)
    check_same_instances(overview(trace), rows)


SENTENCE = "a sentence is a position of a hierarchical model , and is shown whole where it can be"


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("word", "word"),
        (" ", "␣"),
        ("", "∅"),
        ("a\nb", "a⏎b"),
        ("\x00", "␀"),
        ("a\x9b31m\x85\u202e", r"a\u009b31m\u0085\u202e"),
        ("x" * 5000, "x" * LONGEST + "… (5000 characters)"),
        (SENTENCE, SENTENCE),
        (f"{SENTENCE} " * 50, f"{(SENTENCE + ' ') * 4}"[:300] + f"… ({50 * 86} characters)"),
    ],
)
def test_tokens_that_cannot_be_seen_are_made_visible(token: str, shown: str):
    assert visible(token) == shown


def test_pieces_are_known_by_the_mark_of_a_beginning() -> None:
    assert marks_words(["es", "▁relax"])
    assert not marks_words(["relax", "es▁", "_", "<eos>"])
