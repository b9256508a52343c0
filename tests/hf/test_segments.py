"""Segments of a transformer's texts: attention summed, left out and replaced as a whole."""

import json

import numpy as np
import polars as pl
import pytest
import torch

from attnaudit.core.errors import InputError
from attnaudit.corpora.corpus import keyed
from attnaudit.experiments import audit
from attnaudit.hf import collect, read_texts
from attnaudit.hf.encode import encode
from attnaudit.hf.replacement import SegmentDonors
from attnaudit.hf.texts import with_segments
from attnaudit.report.sections.heatmaps import read_instances
from attnaudit.tracing.settings import ReplacementSettings
from tests.hf.tokenizing import small, tokenizer

STORIES = [
    "Mary went home. The dog was old, and slept. Rain fell on the roof.",
    "It was late. Nobody came to the door. So we ate, and went to bed early. Good.",
    "One line only, without an end",
    "The plot is thin. The actors are superb! Would I see it again?",
]


def test_ways_to_split_hold_the_whole_text():
    texts = read_texts(["it is. not so! yes", "one\ntwo\n\nthree ", "no end"])
    for how, expected in {
        "sentences": [["it is.", "not so!", "yes"], ["one\ntwo\n\nthree"], ["no end"]],
        "lines": [["it is. not so! yes"], ["one\n", "two\n", "\nthree "], ["no end"]],
        r"[.!]\s": [["it is. ", "not so! ", "yes"], ["one\ntwo\n\nthree "], ["no end"]],
    }.items():
        found = with_segments(texts, how).segments
        assert found is not None
        parts = [
            [text[a:b] for a, b, _ in row] for text, row in zip(texts.text, found, strict=True)
        ]
        assert [[one.strip() for one in row] for row in parts] == [
            [one.strip() for one in row] for row in expected
        ]
        for text, row in zip(texts.text, parts, strict=True):
            assert "".join("".join(row).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("BertForSequenceClassification", "[CLS] $A [SEP]"), ("GPT2LMHeadModel", "$A")],
)
def test_a_segment_has_what_own_hooks_and_passes_give(name, pattern):
    """Attention by `output_attentions`, and leave-one-out by texts without the segment."""
    model = small(name)
    own, classifies = tokenizer("wordpiece", pattern), name.startswith("Bert")
    trace = collect(model, own, STORIES, segments="sentences", scores=("loo", "gradient_input"))
    given = encode(
        model, own, with_segments(read_texts(STORIES, trace_kind(classifies)), "sentences")
    )
    assert given.segment is not None
    eager = small(name, attn_implementation="eager")

    def predict(ids):
        with torch.no_grad():
            out = eager(torch.from_numpy(ids[None].astype(np.int64)), output_attentions=True)
        logits = out.logits[0] if classifies else out.logits[0, -1]
        row = out.attentions[-1][0, :, 0 if classifies else -1].numpy()
        return logits.double().softmax(-1).numpy(), row

    for k, ids in enumerate(given.ids):
        segment = given.segment[k]
        kinds = list(dict.fromkeys(segment[segment >= 0].tolist()))
        prediction, heads = predict(ids)
        rows = trace.table.filter(instance=k)
        place = {s: i + classifies for i, s in enumerate(kinds)}  # [CLS] comes first
        assert rows["tokens"].list.len().to_list() == [len(kinds) + 2 * classifies] * len(rows)
        for head, row in enumerate(rows.sort("head").iter_rows(named=True)):
            for s in kinds:
                assert row["alpha"][place[s]] == pytest.approx(
                    heads[head][segment == s].sum(), abs=1e-5
                )
                if len(kinds) > 1:
                    without = predict(ids[segment != s])[0]
                    tvd = 0.5 * np.abs(without - prediction).sum()
                    assert row["loo"][place[s]] == pytest.approx(tvd, abs=1e-5)


def trace_kind(classifies):
    return "classification" if classifies else "causal-lm"


