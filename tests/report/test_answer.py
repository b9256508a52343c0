"""The answer comes first, in at most 25 lines, with honest signs and a typical example."""

from dataclasses import replace
from io import StringIO
from shlex import split

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from attnaudit.cli.options import assigned
from attnaudit.experiments import audit
from attnaudit.experiments.findings import AGAINST, FOR, NEITHER, decide
from attnaudit.experiments.verdict import decide_verdict
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.work import spec_of
from attnaudit.report.answer import (
    ADVICE,
    LONG,
    SHORT,
    answer,
    next_command,
    outstanding,
    study_command,
)
from attnaudit.report.fragment import record_of
from attnaudit.report.run_page import write_report
from attnaudit.report.terminal import print_answer
from attnaudit.results import About, RunRecord
from tests.experiments.test_replacement import noisy, of_heads, weights
from tests.experiments.test_verdict import partly_replaced, traced
from tests.report.runs import write_run
from tests.traces import make_trace, with_columns

QUICK = {"adversary": {"epsilon": 0.99}}  # which any attention keeps
MEASURED = ["prediction", "replacement", "permutation", "adversary"]


def answer_of(trace, about=None, settings=None):
    needs = {"prediction": "label", "replacement": "replaced"}
    names = [name for name in MEASURED if trace.has(needs.get(name, "alpha"))]
    results = audit(trace, names, settings=settings)
    record = record_of(results)
    left_out = {"correlation": "the trace has no column loo", "joint": "for heads only"}
    left_out["plausibility"] = "the trace has no column rationale"
    found = answer(replace(record, about=about or record.about), trace, left_out)
    assert found.code == decide_verdict(results.summary).code
    return found


def printed(found, width=120):
    text = StringIO()
    print_answer(found, Console(file=text, width=width), [("REPORT", "page.html"), ("NEXT", "x")])
    return text.getvalue().splitlines()


def followed(found):
    """The reason of replaced words."""
    return next(one for one in found.evidence if one.row.experiment == "replacement")


@pytest.mark.parametrize(("faithful", "code"), [(1.0, "show"), (0.0, "where")])
def test_the_verdict_and_its_reasons_come_first(faithful, code):
    found = answer_of(traced(faithful))
    assert (found.code, found.advice) == (code, ADVICE[code])
    follows = followed(found)
    assert follows.sign == found.sign
    said = [one.shows for one in found.evidence if not one.row.of_model]
    assert [one for one in said if not one.endswith(".")] == [], "a figure without a sentence"
    assert follows.row.place is not None
    assert (follows.row.place > 0) == (code == "show")
    lines = printed(found)
    assert len(lines) <= 25
    assert ADVICE[code] in lines[3]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("classes", [2, 3, 9])
def test_any_number_of_classes_fits_on_a_screen(classes, width):
    trace = make_trace(120, (3, 60), 1 if classes == 2 else classes, seed=1)
    found = answer_of(trace, settings=QUICK)
    assert 2 <= len(found.classes) <= classes
    assert sum(one.number for one in found.classes) == 120
    lines = printed(found, width)
    assert len(lines) <= 25
    assert all(len(line) <= width for line in lines)
    if classes == 2:
        assert any("WHY" in line and "negative" in line and "positive" in line for line in lines)


@pytest.mark.parametrize("word", ["w" * 500, "中" * 300, "[bold]\n\x1b[31m"])
def test_long_names_words_and_sentences_stay_on_the_screen(word):
    names = [word, "<i>" + word, "short"]
    trace = make_trace(40, [30] * 20 + [600] * 20, 3, class_names=names)
    tokens = [[word] * len(row) for row in trace.table["tokens"].to_list()]
    found = answer_of(with_columns(trace, tokens=tokens), settings=QUICK)
    lines = printed(replace(found, warnings=("one of many words " * 8,)), 80)
    assert all(cell_len(line) <= 80 for line in lines)
    assert "\x1b" not in "".join(lines)
    command = "attnaudit run a.csv " + "--column text=body " * 9
    text = StringIO()
    print_answer(found, Console(file=text, width=80), [("NEXT", command.strip())])
    assert command.strip() in text.getvalue(), "a command is copied as one line"


