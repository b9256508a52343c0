"""The command line: what it prints, its exit status, and one line for everything that a user can get wrong."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.main import get_command

import attnaudit
from attnaudit.cli import main
from attnaudit.cli.app import app
from attnaudit.cli.bars import progress
from attnaudit.cli.show import SHOWN_MEASURES
from attnaudit.core import read_json
from attnaudit.studies import EVERY_STUDY
from attnaudit.trace import Trace
from tests.pages import FEW, experiments, summaries_as_pages
from tests.traces import make_trace

SMALL = ["corpus.size=60", "corpus.length=10,12", "model.embedding=8", "model.hidden=4"]
TINY = ["--vectors", "random", "--device", "cpu", "--epochs", "2"]
TINY += [part for setting in SMALL for part in ("--set", setting)]
STAGE = re.compile(r"\d+:\d\d [a-z].*")  # the time since the command began, and what begins then


def fails(capsys, *arguments, status=2):
    """The line that these arguments end with on stderr, below stages of the work alone; nothing may stand on stdout."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == status
    told = capsys.readouterr()
    assert told.out == ""
    *before, line = told.err.splitlines()
    assert line.startswith("attnaudit: ")
    assert all(map(STAGE.fullmatch, before))
    return line


def answers(capsys, *arguments):
    """What these arguments print on stdout; on stderr, which is no terminal here, are stages of the work alone."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 0
    told = capsys.readouterr()
    assert all(map(STAGE.fullmatch, told.err.splitlines()))
    return told.out


def ran(*command, **options):
    """A process that has ended, whatever its status."""
    options = {"capture_output": True, "text": True, "check": False, **options}
    return subprocess.run([str(one) for one in command], **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, made by the command line."""
    out = tmp_path_factory.mktemp("runs") / "tiny"
    assert main(["run", "planted-decisive", *TINY, "--out", str(out)]) == 0
    return out


@pytest.fixture
def quick():
    """Runs have few experiments and no charts."""
    with summaries_as_pages(), experiments(*FEW):
        yield


@pytest.fixture
def trace(tmp_path):
    make_trace(n=12, lengths=(3, 9)).write(tmp_path / "trace")
    return tmp_path / "trace"


@pytest.mark.slow
def test_a_run_prints_its_card_and_where_its_report_is(finished, capsys):
    command = ("run", "planted-decisive", *TINY, "--out", finished)
    said = answers(capsys, *command)
    assert "bilstm + additive on planted-decisive" in said
    assert str(finished / "report.html") in said
    assert len(said.splitlines()) <= 25
    assert "note: planted corpus" in answers(capsys, *command, "--details")
    told = json.loads(answers(capsys, *command, "--json"))
    assert told["run"] == str(finished)
    assert {"question", "figure", "sentence"} <= set(told["card"]["rows"][0])
    assert told["summary"] == read_json(finished / "summary.json")
    assert "planted-decisive" in fails(capsys, "compare", finished), "nobody's tables have it"
    assert "did you mean jain2019?" in fails(capsys, "compare", finished, "--to", "jain2018")


def test_an_audit_prints_its_card(trace, capsys, tmp_path):
    out = tmp_path / "audit"
    asked = ("--experiment", "adversary", "--set", "adversary.epsilon=0.05", "--out", out)
    said = answers(capsys, "audit", trace, *asked)
    assert "no conclusion: the model is not shown to be better than guessing" in said
    assert str(out / "report.html") in said
    detailed = answers(capsys, "audit", trace, *asked, "--details")
    assert "ε-max JSD" in " ".join(detailed.split())
    assert read_json(out / "spec.json")["experiments"]["adversary"]["epsilon"] == 0.05


@pytest.mark.usefixtures("quick")
def test_reports_of_one_run_and_of_several(finished, capsys, tmp_path):
    assert answers(capsys, "report", finished).strip() == str(finished / "report.html")
    index = Path(answers(capsys, "report", finished, finished, "--out", tmp_path / "site").strip())
    assert (
        index.read_text().count("report.html") == 4
    )  # a link to the page of each, and in the data


