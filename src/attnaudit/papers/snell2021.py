"""Snell et al. 2021: what attention is learned from, and when it is not: on copied sequences."""

from __future__ import annotations

from typing import Any

from attnaudit.core.papers import SNELL2021
from attnaudit.papers.declaration import Cell, Declaration, Table
from attnaudit.training.probe import STEPS


def until(last: int) -> tuple[int, ...]:
    """Return the steps of the paper up to ``last``: on a small corpus, tens of epochs."""
    return tuple(step for step in STEPS if step <= last)


# Steps and probe by cost: leave-one-out of the probe, at every step of every seed, takes nearly all
# of the time.
CORPORA: dict[str, dict[str, Any]] = {
    "sst": {"dynamics.steps": until(4000)},
    "sms_spam": {"dynamics.steps": until(2000)},
    "ag_news": {"corpus.train_kept": 0.1, "corpus.test_kept": 0.5, "dynamics.steps": until(4000)},
    "20news_sports": {"dynamics.steps": until(1000), "dynamics.probe": 100},
    "imdb": {
        "corpus.train_kept": 0.1,
        "corpus.test_kept": 0.05,
        "dynamics.steps": until(1000),
        "dynamics.probe": 100,
        "dynamics.seeds": 3,
    },
    "multi30k_en_de": {"dynamics.steps": until(2000), "dynamics.probe": 50, "dynamics.seeds": 2},
}
# The task as released, and other settings that may decide whether permutations are learned.
_TIED = {"copying.preset": "tied"}
_HALF, _QUARTER, _SMALL = (
    {**_TIED, "copying.embedding_scale": scale} for scale in (0.5, 0.25, 0.0625)
)
_LEARNED = {"copying.pretraining": 200}
COPIED: dict[tuple[str, str], dict[str, Any]] = {
    ("permutations", ""): {},
    ("distinct", ""): {},
    ("iid", ""): {},
    **{(kind, "tied"): _TIED for kind in ("permutations", "distinct", "iid")},
    ("permutations", "tied-8_heads"): {**_TIED, "copying.heads": 8},
    ("permutations", "tied-pretrained"): {**_TIED, **_LEARNED},
    ("permutations", "tied-half"): _HALF,
    ("permutations", "tied-quarter"): _QUARTER,
    ("permutations", "tied-small"): _SMALL,
    ("permutations", "tied-small-pretrained"): {**_SMALL, **_LEARNED},
    ("iid", "tied-quarter"): _QUARTER,
    ("iid", "tied-small"): _SMALL,
}
SCORES = {
    "relevance": "r",
    "uniform": "rᵘ",
    "loo": "LOO",
    "embedding": "mean embedding",
    "logistic": "logistic",
}

DECLARATION = Declaration(
    paper=SNELL2021,
    question="What is attention learned from, and when is it not learned?",
    cells=(
        *(
            Cell(
                kind,
                study="copying",
                variant=variant,
                settings={**own, "copying.precision": "float32"},
                vectors=False,
            )
            for (kind, variant), own in COPIED.items()
        ),
        *(
            Cell(corpus, study="dynamics", settings=own, vectors=corpus != "multi30k_en_de")
            for corpus, own in CORPORA.items()
        ),
    ),
    quick=(
        Cell("permutations", study="copying", quick=True, vectors=False),
        Cell("iid", study="copying", quick=True, settings={"copying.seeds": 2}, vectors=False),
        Cell("sst", study="dynamics", quick=True),
    ),
    page="dynamics.md",
    tables=(
        Table(
            "Copying: shares of seeds, and medians over seeds",
            {
                "succeeded#n": "seeds",
                "succeeded": "succeeded",
                "stopped": "token accuracy of the others, median",
                "stopped_least": "least",
                "stopped_most": "most",
                "attending": "come to attend",
                "upside_down": "upside down",
                "token_accuracy": "token",
                "attention_accuracy": "attention",
                "relevance_accuracy": "relevance",
                "agreement": "agreement",
                "attended": "attended",
                "lead": "lead of relevance (steps)",
                "relevance_entropy": "entropy of attention at that point",
            },
            "copying",
        ),
        Table(
            "Final models: agreement A on all of test (translators: on the traced pairs)",
            {
                "accuracy": "accuracy",
                **{f"agreement_alpha_{name}": f"A(α, {shown})" for name, shown in SCORES.items()},
                "agreement_loo_uniform": "A(LOO, rᵘ)",
                "agreement_alpha_uniform_elsewhere": "A(α, rᵘ elsewhere)",
                "chance": "chance",
            },
            "dynamics",
        ),
        Table(
            "Final models: Kendall's τ",
            {
                **{f"tau_alpha_{name}": f"τ(α, {shown})" for name, shown in SCORES.items()},
                "tau_relevance_uniform": "τ(r, rᵘ)",
                "tau_loo_uniform": "τ(LOO, rᵘ)",
            },
            "dynamics",
        ),
        Table(
            "Accuracy of the compared models",
            {
                "accuracy": "learned attention",
                "accuracy_uniform": "uniform attention",
                "accuracy_embedding": "mean embedding",
                "accuracy_logistic": "logistic regression",
            },
            "dynamics",
        ),
        Table(
            "During training: all seeds, on the probe, by optimizer step",
            {
                "agreement_alpha_uniform": "A(α, rᵘ)",
                "agreement_alpha_relevance": "A(α, r)",
                "agreement_reference_alpha": "A(α₀, α)",
                "agreement_reference_relevance_uniform": "A(α₀, rᵘ at this step)",
                "agreement_reference_relevance_elsewhere_uniform": (
                    "A(α₀, rᵘ elsewhere at this step)"
                ),
                "accuracy": "accuracy",
                "entropy": "entropy of α",
            },
            "dynamics",
            by="step",
        ),
        Table(
            "Before or after the output? The seeds after the first, on the probe; α₀ is the "
            "final attention of the first",
            {
                "xi": "ξ",
                "xi_step": "step of ξ",
                "xi_early": "share without a checkpoint before it",
                "best_accuracy": "best accuracy, chosen on test",
                "best_accuracy_minus_xi": "best minus ξ",
                "xi_reached": "A(α₀, α), highest, chosen on test",
                "xi_threshold": "A(α₀, rᵘ)",
            },
            "dynamics",
        ),
    ),
)
