"""Translation runs: what they leave, that they go on where they were, and what they refuse."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from attnaudit.cli.show import show_run
from attnaudit.core import InputError, read_json
from attnaudit.core.escapes import without_controls
from attnaudit.experiments import measure_label
from attnaudit.plans.spec import TranslationSpec
from attnaudit.recipes.audit import audit_into
from attnaudit.recipes.job import read_translations
from attnaudit.recipes.site import site_into
from attnaudit.recipes.trained import run as translate
from attnaudit.trace import Trace
from tests.cli.test_cli import answers, fails
from tests.pairs import edit, write_pairs
from tests.report.access import barriers
from tests.report.conftest import browser  # noqa: F401

SMALL = {
    "corpus.units": "words", "corpus.min_df": 1, "model.embedding": 16, "model.hidden": 16, "training.epochs": 2, "collect.pairs": 5,
    "decode.beam": 2, "permutation.permutations": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("texts") / "pairs")


def spec(pairs, **settings):
    return TranslationSpec.of(pairs, device="cpu", settings=SMALL | settings)


@pytest.fixture(scope="module")
def run(pairs, tmp_path_factory):
    return translate(spec(pairs), tmp_path_factory.mktemp("runs") / "run")


@pytest.mark.slow
def test_what_a_run_leaves(run):
    written = read_translations(run)
    assert len(written) == 16
    assert set(written[0]) == {"instance", "source", "reference", "translation"}
    rows = {(row["experiment"], row["measure"]): row for row in read_json(run / "summary.json")}
    assert not [one for one in rows if measure_label(*one[::-1]) == one[1]], "without a label"
    bleu = rows["translation", "bleu"]
    assert 0 <= bleu["low"] <= bleu["high"]
    assert 0 < rows["translation", "token_accuracy"]["value"] < 1
    assert rows["alignment", "precision_at_1_relevance"]["n"] > 0
    assert ("correlation", "tau_gradient") in rows
    assert not any(experiment == "prediction" for experiment, _ in rows)
    manifest = read_json(run / "manifest.json")
    left_out = manifest["steps"]["audit"]["notes"]["left_out"]
    assert "quality of translations" in left_out["prediction"]
    trace = Trace.read(run / "trace")
    assert trace.metadata["corpus"]["task"] == "translation"
    assert len(set(trace.instance.tolist())) == 5
    files = {"translations.jsonl", "dictionary.parquet", "translation.html"}
    assert {*files, "model/weights.safetensors"} <= manifest["files"].keys()


def test_known_alignments_are_audited_as_any_experiment(run, tmp_path):
    audited = read_json(audit_into(tmp_path / "audit", run, ("alignment",), {}) / "summary.json")
    own = [row for row in read_json(run / "summary.json") if row["experiment"] == "alignment"]
    assert audited == [row for row in own if not row["measure"].startswith("dictionary_")]
    assert (
        "alignment" not in read_json(run / "spec.json")["experiments"]
    )  # without settings it changes no spec


@pytest.mark.slow
@pytest.mark.usefixtures("quick_pages")
def test_a_killed_run_ends_with_the_same_bytes(run, pairs, tmp_path):
    """Stopped at the n-th sign of progress, a little later every time."""
    out, stops = tmp_path / "run", 0
    while True:
        left = 3 + 8 * stops

        def stop(what, done, total):
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

        try:
            translate(spec(pairs), out, stop)
            break
        except KeyboardInterrupt:
            stops += 1
    assert stops >= 3
    kept = [
        path.relative_to(run)
        for path in run.rglob("*")
        if path.is_file() and path.name not in ("manifest.json", "report.html")
    ]
    assert kept
    for path in kept:
        assert (out / path).read_bytes() == (run / path).read_bytes(), path


def test_without_attention_there_is_no_trace(pairs, tmp_path):
    out = translate(spec(pairs, **{"model.attention": "none"}), tmp_path / "run")
    assert not (out / "trace").exists()
    assert not (out / "report.html").exists()
    assert {row["experiment"] for row in read_json(out / "summary.json")} == {"translation"}
    assert "BLEU" in (out / "translation.html").read_text()


def test_the_dictionary_is_named_and_has_the_columns_that_its_page_tells(run, capsys):
    show_run(run, as_json=False)
    assert str(run / "dictionary.parquet") in capsys.readouterr().out
    page = (Path(__file__).parents[2] / "docs/translation.md").read_text()
    (told,) = re.findall(r"Its columns: (.*?)\n\n", page, re.DOTALL)
    table = pl.read_parquet(run / "dictionary.parquet")
    assert re.findall(r"`(\w+)`", told) == table.columns
    assert table["relevance"].is_sorted(
        descending=True
    )  # as the program below it on that page takes it


def test_characters_that_other_programs_end_lines_with_stay_in_their_text(pairs, tmp_path):
    texts = shutil.copytree(pairs, tmp_path / "texts")
    source, target = "a1\u2028a2 a3\u0085a4 a5\x1ca6 a7\x0ca8", "b1\u2029b2 b3\x0bb4"
    edit(texts / "test.src", 1, source)
    edit(texts / "test.trg", 1, target)
    edit(texts / "test.align", 1, "0-0")
    out = translate(
        spec(texts, **{"training.epochs": 1, "model.attention": "none"}), tmp_path / "run"
    )
    written = read_translations(out)
    assert (len(written), written[0]["source"], written[0]["reference"]) == (16, source, target)
    assert without_controls(target) in (out / "translation.html").read_text()


@pytest.mark.parametrize(("name", "side"), [("train.src", "source"), ("test.trg", "target")])
def test_a_text_of_which_no_piece_is_left(pairs, tmp_path, name, side):
    nothing = "\u200b"
    texts = shutil.copytree(pairs, tmp_path / "texts")
    edit(texts / name, 5, nothing)
    got = f"{name.partition('.')[0]} split, line 5: nothing of the {side} is left: {nothing!a}"
    with pytest.raises(InputError, match=re.escape(got)):
        translate(spec(texts, **{"corpus.units": "pieces", "corpus.pieces": 60}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


PLANTED = {
    **{key: value for key, value in SMALL.items() if not key.startswith("corpus.")},
    "corpus.size": 200, "corpus.length": "2,4", "corpus.symbols": 8, "training.learning_rate": 0.01, "training.epochs": 6,
    "collect.pairs": 5,
}  # fmt: skip


@pytest.mark.usefixtures("quick_pages")
@pytest.mark.parametrize("kind", ["copy", pytest.param("bigram_flip", marks=pytest.mark.slow)])
def test_planted_pairs(tmp_path, capsys, kind):
    options = [part for key, value in PLANTED.items() for part in ("--set", f"{key}={value}")]
    command = ("run", f"planted-{kind}", "--out", tmp_path / "run", "--json", *options)
    rows = {row["measure"]: row for row in json.loads(answers(capsys, *command))["summary"]}
    assert rows["token_accuracy"]["value"] > 0.3  # by chance 1 in 8
    trace = Trace.read(tmp_path / "run/trace")
    assert trace.metadata["corpus"]["name"] == f"planted-{kind}"
    assert {word[0] for row in range(len(trace)) for word in trace.tokens(row)} == {"s"}
    marks = [row for row in trace.table["rationale"].to_list() if row is not None]
    assert all(sum(row) == 1 for row in marks)  # one source word for every token but the end
    assert len(trace) - len(marks) == 5


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nowhere"], "an unknown corpus; expected one of sst"),
        (
            ["planted-copy", "--set", "corpus.max_words=9"],
            "setting corpus.max_words: corpus planted-copy; expected a corpus that is read",
        ),
        (["{pairs}", "--set", "corpus.symbols=9"], "expected a corpus planted-<kind>"),
        (["{pairs}", "--set", "model.heads=3"], "256 with 3 heads"),
        (["{pairs}", "--set", "model.attention=dot"], "one of bilinear, additive, uniform, none"),
        (
            ["{pairs}", "--set", "corpus.units=words", "--set", "corpus.min_df=999"],
            "no word of a side of train",
        ),
        (["{pairs}", "--set", "corpus.min_df=0"], "setting corpus.min_df: 0; expected 1 or more"),
        (["{pairs}", "--preset", "large"], "one of small, paper"),
    ],
)
def test_bad_input_is_one_line(pairs, tmp_path, capsys, arguments, line):
    given = [argument.format(pairs=pairs) for argument in arguments]
    assert line in fails(capsys, "run", *given, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_its_pages_have_no_serious_barrier_and_a_site_shows_it(
    run,
    browser,  # noqa: F811
    tmp_path,
):
    site = site_into([run], tmp_path / "site")
    pages = sorted((site.parent / "run").glob("*.html"))
    assert len(pages) == 2
    for page in pages:
        assert barriers(browser, page.as_uri()) == []
    assert "BLEU" in site.read_text()
