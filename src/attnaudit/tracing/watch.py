"""Watching a model train: traces of a probe, one after each of the chosen optimizer steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.corpora import Split
from attnaudit.corpora.corpus import Pairs
from attnaudit.models.classifier import AttentionModel
from attnaudit.models.translator import Translator
from attnaudit.trace import Trace, write_shards
from attnaudit.trace.probe import Probe, step_part
from attnaudit.tracing.pairs import collect_pairs
from attnaudit.tracing.settings import CollectSettings, PairCollectSettings
from attnaudit.tracing.texts import collect_shards
from attnaudit.training.loop import StepCallback


def watching(
    model: AttentionModel, test: Split, probe: Probe, folder: Path, collect: CollectSettings, metadata: Mapping[str, Any]
) -> StepCallback:  # fmt: skip
    """What `train` is to be given so that ``folder/steps/<step>`` holds the trace of the probe after that many updates of ``model``.

    Every file is whole or not there, and says in its metadata after which ``step`` it is. Raises InputError for a split without rows.
    """
    if not len(test):
        raise InputError("watch training", "test split", "no rows", "one row or more to trace")
    split = test.take(probe.rows(test.instance))
    return _watch(probe, folder, lambda step: collect_shards(model, split, "test", **asdict(collect), metadata={**metadata, "step": step}))


def watching_pairs(
    translator: Translator, test: Pairs, probe: Probe, folder: Path, collect: PairCollectSettings, metadata: Mapping[str, Any]
) -> StepCallback:  # fmt: skip
    """As `watching`, for a translator and the probe's pairs."""
    pairs = test.take(probe.rows(test.instance))
    return _watch(probe, folder, lambda step: collect_pairs(translator, pairs, "test", collect, metadata={**metadata, "step": step}))


def _watch(probe: Probe, folder: Path, shards: Callable[[int], Iterable[Trace]]) -> StepCallback:
    def look(step: int) -> None:
        write_shards(folder / step_part(step), shards(step))

    return StepCallback(probe.steps, look)
