"""Posts lose the same lines as with scikit-learn's rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnaudit.corpora.cleaning import (
    post_body,
    without_header,
    without_quotations,
    without_signature,
)
from attnaudit.corpora.formats.readers import by_class

from .corpus_files import POST

LINES = st.sampled_from(
    [
        "",
        "   ",
        "--",
        "- -",
        "----",
        "> quoted",
        "|also",
        "In article <1> so",
        "x writes:",
        "text here",
        "a > b",
        "said: so",
    ]
)
POSTS = st.lists(LINES, max_size=12).map("\n".join)


@given(POSTS)
def test_every_rule_is_that_of_scikit_learn(post: str) -> None:
    theirs = pytest.importorskip("sklearn.datasets._twenty_newsgroups")
    assert without_header(post) == theirs.strip_newsgroup_header(post)
    assert without_signature(post) == theirs.strip_newsgroup_footer(post)
    assert without_quotations(post) == theirs.strip_newsgroup_quoting(post)


def test_a_post() -> None:
    body = post_body(POST.format(sport="hockey", row=3, many=""))
    assert body == "\n".join(
        [
            "I thought that hockey game number 3 was rather long.",
            "And café prices there, I tell you, are high.",
            "",
        ]
    )


def test_line_ends_of_windows_change_nothing() -> None:
    post = POST.format(sport="hockey", row=3, many="")
    assert post_body(post.replace("\n", "\r\n")) == post_body(post)


def test_real_posts(real_data: Path) -> None:
    theirs = pytest.importorskip("sklearn.datasets._twenty_newsgroups")
    folder = real_data / "raw" / "20news" / "20news-bydate-train"
    groups = [["rec.sport.baseball"], ["rec.sport.hockey"]]
    rows = list(by_class(folder, groups, "[0-9]*", "latin-1"))
    assert [row.label for row in rows] == ["0"] * 25 + ["1"] * 25
    for row in rows:
        whole = str(row.text)
        stripped = theirs.strip_newsgroup_quoting(
            theirs.strip_newsgroup_footer(theirs.strip_newsgroup_header(whole))
        )
        assert post_body(whole) == stripped
        assert len(stripped) < len(whole)