def test_no_two_reasons_read_the_same():
    """A row that takes the place of a missing one keeps its own question."""
    summary = audit(make_trace(40, (3, 9)), ["correlation", "permutation"]).summary
    claims = [one.claim for one in answer(RunRecord("", summary, About())).evidence]
    assert len(claims) > 2
    assert len(set(claims)) == len(claims)


def test_only_what_a_reader_can_mend_is_a_warning():
    found = answer_of(make_trace(30, (3, 9)))
    assert "not measured: correlation: the trace has no column loo" in found.warnings
    assert not any("joint" in one or "plausibility" in one for one in found.warnings)
    notes = ("warning: 8 of test also in train", "made with seed 0")
    about = About(notes=notes)
    warned = answer_of(make_trace(30, (3, 9)), about).warnings
    assert "8 of test also in train" in warned
    assert "made with seed 0" not in warned


def test_the_example_is_the_median_text_of_readable_length():
    """Neither the most striking text nor one that is a phrase or fills the screen."""
    trace = make_trace(101, (2, 60), seed=4)
    found = answer_of(trace).example
    assert found is not None
    assert SHORT <= len(found.instance.tokens) <= LONG
    table = audit(trace, "adversary")["adversary"].table
    jsd, lengths = table["emax_jsd"].to_numpy(), trace.ragged("alpha").lengths
    fits = np.flatnonzero((lengths >= SHORT) & (lengths <= LONG))
    distance = np.abs(jsd - np.median(jsd))
    assert found.instance.number == trace.instance[fits[np.argmin(distance[fits])]]


def test_words_stand_out_only_from_others():
    assert outstanding(np.array([0.1, 0.7, 0.1, 0.1])) == [1]
    assert outstanding(np.array([0.05, 0.4, 0.05, 0.4, 0.1])) == [1, 3]
    assert outstanding(np.full(8, 1 / 8)) == []
    assert outstanding(np.array([0.55, 0.45])) == [], "one of two words is nothing special"


@pytest.mark.parametrize(
    ("value", "above", "below", "place"),
    [
        (0.0, FOR, AGAINST, -1.0),
        (0.2, FOR, AGAINST, 0.0),
        (0.3, FOR, AGAINST, 0.5),
        (9.0, FOR, AGAINST, 1.0),
        (0.3, AGAINST, NEITHER, -0.5),
        (0.1, NEITHER, FOR, 0.5),
        (0.3, NEITHER, NEITHER, None),
    ],
)
def test_the_scale_has_the_threshold_in_the_middle(value, above, below, place):
    row = {"experiment": "e", "measure": "m", "value": value, "low": value, "high": value, "n": 50}
    assert decide(row, 0.2, above, below).place == pytest.approx(place)


def test_the_next_step_repeats_the_options_of_the_run():
    corpus = {"source": "my reviews.csv", "text": "body", "label": "label", "question": None}
    spec = {"kind": "run", "corpus": corpus, "model": {"encoder": "cnn"}}
    command, _ = next_command(About(spec=spec))
    assert command == "attnaudit study seeds 'my reviews.csv' --column text=body --model cnn"
    assert (
        "yours.csv" in next_command(About(spec=spec | {"corpus": {"source": "planted-prior"}}))[0]
    )
    assert next_command(About())[0].startswith("attnaudit compare")


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("a.csv", {"text": "my text", "encoder": "average", "attention": "dot", "seed": 3}),
        ("sst", {"preset": "code2019", "data_dir": "my data", "vectors": "random"}),
        ("planted-decisive", {"settings": {"corpus.size": "2000", "corpus.length": "10,40"}}),
        ("a.csv", {"preset": "han", "settings": {"adversary.epsilon": 0.05}}),
        ("a.csv", {"settings": {"corpus.lowercase": False, "collect.scores": ("loo",)}}),
        ("a.csv", {"settings": {"training.epochs": 3, "prediction.seed": 5}}),
    ],
)
def test_the_command_of_another_training_trains_the_same_model(source, options):
    """Options and settings left out would be another model, of which the answer says nothing."""
    plain = RunSpec.of(source, **options).to_json()
    _, _, _, typed, *rest = split(study_command(About(spec=plain)))
    found = {}
    for option, value in zip(rest[::2], rest[1::2], strict=True):
        found.setdefault(option.strip("-").replace("-", "_"), []).append(value)
    own = {name: found.pop(name, []) for name in ("set", "column", "model")}
    read = {name: int(value) if name == "seed" else value for name, (value,) in found.items()}
    read |= dict(one.split("=", 1) for one in own["column"])
    given = {**read, "settings": assigned(own["set"])}
    assert spec_of(typed, own["model"][0], **given).to_json() == plain


