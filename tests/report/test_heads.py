"""The report of a model with heads: it counts texts, its card is about the model, each head has a card, and pieces are words."""

import html
import json
import re

import numpy as np
import polars as pl
import pytest

from attnaudit.core.ragged import Ragged
from attnaudit.experiments import audit
from attnaudit.experiments.prediction import Prediction
from attnaudit.report.card import head_cards, verdict
from attnaudit.report.cards.wording import across
from attnaudit.report.run_page import write_report
from attnaudit.report.sections import heads as module
from attnaudit.report.sections.heads import heads_section
from attnaudit.report.sections.heatmaps import heatmap, read_instances
from attnaudit.report.sections.numbers import summary_numbers, tables_of
from attnaudit.report.words import of_unit
from attnaudit.results import (
    ROW,
    SUMMARY_SCHEMA,
    TEXT,
    About,
    Heads,
    RunRecord,
    SummaryRows,
    read_record,
    summary_row,
)
from attnaudit.trace import Trace
from attnaudit.trace.words import join_tokens, to_words
from tests.report.heads import CHECKS, make_heads, write_heads

ABOUT = About(corpus="sst", encoder="bert", attention="self")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = write_heads(tmp_path_factory.mktemp("heads"))
    write_report(folder)
    return folder


def statements(page):
    """What a page says, tooltips and labels included, without scripts, styles and what they read."""
    body = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    said = " ".join(re.findall(r'(?:title|aria-label)="([^"]*)"', body))
    return html.unescape(re.sub(r"<[^>]+>", " ", body) + said)


