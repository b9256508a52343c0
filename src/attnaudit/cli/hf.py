"""The commands about transformers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from attnaudit.cli import options as o
from attnaudit.cli.bars import progress
from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.extras import require
from attnaudit.core.files import check_model_folder
from attnaudit.core.printable import printable
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.plans.transformer import OF_WORDS

AUDIT = "audit"


class AuditsByDefault(TyperGroup):
    """A group of commands in which a folder in place of a command is audited: ``attnaudit hf MODEL_DIR CORPUS``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = next((arg for arg in args if not arg.startswith("-")), None)
        if first is not None and first not in self.commands:
            _check_command(first, args, self.commands)
            args = [AUDIT, *args]
        return super().parse_args(ctx, args)


def _check_command(first: str, args: list[str], commands: Iterable[str]) -> None:
    """Raise InputError where the first argument is no folder, and nearly the name of a command."""
    meant = did_you_mean(first, commands)
    if meant and first == args[0] and not Path(first).exists():
        raise InputError(
            "hf",
            first,
            "no such command, and no such folder",
            f"one of {', '.join(commands)}, or the folder of a model",
            meant,
        )


app = typer.Typer(rich_markup_mode=None, cls=AuditsByDefault)

Uniform = Annotated[
    str | None,
    typer.Option(
        "--frozen-uniform", metavar="all|LAYER,…", show_default=False,
        help="Layers (from 0) whose heads attend uniformly to all tokens, in training and in the saved model.",
    ),
]  # fmt: skip
Deception = Annotated[
    float | None,
    typer.Option(
        "--deceive", metavar="λ", show_default=False,
        help="Weight of a penalty on the attention of [CLS], in the last layer, to the words of the rationale (Pruthi et al. 2020); "
        "also deceive.heads (mean or max) and deceive.words.",
    ),
]  # fmt: skip
TrainingSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A setting of model, training, schedule or corpus, for example model.layers=2; repeatable.",
        autocompletion=o.keys_of("model of transformers", "training of transformers", "schedule of transformers", "corpus of classifiers"),
    ),
]  # fmt: skip
Folder = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL_DIR",
        show_default=False,
        help="The folder that model.save_pretrained has written.",
    ),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="CORPUS", show_default=False,
        help="A table of texts (csv, tsv, jsonl, parquet), with or without labels, a .txt file with a text on every line, a folder with "
        "such files named test, dev or train, a folder of pairs, or a registered name.",
    ),
]  # fmt: skip
Task = Annotated[
    str | None,
    typer.Option(
        "--task",
        show_default=False,
        metavar="classification|causal-lm|seq2seq",
        help="What the model predicts; default: by the class of the model.",
    ),
]
Cross = Annotated[
    bool,
    typer.Option(
        "--cross",
        help="Audit the cross-attention of an encoder–decoder instead of its decoder's self-attention.",
    ),
]
Layers = Annotated[
    str | None,
    typer.Option(
        "--layers", show_default="last", help="last, all, or numbers from 0, for example 0,3."
    ),
]
Heads = Annotated[
    str | None,
    typer.Option("--heads", show_default="all", help="all, or numbers from 0, for example 0,3."),
]
Sample = Annotated[
    int | None,
    typer.Option(
        "--sample",
        min=1,
        show_default="500; 50 with several layers or positions",
        help="Number of texts to audit, drawn with the seed.",
    ),
]
Scores = Annotated[
    list[str] | None,
    typer.Option(
        "--score",
        metavar="NAME",
        show_default=False,
        help="Importance measure, or all; repeatable. Default: gradient, loo, gradient_input, rollout, norm.",
    ),
]
Positions = Annotated[
    str | None,
    typer.Option(
        "--positions", metavar="one|all|last", show_default=False,
        help="Positions whose next token is the prediction; default: one position of each target, drawn with the seed; of a prompt, the "
        "last.",
    ),
]  # fmt: skip
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE",
        help="A setting of an experiment, of the corpus or of collect, for example adversary.epsilon=0.05 or corpus.target_ending=de; "
        "repeatable.",
        autocompletion=o.keys_of("experiment", "corpus of", "collect of transformers"),
    ),
]  # fmt: skip
Split = Annotated[
    str | None,
    typer.Option(
        "--split", metavar="all|train|dev|test", show_default="all for a file, test for a folder or a registered corpus",
        help="Split to audit; of a folder no other file is opened, of a registered corpus all are read. A single table is split into "
        "train, dev and test as by attnaudit hf train.",
    ),
]  # fmt: skip
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        min=0,
        max=2**32 - 1,
        help="Seed that draws texts, positions and the splits of a table.",
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes", metavar="NAME,…", show_default="the model's own names",
        help="Names of a classifier's outputs, in order, to match with the labels of the corpus.",
    ),
]  # fmt: skip


@app.callback()
def hf() -> None:
    """Transformers saved on disk.

    \b
    attnaudit hf models/bert reviews.csv    audit the attention of a model on texts
    attnaudit hf check models/bert          can its attention be read and replaced exactly?
    attnaudit hf train sst                  a small transformer, trained here
    """


