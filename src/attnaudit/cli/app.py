"""The eight commands: each parses its options and makes one library call."""

from collections.abc import Callable, Iterable
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from attnaudit.cli import corpora
from attnaudit.cli import options as o
from attnaudit.cli.bars import progress
from attnaudit.core import InputError, printable

PAPERS = "jain2019, serrano2019, wiegreffe2019, pruthi2020 or snell2021"

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(corpora.app, name="corpora", short_help="List, check and download corpora.")


def _listing(heading: str, entries: Callable[[], Iterable[tuple[str, str]]]) -> type[o.Grouped]:
    """Return a class of commands whose help ends with a list; only the help loads the entries."""

    class Listing(o.Grouped):
        def format_epilog(self, ctx, formatter):
            with formatter.section(heading):
                formatter.write_dl(list(entries()))

    return Listing


def _experiments() -> Iterable[tuple[str, str]]:
    from attnaudit.experiments import EXPERIMENTS
    from attnaudit.report.cards import card

    return ((name, card(name).question) for name in EXPERIMENTS)


def _studies() -> Iterable[tuple[str, str]]:
    from attnaudit.recipes.settings import scales

    for title, scale in scales().items():
        yield title, f"{scale.question} {scale.quick}; --full: {scale.full}"


def _version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(f"attnaudit {version('attnaudit')}")
        raise typer.Exit


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


@app.command(cls=o.Grouped, short_help="Try it: a small planted corpus, no data, no network.")
def demo(out: o.Out = None, as_json: o.Json = False, details: o.Details = False) -> None:
    """Train, audit and report on a small planted corpus: no data, no network.

    The words that decide the label are known, so the report also measures how well attention finds
    them.

    \b
    Examples:
      attnaudit demo
      attnaudit demo --out runs/first --json
    """
    from attnaudit.plans.spec import demo_spec
    from attnaudit.recipes.trained import run

    with progress() as bar:
        folder = run(demo_spec(), out or "runs/demo", bar)
    from attnaudit.cli.show import show_run

    show_run(folder, as_json, details)


@app.command("run", cls=o.Grouped, short_help="Train, record the attention, audit, report.")
def run_(
    corpus: o.Corpus,
    model: o.Model = None,
    attention: o.Attention = None,
    preset: o.Preset = None,
    vectors: o.Vectors = None,
    seed: o.Seed = 0,
    epochs: o.Epochs = None,
    device: o.Device = None,
    settings: o.Settings = None,
    column: o.Column = None,
    listed: o.HelpSettings = False,
    data_dir: o.DataDir = None,
    out: o.Out = None,
    dry_run: o.DryRun = False,
    as_json: o.Json = False,
    details: o.Details = False,
    engine: o.Engine = None,
    address: o.Address = None,
) -> None:
    """Train a model, record its attention, audit it and write the report.

    DIR is runs/<corpus>-<model>-… by default. The same command resumes a stopped run and leaves a
    finished one as it is. A corpus of pairs trains a translator. small-bert and the like are
    transformers that learn their own tokenizer; both are saved in DIR/model.

    \b
    Examples:
      attnaudit run sst --data-dir data --out runs/sst
      attnaudit run reviews.csv.gz --model cnn --column text=body --column label=rating
      attnaudit run folder/with/train/and/test --model average --attention dot --seed 1
      attnaudit run sst --vectors glove.6B.300d.txt --epochs 4 --set adversary.epsilon=0.05
      attnaudit run multi30k_en_de --data-dir data
      attnaudit run sst --model small-bert --dry-run
      attnaudit run reviews.csv --engine ray
    """
    o.require_files("attnaudit run", corpus, column, vectors)
    from attnaudit.recipes.trained import plan_run, run
    from attnaudit.recipes.work import spec_of

    spec = spec_of(
        corpus,
        model,
        **o.given(attention=attention, preset=preset, vectors=vectors, device=device),
        seed=seed,
        settings=o.assigned(settings, training__epochs=epochs),
        data_dir=data_dir,
        **o.columns(column),
    )
    place = Path(out or f"runs/{spec.name}")
    with o.pool(engine, address) as pool, progress() as bar:
        planned = plan_run(spec, place, bar) if dry_run else None
        if planned is None:
            run(spec, place, bar, pool=pool)
    from attnaudit.cli.show import show_plan, show_run

    if planned is not None:
        show_plan(planned, as_json)
    else:
        show_run(place, as_json, details)