def data(page, name):
    found = re.search(rf'id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.slow
def test_a_text_is_counted_once_whatever_the_number_of_heads(run):
    text, record = (run / "report.html").read_text(), read_record(run)
    page = statements(text)
    assert "30 texts, 4 heads of 2 layers: 120 rows" in page
    assert "of 30 labelled texts" in page
    assert re.findall(r"\binstances?\b", page, re.IGNORECASE) == []
    assert 'data-unit="row"' in text
    card = verdict(record.summary, record.about)
    assert card.scope == "", "all heads are audited"
    assert json.loads(json.dumps(card.to_json()["audited"])) == {
        "names": [[0, 0], [0, 1], [1, 0], [1, 1]],
        "texts": 30,
        "rows": 120,
    }


def test_predictions_are_of_texts_and_so_are_their_intervals():
    """A row for each head, all with one prediction, would make the interval of one text of four too narrow."""
    trace = make_heads(60)
    one = trace.take(np.flatnonzero((trace.array("layer") == 0) & (trace.array("head") == 0)))
    experiment = Prediction()
    together, alone = (experiment.summarise(experiment(part)) for part in (trace, one))
    assert together.equals(alone)
    assert set(together["n"]) == {60}


def test_several_positions_of_a_text_are_rows_of_one_text():
    trace = make_heads(60)
    one = trace.take(np.flatnonzero(trace.array("layer") == 0))
    table = one.table.with_columns(  # 12 texts of 5 positions
        pl.Series("instance", one.instance // 5), pl.Series("query", one.instance % 5, pl.Int32)
    )
    summary = audit(Trace(table, one.metadata, one.tail), ["prediction", "permutation"]).summary
    heads = Heads.of(summary)
    assert heads is not None
    assert (heads.texts, heads.positions, heads.rows) == (12, 60, 60 * len(heads.names))
    assert set(summary["texts"]) == {12}
    card = verdict(summary, ABOUT)
    assert "of 60 labelled positions of 12 texts (" in card.rows[0].sentence
    assert {one.unit for one in head_cards(summary, ABOUT).values()} == {"position"}
    tables = list(tables_of(summary_numbers(summary, card.unit, heads)))
    assert [table.columns[0] for table in tables] == ["all positions", "all rows"]


def _of_heads(measures, layers=2):
    """Summary rows of four heads, and of all with their means; a key is ``experiment__measure``."""
    rows = []
    for name, values in measures.items():
        experiment, measure = name.split("__")
        groups = [f"head:{k % layers}.{k // layers}" for k in range(len(values))]
        means = tuple(float(np.mean(part)) for part in zip(*values, strict=True))
        rows += [
            summary_row(experiment, measure, *figures, n=40, group=group)
            for group, figures in zip(["all", *groups], [means, *values], strict=True)
        ]
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def _same(*values):
    return [(value, max(value - 0.02, 0.0), min(value + 0.02, 1.0)) for value in values]


def _sentence(summary, about=ABOUT):
    return verdict(summary, about).rows[0].sentence


def test_heads_and_classes_of_few_texts_are_not_compared_with_others():
    """What counts is texts: 2 texts of 16 rows each have 32 rows."""

    def said(texts):
        sizes = {
            "all": 52,
            "head:0.0": 52,
            "predicted:a": 33,
            "head:0.1": texts,
            "predicted:b": texts,
        }
        values = (0.2, 0.2, 0.1, 0.5, 0.6)
        rows = [
            summary_row("permutation", "median_delta_y", value, value - 0.02, value + 0.02,
                        n=16 * size, texts=size, group=group)
            for (group, size), value in zip(sizes.items(), values, strict=True)
        ]  # fmt: skip
        summary = SummaryRows.of(pl.DataFrame(rows, schema=SUMMARY_SCHEMA))
        return across(summary, "permutation", "median_delta_y")

    assert "a 0.10, b 0.60" in said(20)
    assert "0.20 (head 0 of layer 0) to 0.50 (head 1 of layer 0)" in said(20)
    assert said(19) == ""


def test_heads_that_can_flip_a_decision_are_counted_and_the_strongest_is_named():
    change = {"maximal_change__max_delta_y": _same(*(0.2,) * 4)}
    some, none = (
        _sentence(_of_heads(change | {"maximal_change__flips": _same(*flips)}))
        for flips in ((0.1, 0.0, 0.25, 0.0), (0.0,) * 4)
    )
    assert some.startswith("2 of 4 heads of 2 layers can flip")
    assert "head 1 of layer 0, flips 25 % [23 %," in some
    assert none.startswith("None of 4 heads")


def _joint(layers):
    values = {"uniform": (0.01, 0.03) * 2, "flips": (0.2,) * 4, "max_delta_y": (0.4,) * 4}
    found = {f"joint__joint_{name}": _same(*of_heads) for name, of_heads in values.items()}
    if layers > 1:
        together = {"uniform": 0.2, "flips": 0.6, "max_delta_y": 0.7}
        found |= {f"joint__layers_{name}": _same(*(one,) * 4) for name, one in together.items()}
    return _of_heads(found, layers)


def test_all_heads_at_once_are_told_by_layer_and_together():
    sentence = _sentence(_joint(2))
    assert "0.010 (layer 0) to 0.030 (layer 1)." in sentence
    assert "all 2 layers change it by 0.200" in sentence
    assert re.search(r"by 0\.700 \[[^]]+\], and flip 60 % of the decisions\.$", sentence)


@pytest.mark.parametrize(
    ("model_layers", "others"), [(4, "the other 12 heads of the model"), (0, "the others")]
)
def test_a_card_of_one_layer_says_that_it_is_about_no_other(model_layers, others):
    layers = [{"stack": "encoder", "layer": k, "heads": 4} for k in range(model_layers)]
    card = verdict(_joint(1), About(metadata={"gate": {"layers": layers}} if layers else {}))
    assert "heatmaps of layer 0 of this model" in card.lead
    assert card.lead.endswith(f"Audited: 4 heads of layer 0. Nothing here is about {others}.")
    assert "4 heads of layer 0 at once" in card.rows[0].sentence


def test_a_model_without_skill_has_figures_of_heads_and_no_conclusions():
    chance = [
        summary_row("prediction", name, 0.5, 0.45, 0.55, n=40) for name in ("accuracy", "majority")
    ]
    shuffled = _of_heads({"permutation__median_delta_y": _same(*(0.3,) * 4)})
    summary = pl.concat([shuffled, pl.DataFrame(chance, schema=SUMMARY_SCHEMA)])
    said = {row.sentence for card in head_cards(summary, ABOUT).values() for row in card.rows}
    assert said == {"No conclusion: see the line on top."}


def test_the_card_of_a_head_is_that_of_a_trace_of_this_head_alone():
    """The same figures and intervals, by the same code."""
    trace = make_heads(25)
    chosen = np.flatnonzero((trace.array("layer") == 1) & (trace.array("head") == 0))
    names = ["permutation", "maximal_change", "identifiability", "correlation"]
    whole, alone = (audit(part, names).summary for part in (trace, trace.take(chosen)))
    card, other = head_cards(whole, ABOUT)[1, 0], verdict(alone, ABOUT)
    assert [(row.name, row.figure, row.interval, row.yardstick) for row in card.rows] == [
        (row.name, row.figure, row.interval, row.yardstick) for row in other.rows
    ]
    assert (card.unit, other.unit) == (TEXT, TEXT)
    assert Heads.of(alone) == Heads(((1, 0),), 25, 25)


def test_the_page_shows_the_strongest_head_and_holds_the_cards_of_all(run):
    page, record = (run / "report.html").read_text(), read_record(run)
    heads = record.summary.filter(pl.col("group").str.starts_with("head:"), measure="max_delta_y")
    best = heads.sort("value", descending=True)["group"][0]
    assert f'data-shown="head-{best[5:].replace(".", "-")}"' in page
    for (layer, head), card in head_cards(record.summary, record.about).items():
        found = re.search(rf'<template id="card-head-{layer}-{head}">(.*?)</template>', page, re.S)
        assert found is not None
        said = re.findall(r'<p class="sentence">(.*?)</p>', found[1])
        assert list(map(html.unescape, said)) == [row.sentence for row in card.rows]


def test_every_head_has_the_same_random_texts(run):
    texts = data((run / "report.html").read_text(), "head-texts-data")
    assert len(texts) == 4
    numbers = {tuple(one["text"] for one in own) for own in texts.values()}
    assert len(numbers) == 1
    assert len(set(*numbers)) == module.TEXTS
    attention = {str(own[0]["strips"][0]) for own in texts.values()}
    assert len(attention) == 4


def test_what_a_page_holds_of_heads_is_bounded(run, monkeypatch):
    record, trace = read_record(run), Trace.read(run / "trace")
    rows = record.columns(())
    monkeypatch.setattr(module, "MOST_CARDS", 3)
    monkeypatch.setattr(module, "MOST_TEXTS", 2)
    section = heads_section(record, trace, rows)
    assert section is not None
    assert len(section.content["cards"]) == 3
    assert [len(own) for own in section.data["head-texts-data"].values()] == [1, 1]
    many_heads = _of_heads({"maximal_change__max_delta_y": [(0.1, 0.0, 0.2)] * 1600}, layers=40)
    many = heads_section(RunRecord("run", many_heads), None, rows)
    assert many is not None
    assert [len(many.content[name]) for name in ("cards", "maps")] == [3, 1]
    assert many.data["head-texts-data"] == {}


def test_the_checks_are_in_their_order_with_meaning_figure_and_limit(run):
    page = (run / "report.html").read_text()
    cell = r'<td class="num">(.*?)</td>'
    row = rf'<tr><th scope="row">(.*?)</th><td>(.*?)</td>{cell}{cell}</tr>'
    found = re.findall(row, page[page.index('id="gate"') :])
    assert [row[0] for row in found] == [check["name"] for check in CHECKS]
    assert found[0] == ("watched", "change of the logits when read", "4.3e-08", "at most 0.0001")
    assert found[1][2:] == ("it reports no attention", "–")


def test_pieces_are_joined_and_special_tokens_marked():
    trace = make_heads(20)
    for k, instance in enumerate(read_instances(trace, pl.DataFrame())):
        words, *weights, special = _naive_words(trace, k)
        assert list(instance.tokens) == words
        assert not any(token.startswith("##") for token in instance.tokens)
        for name, expected in zip(SCORES, weights, strict=True):
            assert instance.weights[name] == pytest.approx(expected)
        assert instance.special == special
        assert instance.figures["max_alpha"] == pytest.approx(trace.ragged("alpha")[k].max())
        picture = heatmap(instance, 100)
        assert picture.as_json()["special"] == [0, len(words) - 1]


SCORES = ("alpha", "gradient", "loo")


def _naive_words(trace, k):
    """Words piece by piece: attention and gradients add up, leave-one-out is one number of a word."""
    words, before = [], None
    scores = (trace.ragged(name)[k] for name in SCORES)
    pieces = zip(trace.tokens(k), *scores, trace.cell("word_id", k), strict=True)
    for token, alpha, gradient, loo, word in pieces:
        if word >= 0 and word == before:
            start, *sums, known, _ = words.pop()
            assert loo == known
            token = start + token.removeprefix("##")
            alpha, gradient = alpha + sums[0], gradient + sums[1]
        words.append([token, alpha, gradient, loo, word < 0])
        before = word
    return map(list, zip(*words, strict=True))


def test_a_piece_that_is_nothing_but_its_mark_is_kept():
    word_id = Ragged.from_rows([[0, 0, 1]], np.int32)
    assert join_tokens([["a", "##", "##b"]], word_id) == [["a##", "##b"]]
    largest = to_words(Ragged.from_rows([[1.0, 5.0, 2.0]]), word_id, np.maximum)
    assert largest.values.tolist() == [5.0, 2.0]


def test_a_statement_about_texts_is_said_of_rows():
    statement = "Largest weight of a text; no text, 2 texts. Texts in a context."
    assert of_unit(statement, TEXT) == statement
    assert of_unit(statement, ROW) == "Largest weight of a row; no row, 2 rows. Rows in a context."
