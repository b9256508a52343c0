"""The commands."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from attnaudit.cli import calibration, corpora, hf
from attnaudit.cli import options as o
from attnaudit.cli.bars import progress, show_plan_and_end
from attnaudit.cli.reproduce import reproduce
from attnaudit.core.errors import InputError
from attnaudit.core.printable import printable
from attnaudit.corpora.registry import CORPORA
from attnaudit.corpora.spec import CorpusSpec

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(corpora.app, name="corpora", short_help="List, check and download corpora.")
app.add_typer(hf.app, name="hf", short_help="Transformers saved on disk.")
app.command("calibrate", short_help="Score every measure on models of known truth.")(
    calibration.calibrate
)


def _version(expected: bool) -> bool:
    if expected:
        from importlib.metadata import version

        typer.echo(f"attnaudit {version('attnaudit')}")
        raise typer.Exit
    return expected


def _tell(line: str) -> None:
    typer.echo(printable(line), err=True)


@app.callback()
def attnaudit(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Is attention a faithful explanation of what your model does?

    \b
    attnaudit demo                          try it: no data, no network
    attnaudit run sst --data-dir data       train, trace, audit and report
    attnaudit audit path/to/trace           audit a trace from any tool
    """


@app.command(short_help="Try it: a small planted corpus, no data, no network.")
def demo(out: o.Out = None, as_json: o.Json = False) -> None:
    """Train, audit and report on a small planted corpus: no data, no network, under two minutes.

    The words that decide the label are known, so the report also measures how well attention finds them.

    \b
    Examples:
      attnaudit demo
      attnaudit demo --out runs/first --json
    """
    from attnaudit.runner import demo_spec, run

    with progress() as bar:
        folder = run(demo_spec(), out or "runs/demo", bar)
    from attnaudit.cli.show import show_run

    show_run(folder, as_json)


@app.command("run", short_help="Train, record the attention, audit, report.")
@o.takes(CorpusSpec)
def run_(
    corpus: o.CorpusName, encoder: o.Encoder = None, attention: o.Attention = None, seed: o.Seed = 0, out: o.Out = None,
    settings: o.Settings = None, vectors: o.Vectors = None, preset: o.Preset = None, epochs: o.Epochs = None, device: o.Device = None,
    engine: o.Engine = None, address: o.Address = None, unshared: o.Unshared = False,
    dry_run: o.DryRun = False, as_json: o.Json = False, **texts: Any,
) -> None:  # fmt: skip
    """Train a model, record its attention, audit it and write the report.

    DIR is runs/<corpus>-<encoder>-<attention>-s<seed> by default. The same command resumes a run that was stopped, and leaves a finished
    one as it is.

    \b
    Examples:
      attnaudit run sst --data-dir data --encoder bilstm --out runs/sst
      attnaudit run reviews.csv.gz --encoder cnn --text-column body --label-column stars
      attnaudit run folder/with/train/and/test --encoder average --attention dot --seed 1
      attnaudit run sst --vectors glove.6B.300d.txt --epochs 4 --set adversary.epsilon=0.05
      attnaudit run sst --data-dir data --dry-run
      attnaudit run reviews.csv --engine ray
    """
    o.require_files(corpus, vectors)
    from attnaudit.runner import RunSpec, plan_run, run

    chosen = o.given(
        encoder=encoder, attention=attention, preset=preset, vectors=vectors, device=device, **texts
    )
    spec = RunSpec.of(corpus, seed=seed, settings=o.assigned(settings, epochs), **chosen)
    place = Path(out or f"runs/{spec.name}")
    if dry_run:
        show_plan_and_end(as_json, plan_run, spec, place)
    before = (place / "manifest.json").exists()
    on = o.engine(engine, address, unshared)
    with progress() as bar:
        run(spec, place, bar, **on)
    from attnaudit.cli.show import show_run

    if before and not as_json:
        typer.echo(f"{printable(str(place))} already holds this run\n")
    show_run(place, as_json)


