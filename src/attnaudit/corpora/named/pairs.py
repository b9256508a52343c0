"""The parallel corpora that have a name, and where their files are looked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.corpora.locate import PLANTED
from attnaudit.corpora.named.registry import REGISTRY, data_folder
from attnaudit.corpora.parallel import OPERATION, ReadingOfPairs
from attnaudit.corpora.planted.pairs import PLANTED_PAIRS
from attnaudit.corpora.prepare.units import UnitName


@dataclass(frozen=True)
class RegisteredPairs:
    """A named parallel corpus.

    Its files lie in a folder of its name as one of ``layouts`` says: the endings of source and target, and the names of dev and test.
    ``units`` are what its texts are cut into unless the user says otherwise.
    """

    name: str
    title: str
    citation: str
    bibtex: str
    licence: str
    layouts: tuple[tuple[tuple[str, str], str, str], ...]
    units: UnitName
    homepage: str


_ELLIOTT = """@inproceedings{elliott2016multi30k,
  title = {Multi30K: Multilingual English-German Image Descriptions},
  author = {Elliott, Desmond and Frank, Stella and Sima'an, Khalil and Specia, Lucia},
  booktitle = {Proceedings of the 5th Workshop on Vision and Language},
  year = {2016}
}"""
_PRUTHI = """@inproceedings{pruthi2020deceive,
  title = {Learning to Deceive with Attention-Based Explanations},
  author = {Pruthi, Danish and Gupta, Mansi and Dhingra, Bhuwan and Neubig, Graham and Lipton, Zachary C.},
  booktitle = {Proceedings of ACL},
  year = {2020}
}"""
PARALLEL: dict[str, RegisteredPairs] = {
    entry.name: entry
    for entry in (
        RegisteredPairs(
            "multi30k_en_de", "captions in English and German", "Elliott et al. 2016", _ELLIOTT, "CC BY-NC-SA 4.0, as far as known",
            ((("src", "trg"), "dev", "test_2016_flickr"), (("en", "de"), "val", "test_2016_flickr")), "pieces",
            "https://github.com/multi30k/dataset",
        ),
        RegisteredPairs(
            "deceptive_en_de", "the same captions, cut into words, with alignments", "Pruthi et al. 2020", _PRUTHI, "not stated",
            ((("src", "trg"), "dev", "test"), (("en-de.src", "en-de.trg"), "dev", "test")), "words",
            "https://github.com/danishpruthi/deceptive-attention",
        ),
    )
}  # fmt: skip


def locate_pairs(source: str | Path, data_dir: str | Path | None, how: ReadingOfPairs) -> tuple[Path, str, ReadingOfPairs]:
    """The folder of a named parallel corpus, or of the user's own, its name, and how its files are read. Raises InputError."""
    if isinstance(source, str) and source in PARALLEL:
        place, chosen_by = data_folder(data_dir)
        folder, entry = place / source, PARALLEL[source]
        for endings, dev, test in entry.layouts:
            if _has_train(folder, endings[0]):
                named = how.test if how.test != ReadingOfPairs.test else test
                return folder, source, replace(how, endings=endings, dev=dev, test=named)
        expected, do = f"the files of {entry.title}", f"get them from {entry.homepage}, or give their place with --data-dir"
        raise InputError(f"read corpus {source}", str(folder), f"no train.src ({chosen_by})", expected, do)
    folder = Path(source).expanduser()
    if not folder.is_dir():
        known = (*PARALLEL, *PLANTED_PAIRS)
        hint = did_you_mean(str(source), known)
        raise InputError(OPERATION, str(source), "no such folder", f"one of {', '.join(known)}, or a folder of pairs", hint)
    return folder, folder.resolve().name, how


def is_parallel(source: str) -> bool:
    """Whether a corpus is of pairs, as its name says: a registered or planted one, or a folder that holds ``train.src`` or that, gzipped.

    Raises InputError for a name that neither a corpus of pairs, nor one of texts, nor a file or folder has.
    """
    if source in PARALLEL or source in PLANTED_PAIRS:
        return True
    known = (*REGISTRY, *PLANTED, *PARALLEL, *PLANTED_PAIRS)
    path = Path(source).expanduser()
    if source not in known and path.name == source and not path.suffix and not path.exists():
        hint = did_you_mean(source, known)
        raise InputError("read corpus", source, "an unknown corpus", f"one of {', '.join(known)}, a file or a folder", hint)
    return _has_train(path, "src")


def _has_train(folder: Path, ending: str) -> bool:
    return any((folder / f"train.{ending}{packed}").is_file() for packed in ("", ".gz"))
