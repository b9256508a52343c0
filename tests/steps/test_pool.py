"""Work in a pool has the bytes of work in one process, in whatever order calls end."""

import json
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from attnaudit.cli import options as cli_options
from attnaudit.core import InputError, silent
from attnaudit.plans.audit import TransformerSpec
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.audit import audit_into
from attnaudit.recipes.job import SHARD_ROWS
from attnaudit.recipes.reproduction.sweep import reproduce
from attnaudit.recipes.studies import study
from attnaudit.recipes.study import StudySpec, prepared
from attnaudit.recipes.trained import run
from attnaudit.recipes.transformer import audit_transformer
from attnaudit.steps import SERIAL, Call
from attnaudit.steps.pieces import do_missing, piece
from attnaudit.trace import trace_files, write_shards
from attnaudit.tracing import texts as tracing_texts
from tests.cli.test_cli import fails
from tests.hf.tokenizing import small, texts, tokenizer
from tests.pages import FEW, experiments, summaries_as_pages
from tests.papers.test_reproduce import data, small_sweep
from tests.steps import calls
from tests.steps.calls import SMALL, Elsewhere, made
from tests.traces import make_trace

__all__ = ["data"]


def test_calls_are_done_in_their_order_and_say_how_far_they_are(tmp_path):
    def work(more, held, out, progress, device):
        assert (out, device) == (tmp_path, None)
        progress("train", 1, 2)
        return held + more

    shown = []
    some = [Call(f"call {k}", partial(work, k), tmp_path, 10) for k in range(2)]
    found = SERIAL.do(some, lambda *one: shown.append(one), 2)
    assert [done.result() for done in found] == [10, 11]
    assert shown == [("call 0 (1 of 2) · train", 1, 2), ("call 1 (2 of 2) · train", 1, 2)]


def test_an_error_in_the_input_of_a_call_is_a_value(tmp_path):
    some = [Call(f"{work}", work, tmp_path) for work in (calls.refused, calls.broken)]
    found = SERIAL.do(some, silent)
    with pytest.raises(InputError, match="read: row 3: nothing; expected a label; add one"):
        next(found).result()
    with pytest.raises(ZeroDivisionError):
        next(found)


def assert_same_bytes(tmp_path, work):
    """Check that work leaves the same in one process and in a pool; return what it left."""
    local, elsewhere = tmp_path / "local", tmp_path / "elsewhere"
    work(local, pool=SERIAL)
    work(elsewhere, pool=Elsewhere())
    assert made(elsewhere) == made(local)
    return local


@pytest.mark.slow
@pytest.mark.usefixtures("quick_pages")
def test_a_run(tmp_path, monkeypatch):
    """With shards of a few rows, so that there are several."""
    monkeypatch.setattr("attnaudit.recipes.job.SHARD_ROWS", 8)
    options = partial(tracing_texts.CollectOptions, shard_rows=8)
    monkeypatch.setattr(tracing_texts, "CollectOptions", options)
    spec = RunSpec.of("planted-decisive", encoder="average", settings=SMALL)
    assert len(trace_files(assert_same_bytes(tmp_path, partial(run, spec)))) > 1


@pytest.mark.slow
def test_trainings_of_a_study_with_teachers(tmp_path):
    settings = SMALL | {"guide.seeds": 1, "training.epochs": 1}
    spec = StudySpec.of("guide", "planted-decisive", encoder="average", settings=settings)
    for name, pool in (("local", SERIAL), ("elsewhere", Elsewhere())):
        planned = prepared(spec, tmp_path / name, silent)
        assert len([done.result() for done in pool.do(planned.calls, silent)]) > 3
    expected, found = (made(tmp_path / name) for name in ("local", "elsewhere"))
    assert set(found) == set(expected)
    # A spec says where its teacher lies, and a manifest has the digest of its spec.
    differing = {name for name in found if found[name] != expected[name]}
    assert {name.rpartition("/")[2] for name in differing} == {"spec.json", "manifest.json"}
    specs = [json.loads(found[name]) for name in differing if name.endswith("spec.json")]
    assert all(one["teacher"]["trace"].startswith(str(tmp_path / "elsewhere")) for one in specs)


