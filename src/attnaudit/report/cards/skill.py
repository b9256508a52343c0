"""Notices on models that are not shown to do better than a baseline that learns nothing."""

from attnaudit.experiments.findings import skill
from attnaudit.experiments.verdict import QUALITY
from attnaudit.report.words import figure, with_interval
from attnaudit.results import SummaryRows

_BASELINES = {
    "majority": "always predicting the most frequent label",
    "bleu_copy": "copying the source",
    "bleu_other": "its translations of other sources",
}


def no_skill(rows: SummaryRows, experiment: str, prefix: str = "") -> str:
    """Say that the models of an experiment are not better than a baseline; else nothing.

    Args:
        rows: Summary rows.
        experiment: Experiment or study whose models are judged.
        prefix: Prefix of the measures' names.
    """
    judged = skill(rows, experiment, prefix)
    if judged is None or judged.shown:
        return ""
    label, places = ("accuracy", 2) if judged.measure == "accuracy" else ("BLEU", 1)
    return (
        f"Claim nothing: the model is not shown to be better than {_BASELINES[judged.against]} "
        f"({label} {with_interval(judged.score, places)}, baseline "
        f"{figure(judged.baseline, places)}). Numbers are shown, conclusions are withheld."
    )


def no_skill_of_run(rows: SummaryRows) -> str:
    """Say it of the model of a run, an audit or a translation."""
    return next(filter(None, (no_skill(rows, name) for name in QUALITY)), "")


def skill_unknown(rows: SummaryRows) -> str:
    """Say that no score of the audited model was measured; else nothing."""
    if any(skill(rows, name) for name in QUALITY):
        return ""
    return (
        "The model's accuracy is not measured, so it may be no better than always predicting the "
        "most frequent label. The experiment prediction measures it if texts have labels."
    )
