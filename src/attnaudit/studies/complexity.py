"""Do larger models, fewer rows, longer texts or more classes make attention easy to move?"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
from jaxtyping import Float, Int64

from attnaudit.core.papers import WIEGREFFE2019
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import stream_keys
from attnaudit.core.settings import setting
from attnaudit.corpora.corpus import Corpus
from attnaudit.corpora.registry import CORPORA, Parting
from attnaudit.experiments.adversary.exact import divergence
from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.experiments.confidence import at_same_confidence
from attnaudit.plans.spec import RunSpec
from attnaudit.plans.training import Training, TrainingId, seeded, usual
from attnaudit.results import SIGNED, Measure
from attnaudit.stats.crossed import slope_terms
from attnaudit.stats.measures import LN2, tvd
from attnaudit.studies.adversary import EPSILONS, ModelAdversary
from attnaudit.studies.over_seeds import SummaryRows, by_seed, crossed_row, mean_known
from attnaudit.studies.study import (
    NEARLY,
    PLATEAU,
    Hypothesis,
    Study,
    following,
    labelled,
    same_instances,
    stack,
    trace_rows,
    without_scores,
)
from attnaudit.trace import Readout, Trace

HALVINGS = 50  # until the ends are the same in float64
BASE = "base"
# Sign of the slope if the claim is true, the claim, and the quantity that varies.
FACTORS = {
    "hidden": (1, "more hidden units", "hidden units"),
    "train": (-1, "fewer train rows", "train rows"),
    "length": (1, "longer texts", "words per text"),
    "classes": (1, "more classes", "classes"),
}
OUTCOMES = {
    "area": "how much farther attention can move within ε than towards uniform",
    "held_out": "JSD of a retrained adversary on test, minus that of another seed",
}
EASE = {
    "area": "attention is easier to move in a frozen model",
    "held_out": "a model that attends elsewhere on new texts is easier to train",
}


@dataclass(frozen=True)
class Complexity(Study):
    """Vary width, train rows, text length and classes, one at a time, and try to move attention.

    Each model is trained with several seeds, and with each seed an adversary against it
    (`ModelAdversary`).

    The table has a row per model, seed and instance, with the level of each factor, and for the
    drawn texts ``area``: with the logits scaled until the predicted class has probability 0.9, the
    largest JSD to the model's attention within a TVD of ε, minus the JSD of going towards
    uniform as far as ε allows; the mean over ε from 0.005 to 0.1, over ln 2. ``jsd`` and ``tvd``
    are distances of the adversary from the model, ``seed_jsd`` and ``seed_tvd`` distances of the
    next seed.

    The summary has the means of each model, with ``held_out``, which is ``jsd`` minus ``seed_jsd``;
    and ``slope_<outcome>_<factor>``, the slope on log2 of the factor over the models that differ in
    nothing else.
    """

    name = "complexity"
    question = "Does complexity make attention easy to move?"
    paper = WIEGREFFE2019
    measures = (
        *(
            Measure(name, label, f"{label[0].upper()}{label[1:]}.", range=SIGNED)
            for name, label in OUTCOMES.items()
        ),
        Measure(
            "tvd",
            "mean TVD of the adversary",
            "TVD of the adversary's output from the model's, 0 to 1.",
        ),
        Measure("seed_tvd", "mean TVD of another seed", "The same for another seed, 0 to 1."),
        *(
            Measure(
                f"slope_{name}_{factor}",
                f"{name.replace('_', '-')}, for each doubling of {of}",
                f"Slope on log2 of {of}: {label}.",
                range=None,
            )
            for name, label in OUTCOMES.items()
            for factor, (_, _, of) in FACTORS.items()
        ),
    )
    hypotheses = tuple(
        Hypothesis(
            f"With {more}, {ease}.",
            f"slope_{outcome}_{factor}",
            low=0.0 if sign > 0 else -math.inf,
            high=math.inf if sign > 0 else 0.0,
        )
        for outcome, ease in EASE.items()
        for factor, (sign, more, _) in FACTORS.items()
    )
    exclusions = (
        "A text whose two most likely classes tie has no area.",
        "An adversary counts if its mean TVD on test is at most that of another seed.",
        "A length is tried if at least half of the train texts are longer. Lengths and train rows "
        "vary only in corpora read from files, classes only in corpora that have more.",
        "If the base models are not shown to beat the majority, nothing is concluded.",
        "Seen before: with one seed, retrained adversaries on SST, 20News, AG News and IMDB.",
    )
    quick: ClassVar = {"hidden": (32,), "train": (0.3,), "length": (10,), "texts": 50, **NEARLY}
    full: ClassVar = PLATEAU
    hidden: tuple[int, ...] = setting("Hidden units besides the base's.", (16, 64, 256))
    train: tuple[float, ...] = setting("Shares of the base's train rows.", (0.1, 0.3))
    length: tuple[int, ...] = setting("Largest numbers of words in a text.", (10, 25, 50))
    classes: tuple[int, ...] = setting("Numbers of classes, for corpora that have more.", (2,))
    strength: float = setting("λ of the adversaries.", 1e-3, least=0)
    texts: int = setting("Number of test texts whose area is computed.", 100, least=1)
    # With two seeds, each would be the other's next and both differences the same.
    seeds: int = setting("Number of trainings (seeds) of each model.", 10, least=3)

    def variants(self) -> list[str]:
        """Return the models in their order."""
        return ["", *(f"{name}{one:g}" for name in FACTORS for one in getattr(self, name))]

    def specs(self, base: RunSpec, corpus: Corpus) -> Iterator[tuple[str, RunSpec]]:
        """Yield each variant and its specification; the base's has no name."""
        yield "", base
        lean = without_scores(replace(base, replacement=replace(base.replacement, texts=0)))
        for hidden in self.hidden:
            if hidden != base.model.hidden:
                yield f"hidden{hidden}", replace(lean, model=replace(base.model, hidden=hidden))
        entry = CORPORA.get(base.corpus.source)
        if entry is None or entry.generate is None:
            # Otherwise fewer rows might also mean another vocabulary rule.
            same = replace(base.corpus, min_df=corpus.min_df)
            kept = base.corpus.train_kept or (entry.parting if entry else Parting()).train_kept
            for share in self.train:
                cut = replace(same, train_kept=share * kept)
                yield f"train{share:g}", replace(lean, corpus=cut)
            middle = np.median([len(text) for text in corpus.splits["train"].tokens])
            for length in self.length:
                if length < middle:
                    cut = replace(same, max_tokens=length)
                    yield f"length{length}", replace(lean, corpus=cut)
        for classes in self.classes:
            if classes < len(corpus.class_names):
                cut = replace(base.corpus, classes=classes)
                yield f"classes{classes}", replace(lean, corpus=cut)

    def trainings(self, base: RunSpec, corpus: Corpus) -> Iterator[Training]:
        """Train every model, and an adversary against each, with every seed."""
        self.check_texts(corpus)
        self.check_model(base.model, words=True)
        adversary = ModelAdversary.as_long_as(base.training)
        for variant, spec in self.specs(base, corpus):
            for seed, other in following(range(base.seed, base.seed + self.seeds)).items():
                first = usual(spec, seed)
                first = replace(first, id=replace(first.id, variant=variant))
                yield first
                against = adversary.against(first, seeded(spec, other), self.strength)
                yield replace(against, id=replace(against.id, variant=variant))

    def __call__(self, traces: Any) -> pl.DataFrame:
        """Measure every model against its adversary and the next seed."""
        bases = self.ordered(one for one in traces if one.role == "base")
        others = following(sorted({one.seed for one in bases}))
        return stack(self._of_model(one, others[one.seed], traces) for one in bases)

    def _of_model(self, one: TrainingId, seed: int, traces: Any) -> pl.DataFrame:
        trace, other = traces[one], traces[replace(one, seed=seed)]
        moved = traces[replace(one, role="adversary", seed=seed, strength=self.strength)]
        same_instances({one: trace, "the next seed": other, "the adversary": moved})
        draw = np.lexsort((trace.instance, stream_keys(self.seed, self.name, trace.instance)))
        rows, area = draw[: self.texts], np.full(len(trace), np.nan)
        area[rows] = room(trace, rows)
        several = np.where(trace.lengths > 1, 1.0, np.nan)
        measured = trace_rows(
            trace,
            area=area * several,
            jsd=divergence(trace.alpha, moved.alpha) * several,
            tvd=tvd(trace.prediction, moved.prediction),
            seed_jsd=divergence(trace.alpha, other.alpha) * several,
            seed_tvd=tvd(trace.prediction, other.prediction),
        )
        return labelled(
            measured,
            model=one.variant or BASE,
            seed=one.seed,
            hidden=float(trace.metadata["model"]["hidden"]),
            train=float(one.variant.partition("train")[2] or 1.0),
            length=float(trace.lengths.mean()),
            classes=float(len(trace.class_names)),
        )

    def summary_rows(self, table: pl.DataFrame) -> SummaryRows:
        """Average over seeds and texts, and fit the slopes on each factor."""
        levels, of_seeds = dict[str, Mapping[str, float]](), dict[str, dict[str, Any]]()
        for (model,), part in table.group_by("model", maintain_order=True):
            columns = ("area", "jsd", "tvd", "seed_jsd", "seed_tvd")
            area, jsd, change, seed_jsd, seed_change = by_seed(part, columns)
            terms = {"area": area, "tvd": change, "seed_tvd": seed_change}
            if change.mean() <= seed_change.mean():
                terms["held_out"] = jsd - seed_jsd
            for name, one in terms.items():
                yield crossed_row(self, f"{name}_{model}", one)
            levels[str(model)] = part.select(pl.col(list(FACTORS)).first()).row(0, named=True)
            of_seeds[str(model)] = {name: mean_known(one) for name, one in terms.items()}
        for factor in FACTORS:
            for name in OUTCOMES:
                compared = [
                    model
                    for model, known in of_seeds.items()
                    if name in known and (model == BASE or model.startswith(factor))
                ]
                if len(compared) > 1:
                    x = np.log2([levels[model][factor] for model in compared])
                    slopes = slope_terms(x, np.stack([of_seeds[one][name] for one in compared]))
                    row = crossed_row(self, f"slope_{name}_{factor}", slopes[:, None])
                    known = table.drop_nulls("area" if name == "area" else "jsd")
                    yield row | {"n": known["instance"].n_unique()}


