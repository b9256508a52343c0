"""Small parallel corpora whose alignments are known: every word has one translation, and the order is turned round."""

import numpy as np

from attnaudit.corpora.corpus import Pairs
from attnaudit.models.presets import PairSettings
from attnaudit.models.translator import Translator


def reversed_pairs(rows, words=12, seed=0):
    random = np.random.default_rng(seed)
    texts = [random.integers(0, words, random.integers(1, 8)).tolist() for _ in range(rows)]
    source = tuple(" ".join(f"a{word}" for word in text) for text in texts)
    target = tuple(" ".join(f"b{word}" for word in text[::-1]) for text in texts)
    links = [
        (row, place, len(text) - 1 - place)
        for row, text in enumerate(texts)
        for place in range(len(text))
    ]
    return Pairs(np.arange(rows), source, target, np.array(links).T)


def write_pairs(folder, sizes=None, aligned=True):
    """The files ``<split>.src``, ``.trg`` and ``.align``."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, rows) in enumerate((sizes or {"train": 120, "dev": 20, "test": 16}).items()):
        pairs = reversed_pairs(rows, seed=seed)
        assert pairs.links is not None
        links = [
            " ".join(f"{s}-{t}" for _, s, t in pairs.links[:, pairs.links[0] == row].T)
            for row in range(rows)
        ]
        columns = {
            "src": pairs.source,
            "trg": pairs.target,
            **({"align": links} if aligned else {}),
        }
        for ending, lines in columns.items():
            (folder / f"{split}.{ending}").write_text("\n".join(lines) + "\n")
    return folder


def edit(path, line, text):
    """Replace a line, counted from 1; None takes it out."""
    lines = path.read_bytes().decode().removesuffix("\n").split("\n")
    lines[line - 1 : line] = [] if text is None else [text]
    path.write_bytes(("\n".join(lines) + "\n").encode())


def small_translator(pairs, seed=0, **settings):
    sizes = {"embedding": 8, "hidden": 12, "dropout": 0.0, **settings}
    translator = Translator.learn(PairSettings(**sizes), pairs, "words", 100, 1, seed)  # pyright: ignore[reportArgumentType]
    translator.model.double()
    for parameter in translator.model.parameters():  # wide apart, so that attention is no even one
        parameter.data *= 3.0
    return translator
