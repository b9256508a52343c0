"""attnaudit corpora: what it prints, its exit status, and one line for everything that can go wrong."""

import hashlib
import json
from dataclasses import replace

import pytest

from attnaudit.corpora import CORPORA
from attnaudit.corpora.registry import Download
from tests.cli.test_cli import answers, fails
from tests.corpora.serving import serving
from tests.corpora.test_fetching import NOISE, TINY, ZIP
from tests.corpora.writing import ROWS, write, write_folder
from tests.pairs import write_pairs


@pytest.fixture
def site(monkeypatch):
    """A site with a tiny corpus, which is registered."""
    with serving() as one:
        one.files["/tiny.zip"] = ZIP
        downloads = (Download(one.url("/tiny.zip"), hashlib.sha256(ZIP).hexdigest(), len(ZIP)),)
        monkeypatch.setitem(CORPORA._entries, "tiny", replace(TINY, downloads=downloads))
        yield one


def test_the_list_names_every_corpus_and_where_it_is(capsys, tmp_path):
    write_folder(tmp_path / "sst", dict.fromkeys(("train", "dev", "test"), ROWS))
    there = ("corpora", "list", "--data-dir", tmp_path)
    listed = {row["name"]: row for row in json.loads(answers(capsys, *there, "--json"))}
    assert list(CORPORA) == list(listed)
    assert "planted-decisive" in listed
    assert listed["sst"]["folder"] == str(tmp_path / "sst")
    assert (listed["imdb"]["folder"], listed["imdb"]["get"]) == ("", "attnaudit corpora fetch imdb")
    assert "physionet" in listed["diabetes"]["get"]
    table = answers(capsys, *there)
    assert all(name in table for name in listed)
    assert "84.1 MB" in table


def test_a_check_prints_its_tables(capsys, tmp_path):
    bad = [("bad [bold] &amp; <br> \x1b[31m text", 0), ("\x1b", 1)]
    path = write(tmp_path / "mine.csv", [*ROWS, *bad] * 3)
    said = answers(capsys, "corpora", "check", path)
    for title in ("rows of each class", "length in words", "rows with the same words", "damage"):
        assert title in said
    assert "HTML tag" in said
    assert "note: one file, split 80/10/10" in said
    assert "\x1b" not in said
    told = json.loads(answers(capsys, "corpora", "check", path, "--json"))
    assert sum(row["rows"] for row in told["classes"]) == 3 * (len(ROWS) + 2)
    rows = [(f"word {row}", f"class-{row % 40:02}") for row in range(400)]
    many = write(tmp_path / "many.csv", rows)
    assert "all 40" in answers(capsys, "corpora", "check", many)


def test_a_corpus_is_fetched_once_and_then_used(site, capsys, tmp_path):
    said = answers(capsys, "corpora", "fetch", "tiny", "--data-dir", tmp_path)
    assert "rows of each class" in said
    assert said.endswith(f"tiny: fetched: {tmp_path / 'tiny'}\n")
    assert (tmp_path / "tiny/tiny/noise").read_bytes() == NOISE
    again = answers(capsys, "corpora", "fetch", "tiny", "--data-dir", tmp_path)
    assert again == f"tiny: already present: {tmp_path / 'tiny'}\n"
    assert len(site.asked) == 1
    assert "tiny" in answers(capsys, "corpora", "check", "tiny", "--data-dir", tmp_path)


def test_corpora_of_pairs_are_listed_and_checked_as_others(capsys, tmp_path):
    folder = write_pairs(tmp_path / "multi30k_en_de")
    for ending in ("src", "trg"):
        (folder / f"test.{ending}").rename(folder / f"test_2016_flickr.{ending}")
    there = ("--data-dir", tmp_path)
    listed = json.loads(answers(capsys, "corpora", "list", *there, "--json"))
    assert str(folder) in [row["folder"] for row in listed]
    for name in ("multi30k_en_de", write_pairs(tmp_path / "mine"), "planted-reverse"):
        found = json.loads(answers(capsys, "corpora", "check", name, *there, "--json"))
        assert found["task"] == "translation"
        assert {row["part"] for row in found["lengths"]} == {"source", "target"}
    body = ("--column", "text=body")
    for name in ("planted-copy", "sst"):
        assert "--column text=" in fails(capsys, "corpora", "check", name, *body)
    generated = fails(capsys, "corpora", "fetch", "planted-copy", *there)
    assert "attnaudit run planted-copy" in generated
