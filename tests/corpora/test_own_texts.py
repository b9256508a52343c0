"""How one's own texts are read: digits, case, words, encoding and delimiter."""

import json

import pytest

from attnaudit.core import InputError
from attnaudit.corpora.read import read_corpus
from attnaudit.plans.spec import RunSpec

from .writing import refused

WORDS = ("cafe", "naïve", "prix", "œuvre")


def table(path, encoding="utf-8", delimiter=",", text="Take 20 mg d'aspirine au café {}"):
    rows = [
        "text,label",
        *(f"{text.format(WORDS[row % 4])},{'good' if row % 2 else 'bad'}" for row in range(40)),
    ]
    path.write_bytes("\n".join(row.replace(",", delimiter) for row in rows).encode(encoding))
    return path


def first(path, **options):
    splits = read_corpus(path, **options).splits
    return next(
        tokens
        for split in splits.values()
        for row, tokens in zip(split.instance, split.tokens, strict=True)
        if row == 0
    )


@pytest.mark.slow
def test_digits_case_and_words(tmp_path):
    path = table(tmp_path / "a.csv")
    assert first(path) == ["take", "20", "mg", "d'aspirine", "au", "café", "cafe"]
    assert first(path, digits="mask")[:3] == ["take", "qqq", "mg"]
    assert first(path, lowercase=False)[:3] == ["Take", "20", "mg"]
    assert first(path, tokenizer="fr")[3:5] == ["d'", "aspirine"]
    path = table(tmp_path / "b.csv", text="It's  5kg! {}")
    assert first(path) == ["it", "'s", "5", "kg", "!", "cafe"]
    assert first(path, tokenizer="whitespace") == ["it's", "5kg!", "cafe"]


@pytest.mark.parametrize("code", ["klingon", "qq", "en.punctuation", "../en", ""])
def test_a_language_that_spacy_does_not_have(tmp_path, code):
    assert refused(table(tmp_path / "a.csv"), tokenizer=code).where == "setting corpus.tokenizer"


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16", "utf-16-le", "utf-8-sig"])
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_encodings(tmp_path, encoding, kind):
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


def test_a_header_that_is_not_utf8(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label,opinión\na,b,c\n".encode("latin-1"))
    error = refused(path)
    assert (error.where, error.do) == (f"{path}: header", "set corpus.encoding")
    assert "byte 0xf3 at character 5" in error.got


@pytest.mark.parametrize(
    ("option", "value"),
    [("encoding", "utf8x"), ("encoding", "hex"), ("encoding", ""), ("digits", "hide")],
)
def test_values_that_are_none(tmp_path, option, value):
    error = refused(table(tmp_path / "a.csv"), **{option: value})
    assert error.where == f"setting corpus.{option}"


@pytest.mark.parametrize("name", ["sst", "planted-decisive"])
def test_a_registered_corpus_has_columns_and_an_encoding_of_its_own(name):
    for key, value in (("digits", "keep"), ("encoding", "latin-1"), ("lowercase", "false")):
        with pytest.raises(InputError, match=rf"setting corpus.{key}: .* {name};"):
            read_corpus(RunSpec.of(name, settings={f"corpus.{key}": value}).corpus)
    for role in ("text", "label", "question", "rationale"):
        assert refused(name, **{role: "body"}).where.startswith(f"--column {role}=")


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_the_header_tells_the_delimiter(tmp_path, kind, delimiter):
    path = table(tmp_path / f"a.{kind}", delimiter=delimiter)
    assert first(path)[:2] == ["take", "20"]
    quoted = [f'"text"{delimiter}"label"', *(f'"a, b; c"{delimiter}"{k % 2}"' for k in range(40))]
    path.write_text("\n".join(quoted))
    assert first(path)[:2] == ["a", ","]


def test_only_texts_have_an_encoding(tmp_path):
    (whole := tmp_path / "a.parquet").write_bytes(b"PAR1")
    assert refused(whole, encoding="latin-1").where == "setting corpus.encoding"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("这部电影的情节非常精彩演员也很好{}", "zh"),
        ("この映画はとても面白かったです俳優も素晴らしい{}", "ja"),
        ("ภาพยนตร์เรื่องนี้สนุกมากนักแสดงเก่ง{}", "th"),
        ("Der Donaudampfschifffahrtsgesellschaftskapitän 你好 {}", ""),
    ],
)
def test_sentences_of_a_script_without_blanks_are_noticed(tmp_path, text, language):
    notes = read_corpus(table(tmp_path / "a.csv", text=text)).notes
    advice = [note for note in notes if "no blanks" in note]
    assert [f"corpus.tokenizer={language} " in note for note in advice] == [True] * bool(language)
    if language == "zh":
        assert not any(
            "no blanks" in note for note in read_corpus(tmp_path / "a.csv", tokenizer="zh").notes
        )