def test_help_and_version(capsys):
    assert answers(capsys, "--version").startswith("attnaudit 0.")
    for command in get_command(app).commands:  # type: ignore[attr-defined]
        said = answers(capsys, command, "--help")
        assert f"  attnaudit {command}" in said
        assert said == answers(capsys, command, "-h")
    assert answers(capsys, "corpora", "list", "-h") == answers(capsys, "corpora", "list", "--help")


def test_help_of_study_lists_the_studies_and_their_scales(capsys):
    said = " ".join(answers(capsys, "study", "--help").partition("Studies, their")[2].split())
    of_papers = {study.published for study in EVERY_STUDY.values()} - {""}
    for name in (*EVERY_STUDY, "copying", "calibration"):
        assert bool(re.search(rf"\b{name} [A-Z]", said)) == (name not in of_papers)
    assert "seeds Is attention stable? seeds=3; --full: seeds=8" in said


def test_settings_are_listed(capsys):
    said = " ".join(answers(capsys, "run", "--help-settings").split())
    assert "training.epochs" in said
    assert "Largest number of epochs" in said
    assert "adversary.epsilon" in said
    assert "uniform.seeds" not in said
    assert "uniform.seeds" in answers(capsys, "study", "--help-settings")
    assert "training.epochs" not in answers(capsys, "audit", "--help-settings")


def test_no_command_has_more_than_twelve_options_of_its_own():
    shared = {"out", "data_dir", "as_json", "details", "dry_run", "engine", "address"}
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert " ".join(commands) == "demo run audit study compare report reproduce corpora"
    for command in (*commands.values(), *commands["corpora"].commands.values()):
        options = {one.name for one in command.params if one.param_type_name == "option"}
        assert len(options - shared) <= 12, command.name


@pytest.mark.parametrize(
    ("error", "message", "status"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "x"), "x: Permission denied", 2),
        (MemoryError(), "out of memory", 2),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "out of memory", 2),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), "out of memory", 2),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory", 2),
        (RuntimeError("can't start new thread"), "out of memory", 2),
        (RuntimeError("could not execute a primitive"), "out of memory", 2),
        (RuntimeError("Failed to allocate memory for requested buffer"), "out of memory", 2),
        (ImportError("_x.so: failed to map segment from shared object"), "out of memory", 2),
        (BaseException("could not spawn a thread (os error 11)"), "out of memory", 2),
        (KeyboardInterrupt(), "the same command resumes", 130),
        (RuntimeError("a bug"), "", 1),
    ],
)
def test_what_the_machine_refuses_is_one_line_and_a_fault_of_ours_keeps_its_traceback(
    error, message, status, capsys, monkeypatch
):
    monkeypatch.setattr("attnaudit.recipes.trained.run", Mock(side_effect=error))
    if message:
        assert message in fails(capsys, "demo", status=status)
    else:
        with pytest.raises(RuntimeError, match="a bug"):
            main(["demo"])


@pytest.mark.parametrize(
    ("command", "megabytes"),
    [("corpora list", 100), ("compare a b", 800), ("audit a", 1100), ("demo", 2500)],
)
def test_too_low_a_limit_of_memory_is_named_before_libraries_abort(command, megabytes, tmp_path):
    command = f"ulimit -v {megabytes}000; exec {sys.executable} -m attnaudit {command}"
    done = ran("bash", "-c", command, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"{megabytes * 1.024 / 1000:.1f} GB of address space" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("rn sst", "Did you mean 'run'"),
        ("run", "Missing argument 'CORPUS'"),
        ("run sst --modl cnn", "--model"),
        (
            "run sst --epochs 0",
            "read options: --epochs: '0'; expected greater than or equal to 1; see attnaudit run",
        ),
        (
            "run sst --set corpus.max_tokens=ten",
            "setting corpus.max_tokens: 'ten'; expected a whole number",
        ),
        ("run planted-reverse --model cnn", "a corpus of pairs; expected a translator"),
        ("audit . sst --column text", "expected ROLE=NAME with a role of text, label"),
        ("run planted-decisive --set training.epoch=4", "did you mean training.epochs?"),
        (
            "run planted-decisive --set training.epochs=4 --epochs 5",
            "--epochs 5: --set training.epochs=4",
        ),
        (
            "run sst --column text=body",
            "--column text=NAME (text= in Python): corpus sst; expected a file or a folder of your own",
        ),
        ("run nowhere/all.csv", "no such file or folder"),
        ("run sst --data-dir nowhere", "attnaudit corpora fetch sst"),
        ("compare nowhere", "path 'nowhere' does not exist"),
        ("run planted-decisive --vectors glove.txt", "no such file"),
        ("study unifrom sst", "copying, calibration; did you mean uniform?"),
        (
            "study seeds planted-reverse",
            "'seeds'; expected one of need, deceive, dynamics for planted-reverse",
        ),
        ("study copying iid --epochs 6", "--set copying.steps=N"),
    ],
)
def test_usage_and_input_errors_are_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in fails(capsys, *arguments.split())
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_experiment_is_named(trace, capsys):
    assert "did you mean adversary?" in fails(capsys, "audit", trace, "--experiment", "adversry")
    assert "did you mean adversary.epsilon?" in fails(
        capsys, "audit", trace, "--set", "adversary.epsilonn=1"
    )
    asked = ("--experiment", "permutation", "--set", "adversary.epsilon=1")
    assert "not of an experiment asked for" in fails(capsys, "audit", trace, *asked)
    assert [path.name for path in trace.parent.iterdir()] == ["trace"]


