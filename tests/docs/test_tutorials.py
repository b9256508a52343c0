"""The tutorial notebooks run from their first cell to their last, and are stored without outputs."""

import json
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

TUTORIALS = sorted((Path(__file__).parents[2] / "docs/tutorials").glob("*.ipynb"))
SHOWN = {
    "audit_a_dataframe": ("aa-claim", "<svg", "aa-tokens"),
    "own_torch_model": ("aa-claim", "aa-tokens", "median Δŷ"),
}


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of the libraries that run notebooks
def test_a_tutorial_runs(path, tmp_path, monkeypatch):
    """Its cells are run by IPython, as a kernel runs them, but in this process, which has imported everything."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    shell: Any = InteractiveShell()
    shown = ""
    for code in cells(path):
        with capture_output() as said:
            done = shell.run_cell(code)
        done.raise_error()
        shown += "".join(output.data.get("text/html", "") for output in said.outputs)
        shown += shell.display_formatter.format(done.result)[0].get("text/html", "")
    assert [part for part in SHOWN[path.stem] if part not in shown] == []


def cells(path):
    """The programs of a notebook."""
    return [
        "".join(cell["source"])
        for cell in json.loads(path.read_text())["cells"]
        if cell["cell_type"] == "code"
    ]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_is_stored_without_outputs(path):
    cells = json.loads(path.read_text())["cells"]
    assert [
        cell["id"] for cell in cells if cell.get("outputs") or cell.get("execution_count")
    ] == []
