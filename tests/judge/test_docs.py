"""The example of the documentation runs as it stands."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/model.md"


@pytest.mark.slow
def test_the_example_names_the_better_score(tmp_path, monkeypatch, capsys):
    section = PAGE.read_text().partition("## Heatmaps of any kind")[2]
    (program,) = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(program, names)
    table = names["results"].table()  # pyright: ignore
    assert table["score"].to_list()[-1] != "lexicon"
    rows = {row["score"]: row for row in table.iter_rows(named=True)}
    assert rows["lexicon"]["minus_heatmap_low"] > 0.0
    assert (tmp_path / "runs/judged/report.html").is_file()
    assert "VERDICT" in capsys.readouterr().out
