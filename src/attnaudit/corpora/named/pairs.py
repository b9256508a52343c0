"""The parallel corpora that have a name, and where their files are looked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.progress import Progress, silent
from attnaudit.corpora.locate import PLANTED as PLANTED_TEXTS
from attnaudit.corpora.named.registry import REGISTRY, data_folder
from attnaudit.corpora.parallel import OPERATION, ParallelCorpus, read_pairs
from attnaudit.corpora.planted.pairs import PLANTED_PAIRS, planted_pairs
from attnaudit.corpora.spec import PLANTED, ParallelSpec, UnitName, generated, refuse_generated


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


def read_parallel(spec: ParallelSpec, *, seed: int = 0, progress: Progress = silent) -> ParallelCorpus:
    """Read a corpus of pairs, or generate a planted one, with the spec's own seed, else with ``seed``.

    Raises InputError, also for a setting that has no effect on such a corpus.
    """
    seed = seed if spec.seed is None else spec.seed
    if is_planted(spec.source):
        return planted_pairs(spec.source.removeprefix(PLANTED), seed, **generated(spec))
    refuse_generated(spec)
    folder, name, chosen = located(spec)
    return read_pairs(folder, name, chosen, seed, lambda split, rows: progress(f"read {split}", rows, 0))


def is_planted(source: str) -> bool:
    """Whether pairs are generated: a known kind, or a name like one that is no folder."""
    return source in PLANTED_PAIRS or (source.startswith(PLANTED) and not Path(source).is_dir())


def located(spec: ParallelSpec) -> tuple[Path, str, ParallelSpec]:
    """The folder and the name of a registered parallel corpus, or of the user's own, and the spec with its files' names.

    Raises InputError.
    """
    source = spec.source
    if source in PARALLEL:
        place, chosen_by = data_folder(spec.data_dir)
        folder, entry = place / source, PARALLEL[source]
        for endings, dev, test in entry.layouts:
            if _has_train(folder, endings[0]):
                named = spec.test if spec.test != ParallelSpec.test else test
                return folder, source, replace(spec, source_ending=endings[0], target_ending=endings[1], dev=dev, test=named)
        expected, do = f"the files of {entry.title}", f"get them from {entry.homepage}, or give their place with --data-dir"
        raise InputError(f"read corpus {source}", str(folder), f"no train.src ({chosen_by})", expected, do)
    folder = Path(source).expanduser()
    if not folder.is_dir():
        known = (*PARALLEL, *PLANTED_PAIRS)
        hint = did_you_mean(source, known)
        raise InputError(OPERATION, source, "no such folder", f"one of {', '.join(known)}, or a folder of pairs", hint)
    return folder, folder.resolve().name, spec


def is_parallel(source: str) -> bool:
    """Whether a corpus is of pairs, as its name says: a registered or planted one, or a folder that holds ``train.src`` or that, gzipped.

    Raises InputError for a name that neither a corpus of pairs, nor one of texts, nor a file or folder has.
    """
    if source in PARALLEL or source in PLANTED_PAIRS:
        return True
    known = (*REGISTRY, *PLANTED_TEXTS, *PARALLEL, *PLANTED_PAIRS)
    path = Path(source).expanduser()
    if source not in known and path.name == source and not path.suffix and not path.exists():
        hint = did_you_mean(source, known)
        raise InputError("read corpus", source, "an unknown corpus", f"one of {', '.join(known)}, a file or a folder", hint)
    return _has_train(path, "src")


def _has_train(folder: Path, ending: str) -> bool:
    return any((folder / f"train.{ending}{packed}").is_file() for packed in ("", ".gz"))
