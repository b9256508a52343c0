"""A transformer that was saved on disk: check → collect → audit → report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from attnaudit.core.errors import InputError, RunError, did_you_mean
from attnaudit.core.extras import require
from attnaudit.core.files import check_model_folder, content_key
from attnaudit.core.progress import Progress, silent
from attnaudit.core.settings import check_settings, coerce, override, setting
from attnaudit.corpora.read import Draw
from attnaudit.plans.spec import SCHEMA, take_section
from attnaudit.recipes.audit import Audit, Battery, audit_page, choose, report_step
from attnaudit.steps import SERIAL, Folder, Pool, Recipe, Step, check_place, execute
from attnaudit.steps.finished import read_manifest
from attnaudit.steps.pieces import collected, piece
from attnaudit.steps.versions import OF_TRANSFORMERS, versions
from attnaudit.trace import write_shards

if TYPE_CHECKING:
    from attnaudit.hf.classes import Outputs
    from attnaudit.hf.encoded import Encoded, Positions
    from attnaudit.hf.gate import Gate
    from attnaudit.hf.network import Replay
    from attnaudit.hf.texts import Texts
    from attnaudit.hf.trace import Chosen

USUAL_SAMPLE, REPLAYED_SAMPLE = 500, 50
OF_TEXTS = {
    "classification": "classification",
    "causal-lm": "language_modelling",
    "seq2seq": "seq2seq",
}
_NEXT = "whose next token is the prediction"
POSITIONS = {
    "one": f"every text is read up to one position, drawn by the seed, {_NEXT}",
    "all": f"every text is read up to each of its positions in turn, {_NEXT}",
}


@dataclass(frozen=True)
class TransformerCollect:
    """Choice of the attention that is collected from a transformer, and of the texts."""

    layers: str = setting("Layers: last, all, or numbers from 0, for example 0,3.", "last")
    heads: str = setting("Heads: all, or numbers from 0, for example 0,3.", "all")
    sample: int | None = setting(
        "Texts of the split that are audited, drawn by the seed; default: 500, or 50 of several "
        "layers, or at all positions.",
        None,
        least=1,
    )
    split: str | None = setting(
        "Split that is audited; default: all of a single file, of a folder or a registered corpus "
        "test, where there is one.",
        None,
    )
    max_tokens: int | None = setting(
        "Cut texts to this many tokens; default: as many as the model reads.", None, least=1
    )
    scores: tuple[str, ...] | None = setting(
        "Measures of importance, or all; default: those that cost little more than leave-one-out.",
        None,
    )
    positions: Literal["one", "all", "last"] | None = setting(
        "Positions of a text whose next token is the prediction; default: one of a target, drawn "
        "by the seed, the last of a prompt.",
        None,
    )
    classes: tuple[str, ...] | None = setting(
        "Names of a classifier's outputs, in their order, by which labels are matched; default: "
        "the model's own, else the corpus's.",
        None,
    )
    cross: bool = setting(
        "Cross-attention of an encoder-decoder, in place of its decoder's self-attention.", False
    )
    batch: int = setting("Padded tokens of a batch.", 4096, least=1)

    def __post_init__(self) -> None:
        check_settings(self, "collect")

    def numbers(self, name: str) -> str | tuple[int, ...]:
        """Return ``layers`` or ``heads`` as a word or as numbers. Raises InputError."""
        value: str = getattr(self, name)
        if value in ("all", "last"):
            return value
        try:
            return tuple(int(part) for part in value.split(","))
        except ValueError as error:
            words = "last, all" if name == "layers" else "all"
            expected = f"{words} or numbers, as 0,3"
            raise InputError("read settings", f"collect.{name}", value, expected) from error


@dataclass(frozen=True)
class TransformerSpec:
    """The audit of a model folder on a corpus.

    Attributes:
        model: Folder of the model.
        source: The corpus.
        collect: Which attention of which texts.
        battery: The experiments.
        seed: Seed of the sample.
        corpus: Options of the corpus reader.
    """

    kind: ClassVar[str] = "transformer"
    model: Path
    source: str
    collect: TransformerCollect = TransformerCollect()
    battery: Battery = field(default_factory=lambda: Battery({}))
    seed: int = 0
    corpus: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: str | Path,
        source: str,
        *,
        experiments: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        **corpus: Any,
    ) -> TransformerSpec:
        """Make a spec.

        Args:
            model: Folder of the model.
            source: The corpus.
            experiments: Names of the only experiments; none for all.
            settings: Settings of ``corpus``, ``collect`` and experiments, by dotted name.
            seed: Seed of the sample.
            **corpus: Options of the corpus reader.

        Raises:
            InputError: For an unknown setting or value.
        """
        given = dict(settings or {})
        own, read = take_section(given, "collect"), take_section(given, "corpus")
        read = {key.removeprefix("corpus."): value for key, value in read.items()}
        collect = override({"collect": TransformerCollect()}, own)["collect"]
        battery = choose(experiments, given)
        return cls(Path(model), str(source), collect, battery, seed, {**read, **corpus})

    @property
    def name(self) -> str:
        """``<corpus>-<model>``, the default name of the run's folder."""
        return f"{Path(self.source).name.split('.')[0] or 'corpus'}-{self.model.resolve().name}"

    @property
    def draw(self) -> Draw:
        """The texts that are audited. Raises InputError for layers that are no numbers."""
        layers = self.collect.numbers("layers")
        one_layer = layers == "last" or (isinstance(layers, tuple) and len(set(layers)) == 1)
        is_small = one_layer and self.collect.positions != "all"
        usual = USUAL_SAMPLE if is_small else REPLAYED_SAMPLE
        return Draw(self.collect.sample or usual, self.seed)

    @property
    def seed_of_corpus(self) -> int:
        """Seed of a split or of generated texts: ``corpus.seed``, by default the run's."""
        given = coerce(self.corpus.get("seed"), int | None, "corpus.seed")
        return self.seed if given is None else given

    def to_json(self) -> dict[str, Any]:
        """Return what ``spec.json`` holds, apart from the fingerprint."""
        collect = {name: value for name, value in asdict(self.collect).items() if name != "batch"}
        corpus = {name: value for name, value in self.corpus.items() if name != "data_dir"}
        plain = {
            "schema": SCHEMA,
            "kind": self.kind,
            "corpus": {**corpus, "source": self.source},
            "seed": self.seed,
            "collect": collect,
            "experiments": self.battery.settings,
            "chosen": self.battery.chosen,
            "model": {"name": self.model.resolve().name},
        }
        return json.loads(json.dumps(plain))