def room(trace: Trace, rows: Int64[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Return how much farther attention can move than towards uniform, within the same ε.

    Args:
        trace: The trace.
        rows: Numbers of the rows.

    Returns:
        The difference of the JSD, a mean over ε by the trapezoidal rule, over ln 2; NaN without a
        decision.
    """
    part = replace(trace, table=trace.table[rows])
    matched, alpha = at_same_confidence(part), part.alpha
    assert matched is not None, "a classifier of texts has an identity tail"
    lead = []
    for epsilon in EPSILONS:
        furthest = Adversary(epsilon=epsilon).bounded(matched.readout, alpha).attention
        even = toward_uniform(matched.readout, alpha, epsilon)
        lead.append(divergence(furthest, alpha) - divergence(even, alpha))
    mean = np.trapezoid(np.stack(lead), EPSILONS, axis=0) / (EPSILONS[-1] - EPSILONS[0])
    return matched.of_decided(mean / LN2)


def toward_uniform(readout: Readout, alpha: Ragged, epsilon: float) -> Ragged:
    """Return the attention as far on the way to uniform as a TVD of ``epsilon`` allows.

    Logits are linear on the way, so the TVD grows along it (monotone likelihood ratios).
    """
    every, contribution = np.arange(len(alpha)), readout.contribution.values
    own, even = (
        alpha.with_values(weight[:, None] * contribution).sum()
        for weight in (alpha.values, 1.0 / alpha.spread(alpha.lengths))
    )
    before = readout.of_sums(own, every)
    # Bisection, which starts with the whole way.
    low, high, middle = np.zeros(len(alpha)), np.full(len(alpha), 2.0), np.ones(len(alpha))
    for _ in range(HALVINGS):
        after = readout.of_sums(own + middle[:, None] * (even - own), every)
        within = tvd(before, after) <= epsilon
        low, high = np.where(within, middle, low), np.where(within, high, middle)
        middle = np.minimum(0.5 * (low + high), 1.0)
    way = alpha.spread(low)
    return alpha.with_values((1.0 - way) * alpha.values + way / alpha.spread(alpha.lengths))
