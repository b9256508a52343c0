"""The copying study: what is told of curves, and the study done, stopped, resumed and refused."""

import json
import re

import polars as pl
import pytest

from attnaudit.copying.study import Copying, passing, summarise
from attnaudit.core import InputError
from attnaudit.recipes.studies import copying_study, run_copying
from attnaudit.report.cards.card import WITHHELD
from attnaudit.report.study_page import copying_card
from tests import killed
from tests.cli.test_cli import answers, fails
from tests.forked import apart
from tests.report.access import barriers
from tests.report.conftest import browser, context, opened  # noqa: F401
from tests.report.test_browser import assert_well_drawn
from tests.steps.calls import made as digests

TINY = {
    "copying.length": 5, "copying.symbols": 5, "copying.hidden": 16, "copying.embedding": 16, "copying.batch": 16, "copying.steps": 9,
    "copying.seeds": 3, "copying.every": 4, "copying.probe": 4, "copying.test": 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return run_copying(
        copying_study("iid", 1, TINY), tmp_path_factory.mktemp("copying") / "iid", threads=2
    )


def curve(seed, relevance, attention):
    return [
        {"seed": seed, "stage": 0, "step": 10 * k, "relevance": r, "attention": a, "entropy": 3.0 - k}
        for k, (r, a) in enumerate(zip(relevance, attention, strict=True))
    ]  # fmt: skip


CURVES = pl.DataFrame(
    curve(0, [0.1, 0.6, 0.9], [0.0, 0.2, 0.9]) + curve(1, [0.1, 0.4, 0.6], [0.0, 0.7, 0.9]) + curve(2, [0.1, 0.2, 0.3], [0.0, 0.1, 0.1])
    + curve(3, [0.0, 0.6, 0.9], [0.0, 0.6, 0.9])
)  # fmt: skip
FINAL = pl.DataFrame(
    {
        "seed": [0, 1, 2, 3], "token": [0.99, 0.96, 0.59, 0.95], "attention": [0.9] * 4, "relevance": [0.9, 0.6, 0.3, 0.9],
        "relevance_least": [0.0, 0.6, 0.6, 0.5],
        "attention_symbol": [0.9] * 4, "relevance_symbol": [0.9] * 4, "entropy": [1.0] * 4,
        "agreement": [0.8, 0.7, 0.1, 0.9], "attended": [-1.0, -1.0, 4.0, 0.0], "heads": [[0.9]] * 4,
    }
)  # fmt: skip


def test_a_training_that_diverges_is_no_seed_that_failed(tmp_path):
    study = copying_study("iid", 1, TINY | {"copying.learning_rate": 1e38})
    with pytest.raises(
        InputError,
        match=r"train: seed 1: a loss of nan; expected a finite one; lower copying\.learning_rate",
    ):
        run_copying(study, tmp_path / "out", threads=2)
    assert not (tmp_path / "out/summary.json").exists()


def test_what_comes_first_is_told_from_the_first_step_above_a_half():
    steps = passing(CURVES)
    assert steps["relevance_step"].to_list() == [10, 20, None, 10]
    assert steps["attention_step"].to_list() == [20, 10, None, 10]
    assert steps["lead"].to_list() == [10, -10, None, 0]
    assert steps["relevance_entropy"].to_list() == [2.0, 1.0, None, 2.0]


def test_shares_are_of_all_seeds_and_order_of_those_that_succeeded():
    rows = {(row["measure"], row["group"]): row for row in summarise(CURVES, FINAL).to_dicts()}
    expected = {
        ("succeeded", "all"): 0.5, ("failed", "all"): 0.5, ("stopped", "all"): 0.77, ("stopped_least", "all"): 0.59,
        ("stopped_most", "all"): 0.95, ("relevance_entropy", "all"): 2.0, ("relevance_first", "all"): 0.5,
        ("relevance_accuracy", "failed"): 0.6, ("lead", "failed"): 0.0, ("agreement", "succeeded"): 0.75,
        ("attended", "succeeded"): -1.0, ("upside_down", "all"): 0.25,
    }  # fmt: skip
    assert {key: rows[key]["value"] for key in expected} == expected
    assert rows["succeeded", "all"]["low"] == pytest.approx(0.15, abs=0.005)
    assert [rows[name, "all"]["n"] for name in ("relevance_first", "lead")] == [2, 3]
    assert rows["lead", "all"]["undefined"] == 1
    turned = summarise(CURVES[::-1], FINAL[::-1])
    assert turned.sort("measure", "group").equals(summarise(CURVES, FINAL).sort("measure", "group"))


def card_rows(curves, final, **settings):
    return copying_card(summarise(curves, final), vars(Copying("permutations", **settings))).rows


def test_nothing_is_concluded_where_no_seed_learned():
    unlearned = summarise(CURVES, FINAL.with_columns(token=pl.lit(0.15)))
    card = copying_card(unlearned, vars(Copying("permutations")))
    assert card.lead.startswith("Claim nothing: no seed learned to copy (token accuracy 0.15,")
    assert {row.sentence for row in card.rows[1:]} == {WITHHELD}


def test_the_card_tells_counts_and_where_the_others_stop():
    row, order, place = card_rows(CURVES, FINAL, length=4, seeds=4, preset="tied")
    assert "2 learned to copy (50 %, 15 % to 85 %)" in row.sentence
    assert "4 of 4 learn to attend" in row.sentence
    assert "first in 1, attention in 1, and both at one measurement in 0" in order.sentence
    assert "0.5 positions before the right one" in place.sentence
    assert place.yardstick.startswith("25 %")  # one of four positions is the top 5 %
    attention = pl.Series([0.9, 0.1, 0.5, 0.2])
    elsewhere = FINAL.with_columns(attention=attention, relevance_least=0.5)
    row, _, place = card_rows(CURVES, elsewhere)
    assert "1 of 4 learn to attend (5 % to 70 %)" in row.sentence
    assert "Its median position says nothing" in place.sentence


@pytest.mark.parametrize(
    ("preset", "positions", "chance"), [("snell2021", 41, "7 %"), ("tied", 40, "5 %")]
)
def test_chance_is_of_all_positions_of_a_source(preset, positions, chance):
    assert Copying("permutations", preset=preset).sequences.positions == positions
    assert card_rows(CURVES, FINAL, preset=preset)[2].yardstick.startswith(chance)


def test_a_study_leaves_curves_of_every_seed_and_a_page(done):
    curves, final, alpha = (
        pl.read_parquet(done / "results" / f"{name}.parquet")
        for name in ("copying", "seeds", "attention")
    )
    assert curves["step"].unique().sort().to_list() == [0, 4, 8, 9]
    assert final["seed"].to_list() == [1, 2, 3]
    assert curves.height == 12
    for table in (curves, final):
        assert table["agreement"].is_between(0, 1).all()
        assert table["attended"].is_between(-5, 5).all()
    assert alpha["alpha"].arr.sum().to_list() == pytest.approx([1.0] * 18, abs=1e-5)
    page = (done / "report.html").read_text()
    assert page.count("<svg") >= 5
    assert not re.search(r"""(src|href)=["']http""", page)


@pytest.mark.parametrize("threads", [1, 3])
def test_neither_threads_nor_a_damaged_checkpoint_change_a_byte(done, tmp_path, threads):
    """What is done is left as it is."""
    (tmp_path / ".unfinished").mkdir()
    (tmp_path / ".unfinished/copying.safetensors").write_bytes(b"nothing")
    study = copying_study("iid", 1, TINY)
    again = run_copying(study, tmp_path, threads=threads)
    assert digests(again) == digests(done)
    before = (again / "manifest.json").stat().st_mtime_ns
    run_copying(study, again)
    assert (again / "manifest.json").stat().st_mtime_ns == before


@pytest.mark.slow
def test_a_study_killed_again_and_again_ends_with_the_same_bytes(tmp_path):
    """With steps before under uniform attention, so that it is killed in both stages."""
    study = copying_study(
        "iid", 1, TINY | {"copying.pretraining": 6, "copying.pretraining_kind": "iid"}
    )
    whole = run_copying(study, tmp_path / "whole")
    # Of five portions one is done each time: what was done is not done again.
    assert apart(killed.at_second_portion, study, tmp_path / "killed") == 4
    assert digests(tmp_path / "killed") == digests(whole)
    steps = pl.read_parquet(whole / "results/copying.parquet")
    expected = [(0, 0), (0, 4), (0, 6), (1, 0), (1, 4), (1, 8), (1, 9)]
    assert steps.filter(seed=1).select("stage", "step").rows() == expected
    before = steps.filter(stage=0).select("attention", "agreement", "attended")
    assert before.null_count().row(0) == (9, 9, 9)


@pytest.mark.parametrize(
    ("kind", "settings", "told"),
    [
        (
            "iid",
            ["copying.heads=3"],
            "256 with copying.encoder = lstm, copying.heads = 3; expected a number that the heads divide",
        ),
        ("iid", ["copying.hidden=255", "copying.encoder=bilstm"], "an even number"),
        ("iid", ["copying.kind=distinct"], "argument or option CORPUS"),
        ("iid", ["copying.sed=4"], "did you mean copying.seed?"),
        ("permutations", ["copying.symbols=39"], "length 40 of 39 symbols"),
        (
            "distinct",
            ["copying.pretraining=5", "copying.pretraining_kind=permutations"],
            "as many symbols as positions",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(kind, settings, told, tmp_path, capsys):
    given = [part for setting in settings for part in ("--set", setting)]
    assert told in fails(capsys, "study", "copying", kind, "--out", tmp_path / "out", *given)
    assert not (tmp_path / "out").exists()


def test_the_command_prints_the_summary(done, capsys):
    given = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]
    command = ("study", "copying", "iid", "--seed", "1", "--out", done, *given)
    told = json.loads(answers(capsys, *command, "--json"))
    assert {row["experiment"] for row in told} == {"copying"}
    shown = answers(capsys, *command)
    # What may be claimed comes first.
    assert shown.index("Is copying learned?") < shown.index("study copying of iid")


@pytest.mark.slow
def test_its_page_is_well_drawn_and_has_no_serious_barrier(
    done,
    opened,  # noqa: F811
    browser,  # noqa: F811
):
    assert_well_drawn(opened(done / "report.html"))
    assert barriers(browser, (done / "report.html").as_uri()) == []