def check_folder(folder: Path) -> Gate:
    """Check on short texts of random tokens whether a model's attention can be audited exactly.

    Raises:
        InputError: If the folder holds no model, or one that cannot be read.
    """
    require("hf", f"check {folder}")
    check_model_folder(folder)
    from attnaudit.hf.gate import check_model
    from attnaudit.hf.load import load_pretrained

    return check_model(load_pretrained(folder))


def audit_transformer(
    spec: TransformerSpec,
    out: str | Path | None = None,
    progress: Progress = silent,
    pool: Pool = SERIAL,
) -> Path:
    """Audit the transformer that ``save_pretrained`` wrote to a folder on the texts of a corpus.

    A run that was stopped is resumed, a finished one left as it is.

    Args:
        spec: The model, the corpus and what is collected.
        out: Folder of the run; by default ``runs/<corpus>-<model>``.
        progress: Callback.
        pool: Pool that collects and audits shards.

    Returns:
        The folder.

    Raises:
        InputError: For bad input, and for a model that cannot be audited.
        RunError: If ``out`` holds something else.
    """
    require("hf", f"audit {spec.model}")
    check_model_folder(spec.model)
    place = Path(out or Path("runs") / spec.name)
    check_place(place, spec.to_json())
    return execute(_Audited.read(spec, pool, progress).recipe(place), place)


