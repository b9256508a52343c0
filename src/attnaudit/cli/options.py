"""The options that commands share, and what becomes of their values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from attnaudit.core import InputError, did_you_mean, expanded
from attnaudit.core.settings import parse_assignments
from attnaudit.corpora.formats.rows import ROLES, Columns, header_of, require_columns
from attnaudit.corpora.registry import CORPORA, missing_corpus, near_file
from attnaudit.models.presets import ATTENTIONS, ENCODERS, ERASURE_PRESETS
from attnaudit.training.transformers import CONFIGS

if TYPE_CHECKING:
    from attnaudit.steps import Pool

PANELS = FILES, MODEL, TRAINING, OUTPUT, CLUSTER = (
    *("Your file", "Model", "Training", "Output", "Cluster"),
)


class Grouped(TyperCommand):
    """A command whose help lists its options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the groups in their order."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            usual = "Help" if one.param_type_name == "option" else "Arguments"
            record = one.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(one, "rich_help_panel", None) or usual, []).append(record)
        for name in ("Arguments", *PANELS, "Help"):
            if name in groups:
                with formatter.section(name):
                    formatter.write_dl(groups[name])


def given(**options: Any) -> dict[str, Any]:
    """Leave out the options that were not given: the library has their defaults."""
    return {name: value for name, value in options.items() if value is not None}


def assigned(settings: list[str] | None, **others: Any) -> dict[str, Any]:
    """Return the settings of --set and of options that stand for one.

    Args:
        settings: Assignments, ``key=value``.
        **others: Values by setting, with two underscores for the dot; None if not given.

    Raises:
        InputError: If both say something of a setting, and not the same.
    """
    found: dict[str, Any] = dict(parse_assignments(settings or ()))
    for name, value in given(**others).items():
        key = name.replace("__", ".")
        if found.setdefault(key, str(value)) != str(value):
            where = f"--{name.partition('__')[2]} {value}"
            raise InputError("read settings", where, f"--set {key}={found[key]}", "one of the two")
    return found


def columns(assignments: list[str] | None) -> dict[str, str]:
    """Return the columns of --column by their roles. Raises InputError."""
    found: dict[str, str] = {}
    for assignment in assignments or ():
        role, _, name = (part.strip() for part in assignment.partition("="))
        if role not in ROLES or not name:
            expected = f"ROLE=NAME with a role of {', '.join(ROLES)}"
            got, near = "no role with a column", did_you_mean(role, ROLES)
            raise InputError("read options", f"--column {assignment}", got, expected, near)
        found[role] = name
    return found


@contextmanager
def pool(name: str | None, address: str | None) -> Iterator[Pool]:
    """Yield the pool of --engine and --address. Raises InputError and RunError."""
    from attnaudit.steps import pool_of

    # Ray prints lines of its own, as of a worker that died, where only JSON may stand.
    with pool_of(name or "local", address) as chosen, redirect_stdout(sys.stderr):
        yield chosen


def require_files(
    command: str,
    corpus: str,
    column: list[str] | None,
    vectors: str | None = None,
    label_needed: bool = True,
) -> None:
    """Refuse files that do not exist, and tables without the columns, before slow imports.

    Args:
        command: Start of the command, which an error about columns completes.
        corpus: A registered name, or a path.
        column: Values of --column.
        vectors: Source of the word vectors.
        label_needed: Whether a table must have labels.
    """
    place = expanded(corpus)
    if corpus not in CORPORA and not place.exists():
        raise missing_corpus(corpus)
    if header := header_of(place):
        named = Columns(**columns(column), label_needed=label_needed)
        require_columns(place, header, named, f"{command} {quote(corpus)}")
    if vectors not in (None, "corpus", "random") and not expanded(vectors).exists():
        expected = "corpus, random or a file of word vectors"
        raise InputError("read vectors", vectors, "no such file", expected, near_file(vectors))


def option(name: str, panel: str, help: str, **options: Any) -> Any:
    """Declare an option.

    Args:
        name: Its name.
        panel: Heading that it stands under.
        help: What it does.
        **options: More for typer; ``show_default`` is the text shown as its default.
    """
    options = {"show_default": False, **options}
    return typer.Option(name, rich_help_panel=panel, help=help, **options)


def argument(metavar: str, help: str, **options: Any) -> Any:
    """Declare an argument; ``options`` go to typer."""
    return typer.Argument(metavar=metavar, show_default=False, help=help, **options)


