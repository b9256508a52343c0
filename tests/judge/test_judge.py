"""Heatmaps of any kind, judged on a classifier whose deciding words are known."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import attnaudit as aa
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import keyed
from attnaudit.recipes.compare import compare_runs
from attnaudit.stats.measures import ERASED_SHARES
from attnaudit.trace import Trace
from attnaudit.tracing.judged import JudgeOptions, collect_scores
from attnaudit.tracing.replacement import Donors
from attnaudit.tracing.settings import ReplacementSettings
from attnaudit.tracing.strings import Strings, read_scores
from tests.judge.planted import planted, predict, rolled
from tests.oracles.replacement import naive_score

TEXTS, TRUTH = planted()
FEW = ReplacementSettings(copies=20)


def trace_of(scores, texts=TEXTS, **options):
    return collect_scores(predict, texts, scores, JudgeOptions(replacement=FEW, **options))


LABELS = ["good" if row.sum() > 0 else "bad" for row in TRUTH]
SCORES = {"wrong": rolled(TRUTH), "true": TRUTH}


def test_the_words_that_decide_beat_others_and_random_ones():
    trace = trace_of(SCORES, labels=LABELS, class_names=["bad", "good"])
    found = aa.audit(trace)
    assert found.verdict.code == "where"
    rows = {row["score"]: row for row in found.table().iter_rows(named=True)}
    assert {*list(rows)[2:]} == {"random", "wrong"}
    assert rows["true"]["low"] > rows["random"]["high"]
    assert rows["true"]["minus_heatmap_low"] > 0.1 > abs(rows["random"]["replacement"])
    assert rows["true"]["tau_loo"] > 0.9
    assert rows["true"]["comprehensiveness"] > rows["wrong"]["comprehensiveness"] + 0.05
    assert found["prediction"].summary["value"][0] == 1.0
    assert aa.audit(trace_of(SCORES, shown="true"), "replacement").verdict.code == "show"


@pytest.mark.slow
def test_the_folder_is_one_of_an_audit(tmp_path):
    """So it is compared with others, has a page, and can be written again."""
    options = {"replacement": FEW, "out": tmp_path / "out", "name": "Two heatmaps"}
    found = aa.judge(predict, TEXTS, SCORES, **options)
    page = (tmp_path / "out/report.html").read_text()
    assert all(part in page for part in ("Two heatmaps", "negative values of wrong, true"))
    assert Trace.read(tmp_path / "out").metadata["heatmap"] == "wrong"
    again = aa.judge(predict, TEXTS, SCORES, **options)
    assert again.table().equals(found.table())
    assert compare_runs([tmp_path / "out"] * 2)[0].texts == len(TEXTS)


def test_columns_follow_their_definitions():
    texts = [*TEXTS[:6], "awful"]
    trace = trace_of({"true": [*TRUTH[:6], [1.0]]}, texts)
    known = sorted({*" ".join(texts).split()})
    ids = Ragged.from_rows([[known.index(word) for word in text.split()] for text in texts])
    donors = Donors(ids, np.arange(len(texts)))
    for row in range(6):
        words, own = TEXTS[row].split(), predict([TEXTS[row]])[0]
        assert trace.tokens(row) == words
        assert trace.prediction[row] == pytest.approx(own, abs=1e-6)
        loo = [abs(predict([" ".join(words[:t] + words[t + 1 :])])[0, 1] - own[1]) for t in range(len(words))]  # fmt: skip
        assert trace.ragged("loo")[row] == pytest.approx(loo, abs=1e-6)
        order = np.argsort(-abs(TRUTH[row]), kind="stable")
        drawn = donors.draw(row, len(ERASED_SHARES), keyed(FEW.seed, "erasure", str(row)))
        falls = trace.cell("input_replacement_shown", row)
        for fall, share, new in zip(falls, ERASED_SHARES, drawn.tolist(), strict=True):
            top = order[: max(int(np.ceil(share * len(words) - 1e-9)), 1)]
            other = [known[new[t]] if t in top else word for t, word in enumerate(words)]
            rest = predict([" ".join(other)])[0]
            assert fall == pytest.approx((own - rest)[own.argmax()], abs=1e-6)
        assert trace.shown[row] == pytest.approx(abs(TRUTH[row]) / abs(TRUTH[row]).sum(), abs=1e-6)
    table = aa.audit(trace, "replacement")["replacement"].table
    for row in range(6):
        naive = naive_score(trace, row, trace.shown[row])
        assert table["replacement_shown"][row] == pytest.approx(naive, abs=1e-4)
    assert trace.ragged("loo")[6].tolist() == [0.0]


def test_the_rest_of_a_string_stays():
    texts = ["It was  superb, really;\n(dull?)", "two\twords "]
    strings = Strings.of(texts)
    assert [strings.text(row) for row in (0, 1)] == texts
    words = strings.words[0]
    assert strings.text(0, [word.upper() for word in words]) == texts[0].upper()
    without = [strings.text(0, kept=[word != lost for word in words]) for lost in words]
    assert without[:4] == ["was  superb, really;\n(dull?)", "It  superb, really;\n(dull?)", "It was  , really;\n(dull?)", "It was  superb really;\n(dull?)"]  # fmt: skip
    assert strings.text(1, kept=[False, False]) == " "
    assert Strings.of(["a-b"], lambda text: text.split("-")).gaps == [["", "-", ""]]


AFTER = ("2, as predict has", "1 or 2", "0 to 1")  # needs the number of classes


def test_neither_order_nor_batches_matter():
    one = trace_of({"true": TRUTH})
    other = trace_of({"true": TRUTH}, batch=7)
    assert one.table.equals(other.table)
    split = trace_of({"true": TRUTH}, [text.split() for text in TEXTS])
    assert split.table.equals(one.table)
    few = ReplacementSettings(copies=20, texts=12)
    chosen = collect_scores(predict, TEXTS, {"true": TRUTH}, JudgeOptions(replacement=few))
    assert len(chosen) == 12
    rows = chosen.instance
    assert chosen.table["importance_random"].equals(one.table["importance_random"].gather(rows))


def forms():
    """The same scores as tools return them."""
    width = max(map(len, TRUTH))
    padded = np.array([np.pad(row, (0, width - len(row))) for row in TRUTH])
    long = [(k, t, v) for k, row in enumerate(TRUTH) for t, v in enumerate(row)]
    by_class = [np.stack([-row, row], axis=1) for row in TRUTH]
    pieces = [[["[CLS]", ""][1], *text.split()] for text in TEXTS]
    values = [np.concatenate([[0.0], row]) for row in TRUTH]
    steps = [SimpleNamespace(source=[SimpleNamespace(token=f"▁{w}") for w in text.split()], source_attributions=np.stack([row, 0 * row], axis=1)) for text, row in zip(TEXTS, TRUTH, strict=True)]  # fmt: skip
    return {
        "padded": padded,
        "function": lambda text: TRUTH[TEXTS.index(text)],
        "classes": by_class,
        "long": pl.DataFrame(long, schema=["text", "word", "v"], orient="row"),
        "pandas": pd.DataFrame(long, columns=["text", "word", "v"]).sample(frac=1, random_state=0),
        "wide": pl.DataFrame({"v": [row.tolist() for row in TRUTH]}),
        "shap": SimpleNamespace(values=values, data=pieces),
        "inseq": SimpleNamespace(sequence_attributions=steps),
    }


def test_the_seed_matters_only_where_something_is_drawn():
    """The random score, and the words that replace others; of results, what is made of these."""
    options: dict[str, Any] = {"labels": LABELS, "class_names": ["bad", "good"]}
    own, same, other = (
        collect_scores(predict, TEXTS, SCORES, JudgeOptions(replacement=settings, **options))
        for settings in (FEW, FEW, replace(FEW, seed=1))
    )
    assert own.table.equals(same.table)
    changed = {name for name in own.table.columns if not own.table[name].equals(other.table[name])}
    drawn = {name for name in own.table.columns if name.startswith(("replaced", "input_"))}
    assert changed == drawn | {"importance_random"}
    assert {name for name, value in own.metadata.items() if other.metadata[name] != value} == {
        "seed"
    }
    keys = ["experiment", "measure", "group"]
    few = ["prediction", "replacement", "comprehensiveness", "agreement"]
    one, two = (aa.audit(trace, few).summary for trace in (own, other))
    joined = one.join(two, on=keys, suffix="_other")
    moved = joined.filter(pl.col("value").ne_missing(pl.col("value_other")))
    drawn = pl.col("measure").str.contains("random")
    of_words = pl.col("experiment").is_in(["replacement", "comprehensiveness"])
    assert moved.filter(~(drawn | of_words)).is_empty()
    assert not moved.filter(of_words).is_empty()
    assert len(joined) > len(moved)


def test_scores_are_read_as_tools_return_them():
    torch = pytest.importorskip("torch")
    strings, expected = Strings.of(TEXTS), [abs(row) for row in TRUTH]
    scores = forms()
    scores["captum"] = torch.tensor(scores["padded"], requires_grad=True)
    for name, rows in read_scores(scores, strings).items():
        for own, row in zip(rows, expected, strict=True):
            assert abs(own if own.ndim == 1 else own[:, 1]) == pytest.approx(row, abs=1e-6), name
    table = scores["long"].rename({"v": "one"}).with_columns(two=0.0)
    assert list(read_scores(table, strings)) == ["one", "two"]


def test_texts_of_one_word_and_one_probability_have_no_figures_but_no_fault():
    trace = collect_scores(lambda texts: predict(texts)[:, 1], ["superb", "dull"], {"a": [[1.0], [0.0]]}, JudgeOptions(replacement=FEW))  # fmt: skip
    assert trace.class_names == ["class 0", "class 1"]
    assert trace.prediction == pytest.approx(predict(["superb", "dull"]), abs=1e-6)
    assert trace.ragged("loo").values.tolist() == [0.0, 0.0]
    assert trace.shown.values.tolist() == [1.0, 1.0]
    summary = aa.audit(trace, "replacement").summary.filter(measure="replacement_shown")
    assert summary["value"].to_list()[0] is None


def test_pieces_add_up_to_words():
    strings = Strings.of(["Unbelievable, a film."])
    found = strings.of_tokens(0, ["un", "##believ", "##able", ",", "a", "Ġfilm", "."], np.arange(7.0))  # fmt: skip
    assert found.tolist() == [3.0, 3.0, 4.0, 5.0, 6.0]


def with_dropout(texts):
    return np.random.default_rng(len(texts)).dirichlet([1, 1], len(texts))


def broken(texts):
    raise RuntimeError("CUDA out of memory")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"texts": []}, ("texts: no text",)),
        ({"texts": "a film"}, ("texts: one text", "a list of texts")),
        ({"texts": [*TEXTS[:-1], "  "]}, ("text 23", "no word")),
        ({"texts": [*TEXTS[:-1], 3]}, ("text 23", "int")),
        ({"texts": TEXTS[:1], "scores": {"a": TRUTH[:1]}}, ("1 texts", "2 texts or more")),
        ({"scores": {}}, ("no score",)),
        ({"scores": {"a": TRUTH[1:]}}, ("score 'a'", "23 texts", "expected 24")),
        ({"scores": {"a": [row[1:] for row in TRUTH]}}, ("score 'a', text 0", "values", "one for each word")),
        ({"scores": {"a": [[np.nan] * len(row) for row in TRUTH]}}, ("text 0", "nan", "finite")),
        ({"scores": {"a": TRUTH, "A": TRUTH}}, ("score 'A'", "two scores of this name")),
        ({"scores": {"a": TRUTH, "loo": TRUTH}}, ("score 'loo'", "taken")),
        ({"scores": {"a_and_b": TRUTH}}, ("score 'a_and_b'", "without _and_")),
        ({"scores": {"a": lambda text: 1 / 0}}, ("score 'a'", "ZeroDivisionError")),
        ({"scores": {"a": pl.DataFrame({"text": [24], "word": [0], "v": [1.0]})}}, ("column text, row 0", "24", "0 to 23")),
        ({"scores": {"a": SimpleNamespace(values=TRUTH[1:], data=TEXTS)}}, ("23 texts", "expected 24")),
        ({"scores": {"a": SimpleNamespace(values=TRUTH, data=[["x"]] * 24)}}, ("1 tokens and", "a value for each")),
        ({"scores": {"a": SimpleNamespace(values=[[1.0]] * 24, data=[["zzz"]] * 24)}}, ("token 'zzz'", "of the text, in order")),
        ({"words": lambda text: None}, ("words of text 0", "a list of words")),
        ({"words": lambda text: ["other"]}, ("word 'other'", "in order")),
        ({"scores": {"a": lambda text: 1.0}}, ("score 'a', text 0", "one value")),
        ({"scores": {"a": [["x"]] * 24}}, ("score 'a', text 0", "numbers")),
        ({"shown": "b"}, ("shown", "'b'", "one of true")),
        ({"labels": [0]}, ("labels", "1 labels", "24")),
        ({"labels": ["x"] * 24, "class_names": ["n", "y"]}, ("label of text 0", "'x'", "n, y")),
        ({"labels": [2] * 24}, ("label of text 0", "2", "0 to 1")),
        ({"labels": ["x"] * 24}, ("label of text 0", "class_names")),
        ({"batch": 0}, ("batch", "1 or more")),
        ({"scores": {"a": [np.ones((len(row), 3)) for row in TRUTH]}}, ("3 values a word", "1 or 2")),
        ({"class_names": ["n", "y", "z"]}, ("class_names", "3 names", "2, as predict has")),
        ({"predict": broken}, ("RuntimeError CUDA out of memory", "texts from")),
        ({"predict": lambda texts: np.ones((3, 2)) / 2}, ("shape (3, 2)", "(24, C)")),
        ({"predict": lambda texts: 3 * predict(texts)}, ("with sum 1", "softmax")),
        ({"predict": lambda texts: np.full((len(texts), 2), np.nan)}, ("nan", "probabilities of 0 to 1")),
        ({"predict": lambda texts: np.ones(len(texts))}, ("for every text", "a column for each class")),
        ({"predict": with_dropout}, ("probabilities that change", "dropout")),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(change, parts):
    called = []

    def noticed(texts):
        called.extend(texts)
        return change.get("predict", predict)(texts)

    options = {"texts": TEXTS, "scores": {"true": TRUTH}, "replacement": FEW} | change
    options["predict"] = noticed
    with pytest.raises(aa.InputError) as error:
        aa.judge(**options)
    message = str(error.value)
    assert message.startswith("judge: ")
    assert all(part in message for part in parts), message
    assert not called or "predict" in change or parts[-1] in AFTER


def test_a_folder_of_something_else_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(aa.RunError, match="something else"):
        aa.judge(broken, TEXTS, {"a": TRUTH}, out=tmp_path)