@pytest.mark.slow
def test_a_paper(data, tmp_path, monkeypatch):
    monkeypatch.setattr("attnaudit.report.paper_page.figures_section", lambda *_: None)
    with summaries_as_pages(), experiments(*FEW):
        reproduce(small_sweep(tmp_path / "local", data, seeds=1))
        reproduce(small_sweep(tmp_path / "elsewhere", data, seeds=1), pool=Elsewhere())
    assert made(tmp_path / "elsewhere/runs") == made(tmp_path / "local/runs")


@pytest.mark.slow
@pytest.mark.usefixtures("one_registry", "quick_pages")
@pytest.mark.parametrize("layers", ["last", "all"], ids=["graph", "replay"])
def test_a_transformer(tmp_path, monkeypatch, layers):
    """In shards of two texts, behind a graph and with the model itself."""
    monkeypatch.setattr("attnaudit.hf.trace.SHARD_TEXTS", 2)
    model, source = tmp_path / "bert", tmp_path / "texts.csv"
    small().save_pretrained(model)
    tokenizer("wordpiece").save_pretrained(model)
    pl.DataFrame({"text": sorted(set(texts()))[:3]}).write_csv(source)
    options = {"layers": layers, "heads": "0", "scores": ("gradient",), "sample": 3}
    settings = {f"collect.{name}": value for name, value in options.items()}
    spec = TransformerSpec.of(model, str(source), experiments=["permutation"], settings=settings)
    local = assert_same_bytes(tmp_path, partial(audit_transformer, spec))
    assert len(trace_files(local)) == 2


@pytest.mark.parametrize("name", ["copying", "calibration"])
def test_what_trains_in_one_process_refuses_a_pool(name, tmp_path):
    with pytest.raises(InputError, match=f"--engine ray: {name}, which trains in one process"):
        study(name, "permutations", tmp_path / "out", pool=Elsewhere())


def test_shards_of_a_pool_are_those_of_one_process():
    assert SHARD_ROWS == tracing_texts.SHARD_ROWS


@pytest.mark.slow
@pytest.mark.usefixtures("quick_pages")
def test_an_audit_of_several_files(tmp_path):
    shards = [make_trace(10, (2, 9), seed=seed, first_instance=10 * seed) for seed in range(3)]
    write_shards(tmp_path / "trace", shards)
    assert_same_bytes(tmp_path, partial(audit_into, trace=tmp_path / "trace"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        Path.unlink,
        lambda file: Path(f"{file}x").touch(),
    ],
)
def test_a_damaged_piece_is_made_again(tmp_path, damage):
    done = []

    def work(number, held, made, *_):
        (made / "file").write_text(str(number))
        done.append(number)

    some = [piece(f"call {k}", partial(work, k), tmp_path / str(k)) for k in range(3)]
    do_missing(SERIAL, some, silent)
    damage(tmp_path / "1/file")
    do_missing(SERIAL, some, silent)
    assert done == [0, 1, 2, 1]
    assert (tmp_path / "1/file").read_text() == "1"


def test_a_file_of_another_trace_is_refused(tmp_path):
    """Although each file is read by a process of its own; nothing is left."""
    make_trace(5, (2, 9), seed=0).write(tmp_path / "trace")
    make_trace(5, (2, 9), 3, seed=0, first_instance=5).write(tmp_path / "other")
    (tmp_path / "other/part-00000.parquet").rename(tmp_path / "trace/part-00001.parquet")
    with pytest.raises(InputError, match=r"part-00001.parquet.*as in the first file"):
        audit_into(tmp_path / "out", tmp_path / "trace", pool=Elsewhere())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("--engine dask", "--engine: 'dask'; expected one of local, ray"),
        ("--address 127.0.0.1:1", "the pool local; expected --engine ray"),
        ("--engine ray --address 127.0.0.1:1", "nobody listens there (Connection"),
        ("--engine ray --address [::1]:6379", "HOST its name or IPv4 address"),
    ],
)
def test_a_pool_that_cannot_be_had_is_one_line(options, line, tmp_path, capsys):
    make_trace(3, (2, 4), seed=0).write(tmp_path / "trace")
    command = ("audit", tmp_path / "trace", "--out", tmp_path / "out", *options.split())
    assert line in fails(capsys, *command)
    assert not (tmp_path / "out").exists()


def test_lines_that_an_engine_prints_leave_stdout_to_json(capsys):
    with cli_options.pool(None, None):
        print("(raylet) A worker died")
    assert capsys.readouterr() == ("", "(raylet) A worker died\n")
