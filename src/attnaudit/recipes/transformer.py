"""Transformers that were saved on disk: their checks, and the audit of their attention."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attnaudit.core import Progress, expanded, require, silent
from attnaudit.core.model_folder import check_model_folder
from attnaudit.plans.audit import TransformerSpec
from attnaudit.steps import SERIAL, Pool, check_place, execute

if TYPE_CHECKING:
    from attnaudit.hf.gate import Gate


def check_folder(folder: Path) -> Gate:
    """Check on short texts of random tokens whether a model's attention can be audited exactly.

    Raises:
        InputError: If the folder holds no model, or one that cannot be read.
    """
    require("hf", f"check {folder}")
    check_model_folder(folder)
    from attnaudit.hf.gate import check_model
    from attnaudit.hf.labels import ENDS
    from attnaudit.hf.load import load_pretrained
    from attnaudit.hf.model import task_of
    from attnaudit.hf.unwrap import one_output

    model = load_pretrained(folder)
    return check_model(
        one_output(model, ENDS[0] if task_of(model) == "question-answering" else None)
    )


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
    place = expanded(out or Path("runs") / spec.name)
    check_place(place, spec.to_json())
    from attnaudit.recipes.saved import SavedTransformer

    return execute(SavedTransformer.read(spec, place, progress, pool).recipe(), place)
