"""A translator: a sequence-to-sequence model and the units that cut its texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, chain, pairwise
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int

from attnaudit.core import InputError, read_json, write_json
from attnaudit.core.files import write_bytes
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Pairs
from attnaudit.corpora.prepare.tokenise import Pieces, Units, Words, learn_pieces
from attnaudit.corpora.prepare.vocabulary import UNK, Vocabulary
from attnaudit.corpora.spec import UnitName
from attnaudit.models.batch import PairInputs
from attnaudit.models.presets import PairSettings
from attnaudit.models.seq2seq import EncoderDecoder
from attnaudit.models.weights import read_weights, restoring, write_weights

PIECES = "pieces.model"


@dataclass(frozen=True)
class Translator:
    """A model and the units of its texts.

    Attributes:
        model: Reads and writes ids of its vocabularies.
        units: Cut texts into entries of the vocabularies, and join entries into texts.
    """

    model: EncoderDecoder
    units: Units

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
        """Learn units and vocabularies from the train pairs, and build an untrained model.

        Args:
            settings: Sizes of the model.
            train: The pairs.
            units: Words or pieces.
            pieces: Largest number of pieces.
            min_df: Smallest number of texts of its side in which a word must occur.
            seed: Seed of the weights.

        Returns:
            The translator.

        Raises:
            InputError: On one side no word occurs in ``min_df`` texts.
        """
        cut = learn_pieces([*train.source, *train.target], pieces) if units == "pieces" else Words()
        source, target = cut(train.source), cut(train.target)
        vocabularies = [Vocabulary.build(side, min_df) for side in (source, target)]
        if not all(vocabulary.known for vocabulary in vocabularies):
            got = f"{min_df}: no word of a side of train is in so many texts"
            expected = f"fewer than the {len(train)} pairs there are"
            raise InputError("read settings", "setting corpus.min_df", got, expected)
        # The fork keeps the caller's random state.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(EncoderDecoder(settings, *vocabularies), cut)

    def inputs(self, pairs: Pairs, name: str = "pairs") -> PairInputs:
        """Replace the units of pairs with their ids.

        Args:
            pairs: The pairs.
            name: Name of their split, for messages.

        Returns:
            The ids.

        Raises:
            InputError: A text is empty after it is cut (a lone U+200B, for example), or no word of
                a side is in the vocabulary.
        """
        cut = {side: self.units(getattr(pairs, side)) for side in ("source", "target")}
        ids = {side: getattr(self.model, side).ids(texts) for side, texts in cut.items()}
        for side, texts in cut.items():
            if [] in texts:
                row = texts.index([])
                got = f"nothing of the {side} is left: {getattr(pairs, side)[row][:40]!a}"
                where = f"{name}, line {pairs.instance[row] + 1}"
                do = "correct the line, or take it out of both files"
                raise InputError("cut pairs into pieces", where, got, "a text on both sides", do)
            # A model that only reads unknown words would still write something.
            if not (ids[side].values > UNK).any():
                got = f"no {side} word of {len(pairs)} pairs is in the vocabulary of train"
                expected = "texts in the languages that the model learned"
                raise InputError("read pairs", name, got, expected)
        links, unlinked = self._links(pairs, **cut)
        return PairInputs(**ids, links=links, unlinked=unlinked)

    def _links(
        self, pairs: Pairs, source: list[list[str]], target: list[list[str]]
    ) -> tuple[Ragged | None, tuple[int, ...]]:
        """Align every piece of a word with every piece of the word that it is aligned with.

        Also return the lines that lose alignments.
        """
        if pairs.links is None:
            return None, ()
        if isinstance(self.units, Words):
            return _by_row(pairs.links.T, len(pairs)), ()
        ours = _places(self.units, pairs.source, source)
        theirs = _places(self.units, pairs.target, target)
        words = [(row, ours[row][i], theirs[row][j]) for row, i, j in pairs.links.T.tolist()]
        lost = dict.fromkeys(
            int(pairs.instance[row]) for row, one, other in words if not (one and other)
        )
        links = [(row, s, t) for row, one, other in words for s in one for t in other]
        return _by_row(np.array(links, dtype=np.int64).reshape(-1, 3), len(pairs)), tuple(lost)

    def save(self, folder: Path) -> None:
        """Write the weights with settings, the vocabularies and, if used, the pieces.

        Raises:
            RunError: A file cannot be written.
        """
        model = self.model
        write_weights(folder, model, {"pair_settings": asdict(model.settings)})
        words = {"source": model.source.to_json(), "target": model.target.to_json()}
        write_json(folder / "vocab.json", words)
        if isinstance(self.units, Pieces):
            write_bytes(folder / PIECES, self.units.model)

    @classmethod
    def load(cls, folder: Path) -> Translator:
        """Load a translator that `save` wrote.

        Raises:
            RunError: A file is missing or damaged.
        """
        words = read_json(folder / "vocab.json")
        with restoring(folder):
            described, weights = read_weights(folder)
            vocabularies = (Vocabulary.from_json(words[side]) for side in ("source", "target"))
            model = EncoderDecoder(PairSettings(**described["pair_settings"]), *vocabularies)
            model.load_state_dict(weights)
            path = folder / PIECES
            units = Pieces(path.read_bytes()) if path.exists() else Words()
        return cls(model, units)


def _by_row(links: Int[np.ndarray, "k three"], rows: int) -> Ragged:
    """Group alignments, sorted by row, whose first column is the row."""
    return Ragged.from_lengths(links[:, 1:], np.bincount(links[:, 0], minlength=rows))


def _places(units: Units, texts: Sequence[str], cut: list[list[str]]) -> list[list[range]]:
    """Return the range of pieces of each word of every text.

    If the pieces of the single words do not add up to those of the whole ``cut`` text, all its
    ranges are empty.
    """
    # Words are cut one by one, since pieces and white space disagree about some borders. NFKC puts
    # a space into ``don´t``, which makes it two, and U+0085 separates words but not pieces.
    words = [text.split() for text in texts]
    distinct = list(dict.fromkeys(chain.from_iterable(words)))
    pieces = dict(zip(distinct, units(distinct), strict=True))
    places = []
    for row, tokens in zip(words, cut, strict=True):
        own = [pieces[word] for word in row]
        ends = accumulate(map(len, own), initial=0)
        fits = list(chain.from_iterable(own)) == tokens
        places.append([range(*span) if fits else range(0) for span in pairwise(ends)])
    return places