@app.command(
    short_help="Audit a trace, a run or a transformer.", cls=_listing("Experiments", _experiments)
)
def audit(
    what: Annotated[Path, typer.Argument(metavar="WHAT", exists=True, show_default=False)],
    corpus: o.Texts = None,
    experiments: o.Experiments = None,
    layers: Annotated[
        str | None,
        o.option("--layers", o.MODEL, "last, all, or numbers: 0,3.", show_default="last"),
    ] = None,
    heads: Annotated[
        str | None,
        o.option("--heads", o.MODEL, "all, or numbers from 0: 0,3.", show_default="all"),
    ] = None,
    heatmap: Annotated[
        str | None,
        o.option(
            "--heatmap",
            o.MODEL,
            "The heatmap that you show, which is judged: mean-last (mean of the last layer's "
            "heads), mean-all, head:L.H, rollout, value-zeroing, integrated-gradients, …",
            metavar="NAME",
            show_default="mean-last",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        o.option(
            "--sample",
            o.FILES,
            "Number of texts, drawn with the seed.",
            show_default="500; 50 for several layers",
            min=1,
        ),
    ] = None,
    split: Annotated[
        str | None,
        o.option("--split", o.FILES, "Split that is audited.", metavar="all|train|dev|test"),
    ] = None,
    replay: Annotated[
        Path | None,
        o.option(
            "--replay",
            o.MODEL,
            "The transformer that a trace with tail replay was collected from.",
            metavar="MODEL_DIR",
        ),
    ] = None,
    check: Annotated[
        bool,
        o.option("--check", o.MODEL, "Only show whether a transformer can be audited."),
    ] = False,
    seed: o.Seed = 0,
    settings: o.Settings = None,
    column: o.Column = None,
    listed: o.HelpSettings = False,
    data_dir: o.DataDir = None,
    out: o.Out = None,
    as_json: o.Json = False,
    details: o.Details = False,
    engine: o.Engine = None,
    address: o.Address = None,
) -> None:
    """Audit a trace from any tool, a run, or a transformer's folder on the texts of CORPUS.

    For a trace (one Parquet file, or a folder of them) or a run, DIR is <name>-audit next to it; an
    earlier audit there is overwritten. For a transformer, saved by model.save_pretrained, DIR is
    runs/<corpus>-<model>, and its attention is recorded at the position that the prediction is read
    from. Nothing is downloaded, and no code in the folder is run.

    \b
    Examples:
      attnaudit audit runs/sst --experiment adversary --set adversary.epsilon=0.05
      attnaudit audit path/to/trace --out audits/mine --json
      attnaudit audit models/bert --check
      attnaudit audit models/bert reviews.csv --column text=body --out runs/bert
      attnaudit audit models/bert sst --data-dir data --layers all --sample 50
      attnaudit audit models/bert reviews.csv --heatmap rollout
      attnaudit audit models/t5 pairs/ --set collect.cross=true
      attnaudit audit path/to/trace --engine ray --address 10.0.0.1:6379
    """
    if check:
        from attnaudit.cli.show import show_gate
        from attnaudit.recipes.transformer import check_folder

        gate = check_folder(what)
        show_gate(gate, as_json)
        raise typer.Exit(0 if gate.can_be_audited else 2)
    if corpus is not None:
        o.require_files(f"attnaudit audit {quote(str(what))}", corpus, column, label_needed=False)
    of_texts = {
        "collect__layers": layers,
        "collect__heads": heads,
        "collect__heatmap": heatmap,
        "collect__sample": sample,
        "collect__split": split,
    }
    asked = {"experiments": experiments or (), "settings": o.assigned(settings, **of_texts)}
    if corpus is None:
        _check_trace(what, {**of_texts, "column": column, "data_dir": data_dir})
    from attnaudit.cli.show import show_audit, show_run
    from attnaudit.plans.audit import TransformerSpec
    from attnaudit.recipes.audit import audit_into
    from attnaudit.recipes.transformer import audit_transformer

    with o.pool(engine, address) as pool, progress() as bar:
        if corpus is None:
            folder = audit_into(out, what, **asked, replay=replay, progress=bar, pool=pool)
        else:
            read = o.given(data_dir=data_dir, **o.columns(column))
            spec = TransformerSpec.of(what, corpus, **asked, seed=seed, **read)
            folder = audit_transformer(spec, out, bar, pool)
    (show_audit if corpus is None else show_run)(folder, as_json, details)


def _check_trace(what: Path, of_texts: dict[str, Any]) -> None:
    """Raise InputError for a transformer without texts, and for options of texts with a trace."""
    expected = "audit MODEL_DIR CORPUS, or --check"
    if (what / "config.json").is_file():
        got = "the folder of a transformer, and no texts"
        raise InputError("audit", str(what), got, expected, "name a corpus after it")
    for name, value in o.given(**of_texts).items():
        where = f"--{name.rpartition('__')[2].replace('_', '-')} {value}"
        raise InputError("audit", where, "an option of texts, with a trace", expected)


@app.command(
    short_help="Train variants of a model and compare them.",
    cls=_listing("Studies, their default scale, and that of --full", _studies),
)
def study(
    name: o.StudyName,
    corpus: o.Corpus,
    model: o.Model = None,
    attention: o.Attention = None,
    preset: o.Preset = None,
    vectors: o.Vectors = None,
    seed: o.Seed = 0,
    epochs: o.Epochs = None,
    device: o.Device = None,
    full: Annotated[
        bool, o.option("--full", o.TRAINING, "Use the full scale; it may take hours.")
    ] = False,
    paper: Annotated[
        bool, o.option("--paper", o.TRAINING, "Use the paper's form of need or transfer.")
    ] = False,
    settings: o.Settings = None,
    column: o.Column = None,
    listed: o.HelpSettings = False,
    data_dir: o.DataDir = None,
    out: o.Out = None,
    dry_run: o.DryRun = False,
    as_json: o.Json = False,
    engine: o.Engine = None,
    address: o.Address = None,
) -> None:
    """Train variants of a model and compare them.

    DIR (runs/studies/<corpus>-<model>-… by default) holds all studies of one model: the trainings
    that they share in DIR/trainings, the results of each in DIR/<study>, an overview in
    DIR/index.html. The same command resumes a stopped study.

    By default a study takes minutes on two cores with a corpus like SST. CORPUS is as for attnaudit
    run. The study copying takes permutations, distinct or iid instead; calibration takes names of
    corpora joined by commas.

    \b
    Examples:
      attnaudit study need sst --data-dir data --dry-run
      attnaudit study seeds sst --data-dir data --full --engine ray --address 10.0.0.1:6379
      attnaudit study deceive deceptive_pronoun --data-dir data --set deceive.seeds=2
      attnaudit study dynamics sst --data-dir data --set dynamics.steps=0,50,100,200
      attnaudit study deceive deceptive_en_de --data-dir data --epochs 10
      attnaudit study need sst --data-dir data --model small-bert
      attnaudit study copying permutations
      attnaudit study calibration planted-prior,sst --data-dir data
    """
    if name not in ("copying", "calibration"):  # whose corpora are none of a run
        o.require_files(f"attnaudit study {name}", corpus, column, vectors)
    from attnaudit.recipes.kinds import model_options
    from attnaudit.recipes.studies import check_name, plan_study
    from attnaudit.recipes.studies import study as run_study

    check_name(name)
    chosen: dict[str, Any] = {
        **model_options(model),
        **o.given(attention=attention, preset=preset, vectors=vectors, device=device),
        **o.given(data_dir=data_dir, **o.columns(column)),
        "seed": seed,
        "full": full,
        **({"paper": True} if paper else {}),
        "settings": o.assigned(settings, training__epochs=epochs),
    }
    with o.pool(engine, address) as pool, progress() as bar:
        if dry_run:
            planned, folder = plan_study(name, corpus, out, bar, **chosen), None
        else:
            planned, folder = [], run_study(name, corpus, out, bar, _tell, pool, **chosen)
    from attnaudit.cli.show import show_calibration, show_plan, show_study

    if folder is None:
        show_plan(planned, as_json)
    elif name == "calibration":
        show_calibration(folder, as_json)
    else:
        show_study(folder, as_json)


@app.command(cls=o.Grouped, short_help="Compare runs with each other, or with published numbers.")
def compare(
    runs: o.Runs,
    to: Annotated[str | None, o.option("--to", o.MODEL, "Paper to compare with: jain2019.")] = None,
    every: Annotated[
        bool, o.option("--all", o.OUTPUT, "Print every measure, not only the card's.")
    ] = False,
    out: o.Out = None,
    as_json: o.Json = False,
) -> None:
    """Compare runs, or audits, with each other, or with published numbers.

    Two or more runs: the verdict of each; for the card's measures, the paired differences from the
    first run on the texts that both have, with 95 % bootstrap intervals; and the texts whose
    attention differs most. --out writes the page and both tables.

    One run, or several with --to: the paper's numbers, those of its authors' re-run, ours with
    intervals, and whether they agree.

    \b
    Examples:
      attnaudit compare runs/sst-bilstm-additive-s0 runs/sst-cnn-additive-s0 --out comparison
      attnaudit compare runs/sst-bilstm-additive-s0 --to jain2019
    """
    from attnaudit.cli.show import show_comparison, show_differences
    from attnaudit.recipes.compare import compare_runs, write_comparison
    from attnaudit.recipes.work import compare as compare_published

    if to is None and len(runs) > 1:
        compared = compare_runs(runs)
        show_differences(compared, out and write_comparison(out, compared), as_json, every)
    elif out is None:
        show_comparison(compare_published(runs, to), as_json)
    else:
        expected, do = "two or more runs without --to", "the report of each run shows them"
        raise InputError("compare", "--out", "published numbers", expected, do)


@app.command(
    cls=o.Grouped, short_help="Write the report of one run, or a site of several; or serve it."
)
def report(
    runs: o.Runs,
    serve: Annotated[
        bool, o.option("--serve", o.OUTPUT, "Serve the pages on 127.0.0.1 until Ctrl-C.")
    ] = False,
    port: Annotated[
        int,
        o.option(
            "--port",
            o.OUTPUT,
            "Port to listen on; 0 takes any free one.",
            show_default="8765",
            min=0,
            max=65535,
        ),
    ] = 8765,
    out: o.Out = None,
) -> None:
    """Write the report of one run again, or a site with the reports of several.

    With --serve nothing is written: the pages are served to this machine only, at an address with a
    random token. If a run has its model, you can type a sentence there and see its tokens,
    attention and prediction, and a playground.

    \b
    Examples:
      attnaudit report runs/demo
      attnaudit report runs/* --out site
      attnaudit report runs/* --serve --port 0
    """
    if serve:
        from attnaudit.core import require

        require("serve", "report --serve")
        from attnaudit.server.serve import serve as listen

        listen(runs, port, typer.echo)
        return
    from attnaudit.recipes.work import write_report

    with progress() as bar:
        page = write_report(runs, out=out, progress=bar)
    typer.echo(printable(str(page)))


@app.command(cls=o.Grouped, short_help="Reproduce a paper.")
def reproduce(
    paper: Annotated[str, o.argument("PAPER", f"{PAPERS}.")],
    quick: Annotated[
        bool,
        o.option("--quick", o.TRAINING, "Only a few fast cells; the output says what is left out."),
    ] = False,
    only: Annotated[
        list[str] | None,
        o.option(
            "--only",
            o.MODEL,
            "Only cells of this name, such as 'sst-bilstm-*'; repeatable.",
            metavar="CELL",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        o.option("--seeds", o.TRAINING, "Seeds 0 to N − 1 for runs.", min=1),
    ] = None,
    vectors: o.Vectors = None,
    settings: o.Settings = None,
    data_dir: o.DataDir = None,
    out: o.Out = None,
    dry_run: o.DryRun = False,
    as_json: o.Json = False,
    engine: o.Engine = None,
    address: o.Address = None,
) -> None:
    """Rerun a paper's experiments on your data, and compare every published number with ours.

    A paper is a list of cells: runs and studies, each with its corpus, model and seeds. Each cell
    leaves a small record in DIR (runs/PAPER by default), and the page is written from all records.
    The same command resumes. A corpus whose files are missing is skipped and reported; the exit
    status is then 2 with --only, or if nothing could be done.

    \b
    Examples:
      attnaudit reproduce jain2019 --quick --data-dir data --dry-run
      attnaudit reproduce jain2019 --only 'sst-bilstm-*' --data-dir data --vectors glove.txt
      attnaudit reproduce wiegreffe2019 --only sst-seeds --data-dir data
      attnaudit reproduce jain2019 --data-dir data --engine ray
    """
    from attnaudit.cli.show import show_plan, show_reproduction
    from attnaudit.papers import declaration
    from attnaudit.recipes.reproduction.sweep import Sweep, plan_sweep
    from attnaudit.recipes.reproduction.sweep import reproduce as run_sweep

    declared = declaration(paper)
    cells = declared.plan(only or (), quick=quick, seeds=seeds)
    place = out or Path("runs") / paper
    sweep = Sweep(place, cells, data_dir, vectors, o.assigned(settings), declared)
    if quick:
        _tell(declared.left_out(only or ()))
    if dry_run:
        show_plan(plan_sweep(sweep), as_json)
        return
    with o.pool(engine, address) as pool, progress() as bar:
        outcome = run_sweep(sweep, bar, _tell, pool)
    show_reproduction(outcome, as_json)
    if (only and outcome.not_run) or not outcome.done:
        share = "not all" if outcome.done else "none"
        got = f"{share} of the {len(cells)} requested cells could be done"
        do = "see the reasons on the page"
        raise InputError("reproduce", str(sweep.out), got, "readable data and word vectors", do)
