"""Posts lose the same lines as with scikit-learn's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnaudit.corpora.cleaning import without_header, without_quotations, without_signature

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
def test_every_rule_is_that_of_scikit_learn(post):
    theirs = pytest.importorskip("sklearn.datasets._twenty_newsgroups")
    assert without_header(post) == theirs.strip_newsgroup_header(post)
    assert without_signature(post) == theirs.strip_newsgroup_footer(post)
    assert without_quotations(post) == theirs.strip_newsgroup_quoting(post)
