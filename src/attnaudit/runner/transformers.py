"""A run of a transformer that was saved on disk: check → collect → audit → report → manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from attnaudit.core.errors import AttnauditError, InputError, did_you_mean
from attnaudit.core.extras import require
from attnaudit.core.files import content_key, write_with_digest
from attnaudit.core.progress import Progress, silent
from attnaudit.core.settings import check_settings, from_plain, override, setting
from attnaudit.corpora.own import Draw
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.plans.spec import SCHEMA
from attnaudit.runner.audits import Battery, audit_page, audit_step, choose, report_step
from attnaudit.runner.engine import LOCAL, Call, Engine, Here
from attnaudit.runner.hf_training import TRAINING
from attnaudit.runner.pieces import DIGESTS, collected, pieces_folder, whole
from attnaudit.runner.store import OF_TRANSFORMERS, Store, alone, check_place, versions
from attnaudit.trace import trace_metadata

if TYPE_CHECKING:
    from attnaudit.hf.classes import Outputs
    from attnaudit.hf.encoded import Encoded
    from attnaudit.hf.network import Replay
    from attnaudit.hf.positions import Positions
    from attnaudit.hf.texts import Texts
    from attnaudit.hf.trace import Chosen

USUAL_SAMPLE, REPLAYED_SAMPLE = 500, 50
OF_TEXTS = {
    "classification": "classification",
    "causal-lm": "language_modelling",
    "seq2seq": "seq2seq",
}
POSITIONS = {
    "one": "every text is read up to one position, drawn by the seed, whose next token is the prediction",
    "all": "every text is read up to each of its positions in turn, whose next token is the prediction",
}


_LATER = (
    "positions",
    "classes",
)  # settings that came later: where they are not given, a specification is that of before


@dataclass(frozen=True)
class TransformerSettings:
    """Which attention of a transformer is collected, of which texts."""

    layers: str = setting(
        "Layers: last, all, or numbers from 0, for example 0,3.", "last", flag="--layers"
    )
    heads: str = setting("Heads: all, or numbers from 0, for example 0,3.", "all", flag="--heads")
    sample: int | None = setting(
        "Texts of the split that are audited, drawn by the seed; default: 500, or 50 of several layers, or at all positions.",
        None, flag="--sample", least=1,
    )  # fmt: skip
    split: str | None = setting(
        "Split that is audited; default: all of a single file, of a folder or a registered corpus test, where there is one.",
        None, flag="--split",
    )  # fmt: skip
    max_tokens: int | None = setting(
        "Cut texts to this many tokens; default: as many as the model reads.",
        None,
        flag="--max-tokens",
        least=1,
    )
    scores: tuple[str, ...] | None = setting(
        "Measures of importance, or all; default: those that cost little more than leave-one-out.",
        None,
        flag="--score",
    )
    positions: Literal["one", "all", "last"] | None = setting(
        "Positions of a text whose next token is the prediction; default: one of a target, drawn by the seed, the last of a prompt.",
        None, flag="--positions",
    )  # fmt: skip
    classes: tuple[str, ...] | None = setting(
        "Names of a classifier's outputs, in their order, by which labels are matched; default: the model's own, else the corpus's.",
        None, flag="--classes",
    )  # fmt: skip
    batch: int = setting("Padded tokens of a batch.", 4096, least=1)

    def __post_init__(self) -> None:
        check_settings(self, "collect")

    def numbers(self, name: str) -> str | tuple[int, ...]:
        """``layers`` or ``heads`` as a word or as numbers. Raises InputError."""
        value: str = getattr(self, name)
        if value in ("all", "last"):
            return value
        try:
            return tuple(int(part) for part in value.split(","))
        except ValueError as error:
            expected = (
                "last, all or numbers, as 0,3" if name == "layers" else "all or numbers, as 0,3"
            )
            raise InputError("read settings", f"--{name}", value, expected) from error


@dataclass(frozen=True)
class TransformerSpec:
    """The audit of a model folder on a corpus: what is collected, which experiments with which settings, the seed of the sample.

    ``corpus`` are options of the corpus reader; ``cross`` chooses cross-attention of an encoder–decoder.
    """

    kind: ClassVar[str] = "transformer"
    model: Path
    source: str
    collect: TransformerSettings = TransformerSettings()
    cross: bool = False
    battery: Battery = field(default_factory=lambda: Battery((), {}))
    seed: int = 0
    corpus: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """``<corpus>-<model>``, the default name of the run's folder."""
        return f"{Path(self.source).name.split('.')[0] or 'corpus'}-{self.model.resolve().name}"

    @property
    def draw(self) -> Draw:
        """The texts that are audited. Raises InputError for layers that are no numbers."""
        layers = self.collect.numbers("layers")
        one_layer = layers == "last" or (isinstance(layers, tuple) and len(set(layers)) == 1)
        one_row = one_layer and self.collect.positions != "all"
        return Draw(
            self.collect.sample or (USUAL_SAMPLE if one_row else REPLAYED_SAMPLE), self.seed
        )

    @property
    def seed_of_corpus(self) -> int:
        """That of a split or of generated texts: ``corpus.seed``, by default the run's."""
        given = from_plain(
            CorpusSpec, {"source": self.source, "seed": self.corpus.get("seed")}, "corpus"
        ).seed
        return self.seed if given is None else given

    def to_json(self) -> dict[str, Any]:
        """What ``spec.json`` holds, apart from the fingerprints of corpus and model."""
        plain = {
            "schema": SCHEMA, "kind": self.kind, "corpus": {**self.corpus, "source": self.source}, "cross": self.cross, "seed": self.seed,
            "collect": {name: value for name, value in asdict(self.collect).items() if value is not None or name not in _LATER},
            "experiments": self.battery.settings, "chosen": self.battery.chosen, "model": {"name": self.model.resolve().name},
        }  # fmt: skip
        plain["collect"].pop("batch")
        plain["corpus"].pop("data_dir", None)
        return json.loads(json.dumps(plain))


