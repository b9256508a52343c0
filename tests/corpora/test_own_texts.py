"""How one's own texts are read: digits, case, words, encoding and delimiter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnaudit.cli import main
from attnaudit.core.errors import InputError
from attnaudit.corpora import read_corpus
from attnaudit.plans.spec import RunSpec

from .writing import refused

WORDS = ("cafe", "naïve", "prix", "œuvre")


def table(
    path: Path,
    encoding: str = "utf-8",
    delimiter: str = ",",
    text: str = "Take 20 mg d'aspirine au café {}",
) -> Path:
    rows = [
        "text,label",
        *(f"{text.format(WORDS[row % 4])},{'good' if row % 2 else 'bad'}" for row in range(40)),
    ]
    path.write_bytes("\n".join(row.replace(",", delimiter) for row in rows).encode(encoding))
    return path


def first(path: Path, **options: Any) -> list[str]:
    splits = read_corpus(path, **options).splits
    return next(
        tokens
        for split in splits.values()
        for row, tokens in zip(split.instance, split.tokens, strict=True)
        if row == 0
    )


@pytest.mark.slow
def test_digits_case_and_words(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv")
    assert first(path) == ["take", "20", "mg", "d'aspirine", "au", "café", "cafe"]
    assert first(path, digits="mask")[:3] == ["take", "qqq", "mg"]
    assert first(path, lowercase=False)[:3] == ["Take", "20", "mg"]
    assert first(path, tokenizer="fr")[3:5] == ["d'", "aspirine"]
    path = table(tmp_path / "b.csv", text="It's  5kg! {}")
    assert first(path) == ["it", "'s", "5", "kg", "!", "cafe"]
    assert first(path, tokenizer="whitespace") == ["it's", "5kg!", "cafe"]


@pytest.mark.parametrize("code", ["klingon", "qq", "en.punctuation", "../en", ""])
def test_a_language_that_spacy_does_not_have(tmp_path: Path, code: str) -> None:
    assert refused(table(tmp_path / "a.csv"), tokenizer=code).where == "setting corpus.tokenizer"


@pytest.mark.parametrize(
    "encoding", ["cp1252", "latin-1", "utf-16", "utf-16-le", "utf-32", "utf-8-sig"]
)
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_encodings(tmp_path: Path, encoding: str, kind: str) -> None:
    texts = [f"un café naïf {'très ' * row}long" for row in range(20)]
    path = tmp_path / f"a.{kind}"
    if kind == "jsonl":
        lines = [
            json.dumps({"text": text, "label": row % 2}, ensure_ascii=False)
            for row, text in enumerate(texts)
        ]
    else:
        mark = "," if kind == "csv" else "\t"
        lines = [f"text{mark}label", *(f"{text}{mark}{row % 2}" for row, text in enumerate(texts))]
    path.write_bytes("\n".join(lines).encode(encoding))
    assert first(path, encoding=encoding) == ["un", "café", "naïf", "long"]
    if encoding != "utf-8-sig":
        assert "corpus.encoding" in refused(path).do


def test_a_header_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("text,label,opinión\na,b,c\n".encode("latin-1"))
    error = refused(path)
    assert (error.where, error.do) == (f"{path}: header", "set corpus.encoding")
    assert "byte 0xf3 at character 5" in error.got


def test_delimiters(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", delimiter=";")
    assert refused(path, delimiter="").where == "setting corpus.delimiter"
    assert (refused(path).got, refused(path).expected) == (
        "columns text;label",
        "one column 'text'",
    )
    assert "corpus.delimiter" in refused(path).do
    assert first(path, delimiter=";")[:2] == ["take", "20"]
    quoted = ['"text";"label"', *(f'"text {row}";"{row % 2}"' for row in range(40))]
    path.write_text("\n".join(quoted))
    assert "corpus.delimiter" in refused(path).do
    assert first(path, delimiter=";")[0] == "text"
    path = table(tmp_path / "b.csv", delimiter="\t")
    assert first(path, delimiter="tab") == first(path, delimiter="\t")
    assert first(table(tmp_path / "c.tsv", delimiter="|"), delimiter="|")[:2] == ["take", "20"]


WRONG = {"delimiter": (";;", "\n", '"'), "encoding": ("utf8x", "hex", ""), "digits": ("hide",)}


@pytest.mark.parametrize(
    ("option", "value"), [(option, value) for option, values in WRONG.items() for value in values]
)
def test_values_that_are_none(tmp_path: Path, option: str, value: str) -> None:
    error = refused(table(tmp_path / "a.csv"), **{option: value})
    assert error.where == f"setting corpus.{option}"


def test_formats_that_state_it_themselves(tmp_path: Path) -> None:
    (lines := tmp_path / "a.jsonl").write_text('{"text": "a", "label": "b"}\n')
    assert refused(lines, delimiter=";").where == "setting corpus.delimiter"
    (whole := tmp_path / "a.parquet").write_bytes(b"PAR1")
    assert refused(whole, encoding="latin-1").where == "setting corpus.encoding"


@pytest.mark.parametrize(
    "option", ["digits=keep", "encoding=latin-1", "delimiter=;", "tokenizer=fr", "lowercase=false"]
)
@pytest.mark.parametrize("name", ["sst", "planted-decisive"])
def test_a_registered_corpus_refuses_them(name: str, option: str) -> None:
    key, value = option.split("=")
    with pytest.raises(InputError, match=rf"setting corpus.{key}: .* {name};"):
        read_corpus(RunSpec.of(name, settings={f"corpus.{key}": value}).corpus)


@pytest.mark.slow
def test_the_options_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "a.csv", "cp1252", ";")
    given = ("encoding=cp1252", "delimiter=;", "digits=mask", "tokenizer=fr", "lowercase=false")
    options = [part for one in given for part in ("--set", f"corpus.{one}")]
    assert main(["corpora", "check", str(path), "--json", *options]) == 0
    assert json.loads(capsys.readouterr().out)["classes"]
    assert main(["corpora", "check", "planted-decisive", "--set", "corpus.digits=keep"]) == 2
    assert "setting corpus.digits" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "given", "got"),
    [
        ("utf-8", "ascii", "invalid ASCII (byte 0xc3 at character"),
        ("cp1252", "ascii", "invalid ASCII (byte 0xe9 at character"),
        ("utf-8", "utf-16", "UTF-16 stream"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_wrong_encoding_is_named(
    tmp_path: Path, kind: str, written: str, given: str, got: str
) -> None:
    # An odd number of bytes in UTF-8.
    rows = [*(("un café", row % 2) for row in range(39)), ("é", 1)]
    path = tmp_path / f"a.{kind}"
    lines = [json.dumps({"text": text, "label": label}, ensure_ascii=False) for text, label in rows]
    table = ["text,label", *(f"{text},{label}" for text, label in rows), ""]
    path.write_bytes("\n".join(lines if kind == "jsonl" else table).encode(written))
    error = refused(path, encoding=given)
    assert got in error.got
    assert "corpus.encoding" in error.do