NOTHING_HEAVY = """
import sys

from attnaudit.cli import main
for line in sys.argv[1:]:
    assert main(line.split()) == 2, line
    loaded = [name for name in ("torch", "polars", "gensim", "spacy", "attnaudit.experiments", "attnaudit.recipes") if name in sys.modules]
    assert not loaded, (line, loaded)
"""


def test_a_mistyped_file_is_refused_before_anything_heavy_is_imported(tmp_path):
    reviews = tmp_path / "reviews.csv"
    reviews.write_text("body;stars\ngood;1\n")
    commands = [
        f"run {reviews}",
        f"study seeds {reviews} --column text=body",
        f"audit {tmp_path} {reviews}",
        "run nowhere.csv",
        "run planted-decisive --vectors glove.txt",
        "study uniform nowhere.csv",
        "audit nowhere",
        "audit nowhere sst",
        "audit nowhere --check",
        "report no",
        f"audit {tmp_path} nowhere.csv",
    ]
    done = ran(sys.executable, "-c", NOTHING_HEAVY, *commands)
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == len(commands), done.stderr


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ((), "--column text=body --column label=stars"),
        (("--column", "text=body"), "--column text=body --column label=stars"),
        (
            ("--column", "text=bodi", "--column", "label=star"),
            "--column text=body --column label=stars",
        ),
        (("--column", "label=body"), "--column label=body --column text=NAME"),
    ],
)
def test_one_message_asks_for_all_columns_with_the_command_to_type(
    given, command, tmp_path, capsys
):
    reviews = tmp_path / "my reviews.tsv"
    reviews.write_text("body\tstars\ngood\t1\n")
    said = fails(capsys, "run", reviews, *given)
    assert f"type: attnaudit run '{reviews}' {command}" in said


WITHOUT_EXTRAS = """
import json, sys
from importlib.machinery import PathFinder
from attnaudit.core.extras import PACKAGES
absent = {package for packages in PACKAGES.values() for package in packages}
find, wanted = PathFinder.find_spec, []
def find_spec(name, path=None, target=None):
    if name not in absent:
        return find(name, path, target)
    if sys._getframe(2).f_code.co_name != "find_spec":  # to import it; others, as polars, only ask whether it is there
        wanted.append(name)
PathFinder.find_spec = find_spec

from attnaudit.cli import main
statuses = []
for arguments in sys.argv[1:]:
    statuses.append(main(arguments.split()))
    print(file=sys.stderr)
print(json.dumps([statuses, wanted]))
"""


def without_extras(cwd, *commands):
    """Of commands, run one after another without extras: the statuses, what was to be imported, and what each says on stderr."""
    done = ran(sys.executable, "-c", WITHOUT_EXTRAS, *commands, cwd=cwd)
    assert done.returncode == 0, done.stderr
    statuses, wanted = json.loads(done.stdout.splitlines()[-1])
    return statuses, wanted, done.stderr.split("\n\n")


