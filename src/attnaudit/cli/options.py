"""The options that commands share: names, types and help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import typer

from attnaudit.core.errors import InputError
from attnaudit.core.settings import parse_assignments
from attnaudit.corpora.registry import CORPORA, missing_corpus, near_file
from attnaudit.corpora.spec import CorpusSpec, ParallelSpec
from attnaudit.models.presets import ATTENTIONS, ENCODERS, PRESETS
from attnaudit.training.transformers import CONFIGS

Command = TypeVar("Command", bound=Callable[..., None])


def takes(spec: type, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Give a command, in place of its ``**options``, an option for each field of ``spec`` that has a flag (`setting`), ``without`` some.

    Name, type, bounds and help are the field's; an option that is not given is None, so that its default is defined once.
    """

    def wrap(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        hints = get_type_hints(spec)
        options = [
            _parameter(field, hints[field.name])
            for field in fields(spec)
            if field.metadata["flag"] and field.name not in without
        ]
        setattr(command, "__signature__", signature.replace(parameters=[*own, *options]))  # noqa: B010  (pyright knows no such attribute)
        return command

    return wrap


def _parameter(field: Field[Any], hint: Any) -> inspect.Parameter:
    """The option of a field; a wrong choice is refused by the spec, whose error suggests the nearest one."""
    choices = next(
        (get_args(part) for part in (hint, *get_args(hint)) if get_origin(part) is Literal), None
    )
    annotation = Annotated[
        (str if choices else hint) | None, declared(field, "|".join(choices) if choices else None)
    ]
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def declared(field: Field[Any], choices: str | None = None) -> Any:
    """A typer option made from a field of a spec."""
    facts = field.metadata
    shown = False if field.default is None else str(field.default)
    return typer.Option(
        facts["flag"],
        show_default=shown,
        help=facts["help"],
        min=facts["least"],
        metavar=facts["metavar"] or choices,
    )


def given(**options: Any) -> dict[str, Any]:
    """The options that were given: the library has the defaults of the others."""
    return {name: value for name, value in options.items() if value is not None}


def assigned(settings: list[str] | None, epochs: int | None = None) -> dict[str, Any]:
    """The settings of --set and --epochs. Raises InputError where the two differ."""
    found: dict[str, Any] = dict(parse_assignments(settings or ()))
    if epochs is not None and found.setdefault("training.epochs", str(epochs)) != str(epochs):
        raise InputError(
            "read settings",
            f"--epochs {epochs}",
            f"--set training.epochs={found['training.epochs']}",
            "one of the two",
        )
    return found


def engine(name: str | None, address: str | None, unshared: bool) -> dict[str, Any]:
    """The engine of --engine, --address and --unshared as an argument of the library; none where none of them is given."""
    if name is None and address is None and not unshared:
        return {}
    from attnaudit.runner.engine import engine_of

    return {"engine": engine_of(name or "local", address, unshared)}


def require_files(corpus: str, vectors: str | None = None, known: Iterable[str] = CORPORA) -> None:
    """Raise InputError for a corpus or a file of word vectors that does not exist, before anything is imported that takes time.

    ``known`` are the corpora to name in place of a mistyped one.
    """
    if corpus not in CORPORA and not Path(corpus).expanduser().exists():
        raise missing_corpus(corpus, known)
    if vectors not in (None, "corpus", "random") and not Path(vectors).expanduser().exists():
        raise InputError(
            "read vectors",
            vectors,
            "no such file",
            "corpus, random or a file of word vectors",
            near_file(vectors),
        )


def _begin(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What completes a value on the command line: the ``names`` that begin with what was typed."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def _experiments() -> Iterable[str]:
    from attnaudit.experiments import EXPERIMENTS

    return EXPERIMENTS


def _studies() -> Iterable[str]:
    from attnaudit.copying.study import NAME
    from attnaudit.studies import EVERY_STUDY

    return (*EVERY_STUDY, NAME)


def keys_of(*parts: str) -> Callable[[str], list[str]]:
    """What completes the key of a setting: those of ``attnaudit settings`` whose heading has one of ``parts``."""

    def keys() -> Iterable[str]:
        from attnaudit.runner.settings import sections

        listed = (
            settings
            for title, settings in sections().items()
            if any(part in title for part in parts)
        )
        return dict.fromkeys(f"{one.key}=" for settings in listed for one in settings)

    return _begin(keys)


def _parts_of_cells(part: str) -> list[str]:
    """Every corpus, encoder, attention or study of the papers' cells."""
    from attnaudit.papers import PAPERS

    return list(
        dict.fromkeys(
            filter(None, (getattr(cell, part) for paper in PAPERS.values() for cell in paper.cells))
        )
    )


def _names(*tasks: str) -> str:
    """The registered corpora of tasks that are generated, or of pairs; the many others are in ``attnaudit corpora list``."""
    return ", ".join(
        name
        for name, entry in CORPORA.items()
        if entry.task in tasks and (entry.generate or entry.pairs)
    )


_TEXTS = (
    "a registered name (see attnaudit corpora list), a csv, tsv, jsonl or parquet file (.gz too), a folder with train, test and optionally "
    f"dev files, or generated texts: {_names('classification', 'question_answering', 'inference')}"
)
_PAIRS = f"{_names('translation')}, or a folder of pairs"


def _of_study(ctx: typer.Context, incomplete: str) -> list[str]:
    """What completes the corpus of the study typed before it."""
    from attnaudit.copying.study import NAME
    from attnaudit.corpora.planted.sequences import SYMBOLS

    return _begin(lambda: SYMBOLS if ctx.params.get("name") == NAME else CORPORA)(incomplete)


def _corpus(help: str, names: Callable[..., list[str]] | None = None) -> Any:
    return typer.Argument(
        metavar="CORPUS",
        show_default=False,
        help=help,
        autocompletion=names or _begin(lambda: CORPORA),
    )


CorpusName = Annotated[str, _corpus(f"{_TEXTS[0].upper()}{_TEXTS[1:]}.")]
PairsName = Annotated[str, _corpus(f"A corpus of pairs: {_PAIRS}.")]
TracePath = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE",
        exists=True,
        show_default=False,
        help="A run directory, a folder of trace shards, or one Parquet file.",
    ),
]
Runs = Annotated[
    list[Path],
    typer.Argument(metavar="RUN...", exists=True, show_default=False, help="Run directories."),
]
StudyCorpus = Annotated[
    str,
    _corpus(
        f"As for attnaudit run: {_TEXTS}. For dynamics and deceive also as for attnaudit translate: {_PAIRS}. For copying permutations, "
        "distinct or iid.",
        _of_study,
    ),
]
StudyName = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        show_default=False,
        help="One of the studies listed below.",
        autocompletion=_begin(_studies),
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        "--encoder", show_default="bilstm", help=f"One of {', '.join(ENCODERS)}.", autocompletion=_begin(lambda: ENCODERS)
    ),
]  # fmt: skip
Attention = Annotated[
    str | None,
    typer.Option(
        "--attention", show_default="additive", 
        help=f"One of {', '.join(ATTENTIONS)}; uniform: 1/T; log_odds: fixed weights from the words' log-odds.",
        autocompletion=_begin(lambda: ATTENTIONS),
    ),
]  # fmt: skip
_configs = _begin(lambda: CONFIGS)
Config = Annotated[
    str, typer.Option("--config", help=f"One of {', '.join(CONFIGS)}.", autocompletion=_configs)
]
StudyConfig = Annotated[
    str | None,
    typer.Option(
        "--config", show_default=False, autocompletion=_configs,
        help="A small transformer in place of --encoder and --attention, for uniform and deceive: one of "
        f"{', '.join(name for name, config in CONFIGS.items() if not config.architecture.causal)}.",
    ),
]  # fmt: skip
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        min=0,
        max=2**32 - 1,
        help="Seed of the split, the word vectors, the model and the training.",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset", show_default="paper", autocompletion=_begin(lambda: PRESETS),
        help="Sizes and training: paper (Jain & Wallace 2019), code2019 (their released code), flan and han (flat and hierarchical "
        "networks of Serrano & Smith 2019).",
    ),
]  # fmt: skip
PairPreset = Annotated[
    str | None,
    typer.Option(
        "--preset", show_default="small", help="Sizes: small, or paper (Snell et al. 2020)."
    ),
]
StudyPreset = Annotated[
    str | None,
    typer.Option(
        "--preset", show_default=False,
        help="Sizes and training: as in attnaudit run (paper); for translators as in attnaudit translate (small).",
    ),
]  # fmt: skip
Vectors = Annotated[
    str | None,
    typer.Option(
        "--vectors", metavar="SOURCE", show_default=False,
        help="corpus (word2vec of the train split), random, or a GloVe or fastText text file; default: corpus, or the corpus's own choice.",
    ),
]  # fmt: skip
_FIELDS = {field.name: field for field in fields(CorpusSpec)}
PairEncoding = Annotated[
    str | None, declared(next(field for field in fields(ParallelSpec) if field.name == "encoding"))
]
DataDir = Annotated[str | None, declared(_FIELDS["data_dir"])]
Epochs = Annotated[
    int | None,
    typer.Option(
        "--epochs", min=1, help="Largest number of epochs; same as --set training.epochs=N."
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Train and write nothing: list the trainings, those that are finished, and an estimate of the time.",
    ),
]
CellCorpora = Annotated[
    list[str] | None,
    typer.Option(
        "--corpus",
        metavar="NAME",
        help="Only this corpus; repeatable.",
        autocompletion=_begin(lambda: _parts_of_cells("corpus")),
    ),
]
CellEncoders = Annotated[
    list[str] | None,
    typer.Option(
        "--encoder",
        metavar="NAME",
        help="Only this encoder; repeatable.",
        autocompletion=_begin(lambda: _parts_of_cells("encoder")),
    ),
]
CellAttentions = Annotated[
    list[str] | None,
    typer.Option(
        "--attention",
        metavar="NAME",
        help="Only this attention; repeatable.",
        autocompletion=_begin(lambda: _parts_of_cells("attention")),
    ),
]
CellStudies = Annotated[
    list[str] | None,
    typer.Option(
        "--study",
        metavar="NAME",
        help="Only this study; repeatable.",
        autocompletion=_begin(lambda: _parts_of_cells("study")),
    ),
]
Full = Annotated[
    bool,
    typer.Option(
        "--full", help="The published scale of the study, which may take hours; see the list below."
    ),
]
Device = Annotated[
    str | None, typer.Option("--device", show_default="auto", help="auto, cpu or cuda.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Any setting of attnaudit settings, for example training.epochs=4; repeatable.",
        autocompletion=keys_of(""),
    ),
]  # fmt: skip
ExperimentSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A setting of an experiment, for example adversary.epsilon=0.05; repeatable.",
        autocompletion=keys_of("experiment"),
    ),
]  # fmt: skip
Experiments = Annotated[
    list[str] | None,
    typer.Option(
        "--experiment",
        metavar="NAME",
        help="Only this experiment, and prediction where labels are known; repeatable. Default: all that the trace allows.",
        autocompletion=_begin(_experiments),
    ),
]
ReplayModel = Annotated[
    Path | None,
    typer.Option(
        "--replay", metavar="MODEL_DIR", show_default=False,
        help="The transformer that the trace was collected from, for a trace with tail replay.",
    ),
]  # fmt: skip
Engine = Annotated[
    str | None,
    typer.Option("--engine", metavar="local|ray", show_default="local", help="ray: the work goes to a cluster (attnaudit[ray])."),
]  # fmt: skip
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="HOST:PORT", show_default=False, help="Head of the cluster of --engine ray; default: this machine."),
]  # fmt: skip
Unshared = Annotated[
    bool,
    typer.Option(
        "--unshared",
        help="With --engine ray: nodes share no folder; files go through Ray's object store.",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where to write.")]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]
