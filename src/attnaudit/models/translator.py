"""A translator: a model that writes targets, with the units that its texts are cut into; learned from train, kept without pickle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, chain, pairwise
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import atomic, read_json, write_bytes, write_json
from attnaudit.corpora.corpus import Pairs
from attnaudit.corpora.prepare.tokenise import Pieces, Units, Words, learn_pieces
from attnaudit.corpora.prepare.vocabulary import Vocabulary
from attnaudit.corpora.spec import UnitName
from attnaudit.models.batch import PairInputs
from attnaudit.models.presets import PairSettings
from attnaudit.models.seq2seq import EncoderDecoder

_FILES = ("weights.safetensors", "vocab.json", "pieces.model")


@dataclass(frozen=True)
class Translator:
    """``model`` reads and writes numbers of its vocabularies; ``units`` cut texts into what these number, and join them again."""

    model: EncoderDecoder
    units: Units

    def __repr__(self) -> str:
        return f"Translator({type(self.units).__name__.lower()}, {self.model!r})"

    @classmethod
    def learn(
        cls,
        settings: PairSettings,
        train: Pairs,
        units: UnitName,
        pieces: int,
        min_df: int,
        seed: int,
    ) -> Translator:
        """Units and vocabularies of the train pairs, and a model with fresh weights. A word must occur in ``min_df`` texts of its side.

        Raises InputError where no word does.
        """
        cut = learn_pieces([*train.source, *train.target], pieces) if units == "pieces" else Words()
        sides = cut(train.source), cut(train.target)
        if settings.shared:
            vocabularies = [Vocabulary.build([*sides[0], *sides[1]], min_df)] * 2
        else:
            vocabularies = [Vocabulary.build(side, min_df) for side in sides]
        if not all(vocabulary.known for vocabulary in vocabularies):
            got = f"{min_df}: no word of a side of train is in so many texts"
            raise InputError(
                "read settings",
                "setting corpus.min_df",
                got,
                f"fewer than the {len(train)} pairs there are",
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(EncoderDecoder(settings, *vocabularies), cut)

    def inputs(self, pairs: Pairs, name: str = "pairs") -> PairInputs:
        """The pairs as numbers. Raises InputError where nothing is left of a text once it is cut, as of U+200B alone, and where the
        vocabulary covers no word of a side; ``name`` tells of which split.
        """
        source, target = self.units(pairs.source), self.units(pairs.target)
        _check_left(pairs, {"source": source, "target": target}, name)
        links, unlinked = (None, ()) if pairs.links is None else self._links(pairs, source, target)
        made = PairInputs(
            self.model.source.ids(source), self.model.target.ids(target), links, unlinked
        )
        for side, ids in (("source", made.source), ("target", made.target)):
            if not (ids.values > 1).any():
                got = f"no {side} word of {len(pairs)} pairs is in the vocabulary of train"
                raise InputError(
                    "read pairs", name, got, "texts in the languages that the model learned"
                )
        return made

    def _links(
        self, pairs: Pairs, source: list[list[str]], target: list[list[str]]
    ) -> tuple[Int[np.ndarray, "three k"], tuple[int, ...]]:
        """Alignments of words as alignments of units: every piece of one with every piece of the other; and the lines that lose some."""
        assert pairs.links is not None
        if isinstance(self.units, Words):
            return pairs.links, ()
        ours, theirs = (
            _places(self.units, pairs.source, source),
            _places(self.units, pairs.target, target),
        )
        found = [(row, ours[row][i], theirs[row][j]) for row, i, j in pairs.links.T.tolist()]
        lost = dict.fromkeys(
            int(pairs.instance[row]) for row, here, there in found if not (here and there)
        )
        spread = [(row, s, t) for row, here, there in found for s in here for t in there]
        return np.array(spread, dtype=np.int64).reshape(-1, 3).T, tuple(lost)

    def save(self, folder: Path) -> None:
        """Write weights (with the settings), vocabularies and, where there are any, the pieces. Raises RunError."""
        model = self.model
        metadata = {
            "attnaudit": json.dumps({"pair_settings": asdict(model.settings)}, sort_keys=True)
        }
        weights = {
            name: tensor.detach().cpu().clone().contiguous()
            for name, tensor in model.state_dict().items()
        }
        with atomic(folder / _FILES[0]) as temporary:
            save_file(weights, temporary, metadata=metadata)
        write_json(
            folder / _FILES[1], {"source": model.source.to_json(), "target": model.target.to_json()}
        )
        if isinstance(self.units, Pieces):
            write_bytes(folder / _FILES[2], self.units.model)

    @classmethod
    def load(cls, folder: Path) -> Translator:
        """What `save` wrote. Raises RunError when it is missing or damaged."""
        path = folder / _FILES[0]
        words = read_json(folder / _FILES[1])
        try:
            with safe_open(path, framework="pt") as file:
                settings = PairSettings(**json.loads(file.metadata()["attnaudit"])["pair_settings"])
            vocabularies = (Vocabulary.from_json(words[side]) for side in ("source", "target"))
            model = EncoderDecoder(settings, *vocabularies)
            model.load_state_dict(load_file(path))
            units = (
                Pieces((folder / _FILES[2]).read_bytes())
                if (folder / _FILES[2]).exists()
                else Words()
            )
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise RunError(
                "load model", str(path), reason, "weights written by attnaudit", "retrain the model"
            ) from error
        return cls(model, units)


def _check_left(pairs: Pairs, sides: dict[str, list[list[str]]], name: str) -> None:
    """Raise InputError for the first text that is cut into nothing."""
    for side, cut in sides.items():
        if [] in cut:
            row = cut.index([])
            got = f"a {side} of which nothing is left once it is cut into pieces: {getattr(pairs, side)[row][:40]!a}"
            do = "correct the line, or take it out of both files"
            raise InputError(
                "read pairs",
                f"{name}, line {pairs.instance[row] + 1}",
                got,
                "a text on both sides",
                do,
            )


def _places(units: Units, texts: Sequence[str], cut: list[list[str]]) -> list[list[range]]:
    """For every text, which of its pieces each word has.

    Words are cut one by one: what white space parts is not always what pieces part, which make two of ``don´t`` (NFKC has a space there)
    and one of two words that U+0085 parts. Where the words' pieces are not those of the whole ``cut`` text, no word of it has any.
    """
    words = [text.split() for text in texts]
    distinct = list(dict.fromkeys(chain.from_iterable(words)))
    alone = dict(zip(distinct, units(distinct), strict=True))
    return [
        _in_order([alone[word] for word in row], tokens)
        for row, tokens in zip(words, cut, strict=True)
    ]


def _in_order(pieces: list[list[str]], tokens: list[str]) -> list[range]:
    if list(chain.from_iterable(pieces)) != tokens:
        return [range(0)] * len(pieces)
    return [range(*span) for span in pairwise(accumulate(map(len, pieces), initial=0))]