class ListsExperiments(TyperCommand):
    """A command whose help ends with the registered experiments; they are loaded only when the help is shown."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        from attnaudit.experiments import EXPERIMENTS
        from attnaudit.report.cards import card

        with formatter.section("Experiments"):
            formatter.write_dl([(name, card(name).question) for name in EXPERIMENTS])


class ListsStudies(TyperCommand):
    """A command whose help ends with the studies and their scale; they are loaded only when the help is shown, or one is misnamed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """An unknown study is named before what else is missing."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException:
            if ctx.params.get("name") is not None:
                from attnaudit.runner.studies import check_name

                check_name(ctx.params["name"])
            raise

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        from attnaudit.runner.settings import scales

        with formatter.section("Studies, their default scale, and that of --full"):
            formatter.write_dl(
                [
                    (title, f"{scale.question} {scale.quick}; --full: {scale.full}")
                    for title, scale in scales().items()
                ]
            )


@app.command(short_help="Audit an existing trace.", cls=ListsExperiments)
def audit(
    trace: o.TracePath, experiments: o.Experiments = None, settings: o.ExperimentSettings = None, replay: o.ReplayModel = None,
    out: o.Out = None, engine: o.Engine = None, address: o.Address = None, unshared: o.Unshared = False, as_json: o.Json = False,
) -> None:  # fmt: skip
    """Audit an existing trace from any tool.

    Writes results/, summary.json and report.html into DIR, by default a folder <run>-audit or <trace>-audit next to the trace. Overwrites
    an earlier audit in DIR; give another --out to keep both.

    \b
    Examples:
      attnaudit audit runs/sst-bilstm-additive-s0 --experiment adversary --set adversary.epsilon=0.05
      attnaudit audit path/to/trace --out audits/mine --json
      attnaudit audit runs/lm --replay models/gpt2 --experiment permutation
      attnaudit audit path/to/trace --engine ray --address 10.0.0.1:6379
    """
    from attnaudit.runner import audit_into

    on = o.engine(engine, address, unshared)
    with progress() as bar:
        folder = audit_into(out, trace, experiments or (), o.assigned(settings), bar, replay, **on)
    from attnaudit.cli.show import show_summary

    show_summary(folder, as_json)


@app.command(short_help="Write the report of one run, or a site of several.")
def report(runs: o.Runs, out: o.Out = None) -> None:
    """Write the report of one run again, or a site with the reports of several.

    \b
    Examples:
      attnaudit report runs/demo
      attnaudit report runs/* --out site
    """
    from attnaudit.runner import report_into, site_into

    with progress() as bar:
        page = (
            report_into(runs[0], bar)
            if len(runs) == 1 and out is None
            else site_into(runs, out or "site", bar)
        )
    typer.echo(printable(str(page)))


@app.command(short_help="Serve the pages of runs, and type sentences to their models.")
def serve(
    runs: o.Runs,
    port: Annotated[
        int,
        typer.Option("--port", min=0, max=65535, help="Port to listen on; 0: any that is free."),
    ] = 8765,
) -> None:
    """Serve the pages of finished runs to this machine, until Ctrl-C.

    Prints an address on 127.0.0.1 with a random token, new each time: whoever does not have it sees nothing. Where a run has its model
    (classifiers and question answering that attnaudit trained), a sentence of your own can be typed: its tokens, attention and prediction,
    and the playground with the exact adversary, ranges and smallest flipping set. Needs pip install 'attnaudit[serve]', and for sentences
    attnaudit[train].

    \b
    Examples:
      attnaudit serve runs/demo
      attnaudit serve runs/* --port 0
    """
    from attnaudit.core.extras import require

    require("serve", "serve")
    from attnaudit.server.serve import serve as listen

    listen(runs, port, typer.echo)


@app.command(short_help="Compare runs with each other, or with published numbers.")
def compare(
    runs: o.Runs, to: Annotated[str | None, typer.Option("--to", show_default=False, help="Paper to compare with: jain2019.")] = None,
    out: o.Out = None, as_json: o.Json = False,
) -> None:  # fmt: skip
    """Compare runs, or audits, with each other, or with published numbers.

    Two or more: paired differences of their measures from the first, on the instances that both have with the same text, with 95 %
    bootstrap intervals, and the instances whose attention differs most. --out writes the page and both tables.

    One, or several with --to: the paper's numbers, those of its authors' re-run, ours with intervals, and whether they agree.

    \b
    Examples:
      attnaudit compare runs/sst-bilstm-additive-s0 runs/sst-cnn-additive-s0 --out comparison
      attnaudit compare runs/sst-bilstm-additive-s0 --to jain2019
      attnaudit compare runs/sst-* --to jain2019 --json
    """
    from attnaudit.cli.show import show_comparison, show_differences
    from attnaudit.runner import compare as compare_published
    from attnaudit.runner import compare_runs, write_comparison

    if to is None and len(runs) > 1:
        compared = compare_runs(runs)
        show_differences(compared, out and write_comparison(out, compared), as_json)
    elif out is None:
        show_comparison(compare_published(runs, to), as_json)
    else:
        raise InputError(
            "compare",
            "--out",
            "published numbers",
            "two or more runs without --to",
            "the report of each run shows them",
        )


@app.command(short_help="Retraining studies of attention.", cls=ListsStudies)
@o.takes(CorpusSpec)
def study(
    name: o.StudyName, corpus: o.StudyCorpus, encoder: o.Encoder = None, attention: o.Attention = None, config: o.StudyConfig = None,
    seed: o.Seed = 0, out: o.Out = None, settings: o.Settings = None, vectors: o.Vectors = None, preset: o.StudyPreset = None,
    epochs: o.Epochs = None, device: o.Device = None, full: o.Full = False, engine: o.Engine = None, address: o.Address = None,
    unshared: o.Unshared = False, dry_run: o.DryRun = False, as_json: o.Json = False, **texts: Any,
) -> None:  # fmt: skip
    """Retraining studies of attention: train variants of a model and compare them.

    DIR (runs/studies/<corpus>-<encoder>-<attention>-s<seed> by default) holds all studies of one model: DIR/trainings the trainings, which
    studies share, DIR/<study> the results of a study, DIR/index.html an overview. The same command resumes a study that was stopped.

    By default a study has a scale that two cores finish in minutes on a corpus like SST; --full is the scale of the published results.
    --epochs holds for all trainings of a study; not in dynamics, whose trainings end at the last of dynamics.steps.

    With --config, uniform and deceive train small transformers, as attnaudit hf train does.

    With a parallel CORPUS, deceive and dynamics train translators. The timing of what is learned first (ξ) needs dynamics.seeds of 2 or
    more: it is measured against the first seed.

    \b
    Examples:
      attnaudit study uniform sst --data-dir data --dry-run
      attnaudit study seeds sst --data-dir data --full
      attnaudit study seeds sst --data-dir data --full --engine ray --address 10.0.0.1:6379
      attnaudit study deceive deceptive_pronoun --data-dir data --set deceive.seeds=2
      attnaudit study dynamics sst --data-dir data --set dynamics.steps=0,50,100,200,400,800
      attnaudit study uniform planted-decisive --set corpus.size=500 --epochs 3 --set uniform.seeds=2
      attnaudit study deceive deceptive_en_de --data-dir data --epochs 10
      attnaudit study uniform sst --data-dir data --config small-bert
      attnaudit study deceive deceptive_pronoun --data-dir data --config small-bert --set deceive.strengths=0,0.1,1
      attnaudit study dynamics multi30k_en_de --data-dir data
      attnaudit study copying permutations --out runs/copying/permutations
    """
    if name != "copying":
        o.require_files(corpus, vectors)
    from attnaudit.cli.show import show_study
    from attnaudit.runner import plan_study
    from attnaudit.runner import study as run_study

    chosen = o.given(
        encoder=encoder,
        attention=attention,
        config=config,
        preset=preset,
        vectors=vectors,
        device=device,
        **texts,
    )
    chosen |= {"seed": seed, "full": full, "settings": o.assigned(settings, epochs)}
    if dry_run:
        show_plan_and_end(as_json, partial(plan_study, **chosen), name, corpus, out)
    on = o.engine(engine, address, unshared)
    with progress() as bar:
        folder = run_study(name, corpus, out, bar, _tell, **on, **chosen)
    show_study(folder, as_json)


@app.command(short_help="Train a translator, translate, audit its attention.")
def translate(
    corpus: o.PairsName, seed: o.Seed = 0, out: o.Out = None, settings: o.Settings = None, data_dir: o.DataDir = None,
    encoding: o.PairEncoding = None, preset: o.PairPreset = None, epochs: o.Epochs = None, device: o.Device = None,
    dry_run: o.DryRun = False, as_json: o.Json = False,
) -> None:  # fmt: skip
    """Train a translator with attention, translate the test split, and audit its attention for each token.

    CORPUS is a registered name, or a folder with train, dev and test files of one text per line: train.src and train.trg, gzipped or not;
    corpus.source_ending and corpus.target_ending set other endings. An optional file train.align holds alignments (0-0 1-2 …).
    planted-copy, planted-reverse and planted-bigram_flip are generated from the seed, with corpus.size, corpus.length and corpus.symbols.

    DIR is runs/<corpus>-<attention>-s<seed> by default. Writes translations.jsonl, the trace (a row for each reference token), its audit,
    dictionary.parquet (pairs of source units and target tokens, ranked by output relevance) and two pages. The same command resumes a run
    that was stopped.

    \b
    Examples:
      attnaudit translate multi30k_en_de --data-dir data
      attnaudit translate deceptive_en_de --data-dir data --set model.attention=additive --set collect.pairs=500
      attnaudit translate folder/of/pairs --set corpus.source_ending=en --set corpus.target_ending=fr --epochs 10
      attnaudit translate planted-reverse --set corpus.length=8,12 --epochs 10
    """
    o.require_files(
        corpus, known=[name for name, entry in CORPORA.items() if entry.task == "translation"]
    )
    from attnaudit.cli.show import show_translation
    from attnaudit.runner import TranslationSpec, plan_run, run

    chosen = o.given(preset=preset, device=device, data_dir=data_dir, encoding=encoding)
    spec = TranslationSpec.of(corpus, seed=seed, settings=o.assigned(settings, epochs), **chosen)
    place = out or Path("runs") / spec.name
    if dry_run:
        show_plan_and_end(as_json, plan_run, spec, place)
    with progress() as bar:
        folder = run(spec, place, bar)
    show_translation(folder, as_json)


@app.command(short_help="List the settings of --set.")
def settings(
    prefix: Annotated[
        str,
        typer.Argument(
            metavar="[PREFIX]",
            show_default=False,
            help="Only settings whose names start with this.",
        ),
    ] = "",
    as_json: o.Json = False,
) -> None:
    """List the settings of --set: the values that they take, their defaults and their meaning.

    Defaults are those of a bilstm with additive attention, or of a small translator. Encoder, preset and corpus may have others; spec.json
    of a run has the values that were used.

    \b
    Examples:
      attnaudit settings
      attnaudit settings training
      attnaudit settings adversary.epsilon --json
    """
    from attnaudit.cli.show import show_settings
    from attnaudit.runner.settings import sections

    show_settings(sections(prefix), as_json)


app.command("reproduce", short_help="Reproduce a paper, or list the papers.")(reproduce)
