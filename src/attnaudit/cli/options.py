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

from attnaudit.core.errors import InputError, did_you_mean
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
            where, got = f"--{name.partition('__')[2]} {value}", f"--set {key}={found[key]}"
            raise InputError("read settings", where, got, "one of the two")
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
    column: list[str] | None = None,
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
    place = Path(corpus).expanduser()
    if corpus not in CORPORA and not place.exists():
        raise missing_corpus(corpus)
    if header := header_of(place):
        named = Columns(**columns(column), label_needed=label_needed)
        require_columns(place, header, named, f"{command} {quote(corpus)}")
    if vectors not in (None, "corpus", "random") and not Path(vectors).expanduser().exists():
        expected = "corpus, random or a file of word vectors"
        raise InputError("read vectors", vectors, "no such file", expected, near_file(vectors))


def option(
    *names: str,
    help: str,
    panel: str,
    metavar: str | None = None,
    default: str | bool = False,
    least: int | None = None,
    most: int | None = None,
) -> Any:
    """Declare an option.

    Args:
        *names: Its names.
        help: What it does.
        panel: Heading that it stands under.
        metavar: Placeholder of its value.
        default: Text shown as its default.
        least: Smallest number.
        most: Largest number.
    """
    return typer.Option(
        *names,
        help=help,
        rich_help_panel=panel,
        metavar=metavar,
        show_default=default,
        min=least,
        max=most,
    )


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
        metavar="ROLE=NAME",
        panel=FILES,
        help="Column of a role: text, label, question or rationale; repeatable.",
    ),
]
DataDir = Annotated[
    str | None,
    option(
        "--data-dir",
        metavar="DIR",
        panel=FILES,
        help="Folder of the registered corpora; default: $ATTNAUDIT_DATA, then the user's cache.",
    ),
]
Model = Annotated[
    str | None,
    option(
        "--model",
        panel=MODEL,
        default="bilstm, of pairs translator",
        help=f"One of {', '.join((*ENCODERS, *ERASURE_PRESETS, *CONFIGS, 'translator'))}.",
    ),
]
Attention = Annotated[
    str | None,
    option(
        "--attention",
        panel=MODEL,
        default="additive",
        help=f"One of {', '.join(ATTENTIONS)}; uniform: 1/T; log_odds: fixed by the words.",
    ),
]
Preset = Annotated[
    str | None,
    option(
        "--preset",
        panel=MODEL,
        default="paper",
        help="Sizes and training: paper, or code2019 (the released code of Jain & Wallace 2019); "
        "of translators small (default) or paper.",
    ),
]
Vectors = Annotated[
    str | None,
    option(
        "--vectors",
        metavar="SOURCE",
        panel=MODEL,
        default="corpus",
        help="corpus (word2vec of the train split), random, or a GloVe or fastText text file.",
    ),
]
Seed = Annotated[
    int,
    option(
        "--seed",
        panel=TRAINING,
        default="0",
        least=0,
        most=2**32 - 1,
        help="Seed of the split, the word vectors, the model, the training and samples.",
    ),
]
Epochs = Annotated[
    int | None,
    option("--epochs", panel=TRAINING, least=1, help="Largest number of epochs."),
]
Device = Annotated[
    str | None, option("--device", panel=TRAINING, default="auto", help="auto, cpu or cuda.")
]
Settings = Annotated[
    list[str] | None,
    option(
        "--set",
        metavar="KEY=VALUE",
        panel=TRAINING,
        help="Any setting of --help-settings, such as training.epochs=4; repeatable.",
    ),
]
Experiments = Annotated[
    list[str] | None,
    option(
        "--experiment",
        metavar="NAME",
        panel=MODEL,
        help="Only this experiment, and prediction where labels are known; repeatable.",
    ),
]
Out = Annotated[Path | None, option("--out", metavar="DIR", panel=OUTPUT, help="Where to write.")]
Json = Annotated[bool, option("--json", panel=OUTPUT, help="Print only JSON on stdout.")]
Details = Annotated[bool, option("--details", panel=OUTPUT, help="Print every measure.")]
DryRun = Annotated[
    bool,
    option("--dry-run", panel=OUTPUT, help="Write nothing: list what is done and what is not."),
]
Engine = Annotated[
    str | None,
    option(
        "--engine",
        metavar="local|ray",
        panel=CLUSTER,
        default="local",
        help="ray: the work goes to a cluster whose nodes share the folder of --out.",
    ),
]
Address = Annotated[
    str | None,
    option(
        "--address",
        metavar="HOST:PORT",
        panel=CLUSTER,
        help="Head of the cluster of --engine ray; default: this machine.",
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
    typer.Option(
        "--help-settings",
        callback=_show_settings,
        is_eager=True,
        rich_help_panel=TRAINING,
        help="List the settings of --set and exit.",
    ),
]
