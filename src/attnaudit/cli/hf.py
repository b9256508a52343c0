"""The commands about transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attnaudit.cli import options as o
from attnaudit.cli.bars import progress
from attnaudit.core.extras import require
from attnaudit.core.printable import printable
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.training.transformers import CONFIGS

OF_WORDS = ("max_tokens", "digits", "lowercase", "tokenizer")  # options of words, which a model with a tokenizer of its own has no use for
app = typer.Typer(rich_markup_mode=None)

Config = Annotated[
    str,
    typer.Option(
        "--config",
        help=f"One of {', '.join(CONFIGS)}.",
        autocompletion=lambda incomplete: [name for name in CONFIGS if name.startswith(incomplete)],
    ),
]
Uniform = Annotated[
    str | None,
    typer.Option(
        "--frozen-uniform", metavar="all|LAYER,…", show_default=False,
        help="Layers, counted from 0, whose heads attend uniformly to all tokens, in training and in the saved model.",
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
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of model, training, schedule or corpus, as model.layers=2; repeatable."),
]
Folder = Annotated[Path, typer.Argument(metavar="MODEL_DIR", show_default=False, help="The folder that model.save_pretrained has written.")]


@app.callback()
def hf() -> None:
    """Transformers saved on disk.

    \b
    attnaudit hf check models/bert          can its attention be read and replaced exactly?
    attnaudit hf train sst                  a small transformer, trained here
    """


@app.command(short_help="Show whether the attention of a model can be read and replaced exactly.")
def check(model: Folder, as_json: o.Json = False) -> None:
    """Check on two short texts of random tokens whether the attention of a model can be read and replaced exactly.

    Prints every check with its figure, and the layers whose attention can be audited. A model that fails is refused with one line
    and exit status 2. Nothing is downloaded, and no code of the folder is run.

    \b
    Examples:
      attnaudit hf check models/bert
      attnaudit hf check models/bert --json
    """
    require("hf", f"check {model}")
    from attnaudit.cli.show import show_gate
    from attnaudit.hf.gate import check_model
    from attnaudit.hf.load import load_pretrained

    show_gate(check_model(load_pretrained(model)), as_json)


@app.command(short_help="Train a small transformer, with a tokenizer of its own.")
@o.takes(CorpusSpec, without=OF_WORDS)
def train(
    corpus: o.CorpusName, config: Config = "small-bert", seed: o.Seed = 0, out: o.Out = None, uniform: Uniform = None,
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
    from attnaudit.cli.show import show_plan, show_training
    from attnaudit.plans.transformer import TransformerTraining
    from attnaudit.runner.hf_training import plan_transformer, read_training, train_transformer

    chosen = o.given(uniform=uniform, deceive=deceive, **texts)
    spec = TransformerTraining.of(corpus, config=config, seed=seed, settings=o.assigned(settings, epochs), **chosen)
    place = out or Path("models") / spec.name
    with progress() as bar:
        plan = plan_transformer(spec, place, bar) if dry_run else None
        if plan is None:
            train_transformer(spec, place, bar)
    if plan is not None:
        show_plan(plan, as_json)
    else:
        show_training(read_training(place), printable(str(place)), as_json)