def test_words_are_replaced_in_more_texts_where_there_are_more():
    """Words were replaced in a part of the texts, so more test texts would decide nothing."""
    spec = RunSpec.of("a.csv", settings={"replacement.texts": 24, "corpus.min_df": 2}).to_json()
    found = answer_of(partly_replaced(300, 24), About(spec=spec))
    option = "--set replacement.texts=50"
    command, _ = found.next
    assert option in found.statement
    assert option in found.advice
    assert "--set corpus.min_df=2" in command
    assert command.endswith(f"{option} --out runs/replaced-50")
    assert option in followed(found).row.sentence


LAYERS = [
    {"stack": stack, "heads": heads}
    for stack, heads in (("encoder", 9), ("decoder", 7), ("cross", 2), ("cross", 3))
]
MEAN = {"heatmap": "mean-last", "gate": {"layers": LAYERS}}


def shown_trace(noise, **metadata):
    """Texts under several heads, where leave-one-out is what the output follows."""
    weight = weights(40)
    scores = {"loo": weight, "importance_shown": noisy(weight, noise, 1)}
    scores |= {"gradient": noisy(weight, 1.0, 2), "importance_random": noisy(weight, 99.0, 3)}
    return of_heads(weight, scores, **{**MEAN, **metadata})


def test_a_better_heatmap_than_the_one_shown_is_named_and_drawn(tmp_path):
    trace = shown_trace(3.0)
    found = answer_of(trace)
    own = {name: figure for name, figure, _ in found.scores}
    assert next(iter(own)) == "leave-one-out"
    assert set(own) == {"leave-one-out", "gradient", "heatmap shown", "random order"}
    said = "leave-one-out is a better heatmap on these texts: "
    assert found.instead == f"{said}{own['leave-one-out']} against {own['heatmap shown']}"
    assert "mean of the 3 heads of the last layer" in found.subtitle
    assert [one.row.experiment for one in found.evidence] == ["replacement"]
    assert found.example is not None
    assert found.example.kind == "loo"
    lines = printed(found)
    assert len(lines) <= 25
    assert len([line for line in lines if line.startswith(("   w", "   [w"))]) == 2
    page = write_report(write_run(tmp_path, trace, experiments=["replacement"])).read_text("utf-8")
    assert said[1:] in page
    assert "tokens shown" in page
    assert "Random order" in page  # a strip of each score


def test_no_other_heatmap_is_better_where_none_is_shown_to_be():
    found = answer_of(shown_trace(0.0))
    assert found.instead == "no score is shown to be a better heatmap"
    assert found.example is not None
    assert not found.example.differs


@pytest.mark.parametrize(
    ("heatmap", "named"),
    [
        ("mean-all", "mean of all 5 heads"),
        ("head:0.2", "head 2 of layer 0"),
        ("integrated-gradients", "integrated gradients (absolute values)"),
        ("my tool", "my tool"),
        ("loo", "leave-one-out"),
    ],
)
def test_the_heatmap_shown_is_named(heatmap, named):
    found = answer_of(shown_trace(9.0, heatmap=heatmap))
    assert f"heatmap shown: {named}" in found.subtitle
    assert found.code == "where"
    assert followed(found).row.measure.endswith("is the heatmap itself") == (heatmap == "loo")
    assert ("look" in found.advice) == (heatmap in ("mean-all", "head:0.2"))