@pytest.mark.slow
def test_audits_reports_and_comparisons_need_no_extra(trace, finished, tmp_path):
    """Nor do they, or help, or a corpus without files, import torch, which takes seconds."""
    commands = ("run --help", f"audit {trace} --out audit", f"report {finished}", "corpora list", f"run sst --data-dir {tmp_path}")  # fmt: skip
    statuses, wanted, told = without_extras(tmp_path, *commands)
    assert statuses == [0, 0, 0, 0, 2], told
    assert "torch" not in wanted


@pytest.mark.slow
def test_a_missing_extra_is_named_and_nothing_is_written(tmp_path):
    commands = {
        "run planted-decisive": "train", "study uniform planted-decisive": "train", "study copying iid": "train",
        "run planted-copy": "translate", "corpora fetch trec6": "train",
    }  # fmt: skip
    statuses, _, told = without_extras(tmp_path, *commands)
    assert statuses == [2] * len(commands)
    for line, extra in zip(told, commands.values(), strict=False):
        assert re.fullmatch(rf".*without torch.* pip install 'attnaudit\[{extra}]'", line)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_ctrl_c_is_one_line_and_the_run_goes_on(tmp_path):
    out = tmp_path / "run"
    endless = ["run", "planted-decisive", *TINY, "--epochs", "100000", "--out", str(out)]
    command = [sys.executable, "-m", "attnaudit", *endless]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while (
        not list(out.glob(".unfinished/checkpoint-*/*.safetensors")) and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    *stages, line = told.splitlines()
    assert said == ""
    assert "the same command resumes" in line
    assert all(map(STAGE.fullmatch, stages))


def stages(capsys, *arguments):
    """What is told of the work on stderr, from its first second on and without the times."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnaudit.cli.bars.SOON", 0.0)
        assert main([str(argument) for argument in arguments]) == 0
    return [
        line.partition(" ")[2]
        for line in capsys.readouterr().err.splitlines()
        if STAGE.fullmatch(line)
    ]


@pytest.mark.usefixtures("quick")
def test_without_a_terminal_there_is_a_line_for_each_stage(capsys, tmp_path):
    told = stages(capsys, "run", "planted-decisive", *TINY, "--out", tmp_path / "run", "--json")
    begun = [line.partition(" (")[0] for line in told if "compiled" not in line]
    assert begun[:2] == ["make the word vectors", "train, epoch 1 of 2"]
    assert begun[2:4] == ["replace words", "collect"]
    assert begun[4:6] == ["audit: prediction", "audit: correlation"]
    assert begun[-2:] == ["summarise", "write the report"]
    assert len(set(begun)) == len(begun)
    assert stages(capsys, "run", "planted-decisive", *TINY, "--out", tmp_path / "run") == []


def test_what_takes_long_tells_how_far_it_is_now_and_then(monkeypatch, capsys):
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with progress() as tell:
        tell("read train", 0, 0)
        assert capsys.readouterr().err == ""  # what is refused by then is one line
        for step in range(1, 301):  # one a second
            now += 1
            tell(f"train, epoch {step // 60 + 1} of 6", step, 300)
        tell("collect", 0, 5)
        tell("collect", 0, 5)
    told = capsys.readouterr().err.splitlines()
    assert told[:2] == ["0:02 train, epoch 1 of 6 (1 %)", "0:32 train, epoch 1 of 6 (11 %)"]
    assert len(told) == 11
    assert told[-1] == "5:00 collect"


@pytest.mark.usefixtures("quick")
def test_a_study_has_one_line_for_a_training(capsys, tmp_path):
    small = [*TINY, "--set", "uniform.seeds=1", "--out", str(tmp_path)]
    assert main(["study", "uniform", "planted-decisive", *small]) == 0
    shown, told = capsys.readouterr()
    for name in ("base-s0", "uniform-s0"):
        assert sum(name in line for line in told.splitlines()) == 1
    assert shown.index("what it says") < shown.index("study uniform of planted-decisive"), (
        "what may be claimed comes first"
    )
    rows = read_json(tmp_path / "uniform/summary.json")
    further = sum(row["group"] == "all" for row in rows) - SHOWN_MEASURES
    assert shown.count("│ uniform ") == SHOWN_MEASURES
    assert f"{further} further measures in the report and with --json" in shown


def drawn(monkeypatch, capsys, columns, steps):
    """What stands last on a terminal of so many columns."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress() as bar:
        for step in steps:
            bar(*step)
    frames = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().err)  # no colours
    frames = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\r", frames)
    return [line for line in re.split(r"[\r\n]+", frames) if line.strip()][-1]


