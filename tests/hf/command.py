"""``attnaudit audit`` of tiny models: folders, texts, and the one line of what is refused."""

from attnaudit.cli import main
from tests.cli.test_cli import fails
from tests.hf.tokenizing import small, tokenizer

CLASSIFIER, WRITER = "BertForSequenceClassification", "GPT2LMHeadModel"
LITTLE = ("--experiment", "permutation", "--set", "collect.scores=gradient", "--sample", "4")
LEAST = (*LITTLE, "--layers", "all", "--heads", "0")  # behind no graph, whose export takes a second


def save_models(place):
    """Save a classifier and a language model."""
    for name, kind, special in ((CLASSIFIER, "wordpiece", "[CLS] $A [SEP]"), (WRITER, "bytes", "")):
        small(name).save_pretrained(place / name)
        tokenizer(kind, special).save_pretrained(place / name)
    return place


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def save(frame, path):
    """Write a table in the format that the name tells."""
    kinds = {".csv": frame.write_csv, ".jsonl": frame.write_ndjson}
    kinds.get(path.suffix, frame.write_parquet)(path)
    return path


def audit(*arguments, out=None):
    """The status of a command."""
    return main(["audit", *map(str, arguments), *(("--out", str(out)) if out else ())])


def refused(capsys, *arguments, out=None):
    """The one line of a command that fails with status 2 and leaves nothing."""
    before = out is not None and out.exists()
    line = fails(capsys, "audit", *arguments, *(("--out", out) if out else ()))
    assert ".;" not in line
    assert out is None or out.exists() == before
    return line
