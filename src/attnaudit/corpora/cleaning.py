"""Cleaning of texts, as each paper's code did it, before they are tokenised."""

import re

_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_BRACKET = re.compile(r"-[lr]rb-", re.IGNORECASE)
_QUOTATION = re.compile(r"(writes in|writes:|wrote:|says:|said:|^In article|^Quoted from|^\||^>)")


def without_breaks(text: str) -> str:
    """Replace HTML line breaks by spaces."""
    return _LINE_BREAK.sub(" ", text)


def treebank(text: str) -> str:
    """Keep lower-case letters and digits, with one space for all else, and no names of brackets."""
    return re.sub(r"[\W_]+", " ", _BRACKET.sub(" ", text.lower())).strip()


def without_backslashes(text: str) -> str:
    """Replace the backslashes that stand for line ends in AG's news."""
    return text.replace("\\", " ")


def without_escapes(text: str) -> str:
    """Undo the escapes of line ends and quotation marks in the files of Zhang et al. 2015."""
    return text.replace("\\n", " ").replace('\\"', '"')


def post_body(post: str) -> str:
    """Return the body of a post, by scikit-learn's rules for the 20 Newsgroups."""
    return without_quotations(without_signature(without_header(post.replace("\r\n", "\n"))))


def without_header(post: str) -> str:
    """Return the lines after the first empty one."""
    return post.partition("\n\n")[2]


def without_signature(text: str) -> str:
    """Return the lines before the last one that is empty or made of hyphens, unless at the end."""
    lines = text.strip().split("\n")
    ends = [number for number, line in enumerate(lines) if not line.strip().strip("-")]
    return "\n".join(lines[: ends[-1]]) if ends and ends[-1] > 0 else text


def without_quotations(text: str) -> str:
    """Return the lines that neither are quoted nor introduce a quotation."""
    return "\n".join(line for line in text.split("\n") if not _QUOTATION.search(line))


CLEANERS = {
    "line breaks": without_breaks,
    "treebank": treebank,
    "backslashes": without_backslashes,
    "escapes": without_escapes,
    "post": post_body,
}
