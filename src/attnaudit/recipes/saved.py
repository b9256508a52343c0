"""The audit of a transformer that was saved on disk: collect → audit → report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core import InputError, Progress, RunError, content_key, silent
from attnaudit.core.numbers import count
from attnaudit.corpora.registry import CORPORA
from attnaudit.experiments import make_experiment, require_usable
from attnaudit.hf.choose import Chosen, choose_layers
from attnaudit.hf.classes import outputs_of
from attnaudit.hf.encode import encode, load_tokenizer, notes_of, output_names, require_aligned
from attnaudit.hf.encoded import Encoded, Positions, positions_of
from attnaudit.hf.gate import Gate, check_model
from attnaudit.hf.importance import (
    USUAL,
    defined_measures,
    heads_of_text,
    require_heatmap,
    require_measures,
)
from attnaudit.hf.labels import labelled, require_end
from attnaudit.hf.load import heads_by_config, load_pretrained, read_config
from attnaudit.hf.model import OF_TOKENS, ModelTask, no_task, task_of_class
from attnaudit.hf.network import Replay
from attnaudit.hf.texts import Texts, no_question, read_texts, with_answers, with_segments
from attnaudit.hf.trace import collect_shards, texts_of_a_shard
from attnaudit.hf.unwrap import one_output
from attnaudit.plans.audit import TransformerSpec
from attnaudit.recipes.audit import pages, report_step
from attnaudit.recipes.budget import Allotted, allot
from attnaudit.recipes.job import COLLECT, Job
from attnaudit.steps import SPEC, Folder, Pool, Recipe, Step, read_manifest, read_spec
from attnaudit.trace import Trace

_NEXT = "whose next token is the prediction"
POSITIONS: tuple[dict[str, str], dict[str, str]] = (
    {
        "one": f"every text is read up to one position, drawn by the seed, {_NEXT}",
        "all": f"every text is read up to each of its positions in turn, {_NEXT}",
    },
    {
        "one": "the prediction is the label of one word of each text, drawn by the seed",
        "all": "the prediction is the label of each word of a text in turn",
        "last": "the prediction is the label of the last word of each text",
        "predicted": "the prediction is where the answer begins, or ends, among all tokens",
    },
)
"""Remarks on the positions of models that write, and of those that label tokens."""


@dataclass(frozen=True, kw_only=True)
class SavedTransformer(Job):
    """The audit of a `TransformerSpec`, its model and texts read and checked.

    Attributes:
        encoded: The texts as tokens.
        gate: Checks of the model.
        chosen: Layers and heads.
        names: Names of the outputs.
        about: What a trace says of the model.
        remarks: Remarks for readers.
        positions: Positions whose next token is the prediction.
    """

    encoded: Encoded
    gate: Gate
    chosen: tuple[Chosen, ...]
    names: tuple[str, ...]
    about: dict[str, Any]
    remarks: list[str]
    positions: Positions

    @classmethod
    def read(
        cls, spec: TransformerSpec, out: Path, progress: Progress, pool: Pool
    ) -> SavedTransformer:
        """Read the model and the texts. Raises InputError."""
        collect = spec.collect
        layers, heads = collect.numbers("layers"), collect.numbers("heads")
        require_measures(name for name in collect.scores or () if name != "all")
        # Texts come first: a large model takes long to read.
        task, tokenizer = _task_ahead(spec), load_tokenizer(spec.model)
        texts = _read(spec, task, progress)
        if texts.answer is not None and collect.generate is None:
            require_aligned(tokenizer, texts)
        progress("read the model", 0, 0)
        model = one_output(load_pretrained(spec.model), collect.output)
        progress("check the model", 0, 0)
        gate = check_model(model)
        chosen = choose_layers(gate, layers, heads, collect.cross)
        require_heatmap(collect.heatmap, heads_of_text(gate))
        defined_measures(model, collect.scores or USUAL, collect.heatmap)
        answers = texts.answer is not None or collect.generate is not None
        positions = positions_of(texts.kind, collect.positions, answers)
        outputs = outputs_of(model, texts, collect.classes)
        texts = with_answers(model, tokenizer, texts, collect.generate, progress)
        options: Any = {"max_tokens": collect.max_tokens, "on_empty": "skip", "outputs": outputs}
        encoded = encode(model, tokenizer, texts, **options)
        names = output_names(model, tokenizer, encoded.class_names)
        rows = labelled(model, encoded, positions, spec.seed, gate.batching)
        network = Replay(model, gate)
        told = [said[positions]] if positions in (said := POSITIONS[task in OF_TOKENS]) else []
        allotted = _allotted(spec, out, network, rows, chosen, progress)
        if allotted is not None:
            told += allotted.notes(rows, chosen, str(spec.audit.budget))
            rows, chosen = allotted.rows(rows, spec.seed), allotted.layers(chosen)
        named = {"name": gate.model, "folder": spec.model.resolve().name}
        named |= {"output": collect.output} if collect.output else {}
        matched = outputs.to_json() if outputs else {}
        # The texts, the model, and what makes a trace of them: the tokens and the outputs' names.
        made_of = texts.fingerprint, network.fingerprint, rows.fingerprint, names
        job = cls(
            trace=out / "trace",
            battery=spec.battery,
            plain={**spec.to_json(), "fingerprint": content_key(*made_of)}
            | ({} if allotted is None else {"allotted": asdict(allotted)}),
            progress=progress,
            replay=spec.model if pool.shares else network,
            pool=pool,
            spec=spec,
            corpus=texts,
            encoded=rows,
            gate=gate,
            chosen=chosen,
            names=names,
            about={**named, "fingerprint": network.fingerprint, **matched},
            remarks=[*told, *gate.notes, *notes_of(texts, encoded, outputs)],
            positions=positions,
        )
        if spec.battery.chosen:
            # Refused before all texts are collected. Whether an experiment can use the trace does
            # not depend on the form of the tail, and a graph takes seconds.
            shortest = np.argsort(rows.ids.lengths)[:1]
            copied = replace(spec.replacement, texts=spec.replacement.texts and len(rows))
            tried = replace(job, spec=replace(spec, replacement=copied), progress=silent)
            options = {"part": shortest, "graph": False}
            first = next(tried.shards(model, rows, job.origin(model), **options))
            require_usable((make_experiment(*one) for one in spec.battery.settings.items()), first)
        return job

    def recipe(self) -> Recipe:
        """Return the steps of the audit."""

        def inputs(folder):
            names = ("fingerprint", "corpus", "collect", "replacement", "seed")
            own = self.plain.get("allotted")
            return [*(self.plain[name] for name in names), self.positions, *([own] if own else [])]

        def work(folder, made):
            return self.collect(None if self.pool.shares else self.replay.model, folder, made)

        collect = Step(COLLECT, inputs, ("trace",), work)
        report = report_step(self.progress, pages())
        return Recipe(self.plain, [collect, self.audit_step(), report], self.facts)

    @property
    def traced(self) -> Encoded:
        """All texts, as tokens."""
        return self.encoded

    @property
    def shard_rows(self) -> int:
        """As many texts as make a file."""
        return texts_of_a_shard(self.encoded, self.chosen, self.names)

    def sent(self) -> Job:
        """Leave the texts out too."""
        return replace(super().sent(), encoded=None)

    def load(self) -> Any:
        """Load the model."""
        return one_output(load_pretrained(self.spec.model), self.spec.collect.output)

    def shards(
        self,
        model: Any,
        rows: Encoded,
        origin: Mapping[str, Any],
        folder: Path | None = None,
        part: np.ndarray | None = None,
        graph: bool = True,
    ) -> Iterator[Trace]:
        """Trace texts."""
        return collect_shards(
            model,
            rows,
            self.gate,
            self.chosen,
            folder,
            class_names=self.names,
            scores=defined_measures(model, self.spec.collect.scores or USUAL),
            heatmap=self.spec.collect.heatmap,
            replacement=self.spec.replacement,
            part=part,
            metadata=origin,
            budget=self.spec.collect.batch,
            shard_texts=texts_of_a_shard(rows, self.chosen, self.names),
            graph=graph,
            progress=self.progress,
        )

    @property
    def task(self) -> str:
        """Task of the model."""
        return "language_modelling" if self.corpus.kind == "causal-lm" else self.corpus.kind

    @property
    def sizes(self) -> dict[str, Any]:
        """Number of texts."""
        return {"rows": len(np.unique(self.encoded.instance))}

    def notes(self, folder: Folder | None) -> list[str]:
        """Return remarks on the texts, the model and how they were read."""
        return self.remarks

    def described(self, model: Any) -> dict[str, Any]:
        """Return the name, folder and fingerprint of the model, and its classes."""
        return self.about

    def origin(self, model: Any, folder: Folder | None = None) -> dict[str, Any]:
        """Add the checks."""
        return {**super().origin(model, folder), "gate": self.gate.to_json()}


def _allotted(
    spec: TransformerSpec,
    out: Path,
    network: Replay,
    rows: Encoded,
    chosen: tuple[Chosen, ...],
    progress: Progress,
) -> Allotted | None:
    """Return the texts and heads that fit into the budget; None if no layer is run again.

    A resumed run keeps those that it began with.
    """
    if spec.audit.budget is None or all(one.layer.way == "position" for one in chosen):
        return None
    if (out / SPEC).exists():
        return Allotted(**read_spec(out)["allotted"])
    experiments = (make_experiment(*one) for one in spec.battery.settings.items())
    limit = spec.audit.budget, spec.audit.seconds
    fits = allot(network, rows, chosen, experiments, spec.replacement, limit, spec.seed)
    shown = f"{count(fits.texts, 'text')}, {count(len(fits.heads), 'head')} a layer"
    progress(f"estimate {fits.seconds:.0f} s of CPU time, {shown}", 0, 0)
    # If nothing is left out, nothing depends on seconds, and two runs have the same bytes.
    return fits if fits.notes(rows, chosen, "") else replace(fits, seconds=0.0, of_all=0.0)


def _task_ahead(spec: TransformerSpec) -> ModelTask:
    """Return the task of a model, or refuse what its configuration shows that it cannot do."""
    collect, roles = spec.collect, spec.corpus
    name, config = read_config(spec.model)
    task, heads = task_of_class(name, config.is_encoder_decoder), heads_by_config(config)
    if task is None:
        raise no_task(name)
    if task == "question-answering":
        require_end(name, collect.output)
        if roles.get("question") is None and spec.source not in CORPORA:
            raise no_question(spec.source)
    require_heatmap(collect.heatmap, heads or None)
    answers = roles.get("answer") is not None or collect.generate is not None
    positions_of(task, collect.positions, answers)
    if task == "causal-lm" and roles.get("question") is not None and not answers:
        got = "questions for a language model, and no answers"
        do = "--column answer=NAME, or let it write them: --set collect.generate=20"
        raise InputError("read texts", spec.source, got, "a column of answers", do)
    return task


def _read(spec: TransformerSpec, task: ModelTask, progress: Progress) -> Texts:
    """Read as many texts as are asked for, drawn by the seed and in their order."""
    texts = read_texts(
        spec.source,
        task,
        split=spec.collect.split,
        seed=spec.seed_of_corpus,
        progress=progress,
        draw=spec.draw,
        **{name: value for name, value in spec.corpus.items() if name != "seed"},
    )
    texts = _not_trained_on(with_segments(texts, spec.collect.segments), spec.model)
    draw, rows = spec.draw, max(texts.drawn_from, len(texts))
    if rows <= draw.size:
        return texts
    chosen = texts if len(texts) < rows else texts.take(draw.of(rows))
    note = f"{draw.size} of {rows} texts, drawn with seed {spec.seed}"
    return replace(chosen, notes=(*texts.notes, note))


def _not_trained_on(texts: Texts, model: Path) -> Texts:
    """Add a remark if a model that was trained by this package may have seen some of the texts."""
    try:
        name = read_manifest(model.parent)["corpus"]["name"]
        seed = read_spec(model.parent)["seed"]
    except (RunError, LookupError, TypeError):  # a model of elsewhere
        return texts
    if texts.split[0] != "all" or name != texts.name:
        return texts
    remark = (
        "the model was trained on rows of a corpus of this name; "
        f"collect.split=test with --seed {seed} reads those that it has not seen"
    )
    return replace(texts, notes=(*texts.notes, remark))
