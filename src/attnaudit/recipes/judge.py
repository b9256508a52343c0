"""Judge heatmaps of any kind on any classifier."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attnaudit.core import expanded
from attnaudit.experiments import audit
from attnaudit.recipes.audit import audit_into
from attnaudit.results import Results
from attnaudit.steps import SPEC, read_spec, refuse_other
from attnaudit.tracing.judged import JudgeOptions, Predict, collect_scores
from attnaudit.tracing.strings import OPERATION

TRACE = "trace"  # as in the folder of a run


def judge(
    predict: Predict,
    texts: Iterable[Any],
    scores: Any,
    *,
    out: str | Path | None = None,
    **options: Any,
) -> Results:
    """Judge scores of words by what a classifier says when words are replaced.

        results = aa.judge(predict, texts, {"lime": lime_scores, "shap": explanation})
        results.show()
        results.table()

    Every score is measured on the same texts, beside leave-one-out and a random score.

    Args:
        predict: Function from a list of texts to probabilities: (n, C), or (n,) of the second of
            two classes. A text's probabilities must not depend on the other texts of a call.
        texts: Strings, or lists of words, which are joined by blanks.
        scores: A mapping of names to scores, or a table of several. A score is a list with an
            array (T,) of values for the T words of each text, or (T, C) for each class; a function
            from a text to these; a tensor (n, T), as Captum returns; an explanation of SHAP or
            Inseq, whose tokens are added up to words; or a table with a row for each word, which
            has the number of its ``text``, the ``word`` and its score, or with a list for each
            text. Values count by their size.
        out: Folder for the results, the page and the trace.
        **options: Fields of `JudgeOptions`: ``shown``, ``labels``, ``class_names``, ``words``,
            ``replacement``, ``batch``, ``name``, ``progress``.

    Returns:
        The results of an audit. The verdict is about the score that is shown.

    Raises:
        InputError: For scores that do not fit the texts, and for a function that does not return
            probabilities, or others in another batch.
        RunError: If ``out`` holds something else.

    References:
        Cohen-Wang et al. 2024; DeYoung et al. 2020.
    """
    folder = None if out is None else expanded(out)
    if folder is not None:
        is_own = (folder / SPEC).exists() and read_spec(folder).get("kind") == "audit"
        refuse_other(OPERATION, folder, is_own, "an earlier one", "choose another folder")
    trace = collect_scores(predict, texts, scores, JudgeOptions(**options))
    if folder is not None:
        trace.write(folder / TRACE)
        audit_into(folder, folder / TRACE)
    return audit(trace)