_CORPUS = (
    "A registered name (attnaudit corpora list), planted-<kind>, a csv, tsv, jsonl or parquet "
    "file, or a folder of splits or of pairs."
)
Corpus = Annotated[str, argument("CORPUS", _CORPUS)]
Texts = Annotated[str | None, argument("[CORPUS]", "Texts for a transformer's folder.")]
Runs = Annotated[list[Path], argument("RUN...", "Run directories.", exists=True)]
StudyName = Annotated[str, argument("STUDY", "One of the studies listed below.")]

Column = Annotated[
    list[str] | None,
    option(
        "--column",
        FILES,
        "Column of a role: text, label, question, rationale, segments or answer; repeatable.",
        metavar="ROLE=NAME",
    ),
]
DataDir = Annotated[
    str | None,
    option(
        "--data-dir",
        FILES,
        "Folder of the registered corpora; default: $ATTNAUDIT_DATA, then the user's cache.",
        metavar="DIR",
    ),
]
Model = Annotated[
    str | None,
    option(
        "--model",
        MODEL,
        f"One of {', '.join((*ENCODERS, *ERASURE_PRESETS, *CONFIGS, 'translator'))}, or the folder "
        "of a pretrained transformer to fine-tune.",
        show_default="bilstm; translator for pairs",
    ),
]
Attention = Annotated[
    str | None,
    option(
        "--attention",
        MODEL,
        f"One of {', '.join(ATTENTIONS)}; hard: one position; uniform: 1/T; log_odds: by word.",
        show_default="additive",
    ),
]
Preset = Annotated[
    str | None,
    option(
        "--preset",
        MODEL,
        "Sizes and training: paper, or code2019 (the released code of Jain & Wallace 2019); "
        "for translators small (default) or paper.",
        show_default="paper",
    ),
]
Vectors = Annotated[
    str | None,
    option(
        "--vectors",
        MODEL,
        "corpus (word2vec of the train split), random, or a GloVe or fastText text file.",
        metavar="SOURCE",
        show_default="corpus",
    ),
]
Seed = Annotated[
    int,
    option(
        "--seed",
        TRAINING,
        "Seed of the split, the word vectors, the model, the training and samples.",
        show_default="0",
        min=0,
        max=2**32 - 1,
    ),
]
Epochs = Annotated[
    int | None,
    option("--epochs", TRAINING, "Largest number of epochs.", min=1),
]
Device = Annotated[
    str | None, option("--device", TRAINING, "auto, cpu or cuda.", show_default="auto")
]
Settings = Annotated[
    list[str] | None,
    option(
        "--set",
        TRAINING,
        "Any setting of --help-settings, such as training.epochs=4; repeatable.",
        metavar="KEY=VALUE",
    ),
]
Experiments = Annotated[
    list[str] | None,
    option(
        "--experiment",
        MODEL,
        "Only this experiment (and prediction, if labels are known); repeatable.",
        metavar="NAME",
    ),
]
Out = Annotated[Path | None, option("--out", OUTPUT, "Where to write.", metavar="DIR")]
Json = Annotated[bool, option("--json", OUTPUT, "Print only JSON on stdout.")]
Details = Annotated[bool, option("--details", OUTPUT, "Print every measure.")]
DryRun = Annotated[
    bool,
    option("--dry-run", OUTPUT, "Write nothing: list what is done and what is not."),
]
Engine = Annotated[
    str | None,
    option(
        "--engine",
        CLUSTER,
        "ray: work on a cluster whose nodes share the folder of --out.",
        metavar="local|ray",
        show_default="local",
    ),
]
Address = Annotated[
    str | None,
    option(
        "--address",
        CLUSTER,
        "Address of the Ray cluster; default: this machine.",
        metavar="HOST:PORT",
    ),
]


def _show_settings(context: typer.Context, is_asked: bool) -> None:
    """List the settings that have an effect on a command, by section."""
    if is_asked:
        from attnaudit.cli.show import show_settings
        from attnaudit.recipes.settings import sections

        chosen = _SECTIONS[str(context.info_name)]
        show_settings({title: one for title, one in sections().items() if chosen(title)})
        raise typer.Exit


_AUDITED = "collect of audited"  # settings of a transformer that is audited, not trained
_SECTIONS: dict[str, Callable[[str], bool]] = {
    "run": lambda title: not title.startswith(("study", _AUDITED)),
    "audit": lambda title: title.startswith(("experiment", _AUDITED, "corpus of", "replacement")),
    "study": lambda title: not title.startswith(("experiment", _AUDITED)),
}
HelpSettings = Annotated[
    bool,
    option(
        "--help-settings",
        TRAINING,
        "List the settings of --set and exit.",
        callback=_show_settings,
        is_eager=True,
    ),
]