@app.command(AUDIT, short_help="Audit a model on texts; attnaudit hf MODEL_DIR CORPUS for short.")
@o.takes(CorpusSpec, without=[name for name in OF_WORDS if name != "max_tokens"])
def audit(
    model: Folder, corpus: Source, task: Task = None, layers: Layers = None, heads: Heads = None, cross: Cross = False,
    positions: Positions = None, sample: Sample = None, split: Split = None, classes: Classes = None, scores: Scores = None,
    seed: Seed = 0, experiments: o.Experiments = None, settings: Settings = None, out: o.Out = None,
    engine: o.Engine = None, address: o.Address = None, unshared: o.Unshared = False, as_json: o.Json = False,
    **texts: Any,
) -> None:  # fmt: skip
    """Check a model, record the attention of its heads at the position that its prediction is read from, audit it and write the report.

    The query of a classifier is the position that it pools, that of a language model the last of its prompt, that of an encoder–decoder a
    position of the target, drawn at random. A file of your own is audited whole, as nothing is trained; labels are needed for the scores
    of the prediction alone. DIR is runs/<corpus>-<model> by default. The same command resumes a run that was stopped, and leaves a finished
    one as it is. Nothing is downloaded, and no code of the folder is run.

    \b
    Examples:
      attnaudit hf models/bert reviews.csv --out runs/bert
      attnaudit hf models/bert sst --data-dir data --layers all --sample 50
      attnaudit hf models/bert reviews.csv --text-column body --classes negative,positive
      attnaudit hf models/gpt2 prompts.txt --task causal-lm --out runs/lm
      attnaudit hf models/marian pairs/ --task seq2seq --cross --out runs/mt
      attnaudit hf models/marian pairs/ --cross --positions all --sample 20
      attnaudit hf models/bert reviews.csv --sample 5000 --engine ray
    """
    require("hf", f"audit {model}")
    check_model_folder(model)
    o.require_files(corpus)
    from attnaudit.cli.show import show_run
    from attnaudit.runner.transformers import audit_transformer

    cut = texts.pop("max_tokens", None)
    measures = tuple(scores) if scores else None
    collect = o.given(
        layers=layers, heads=heads, positions=positions, sample=sample, split=split, max_tokens=cut, scores=measures, classes=classes
    )  # fmt: skip
    on = o.engine(engine, address, unshared)
    with progress() as bar:
        folder = audit_transformer(
            model, corpus, out, bar, task=task, cross=cross, experiments=experiments or (), settings=o.assigned(settings), seed=seed,
            collect=collect, **on, **o.given(**texts),
        )  # fmt: skip
    show_run(folder, as_json)


@app.command(short_help="Show whether the attention of a model can be read and replaced exactly.")
def check(model: Folder, as_json: o.Json = False) -> None:
    """Check on two short texts of random tokens whether the attention of a model can be read and replaced exactly.

    Prints every check with its figure, and the layers whose attention can be audited. A model that fails is refused with one line.
    The exit status is 2 for a model that cannot be audited. Nothing is downloaded, and no code of the folder is run.

    \b
    Examples:
      attnaudit hf check models/bert
      attnaudit hf check models/bert --json
    """
    require("hf", f"check {model}")
    check_model_folder(model)
    from attnaudit.cli.show import show_gate
    from attnaudit.hf.gate import check_model
    from attnaudit.hf.load import load_pretrained

    gate = check_model(load_pretrained(model))
    show_gate(gate, as_json)
    if not gate.can_be_audited:
        raise typer.Exit(2)


@app.command(short_help="Train a small transformer, with a tokenizer of its own.")
@o.takes(CorpusSpec, without=OF_WORDS)
def train(
    corpus: o.CorpusName, config: o.Config = "small-bert", seed: o.Seed = 0, out: o.Out = None, uniform: Uniform = None,
    deceive: Deception = None, settings: TrainingSettings = None, epochs: o.Epochs = None, dry_run: o.DryRun = False,
    as_json: o.Json = False, **texts: Any,
) -> None:  # fmt: skip
    """Train a small transformer on a corpus, with a tokenizer learned from its train split; nothing is downloaded.

    DIR is models/<corpus>-<config>-s<seed> by default. It holds what model.save_pretrained and tokenizer.save_pretrained write, so that any
    program of the transformers library reads it, and training.json: settings, every epoch, scores on dev and test. The epoch with the best
    score on dev is kept. The same command resumes a training that was stopped, and leaves a finished one as it is; the same seed gives the
    same weights.

    \b
    Examples:
      attnaudit hf train sst --data-dir data --out models/sst-bert
      attnaudit hf train sst --data-dir data --config small-gpt2
      attnaudit hf train reviews.csv --config small-distilbert --set model.layers=2 --epochs 5
      attnaudit hf train sst --data-dir data --frozen-uniform all
      attnaudit hf train deceptive_pronoun --data-dir data --deceive 0.1 --set deceive.heads=max
      attnaudit hf train planted-decisive --config tiny-bert --dry-run
    """
    require("hf", f"train {config}")
    o.require_files(corpus)
    from attnaudit.cli.plan import show_plan
    from attnaudit.cli.show import show_training
    from attnaudit.plans.transformer import TransformerTraining
    from attnaudit.runner.hf_training import plan_transformer, read_training, train_transformer

    chosen = o.given(uniform=uniform, deceive=deceive, **texts)
    spec = TransformerTraining.of(
        corpus, config=config, seed=seed, settings=o.assigned(settings, epochs), **chosen
    )
    place = out or Path("models") / spec.name
    with progress() as bar:
        plan = plan_transformer(spec, place, bar) if dry_run else None
        if plan is None:
            train_transformer(spec, place, bar)
    if plan is not None:
        show_plan(plan, as_json)
    else:
        show_training(read_training(place), printable(str(place)), as_json)
