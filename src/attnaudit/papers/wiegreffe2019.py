"""Wiegreffe & Pinter 2019: uniform attention, other seeds, guided MLPs and adversaries."""

from __future__ import annotations

from typing import Any

from attnaudit.core.papers import WIEGREFFE2019
from attnaudit.papers.declaration import Cell, Declaration, Table

STUDIES = ("uniform", "seeds", "guide", "adversary")
# A tenth of train where all of it takes hours; of test, as much as leave-one-out of every seed
# allows.
CORPORA: dict[str, dict[str, Any]] = {
    "diabetes": {},
    "anemia": {},
    "sst": {},
    "20news_sports": {},
    "ag_news": {"corpus.train_kept": 0.1, "corpus.test_kept": 0.5, "seeds.seeds": 5},
    "imdb": {
        "corpus.train_kept": 0.1,
        "corpus.test_kept": 0.05,
        "uniform.seeds": 3,
        "seeds.seeds": 3,
        "guide.seeds": 2,
        # 1.6e-3 is twice the 8e-4 of their Table 4.
        "adversary.strengths": (3e-4, 1e-3, 1.6e-3, 3e-3),
    },
}


def of_study(settings: dict[str, Any], study: str) -> dict[str, Any]:
    """Return those of the settings that a study takes."""
    return {
        key: value
        for key, value in settings.items()
        if key.partition(".")[0] in ("corpus", "training", study)
    }


DECLARATION = Declaration(
    paper=WIEGREFFE2019,
    question=(
        "Is attention needed, is it stable over seeds, does it transfer, and can a model "
        "be trained to another one?"
    ),
    cells=(
        *(
            Cell(corpus, study=study, settings=of_study(own, study))
            for corpus, own in CORPORA.items()
            for study in STUDIES
        ),
        Cell(
            "sst",
            study="uniform",
            config="small-bert",
            settings={"uniform.seeds": 3},
            vectors=False,
        ),
    ),
    quick=tuple(Cell("sst", study=study, quick=True) for study in STUDIES),
    page="studies.md",
    tables=(
        Table(
            "Uniform attention (their Table 2)",
            {
                "f1_base": "F1, learned attention",
                "f1_uniform": "F1, uniform attention",
                **{
                    f"difference_{name}_uniform": f"{title}, uniform minus learned"
                    for name, title in (
                        ("f1", "F1"),
                        ("accuracy", "accuracy"),
                        ("roc_auc", "ROC-AUC"),
                    )
                },
            },
            "uniform",
        ),
        Table(
            "Other seeds",
            {
                "jsd": "JSD of attention",
                "tvd": "TVD of output",
                "tau_alpha": "τ, attention with itself",
                "tau_gradient": "τ, gradient with itself",
                "tau_loo": "τ, leave-one-out with itself",
                "tau_alpha_gradient": "τ, attention – gradient",
                "tau_alpha_loo": "τ, attention – leave-one-out",
            },
            "seeds",
        ),
        Table(
            "An MLP guided by attention (their Table 3)",
            {
                f"f1_{name}": f"F1, {name}"
                for name in ("uniform", "learned", "base", "gradient", "adversary")
            },
            "guide",
        ),
        Table(
            "Adversarially trained models (their Table 4)",
            {"tvd": "mean TVD", "jsd": "mean JSD", "f1": "F1", "flipped": "flipped decisions"},
            "adversary",
            by="model",
        ),
        Table("Area under the curve of TVD and JSD", {"area": "share of the maximum"}, "adversary"),
    ),
    reasons={
        "sst/tvd_adversary_0.001": (
            "λ = 0.001 is their 5e-4, as their TVD counts half; in the record of the docs "
            "another seed of the usual model is no closer, 0.13"
        ),
        "sst/jsd_adversary_0.001": (
            "λ = 0.001 is their 5e-4, as their TVD counts half; the record of the docs has one "
            "seed of each adversary, whose JSD does not rise steadily with λ: 0.38, 0.51, 0.36, "
            "0.64 and 0.67"
        ),
        **{
            f"{corpus}/f1_adversary": (
                "possibly another strength of the adversary, whose attention guides"
            )
            for corpus in ("sst", "imdb")
        },
        "sst": (
            "in the record of the docs GloVe vectors of 50 numbers for the 9163 most frequent "
            "words, in the paper fastText of 300"
        ),
        "20news_sports/f1_uniform": (
            "eight epochs are 280 steps of the texts of the docs' record: trained for 1000 "
            "steps, uniform attention has an accuracy of 0.898 and learned attention of 0.913 "
            "(snell2021, by experiment)"
        ),
        "20news_sports": (
            "in the record of the docs a third of the words have no vector among the 9163"
        ),
        "ag_news": (
            "in the record of the docs a tenth of train and vectors of the 9163 most frequent words"
        ),
        "imdb": (
            "in the record of the docs a tenth of train and vectors of the 9163 most frequent words"
        ),
    },
    missing=dict.fromkeys(
        ("diabetes", "anemia"), "needs MIMIC-III, which PhysioNet gives to credentialed users alone"
    ),
)
