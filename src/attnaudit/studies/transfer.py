"""Can attention carry decisions from one model to another?"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import polars as pl

from attnaudit.core.papers import WIEGREFFE2019
from attnaudit.core.settings import setting
from attnaudit.corpora.corpus import Corpus
from attnaudit.experiments.prediction import Prediction
from attnaudit.plans.spec import RunSpec
from attnaudit.plans.training import Training, TrainingId, seeded, usual
from attnaudit.results import SIGNED, Measure
from attnaudit.stats.crossed import f1_terms
from attnaudit.studies.adversary import ModelAdversary
from attnaudit.studies.guide import guided
from attnaudit.studies.over_seeds import SummaryRows, by_seed, crossed_row
from attnaudit.studies.study import (
    NEARLY,
    PLATEAU,
    Hypothesis,
    Study,
    Traces,
    following,
    labelled,
    same_instances,
    stack,
    trace_rows,
    with_seeds,
)

DONORS = ("own", "base", "adversary")


@dataclass(frozen=True)
class Transfer(Study):
    """Train a token-wise student with a donor's attention, and with the same weights shuffled.

    The student is that of `Guide`: embedding, 128 tanh units, weighted sum, linear output, trained
    on labels. Donors are ``own``, a student of the next seed that learned its attention; ``base``,
    the model under study; and ``adversary``, a `ModelAdversary` of the base. Each seed has its own
    donors. Weights are shuffled within a text, alike for all seeds and donors. ``uniform`` is a
    student with equal weights.

    The table has a row per donor, seed and instance with the ``label``, the class that the donor
    ``decided``, and the classes that students predict with the donor's weights (``predicted``),
    with these ``shuffled`` and with ``even`` weights; rows of uniform have only ``predicted``.

    The summary has the student's ``f1_macro`` and, for each donor, ``agreement``: the share of
    texts where student and donor decide alike. ``gain`` is that minus the agreement with shuffled
    weights, ``gain_errors`` the gain on texts that the donor gets wrong, and ``over_uniform``
    the agreement minus that with equal weights. F1 may rise because some words are useful to any
    model; agreement on the donor's errors does not rise for that reason.
    """

    name = "transfer"
    question = "Does attention carry a model's decisions to another model?"
    paper = WIEGREFFE2019
    measures = (
        Measure(
            "gain",
            "gain in agreement over shuffled weights",
            "Share of texts where student and donor decide alike, minus the share with the donor's "
            "weights shuffled within each text.",
            range=SIGNED,
        ),
        Measure(
            "gain_errors",
            "gain in agreement on the donor's errors",
            "Gain in agreement over shuffled weights, on texts that the donor gets wrong.",
            range=SIGNED,
        ),
        Measure(
            "over_uniform",
            "gain in agreement over equal weights",
            "Share of texts where student and donor decide alike, minus the share with equal "
            "weights.",
            range=SIGNED,
        ),
        Measure(
            "agreement",
            "agreement with the donor",
            "Share of texts where student and donor decide alike.",
        ),
        Prediction.measures[2],
    )
    hypotheses = (
        Hypothesis("Attention carries the base's decisions to a student.", "gain_base", low=0.0),
        Hypothesis("It carries more of them than equal weights do.", "over_uniform_base", low=0.0),
        Hypothesis(
            "It carries the base's errors too, not only words that are useful to any model.",
            "gain_errors_base",
            low=0.0,
        ),
        Hypothesis(
            "An adversary's attention carries decisions too, so transfer does not show that "
            "attention is faithful.",
            "gain_adversary",
            low=0.0,
        ),
    )
    exclusions = (
        "No training and no text is left out of agreement and F1.",
        "Gains on errors are measured on the texts that the donor of the seed gets wrong.",
        "If the base models are not shown to beat the majority, nothing is concluded.",
        "Seen before: with one seed each, F1 of students with given weights on SST, 20News, AG "
        "News and IMDB, where an adversary's weights raised F1; two seeds of this study on SST.",
    )
    quick: ClassVar = NEARLY
    full: ClassVar = PLATEAU
    published: ClassVar = "guide"
    strength: float = setting("λ of the adversaries that are donors.", 1e-3, least=0)
    seeds: int = setting("Number of trainings (seeds) with each choice of weights.", 10, least=1)

    def variants(self) -> list[str]:
        """Return the choices of weights in their order."""
        return [
            "uniform",
            "learned",
            *(f"{one}{how}" for one in DONORS for how in ("", "_shuffled")),
        ]

    def trainings(self, base: RunSpec, corpus: Corpus) -> Iterator[Training]:
        """Train the donors, and students with their weights, with every seed."""
        self.check_texts(corpus)
        self.check_model(base.model, words=True)
        adversary = ModelAdversary.as_long_as(base.training)
        lean = replace(base, replacement=replace(base.replacement, texts=0))
        specs = list(with_seeds(lean, self.seeds + 1))
        seeds = [spec.seed for spec in specs[:-1]]
        for spec, other in pairwise(specs):
            first = usual(base, spec.seed)
            # The next seed; after the last comes the first, as in the study complexity.
            against = seeded(base, following(seeds)[spec.seed])
            donors = {
                "own": guided(other, "learned", None),
                "base": first,
                "adversary": adversary.against(first, against, self.strength),
            }
            yield first
            yield guided(spec, "uniform", None)
            for name, donor in donors.items():
                yield guided(spec, name, donor)
                yield guided(spec, f"{name}_shuffled", donor)

    def __call__(self, traces: Traces) -> pl.DataFrame:
        """Compare what students and donors decide, text by text."""
        same_instances(traces)

        def decided(role, seed, variant="", strength=None):
            return traces[TrainingId(role, seed, variant, strength)].predicted

        parts = []
        seeds = sorted(one.seed for one in traces if one.role == "base")
        for seed, against in following(seeds).items():
            donors = {
                "own": decided("guide", seed + 1, "learned"),
                "base": decided("base", seed),
                "adversary": decided("adversary", against, strength=self.strength),
            }
            trace = traces[TrainingId("base", seed)]
            for name in ("uniform", *DONORS):
                columns = {"predicted": decided("guide", seed, name)}
                if name in donors:
                    columns["shuffled"] = decided("guide", seed, f"{name}_shuffled")
                    columns["even"] = decided("guide", seed, "uniform")
                    columns["decided"] = donors[name]
                rows = trace_rows(trace, label=trace.array("label"), **columns)
                parts.append(labelled(rows, model=name, seed=seed))
        return stack(parts)

    def summary_rows(self, table: pl.DataFrame) -> SummaryRows:
        """Score students by the weights given, and compare them with their donors."""
        for name in ("uniform", *DONORS):
            columns = ("label", "predicted", "decided", "shuffled", "even")
            label, predicted, decided, shuffled, even = by_seed(table.filter(model=name), columns)
            f1 = f1_terms(label[0].astype(np.int64), predicted.astype(np.int64))
            yield crossed_row(self, f"f1_macro_{name}", f1, 1.0)
            if name != "uniform":
                agreement = 1.0 * (predicted == decided)
                gain = agreement - (shuffled == decided)
                errors = np.where(decided == label, np.nan, gain)
                yield crossed_row(self, f"agreement_{name}", agreement, 1.0)
                yield crossed_row(self, f"gain_{name}", gain, 1.0)
                yield crossed_row(self, f"gain_errors_{name}", errors, 1.0)
                yield crossed_row(self, f"over_uniform_{name}", agreement - (even == decided), 1.0)
