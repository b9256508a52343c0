"""An encoder from outside the package, as docs/extending.md defines it: registered in one call, or by the entry point of a package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import attnaudit
from attnaudit.core.errors import InputError
from attnaudit.core.settings import parse_assignments
from attnaudit.models.presets import ENCODERS, EncoderSpec, model_preset

DOCS = Path(__file__).parents[1] / "docs" / "extending.md"
SETTINGS = ("corpus.size=60", "corpus.length=10,12", "model.embedding=8", "model.hidden=4", "training.epochs=1")
RUN = ["run", "planted-decisive", "--encoder", "gated", "--vectors", "random", *(part for name in SETTINGS for part in ("--set", name))]


def examples() -> tuple[str, str]:
    """The encoder of the docs, and the call that registers it."""
    section = DOCS.read_text(encoding="utf-8").split("## An encoder")[1].split("\n## ")[0]
    encoder, call = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    return encoder, call


def python(code: list[str], path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), *sys.path]), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *code], env=environment, capture_output=True, text=True, check=False)


def test_an_encoder_registered_in_one_call_runs_to_a_report_that_names_it(tmp_path: Path) -> None:
    encoder, call = examples()
    program = f"{encoder}\n{call}\nfrom attnaudit.cli import main\nraise SystemExit(main({[*RUN, '--out', str(tmp_path / 'run')]!r}))"
    done = python(["-c", program], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "gated + additive on planted-decisive" in done.stdout
    assert "gated + additive" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_an_encoder_of_an_installed_package_is_known_to_every_command(tmp_path: Path) -> None:
    (tmp_path / "my_encoders.py").write_text(examples()[0], encoding="utf-8")
    installed = tmp_path / "my_encoders-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-encoders\nVersion: 1.0\n", encoding="utf-8")
    (installed / "entry_points.txt").write_text("[attnaudit.encoders]\ngated = my_encoders:GATED\n", encoding="utf-8")
    done = python(["-m", "attnaudit", *RUN, "--set", "model.attention_units=3", "--out", str(tmp_path / "run")], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "gated + additive" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "gated" in python(["-m", "attnaudit", "run", "--help"], tmp_path).stdout
    near = python(["-m", "attnaudit", "run", "planted-decisive", "--encoder", "gatd"], tmp_path)
    assert near.returncode == 2
    assert "did you mean gated?" in near.stderr


@pytest.mark.parametrize("encoder", list(ENCODERS))
def test_every_encoder_answers_questions(encoder: str, tmp_path: Path) -> None:
    settings = parse_assignments((*SETTINGS, "corpus.size=40"))
    attnaudit.run("planted-question", tmp_path, encoder=encoder, vectors="random", settings=settings)
    trace = attnaudit.Trace.read(tmp_path)
    assert trace.has("loo", "gradient", "question")


def test_names_and_widths_need_no_torch(tmp_path: Path) -> None:
    code = "import sys, attnaudit.models.presets as p; print(p.model_preset('cnn', 'dot').hidden, *p.ENCODERS, 'torch' in sys.modules)"
    assert python(["-c", code], tmp_path).stdout.split() == ["64", *ENCODERS, "False"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"name": "bilstm"}, "register encoder: bilstm: a name that is taken"),
        ({"name": "my encoder"}, "'my encoder': a name that is no identifier"),
        ({"hidden": 0}, "a width or number of heads below 1"),
        ({"hidden_of": {"flann": 3}}, "hidden_of: 'flann'; expected one of paper, code2019, flan, han; did you mean flan?"),
    ],
)
def test_an_encoder_that_cannot_be_registered_says_why(given: dict, line: str) -> None:
    with pytest.raises(InputError, match=re.escape(line)):
        attnaudit.register_encoder(EncoderSpec(**{"name": "mine", "build": "my_encoders:Mine", "hidden": 4, **given}))


def test_a_preset_has_its_own_width_or_the_usual_one() -> None:
    assert [model_preset("average", "dot", preset).hidden for preset in ("paper", "code2019", "flan", "han")] == [256, 128, 100, 100]
    assert [model_preset("transformer", "dot", preset).hidden for preset in ("paper", "code2019", "flan")] == [128, 128, 100]
    assert {model_preset("none", "dot", preset).hidden for preset in ("paper", "code2019", "flan", "han")} == {1}