def audit_transformer(
    model: str | Path, source: str | Path, out: str | Path | None = None, progress: Progress | None = None, *, task: str | None = None,
    cross: bool = False, experiments: Sequence[str] = (), settings: Mapping[str, Any] | None = None, seed: int = 0,
    collect: Mapping[str, Any] | None = None, engine: Engine = LOCAL, **corpus: Any,
) -> Path:  # fmt: skip
    """Audit the transformer that ``save_pretrained`` wrote to the folder ``model`` on the texts of ``source``; returns the run's folder.

    ``task`` is what the model predicts (classification, causal-lm or seq2seq), checked where it is given; ``collect`` are fields of
    `TransformerSettings`, ``corpus`` options of the corpus reader, ``settings`` dotted ones of experiments, of ``corpus`` and of
    ``collect``. The ``engine`` collects and audits shards. A run that was stopped is resumed, a finished one left as it is.
    Raises InputError for bad input and for a model that
    cannot be audited, and RunError where ``out`` holds something else.
    """
    operation = f"audit {model}"
    require("hf", operation)
    of_corpus, of_collect, of_experiments = _parted(settings or {})
    of_collect |= {f"collect.{name}": value for name, value in (collect or {}).items()}
    collected = override({"collect": TransformerSettings()}, of_collect)["collect"]
    battery = choose(experiments, of_experiments)
    spec = TransformerSpec(
        Path(model), str(source), collected, cross, battery, seed, {**of_corpus, **corpus}
    )
    place, progress = Path(out or Path("runs") / spec.name), progress or silent
    check_place(place, spec.to_json())
    work = _Work.of(spec, task, progress)
    plain = {**spec.to_json(), "fingerprint": work.fingerprint}
    check_place(place, plain)
    with engine.opened(place) as opened, alone(place) as store:
        work.run(store, plain, opened)
    return place


