"""Heatmaps: weights stand on their own tokens, and what is not shown is counted."""

import re
from dataclasses import replace
from html import escape

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnaudit.core import InputError
from attnaudit.experiments import audit
from attnaudit.report.fragment import record_of
from attnaudit.report.run_page import write_report
from attnaudit.report.sections.heatmaps import (
    LONGEST,
    densest,
    full_colour,
    heatmap,
    marks_words,
    read_instances,
    visible,
)
from attnaudit.report.sections.instances import (
    CONFIDENT,
    SHORTEST,
    STRIKING,
    instance_sections,
    most_striking,
    read_rows,
)
from attnaudit.report.words import percent
from attnaudit.results import ROW, TEXT, About
from attnaudit.trace.segments import aggregate
from tests.report.heads import make_heads
from tests.traces import make_trace


def _run(trace):
    return trace, record_of(audit(trace))


def _audited(trace):
    return trace, _run(trace)[1].rows(np.arange(len(trace)))


@given(st.integers(1, 200), st.integers(1, 60), st.integers(0, 1000))
def test_the_part_that_is_shown_has_the_most_attention(length, budget, seed):
    weights = np.random.default_rng(seed).random(length)
    part = densest(weights, budget)
    shown = len(weights[part])
    assert shown == min(length, budget)
    every = [weights[first : first + shown].sum() for first in range(length - shown + 1)]
    assert weights[part].sum() == pytest.approx(max(every))


def test_a_long_text_is_shown_in_part_and_says_so():
    trace, rows = _audited(make_trace(3, [50, 700, 40], sharpness=1.5))
    _, long, _ = (heatmap(one, 100) for one in read_instances(trace, rows))
    first = int(long.left_out.split()[1]) - 1
    assert long.tokens == trace.tokens(1)[first : first + 100]
    assert f"of 700 are shown; they hold {percent(trace.alpha[1][first : first + 100].sum())}" in (
        long.left_out
    )
    assert all(len(strip.shades) == 100 for strip in long.strips)


def test_shades_are_the_weights_relative_to_the_top_of_their_own_strip():
    trace, rows = _audited(make_trace(30, (3, 25)))
    for instance in read_instances(trace, rows):
        *strips, ranges = heatmap(instance, 120).strips
        assert [one.kind for one in strips] == ["alpha", "adversary", "gradient", "loo"]
        assert ranges.kind == "ranges"
        for strip in strips:
            weights = instance.weights[strip.kind]
            shades = np.array(strip.shades) * strip.full / 1000
            assert shades == pytest.approx(weights, abs=strip.full / 900)
            assert strip.top == pytest.approx(weights.max(), rel=1e-3)
        assert f"{instance.probability:.3f}" in strips[0].note
        assert f"JSD {instance.figures['emax_jsd']:.3f}" in strips[1].note


def test_evidence_has_a_sign_and_one_scale_for_all_classes_of_a_text():
    trace, rows = _audited(make_trace(20, (2, 9), 6, seed=4))
    for k, instance in enumerate(read_instances(trace, rows)):
        picture = heatmap(instance, 40, evidence=True)
        strips = [one for one in picture.strips if one.kind == "evidence"]
        numbers, of_class = (rows[name][k] for name in ("evidence", "evidence_classes"))
        names = [trace.class_names[c] for c in of_class]
        assert [one.caption for one in strips] == [f"For and against {name}" for name in names]
        drawn = np.array([one.shades for one in strips]) * strips[0].full / 1000
        assert drawn == pytest.approx(np.array(numbers.to_list()).T, abs=strips[0].full / 900)
        assert len({one.full for one in strips}) == 1
        assert "2 less probable classes" in picture.left_out


def test_a_bar_spans_the_weights_of_a_token_and_its_mark_is_the_own_weight():
    trace, rows = _audited(make_trace(20, (2, 200), seed=4))
    for k, instance in enumerate(read_instances(trace, rows)):
        ranges = heatmap(instance, 40).as_json()["strips"][-1]
        part = densest(instance.weights["alpha"], 40)
        known = np.array([rows["necessary"][k].to_list(), rows["possible"][k].to_list()]).T
        assert np.array(ranges[-1]) / 1000 == pytest.approx(known[part], abs=5e-4)
        own = instance.weights["alpha"][part]
        assert np.array(ranges[-2]) / 1000 == pytest.approx(own, abs=5e-4)


