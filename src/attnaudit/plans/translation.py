"""What a translation run is: its whole resolved configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attnaudit.core.errors import InputError
from attnaudit.core.settings import coerce, override
from attnaudit.plans.spec import PLANTED, SCHEMA, experiment_settings, unwatched

if TYPE_CHECKING:
    from attnaudit.core.progress import Progress
    from attnaudit.corpora.parallel import ParallelCorpus
    from attnaudit.models.seq2seq import PairSettings
    from attnaudit.trace.probe import Probe
    from attnaudit.tracing.pairs import PairCollectSettings
    from attnaudit.training.loop import TrainingSettings
    from attnaudit.training.pairs import DeceivePairs

PairPreset = Literal["small", "paper"]
_LEARNING_RATE = 1e-3
_MADE = ("size", "length", "symbols")  # what a planted corpus is made with
_EITHER = ("source", "data_dir", "units", "pieces", "min_df", "seed", *_MADE)  # what a planted corpus may be told


@dataclass(frozen=True)
class ParallelSpec:
    """Where the pairs come from: a registered name, a folder of files ``<split>.<ending>``, or ``planted-<kind>``.

    ``source_ending``, ``target_ending``, ``dev`` and ``test`` name the files of a folder; of a registered corpus only ``test`` can be
    chosen. ``units`` are ``pieces``, of which at most so many are learned from train, or the ``words`` that white space parts, each in at
    least ``min_df`` train texts; None is the corpus's own. ``seed`` draws what is kept, or made; None is the run's. ``size``, ``length``
    (fewest and most words) and ``symbols`` (different words of a side) are of planted corpora alone.
    """

    source: str
    data_dir: str | None = None
    source_ending: str = "src"
    target_ending: str = "trg"
    dev: str = "dev"
    test: str = "test"
    max_words: int = 100
    on_bad_row: Literal["error", "skip"] = "error"
    train_kept: float = 1.0
    test_kept: float = 1.0
    units: Literal["pieces", "words"] | None = None
    pieces: int = 4000
    min_df: int | None = None
    seed: int | None = None
    size: int | None = None
    length: tuple[int, int] | None = None
    symbols: int | None = None

    def __post_init__(self) -> None:
        if self.min_df is not None and self.min_df < 1:
            raise InputError("read settings", "setting corpus.min_df", str(self.min_df), "1 or more, or none for the corpus's own")

    def read(self, seed: int, progress: Progress) -> ParallelCorpus:
        """The pairs, drawn with this spec's own seed, else with ``seed``. Raises InputError, also for a setting that they have not."""
        from attnaudit.corpora.named.pairs import locate_pairs
        from attnaudit.corpora.parallel import ReadingOfPairs, read_parallel
        from attnaudit.corpora.planted.pairs import planted_pairs

        self._refuse_unused()
        seed = seed if self.seed is None else self.seed
        if self.planted:
            made = {name: value for name in _MADE if (value := getattr(self, name)) is not None}
            return planted_pairs(self.source.removeprefix(PLANTED), seed, **made)
        how = ReadingOfPairs(
            (self.source_ending, self.target_ending), self.dev, self.test, self.max_words, self.on_bad_row, self.train_kept, self.test_kept
        )
        folder, name, how = locate_pairs(self.source, self.data_dir, how)
        return read_parallel(folder, name, how, seed, lambda split, rows: progress(f"read {split}", rows, 0))

    def _refuse_unused(self) -> None:
        for field in fields(self):
            foreign = field.name not in _EITHER if self.planted else field.name in _MADE
            if foreign and getattr(self, field.name) != field.default:
                expected = "a corpus that is read from files" if self.planted else f"a corpus {PLANTED}<kind>"
                raise InputError("read settings", f"setting corpus.{field.name}", f"corpus {self.source}", expected)

    @property
    def planted(self) -> bool:
        """Whether the pairs are made up: a known kind, or one that is neither known nor a folder."""
        from attnaudit.corpora.planted.pairs import PLANTED_PAIRS

        return self.source in PLANTED_PAIRS or (self.source.startswith(PLANTED) and not Path(self.source).is_dir())

    @property
    def chosen_units(self) -> Literal["pieces", "words"]:
        from attnaudit.corpora.named.pairs import PARALLEL

        if self.planted:
            return self.units or "words"
        return self.units or (PARALLEL[self.source].units if self.source in PARALLEL else "pieces")

    @property
    def chosen_min_df(self) -> int:
        """A word that one text has teaches nothing of it; a piece is in many texts, and so is each planted word."""
        if self.min_df is not None:
            return self.min_df
        return 2 if self.chosen_units == "words" and not self.planted else 1


@dataclass(frozen=True)
class Decoding:
    """``beam`` targets are kept at each step; 1 is the greedy choice."""

    beam: int = 5

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise InputError("read settings", "setting decode.beam", str(self.beam), "1 or more")


@dataclass(frozen=True)
class TranslationSpec:
    """One training of a translator, its translations and the audit of its attention, with every setting resolved.

    In a study an ``objective`` may stand in the place of the loss on gold tokens, and a ``probe`` be traced while the model trains.
    """

    corpus: ParallelSpec
    model: PairSettings
    training: TrainingSettings
    collect: PairCollectSettings
    decode: Decoding
    experiments: Mapping[str, Mapping[str, Any]]
    preset: PairPreset = "small"
    seed: int = 0
    device: str = "auto"
    objective: DeceivePairs | None = None
    probe: Probe | None = None

    @classmethod
    def of(
        cls, source: str | Path, *, preset: str = "small", seed: int = 0, device: str = "auto", data_dir: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> TranslationSpec:  # fmt: skip
        """A run of ``source``; ``settings`` are dotted names, as ``{"training.epochs": 4}``. Raises InputError."""
        chosen: PairPreset = coerce(preset, PairPreset, "preset")
        sections = {"corpus": ParallelSpec(str(source), data_dir), **_sizes(chosen), "decode": Decoding()}
        given = dict(settings or {})
        own = {key: value for key, value in given.items() if key.partition(".")[0] in sections}
        changed = override(sections, own)
        experiments = experiment_settings({key: value for key, value in given.items() if key not in own})
        return cls(**changed, experiments=experiments, preset=chosen, seed=seed, device=device)

    def to_json(self) -> dict[str, Any]:
        """What ``spec.json`` holds, apart from the fingerprint of the corpus.

        A corpus whose making is not set does not say so: it is the same as before there was a choice.
        """
        plain = json.loads(json.dumps(asdict(self)))
        for name in _MADE:
            if plain["corpus"][name] is None:
                del plain["corpus"][name]
        return {"schema": SCHEMA, "kind": "translation", **unwatched(plain)}

    @property
    def name(self) -> str:
        """``<corpus>-<attention>-s<seed>``, the default name of the run directory."""
        return f"{Path(self.corpus.source).name}-{self.model.attention}-s{self.seed}"


def _sizes(preset: PairPreset) -> dict[str, Any]:
    """``paper``: as Snell et al. 2020 say; ``small``: one layer each, which two cores train in a quarter of an hour or two."""
    from attnaudit.models.seq2seq import PairSettings
    from attnaudit.tracing.pairs import PairCollectSettings
    from attnaudit.training.loop import TrainingSettings

    model = PairSettings(layers=2, dropout=0.5) if preset == "paper" else PairSettings()
    training = TrainingSettings(
        epochs=30, batch_size=64, learning_rate=_LEARNING_RATE, weight_decay=0.0, class_weight=False, patience=4, plateau=1, select="loss"
    )
    return {"model": model, "training": training, "collect": PairCollectSettings()}