def _parted(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Settings of the corpus, by field, and dotted ones of ``collect`` and of experiments."""
    sections = {key: key.partition(".")[0] for key in settings}
    of_corpus = {
        key.removeprefix("corpus."): settings[key]
        for key, section in sections.items()
        if section == "corpus"
    }
    of_collect = {key: settings[key] for key, section in sections.items() if section == "collect"}
    return (
        of_corpus,
        of_collect,
        {
            key: settings[key]
            for key, section in sections.items()
            if section not in ("corpus", "collect")
        },
    )


@dataclass(frozen=True)
class _Work:
    """A spec with its model and texts read and checked."""

    spec: TransformerSpec
    texts: Texts
    encoded: Encoded
    network: Replay
    chosen: tuple[Chosen, ...]
    names: tuple[str, ...]
    outputs: Outputs | None
    positions: Positions
    progress: Progress

    @classmethod
    def of(cls, spec: TransformerSpec, task: str | None, progress: Progress) -> _Work:
        if task not in (None, *OF_TEXTS):
            raise InputError(
                "audit",
                f"--task {task}",
                "no such task",
                f"one of {', '.join(OF_TEXTS)}",
                did_you_mean(str(task), OF_TEXTS),
            )
        layers, heads = spec.collect.numbers("layers"), spec.collect.numbers("heads")
        from attnaudit.hf.classes import outputs_of
        from attnaudit.hf.encode import encode, load_tokenizer, require_texts
        from attnaudit.hf.gate import check_model
        from attnaudit.hf.importance import MEASURES
        from attnaudit.hf.load import load_pretrained
        from attnaudit.hf.network import Replay
        from attnaudit.hf.positions import at_positions, positions_of
        from attnaudit.hf.replay import task_of
        from attnaudit.hf.sources import read_texts
        from attnaudit.hf.trace import choose_layers, output_names

        for score in spec.collect.scores or ():
            if score not in (*MEASURES, "all"):
                raise InputError(
                    "audit",
                    f"--score {score}",
                    "no such measure",
                    f"one of {', '.join(MEASURES)}",
                    did_you_mean(score, MEASURES),
                )
        progress("read the model", 0, 0)
        model = load_pretrained(spec.model)
        known = task_of(model)
        tokenizer = load_tokenizer(spec.model, known or "classification")
        if task is not None and task != known:
            got = f"{type(model).__name__}, a model for {known or 'another task'}"
            raise InputError(
                "audit",
                f"--task {task}",
                got,
                f"a model for {task}",
                "leave out --task, or choose another model",
            )
        progress("check the model", 0, 0)
        gate = check_model(model)
        chosen = choose_layers(gate, layers, heads, spec.cross)
        assert known is not None  # else no layer could be chosen
        positions = positions_of(known, spec.collect.positions)
        options = {name: value for name, value in spec.corpus.items() if name != "seed"}
        read = {
            "split": spec.collect.split,
            "seed": spec.seed_of_corpus,
            "progress": progress,
            "draw": spec.draw,
        }
        texts = read_texts(spec.source, known, **read, **options)
        outputs = outputs_of(model, texts, spec.collect.classes)
        texts = _sampled(_not_trained_on(texts, spec.model), spec)
        encoded = encode(
            model,
            tokenizer,
            texts,
            max_tokens=spec.collect.max_tokens,
            on_empty="skip",
            outputs=outputs,
        )
        require_texts(encoded, texts, spec.source)
        names = output_names(model, tokenizer, encoded.class_names)
        rows = at_positions(encoded, positions, spec.seed)
        return cls(
            spec, texts, rows, Replay(model, gate), chosen, names, outputs, positions, progress
        )

    @property
    def fingerprint(self) -> str:
        """That of the texts, of the model, and of what makes a trace of them: how they are tokenised, and what the outputs are called."""
        return content_key(
            self.texts.fingerprint, self.network.fingerprint, self.encoded.fingerprint, self.names
        )

    def run(self, store: Store, plain: Mapping[str, Any], engine: Engine) -> None:
        """Every step that is not done yet."""
        drawn = [] if self.positions == "last" else [self.positions]
        key = content_key(
            "collect",
            plain["fingerprint"],
            plain["corpus"],
            plain["collect"],
            plain["cross"],
            plain["seed"],
            *drawn,
        )
        with _claimed(store.out / "spec.json", plain):
            store.step(
                "collect",
                key,
                ("trace",),
                partial(self._collect, engine, pieces_folder(store.out, key)),
            )
        trace, replay = (
            store.out / "trace",
            self.network if engine == LOCAL else self._replayed(store.out / "trace"),
        )
        audit_step(
            store, trace, self.spec.battery, plain, self.progress, replay=replay, engine=engine
        )
        report_step(store, self.progress, audit_page())
        store.close(self._manifest())

    def _replayed(self, trace: Path) -> Path | None:
        """The folder of the model, where the trace has no tail of its own."""
        return self.spec.model if trace_metadata(trace)["tail"] == "replay" else None

    def _collect(self, engine: Engine, place: Path, folder: Path) -> dict[str, Any]:
        from attnaudit.hf.importance import MEASURES, USUAL
        from attnaudit.hf.trace import texts_of_a_shard

        trace, scores = folder / "trace", self.spec.collect.scores
        scores = tuple(MEASURES) if scores and "all" in scores else scores
        options = {
            "class_names": self.names, "metadata": self._origin(), "budget": self.spec.collect.batch, "scores": scores or USUAL,
            "shard_texts": texts_of_a_shard(self.encoded, self.chosen, self.names),
        }  # fmt: skip
        self._require_usable(options)
        if engine == LOCAL:
            return {
                "shards": _write(
                    self.network.model,
                    self.encoded,
                    self.network.gate,
                    self.chosen,
                    trace,
                    self.progress,
                    options,
                )
            }
        of_all, texts = (self.network.gate, self.chosen, options), len(self.encoded)
        calls = [
            Call(
                f"collect {start}", do_shard, place / str(start), {"model": self.spec.model, "folder": place / str(start)},
                (self.spec.model,), (self.encoded.take(np.arange(start, min(start + options["shard_texts"], texts))), *of_all),
                last=DIGESTS,
            ) for start in range(0, texts, options["shard_texts"])
        ]  # fmt: skip
        return {"shards": collected(engine, calls, trace, self.progress)}

    def _require_usable(self, options: Mapping[str, Any]) -> None:
        """Raise TraceError, before all texts are collected, where an experiment asked for by name cannot use the trace of one of them.

        Whether it can does not depend on the form of the tail, and a graph takes seconds to export.
        """
        from attnaudit.experiments import make_experiment, require_usable
        from attnaudit.hf.trace import collect_shards

        battery, shortest = (
            self.spec.battery,
            self.encoded.take(np.argsort(self.encoded.ids.lengths)[:1]),
        )
        if battery.chosen:
            first = next(
                collect_shards(
                    self.network.model,
                    shortest,
                    self.network.gate,
                    self.chosen,
                    graph=False,
                    **options,
                )
            )
            require_usable(
                (make_experiment(name, battery.settings[name]) for name in battery.names), first
            )

    def _origin(self) -> dict[str, Any]:
        """What the trace says of itself."""
        network, texts = self.network, self.texts
        return {
            "corpus": {
                "name": texts.name, "task": OF_TEXTS[texts.kind], "fingerprint": texts.fingerprint, "notes": self._notes,
                "positions": self.positions,
            },
            "model": {
                "name": network.gate.model, "folder": self.spec.model.resolve().name, "fingerprint": network.fingerprint,
                **(self.outputs.to_json() if self.outputs else {}),
            },
            "gate": network.gate.to_json(),
            "seed": self.spec.seed,
            "versions": versions(*OF_TRANSFORMERS),
        }  # fmt: skip

    @cached_property
    def _notes(self) -> list[str]:
        from attnaudit.hf.encode import notes_of
        from attnaudit.hf.trace import windows

        read, gate = (
            [POSITIONS[self.positions]] if self.positions in POSITIONS else [],
            self.network.gate,
        )
        parts = windows(self.network.model, gate, self.chosen, self.encoded)
        return [*read, *gate.notes, *parts, *notes_of(self.texts, self.encoded, self.outputs)]

    def _manifest(self) -> dict[str, Any]:
        return {
            "kind": self.spec.kind, "seeds": {"run": self.spec.seed}, "notes": self._notes,
            "corpus": {"name": self.texts.name, "fingerprint": self.texts.fingerprint, "rows": len(np.unique(self.encoded.instance))},
            "skipped": [asdict(row) for row in self.texts.skipped], "versions": versions(*OF_TRANSFORMERS),
            **({"classes": self.outputs.to_json()} if self.outputs else {}),
        }  # fmt: skip


def do_shard(
    here: Here, held: tuple[Any, ...], progress: Progress, *, model: Path, folder: Path
) -> None:
    """Write the trace of some texts into ``folder``, on any machine."""
    from attnaudit.hf.load import load_pretrained

    encoded, gate, chosen, options = held
    with whole(here.path(folder)) as made:
        _write(load_pretrained(here.path(model)), encoded, gate, chosen, made, progress, options)


def _write(
    model: Any, encoded: Encoded, gate: Any, chosen: Sequence[Chosen], trace: Path, progress: Progress, options: Mapping[str, Any]
) -> int:  # fmt: skip
    """Write the shards of a trace; returns how many they are."""
    from attnaudit.hf.trace import collect_shards
    from attnaudit.trace import write_shards

    trace.mkdir(exist_ok=True)
    return len(
        write_shards(
            trace, collect_shards(model, encoded, gate, chosen, trace, progress=progress, **options)
        )
    )


@contextmanager
def _claimed(path: Path, plain: Mapping[str, Any]) -> Iterator[None]:
    """Within, the folder is this run's own by its ``spec.json``; it is none where the first step of a new run cannot be done."""
    known = path.exists()
    if not known:
        write_with_digest(path, plain)
    try:
        yield
    except AttnauditError:
        if not known:
            path.unlink()
        raise


def _sampled(texts: Texts, spec: TransformerSpec) -> Texts:
    """The texts, or as many of them as are asked for, drawn by the seed and in their order."""
    draw, rows = spec.draw, max(texts.drawn_from, len(texts))
    if rows <= draw.size:
        return texts
    chosen = texts if len(texts) < rows else texts.take(draw.of(rows))
    return replace(
        chosen, notes=(*texts.notes, f"{draw.size} of {rows} texts, drawn with seed {spec.seed}")
    )


def _not_trained_on(texts: Texts, model: Path) -> Texts:
    """The texts, with a remark where a model that was trained by this package may have seen some of them."""
    try:
        training = json.loads((model / TRAINING).read_text(encoding="utf-8"))
        name, seed = training["corpus"]["name"], training["seed"]
    except (OSError, ValueError, LookupError, TypeError):  # a model of elsewhere
        return texts
    if texts.split[0] != "all" or name != texts.name:
        return texts
    remark = f"the model was trained on rows of a corpus of this name; --split test --seed {seed} reads those that it has not seen"
    return replace(texts, notes=(*texts.notes, remark))