@pytest.mark.parametrize("columns", [80, 120])
def test_a_bar_can_be_read(columns, monkeypatch, capsys):
    what = "deceive-bilinear-1-s0 (3 of 4) · train, epoch 2 of 5"
    line = drawn(monkeypatch, capsys, columns, [(what, 200, 400)])
    assert what in line
    assert "━" * 5 in line
    assert len(line) <= columns
    longer = f"{'a-name-of-many-words-' * 4}{what}"
    line = drawn(monkeypatch, capsys, columns, [(longer, 200, 400)])
    assert "(3 of 4) · train, epoch 2 of 5" in line
    assert "━" * 5 in line


@pytest.mark.slow
def test_a_lost_cluster_ends_a_command_at_once(tmp_path):
    """Without what libraries do at the end, which would hold the process."""
    program = (
        "import atexit, sys, time; from attnaudit.cli import main;"
        "from attnaudit.core.errors import LostError; from attnaudit.steps import ray_pool;"
        "ray_pool.RayPool.do = lambda *_: (_ for _ in ()).throw(LostError('run', 'the head', 'silent', 'an answer'));"
        "atexit.register(time.sleep, 600);"
        "sys.exit(main(['study', 'seeds', 'planted-decisive', '--engine', 'ray', '--out', sys.argv[1]]))"
    )
    ended = ran(sys.executable, "-c", program, tmp_path / "out", timeout=120)
    line = "attnaudit: run: the head: silent; expected an answer"
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (2, line)


def test_a_path_at_home_is_found_behind_an_option(tmp_path, monkeypatch):
    home, here = tmp_path / "home", tmp_path / "here"
    here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    trace = make_trace(12)
    trace.write("~/made trace")
    assert main(["audit", "~/made trace", "--out=~/audited", "--experiment=correlation"]) == 0
    attnaudit.audit(trace, ["correlation"]).save("~/saved")
    assert len(Trace.read("~/made trace")) == 12
    assert {path.name for path in home.iterdir()} == {"made trace", "audited", "saved"}
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("corpora list --json | true; exit ${PIPESTATUS[0]}", 141, ""),
        ("corpora list 2>&-", 0, ""),
        ("corpora list >&-", 0, ""),
        ("audit nowhere >&- 2>&-", 2, ""),
        ("corpora list >/dev/full", 2, "No space left on device"),
        ("audit nowhere --out $'r\\xff'", 2, "bytes that are no UTF-8"),
    ],
)
def test_streams_that_are_closed_or_full_cost_no_traceback(command: str, status: int, said: str):
    done = ran("bash", "-c", f"{sys.executable} -m attnaudit {command}")
    assert done.returncode == status
    assert done.stderr.count("\n") == bool(said)
    assert said in done.stderr


def test_a_terminal_of_few_letters_gets_escapes(trace):
    command = (sys.executable, "-m", "attnaudit", "audit", trace, "--experiment=correlation")
    done = ran(*command, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0)
    assert r"\u2013" in done.stdout or r"\xb7" in done.stdout


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGHUP, -1)]
)
def test_a_signal_during_imports_ends_with_one_line(number, status, tmp_path):
    # Below nohup a process would ignore SIGHUP.
    program = """if True:
        import signal, sys, attnaudit.cli
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        print(flush=True)
        sys.exit(attnaudit.cli.main())"""
    command = [sys.executable, "-c", program, "run", "planted-decisive", "--out", tmp_path / "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"\n"
        time.sleep(0.1)
        process.send_signal(number)
        said = process.communicate()[1].decode()
    assert process.returncode == status
    assert said.startswith("attnaudit: ")
    assert said.count("\n") == 1
