"""The commands about transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnaudit.cli import options as o
from attnaudit.core.extras import require

app = typer.Typer(rich_markup_mode=None)

Folder = Annotated[Path, typer.Argument(metavar="MODEL_DIR", show_default=False, help="The folder that model.save_pretrained has written.")]


@app.callback()
def hf() -> None:
    """Transformers saved on disk.

    \b
    attnaudit hf check models/bert          can its attention be read and replaced exactly?
    """


@app.command(short_help="Show whether the attention of a model can be read and replaced exactly.")
def check(model: Folder, as_json: o.Json = False) -> None:
    """Check on two short texts of random tokens whether the attention of a model can be read and replaced exactly.

    Prints every check with its figure, and the layers whose attention can be audited. A model that fails is refused with one line
    and exit status 2. Nothing is downloaded, and no code of the folder is run.

    \b
    Examples:
      attnaudit hf check models/bert
      attnaudit hf check models/bert --json
    """
    require("hf", f"check {model}")
    from attnaudit.cli.show import show_gate
    from attnaudit.hf.gate import check_model
    from attnaudit.hf.load import load_pretrained

    show_gate(check_model(load_pretrained(model)), as_json)