def test_copies_exchange_whole_segments_for_those_of_other_texts():
    model = small()
    own = tokenizer("wordpiece")
    pairs = [(story, "is it so ?") for story in STORIES]
    given = encode(model, own, with_segments(read_texts(pairs), "sentences"))
    assert given.segment is not None
    donors, longest = SegmentDonors(given), int(given.ids.lengths.max())

    def parts(row):
        own = given.unit[row]
        return [tuple(given.ids[row][own == s]) for s in range(own.max() + 1)]

    for row in range(4):
        lost, places = donors.copies(row, 60, keyed(0, "replacement", str(row)))
        copies = donors.replaced(row, places)
        others = {part for other in {*range(4)} - {row} for part in parts(other)}
        assert (lost.any(axis=1)).all(), "a copy loses a segment"
        assert not lost[:, given.unit[row] < 0].any(), "special tokens and the question stay"
        for mask, ids in zip(lost, copies.ids, strict=True):
            assert len(ids) <= longest
            kept = given.ids[row][~mask].tolist()
            rest = iter(ids.tolist())
            assert all(token in rest for token in kept), "what stays is there, in order"
            new = set(given.unit[row][mask].tolist())
            same = all(mask[given.unit[row] == s].all() for s in new)
            assert same, "segments are lost as a whole"
            if len(new) == 1:
                (s,) = new
                start = int(np.flatnonzero(given.unit[row] == s)[0])
                found = tuple(ids[start : start + len(ids) - len(kept)].tolist())
                assert any(found == other[: len(found)] for other in others)


def test_an_audit_of_segments_has_replacement_and_nothing_depends_on_batches():
    model = small()
    own = tokenizer("wordpiece")
    options = {"segments": r"[.!?]\s", "replacement": ReplacementSettings(texts=4, copies=20)}
    trace = collect(model, own, STORIES, **options)
    back = collect(model, own, STORIES[::-1], **options)
    assert trace.metadata["segments"]
    for name in ("alpha", "loo"):
        one = trace.ragged(name).values
        other = back.ragged(name)
        order = np.lexsort((back.array("head"), -back.instance))
        assert one == pytest.approx(other.take(order).values, abs=1e-5)
    assert trace.table["replaced"].list.len().to_list() == [240] * len(trace)
    assert {*audit(trace)} >= {"replacement", "surrogate", "adversary", "joint"}


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_titles_of_passages_name_the_positions_of_a_trace(ending, tmp_path):
    model = small()
    parts = [{"title": "Mary", "text": "Mary went home."}, {"title": "Rain", "text": "Rain fell."}]
    own = [{"title": "Rain", "text": "Rain fell."}, {"title": "Note", "text": "It was late."}]
    rows = [{"text": " ".join(one["text"] for one in row), "parts": row} for row in (parts, own)]
    path, table = tmp_path / f"stories.{ending}", pl.DataFrame(rows)
    (table.write_ndjson if ending == "jsonl" else table.write_parquet)(path)
    texts = read_texts(path, segments="parts")
    trace = collect(model, tokenizer("wordpiece"), texts)
    for instance, names in enumerate((["Mary", "Rain"], ["Rain", "Note"])):
        (tokens,) = {tuple(row) for row in trace.table.filter(instance=instance)["tokens"]}
        assert tokens == ("[CLS]", *names, "[SEP]")
    assert read_instances(trace, pl.DataFrame())[0].tokens[1:3] == ["Mary", "Rain"]


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        (["Mary went", "home", "and more"], r"segment 3 of 3, 'and more'.*not in the rest"),
        ([[0, 5], [3, 14]], r"segment 2 of 2, '\[3, 14\]'.*overlaps the one before"),
        ([[0, 4], [10, 14]], r"after 'went', which is in no segment"),
        ([[0, 9]], "leave out the end of the text, 'home'"),
        ([[0, 90]], "not in the rest of a text of 14 characters"),
        (["Mary", 7], "segment 2 of 2, '7', where a text,"),
        ([{"title": "News", "body": "Mary"}], "segment 1 of 1.*where a text,"),
        ([{"title": " ", "text": "Mary"}], "an empty title of a segment"),
    ],
)
def test_wrong_segments_of_a_file_are_refused_with_their_row(segments, expected, tmp_path):
    rows = [
        {"text": "It is so.", "parts": ["It is", "so."]},
        {"text": "Mary went home", "parts": segments},
    ]
    path = tmp_path / "stories.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match=rf"row 1 \(line 2\).*{expected}"):
        read_texts(path, segments="parts")
    path.write_text(json.dumps(rows[0]))
    assert read_texts(path, segments="parts").segments == [((0, 5, ""), (6, 9, ""))]
    with pytest.raises(InputError, match="choose one of them"):
        with_segments(read_texts(path, segments="parts"), "lines")
    with pytest.raises(InputError, match=r"\(\[.*regular expression"):
        with_segments(read_texts(["a"]), "([")
