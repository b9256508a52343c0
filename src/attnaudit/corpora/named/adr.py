"""Tweets that tell of an adverse drug reaction, or not; the user's own copy."""

from __future__ import annotations

from attnaudit.corpora.formats.layouts import any_layout, tables, whole_table
from attnaudit.corpora.named.registered import Bounds, Registered

ADR = Registered(
    name="adr",
    title="tweets on adverse drug reactions",
    citation="Nikfarjam et al. 2015",
    bibtex="""@article{nikfarjam2015pharmacovigilance,
  title = {Pharmacovigilance from Social Media: Mining Adverse Drug Reaction Mentions Using Sequence Labeling with Word Embedding Cluster Features},
  author = {Nikfarjam, Azadeh and Sarker, Abeed and O'Connor, Karen and Ginn, Rachel and Gonzalez, Graciela},
  journal = {Journal of the American Medical Informatics Association},
  volume = {22},
  number = {3},
  pages = {671--681},
  year = {2015}
}""",  # noqa: E501  (a title is one line)
    licence="health-related tweets: by Twitter's terms only their numbers may be passed on",
    class_names=("no reaction", "reaction"),
    sources=any_layout(tables(), whole_table(), expected="train and test, or one file, csv or tsv with columns text and label (0 or 1)"),
    homepage="https://healthlanguageprocessing.org/",
    min_df=2,
    bounds={"paper": Bounds(more_than=5, less_than=100)},
    how_to_get="withdrawn by the authors who used it: put your own csv or tsv with columns text and label (0 or 1) into the folder adr",
    differs=("the paper's file was withdrawn: with another copy of the tweets numbers are not comparable",),
)