@dataclass(frozen=True)
class _Audited:
    """A spec with its model and texts read and checked."""

    spec: TransformerSpec
    texts: Texts
    encoded: Encoded
    network: Replay
    chosen: tuple[Chosen, ...]
    names: tuple[str, ...]
    outputs: Outputs | None
    positions: Positions
    pool: Pool
    progress: Progress

    @classmethod
    def read(cls, spec: TransformerSpec, pool: Pool, progress: Progress) -> _Audited:
        """Read the model and the texts. Raises InputError."""
        layers, heads = spec.collect.numbers("layers"), spec.collect.numbers("heads")
        from attnaudit.hf.classes import outputs_of
        from attnaudit.hf.encode import encode, load_tokenizer, output_names
        from attnaudit.hf.encoded import at_positions, positions_of
        from attnaudit.hf.gate import check_model
        from attnaudit.hf.load import load_pretrained
        from attnaudit.hf.model import task_of
        from attnaudit.hf.network import Replay
        from attnaudit.hf.texts import read_texts
        from attnaudit.hf.trace import choose_layers

        _check_scores(spec.collect.scores or ())
        progress("read the model", 0, 0)
        model = load_pretrained(spec.model)
        task = task_of(model)
        tokenizer = load_tokenizer(spec.model)
        progress("check the model", 0, 0)
        gate = check_model(model)
        chosen = choose_layers(gate, layers, heads, spec.collect.cross)
        assert task is not None  # else no layer could be chosen
        positions = positions_of(task, spec.collect.positions)
        texts = read_texts(
            spec.source,
            task,
            split=spec.collect.split,
            seed=spec.seed_of_corpus,
            progress=progress,
            draw=spec.draw,
            **{name: value for name, value in spec.corpus.items() if name != "seed"},
        )
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
        names = output_names(model, tokenizer, encoded.class_names)
        rows, network = at_positions(encoded, positions, spec.seed), Replay(model, gate)
        return cls(spec, texts, rows, network, chosen, names, outputs, positions, pool, progress)

    def recipe(self, out: Path) -> Recipe:
        """Return the steps of the audit."""
        # The texts, the model, and what makes a trace of them: the tokens and the outputs' names.
        fingerprint = content_key(
            self.texts.fingerprint, self.network.fingerprint, self.encoded.fingerprint, self.names
        )
        spec = self.spec
        plain = {**spec.to_json(), "fingerprint": fingerprint}
        replay = spec.model if self.pool.shares else self.network
        audit = Audit(out / "trace", spec.battery, plain, self.progress, replay, self.pool)
        report = report_step(self.progress, audit_page())
        steps = [self._collect_step(plain), audit.step(), report]
        return Recipe(plain, steps, lambda folder: self._facts())

    def _collect_step(self, plain: Mapping[str, Any]) -> Step:
        names = ("fingerprint", "corpus", "collect", "seed")

        def inputs(folder: Folder) -> Sequence[Any]:
            return [*(plain[name] for name in names), self.positions]

        def work(folder: Folder, made: Path) -> dict[str, Any]:
            network, trace, options = self.network, made / "trace", self._options()
            self._require_usable(options)
            of_all = (network.gate, self.chosen, options)
            if not self.pool.shares:
                trace.mkdir()
                shards = _write(network.model, of_all, self.encoded, trace, self.progress)
                return {"shards": shards}
            rows, size = np.arange(len(self.encoded)), options["shard_texts"]
            calls = [
                piece(
                    f"collect {part[0]}",
                    partial(_write, self.spec.model, of_all),
                    folder.pieces / f"{part[0]}",
                    self.encoded.take(part),
                )
                for part in np.split(rows, rows[size::size])
            ]
            return {"shards": collected(self.pool, calls, trace, self.progress)}

        return Step("collect", inputs, ("trace",), work)

    def _options(self) -> dict[str, Any]:
        """Return the options of collecting."""
        from attnaudit.hf.importance import MEASURES, USUAL
        from attnaudit.hf.trace import texts_of_a_shard

        scores = self.spec.collect.scores
        return {
            "class_names": self.names,
            "metadata": self._origin(),
            "budget": self.spec.collect.batch,
            "scores": tuple(MEASURES) if scores and "all" in scores else scores or USUAL,
            "shard_texts": texts_of_a_shard(self.encoded, self.chosen, self.names),
        }

    def _require_usable(self, options: Mapping[str, Any]) -> None:
        """Check, before all texts are collected, that the experiments named can use the trace.

        Raises:
            TraceError: If one cannot use that of the shortest text.
        """
        from attnaudit.experiments import make_experiment, require_usable
        from attnaudit.hf.trace import collect_shards

        battery = self.spec.battery
        if not battery.chosen:
            return
        shortest = self.encoded.take(np.argsort(self.encoded.ids.lengths)[:1])
        network = self.network
        # Whether they can does not depend on the form of the tail, and a graph takes seconds.
        first = next(
            collect_shards(
                network.model, shortest, network.gate, self.chosen, graph=False, **options
            )
        )
        require_usable((make_experiment(*one) for one in battery.settings.items()), first)

    def _origin(self) -> dict[str, Any]:
        """Return what the trace says of itself."""
        network, texts = self.network, self.texts
        task, notes = OF_TEXTS[texts.kind], self._notes()
        corpus = {**self._named(), "task": task, "notes": notes, "positions": self.positions}
        model = {
            "name": network.gate.model,
            "folder": self.spec.model.resolve().name,
            "fingerprint": network.fingerprint,
            **(self.outputs.to_json() if self.outputs else {}),
        }
        return {
            "corpus": corpus,
            "model": model,
            "gate": network.gate.to_json(),
            "seed": self.spec.seed,
            "versions": versions(*OF_TRANSFORMERS),
        }

    def _named(self) -> dict[str, Any]:
        return {"name": self.texts.name, "fingerprint": self.texts.fingerprint}

    def _notes(self) -> list[str]:
        from attnaudit.hf.encode import notes_of

        read = [POSITIONS[self.positions]] if self.positions in POSITIONS else []
        notes = notes_of(self.texts, self.encoded, self.outputs)
        return [*read, *self.network.gate.notes, *notes]

    def _facts(self) -> dict[str, Any]:
        rows = len(np.unique(self.encoded.instance))
        return {
            "seeds": {"run": self.spec.seed},
            "notes": self._notes(),
            "corpus": {**self._named(), "rows": rows},
            "skipped": [asdict(row) for row in self.texts.skipped],
            "versions": versions(*OF_TRANSFORMERS),
            **({"classes": self.outputs.to_json()} if self.outputs else {}),
        }