def test_even_weights_are_pale_and_one_that_stands_out_is_not():
    cases = {0.2: [0.05] * 20, 1.0: [0.9, 0.05, 0.05], 0.8: [0.8] + [0.01] * 20, 0.0: [0.0] * 3}
    for full, weights in cases.items():
        assert full_colour(np.array(weights)) == pytest.approx(full)
    assert full_colour(np.ones(1)) == 1.0


def test_an_instance_is_the_row_of_its_trace_and_of_its_tables():
    trace, record = _run(make_trace(20, (4, 9), outputs=1, seed=3))
    shown, rows = read_rows(trace, record, np.array([2, 7]))
    two, seven = read_instances(shown, rows)
    assert (two.name, seven.name) == ("2", "7")
    assert seven.tokens == trace.tokens(7)
    assert seven.figures["median_delta_y"] == rows["median_delta_y"][1]
    positive = trace.prediction[7, 0]
    chosen = positive if seven.predicted == "positive" else 1 - positive
    assert seven.probability == pytest.approx(chosen)
    assert seven.correct == bool(rows["correct"][1])


@pytest.mark.parametrize("unit", [TEXT, ROW])
def test_the_striking_keep_to_their_rule(unit):
    trace = make_heads(200, 1, 2) if unit == ROW else make_trace(400, (2, 12), sharpness=0.5)
    trace, rows = _audited(trace)
    instances = read_instances(trace, rows)
    chosen, rule = most_striking(instances, unit)
    confidence = np.array([one.probability for one in instances])
    least = np.quantile(confidence, CONFIDENT)
    fit = (confidence >= least) & (np.array([len(one.tokens) for one in instances]) >= SHORTEST)
    jsd = rows["emax_jsd"].to_numpy()
    best = {}  # of each text the row where it is highest
    for one, value, fits in zip(instances, jsd, fit, strict=True):
        if fits:
            best[one.number] = max(value, best.get(one.number, 0.0))
    assert fit[chosen].all()
    assert jsd[chosen] == pytest.approx(sorted(best.values())[::-1][:STRIKING])
    assert len({instances[k].number for k in chosen}) == STRIKING
    assert f"{least:.2f} or more" in rule
    assert f"listed {unit}s" in rule


def test_the_draw_is_that_of_the_seed_and_results_of_another_trace_are_refused():
    trace, record = _run(make_trace(520, (2, 12)))
    *_, pictured = instance_sections(trace, record)
    *_, again = instance_sections(trace, record)
    other_seed = replace(record, about=About(spec={"seed": 5}, seed=5))
    *_, other = instance_sections(trace, other_seed)
    assert np.array_equal(pictured, again)
    assert not np.array_equal(pictured, other)
    for another in (make_trace(519), make_trace(520, first_instance=5)):
        with pytest.raises(InputError, match="trace and results"):
            instance_sections(another, record)


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
def test_tokens_that_cannot_be_seen_are_made_visible(token, shown):
    assert visible(token) == shown


def test_pieces_are_known_by_the_mark_of_a_beginning():
    assert marks_words(["es", "▁relax"])
    assert not marks_words(["relax", "es▁", "_", "<eos>"])


def test_the_titles_of_passages_are_drawn_in_place_of_their_words(tmp_path):
    trace = make_trace(24, (9, 9), class_names=["no", "yes"])
    titles = ["Rivers of France", "<b>Lakes</b>", "Seas & oceans"]
    columns = pl.DataFrame(
        {"group": [[0, 0, 0, 1, 1, 1, 2, 2, 2]] * 24, "group_names": [titles] * 24},
        {"group": pl.List(pl.Int32), "group_names": pl.List(pl.String)},
    )
    passages = aggregate(replace(trace, table=trace.table.hstack(columns)))
    assert passages.tokens(0) == titles
    folder = audit(passages, ["adversary"]).save(tmp_path / "run")
    page = write_report(folder, passages).read_text()
    drawn = re.search(r'<p class="tokens alpha">(.*?)</p>', page)
    assert drawn is not None
    tokens = re.findall(r'<span class="token[^>]*>(.*?)</span>', drawn[1])
    assert tokens == [escape(title) for title in titles]
    assert "<b>Lakes" not in page