def _write(
    model: Any,
    of_all: tuple[Any, ...],
    encoded: Encoded,
    trace: Path,
    progress: Progress,
    device: str | None = None,
) -> int:
    """Write the trace of some texts, in any process; return the number of its shards.

    Args:
        model: The model, or its folder.
        of_all: The gate, the layers, and the options of collecting.
        encoded: The texts.
        trace: Folder of the trace.
        progress: Callback.
        device: Ignored: such models are audited on the CPU.
    """
    from attnaudit.hf.load import load_pretrained
    from attnaudit.hf.trace import collect_shards

    loaded = load_pretrained(model) if isinstance(model, Path) else model
    gate, chosen, options = of_all
    shards = collect_shards(loaded, encoded, gate, chosen, trace, progress=progress, **options)
    return len(write_shards(trace, shards))


def _check_scores(scores: Sequence[str]) -> None:
    """Raise InputError for a measure of importance that is none."""
    from attnaudit.hf.importance import MEASURES

    for score in scores:
        if score not in (*MEASURES, "all"):
            expected, near = f"one of {', '.join(MEASURES)}", did_you_mean(score, MEASURES)
            raise InputError("audit", f"collect.scores={score}", "no such measure", expected, near)


def _sampled(texts: Texts, spec: TransformerSpec) -> Texts:
    """Draw as many texts as are asked for, by the seed and in their order."""
    draw, rows = spec.draw, max(texts.drawn_from, len(texts))
    if rows <= draw.size:
        return texts
    chosen = texts if len(texts) < rows else texts.take(draw.of(rows))
    note = f"{draw.size} of {rows} texts, drawn with seed {spec.seed}"
    return replace(chosen, notes=(*texts.notes, note))


def _not_trained_on(texts: Texts, model: Path) -> Texts:
    """Add a remark if a model that was trained by this package may have seen some of the texts."""
    try:
        manifest = read_manifest(model.parent)
        name, seed = manifest["corpus"]["name"], manifest["seeds"]["run"]
    except (RunError, LookupError, TypeError):  # a model of elsewhere
        return texts
    if texts.split[0] != "all" or name != texts.name:
        return texts
    remark = (
        "the model was trained on rows of a corpus of this name; "
        f"collect.split=test with --seed {seed} reads those that it has not seen"
    )
    return replace(texts, notes=(*texts.notes, remark))
