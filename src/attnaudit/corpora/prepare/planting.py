"""Texts whose deciding words are put there: any corpus, shortened, with planted words and labels.

The label is random, so the words of the text itself say nothing about it, and planted words follow
it. Every text also has a decoy, a word of two other sets that is drawn without regard to the label.
So the deciding words are known, and so is the effect of replacing a word (`swapped`, `reworded`,
`masked`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attnaudit.core import InputError
from attnaudit.corpora.corpus import Corpus, Split, fingerprint, keyed
from attnaudit.corpora.planted import (
    BAD,
    COLD_FIRST,
    COLD_SECOND,
    GOOD,
    WARM_FIRST,
    WARM_SECOND,
)
from attnaudit.corpora.spec import CorpusSpec

ROWS = {"train": 2000, "dev": 100, "test": 80}  # at most so many rows of each split
WORDS = 24  # at most so many words of a text, around what is marked in it
CLASSES = ("negative", "positive", "cold", "warm")
TRIGGERS, DECOYS = (BAD, GOOD, COLD_SECOND, WARM_SECOND), (COLD_FIRST, WARM_FIRST)
# Modifiers of the rule negation, absent from all corpora: those that keep a class or reverse it.
MODIFIERS = (("verily", "forsooth", "soothly"), ("nowise", "nohow", "noways"))
TRIGGER_WORDS, DECOY_WORDS = (
    frozenset(sum(sets, ())) for sets in ((*TRIGGERS, *MODIFIERS), DECOYS)
)
_TWINS = dict(zip(BAD + COLD_FIRST + COLD_SECOND, GOOD + WARM_FIRST + WARM_SECOND, strict=True))
_OTHER = _TWINS | {other: word for word, other in _TWINS.items()}
_SETS = (*TRIGGERS, *MODIFIERS)
_PLANTED = {*_OTHER, *sum(MODIFIERS, ())}
_WRONG = 0.15  # share of wrong labels under the rule noisy
_RARE = 0.15  # share of the first class under the rule uneven
_LEAST = 4  # words of a text before planting
# Rare words would tell a text, and with it its random label, apart.
_MIN_DF = 5


def with_planted(corpus: Corpus, spec: CorpusSpec, seed: int) -> Corpus:
    """Plant words into texts, relabelled at random; the deciding words are the rationale.

    What is planted follows from the seed, the split and the row only, and words and positions are
    the same for ``decisive``, ``decoy`` and ``random``.

    Args:
        corpus: Any texts without questions.
        spec: Settings. The rule ``planted`` is one of: ``decisive``: one word decides, or the
            majority of several, with as many decoys. ``twice``: there is a second word of the same
            class. ``majority``: two or three of three words are of the class. ``last``: the last
            word decides. ``decoy``: the decoy decides. ``random``: like decisive, but the label is
            independent of all words.
            ``first``: the first word of the text decides; the same words elsewhere do not.
            ``negation``: a word and the modifier before it, which may reverse its class.
            ``same``: all planted words of a text are the same. ``unique``: each class has one word.
            ``noisy``: some labels of train and dev are wrong. ``uneven``: the first class is rare.
        seed: Seed of labels and words.

    Raises:
        InputError: For texts with questions.
    """
    if corpus.task != "classification":
        got = f"a corpus of the task {corpus.task}"
        raise InputError("plant words", corpus.name, got, "texts without a question")
    classes = CLASSES[: spec.planted_classes]
    splits = {name: _planted(split, name, spec, seed) for name, split in corpus.splits.items()}
    for name in ("train", "dev"):
        splits[name] = _with_neutral(splits[name], spec)
    texts = f"at most {ROWS['train']} texts of train; labels drawn at random"
    note = f"words planted with seed {seed} by the rule {spec.planted} into {texts}"
    return replace(
        corpus,
        class_names=classes,
        splits=splits,
        min_df=_MIN_DF,
        fingerprint=fingerprint(classes, _MIN_DF, splits),
        notes=(*corpus.notes, note),
    )


def swapped(split: Split) -> list[list[str]]:
    """Replace each deciding word by its twin of the other class."""
    return [
        [_OTHER.get(word, word) if marked else word for word, marked in _marked(split, row)]
        for row in range(len(split))
    ]


def reworded(split: Split) -> list[list[str]]:
    """Replace every word that does not decide, a planted one by its twin, others by fillers."""
    texts = []
    for row, tokens in enumerate(split.tokens):
        others = _fillers(split, (row + 1) % len(split)) or tokens
        texts.append(
            [
                word if marked else _OTHER.get(word, others[k % len(others)])
                for k, (word, marked) in enumerate(_marked(split, row))
            ]
        )
    return texts


def masked(split: Split) -> list[list[str]]:
    """Replace each deciding word by a filler from the next text."""
    return [
        _without(split, row, [marked for _, marked in _marked(split, row)])
        for row in range(len(split))
    ]


def _without(split: Split, row: int, dropped: Sequence[bool]) -> list[str]:
    others = _fillers(split, (row + 1) % len(split)) or ["."]
    return [
        others[k % len(others)] if dropped[k] else word for k, word in enumerate(split.tokens[row])
    ]


def _marked(split: Split, row: int) -> list[tuple[str, bool]]:
    assert split.rationale is not None
    return list(zip(split.tokens[row], split.rationale[row], strict=True))


def _fillers(split: Split, row: int) -> list[str]:
    return [word for word in split.tokens[row] if word not in _PLANTED]


def _with_neutral(split: Split, spec: CorpusSpec) -> Split:
    """Add a share of the texts without deciding words, once with each label.

    Otherwise a model could infer one class from the absence of the other's words. The same texts
    are added as often without their decoys, with their own label. So ``decisive``, ``decoy`` and
    ``random`` have the same texts, and one model can teach another. By the rule ``first``, words
    that do not decide stay.
    """
    classes = spec.planted_classes
    texts, labels, marks = [], [], []
    for row in range(round(spec.planted_neutral * len(split))):
        for words in (TRIGGER_WORDS, DECOY_WORDS):
            pairs = _marked(split, row)
            stays = TRIGGER_WORDS if spec.planted == "first" else ()
            dropped = [word in words and (marked or word not in stays) for word, marked in pairs]
            own = [marked and word not in words for word, marked in pairs]
            labels += [split.label[row]] * classes if any(own) else range(classes)
            texts += [_without(split, row, dropped)] * classes
            marks += [own] * classes
    # Lookups in a teacher's trace need unique numbers.
    further = split.instance.max(initial=0) + 1 + np.arange(len(texts))
    return Split(
        np.append(split.instance, further),
        [*split.tokens, *texts],
        np.append(split.label, np.array(labels, dtype=np.int32)),
        [*(split.rationale or []), *marks],
    )


def _planted(split: Split, name: str, spec: CorpusSpec, seed: int) -> Split:
    enough = [row for row in range(len(split)) if len(_fillers(split, row)) >= _LEAST]
    chosen = keyed(seed, "planted rows", name).permutation(np.array(enough, dtype=np.int64))
    taken = split.take(np.sort(chosen[: ROWS.get(name, ROWS["test"])]))
    label = np.arange(len(taken)) % spec.planted_classes
    if spec.planted == "uneven":
        label = (np.arange(len(taken)) >= _RARE * len(taken)).astype(label.dtype)
    label = keyed(seed, "planted labels", name).permutation(label)
    made = [
        _text(taken, row, spec, int(label[row]), keyed(seed, "planted", name, str(instance)))
        for row, instance in enumerate(taken.instance.tolist())
    ]
    if spec.planted == "random":
        label = keyed(seed, "random labels", name).permutation(label)
    if spec.planted == "noisy" and name != "test":
        wrong = keyed(seed, "wrong labels", name).random(len(taken)) < _WRONG
        label = (label + wrong) % spec.planted_classes
    decided = [own for _, _, own in made] if spec.planted == "decoy" else label
    words, marks = [text for text, _, _ in made], [row for _, row, _ in made]
    return Split(taken.instance, words, np.array(decided, dtype=np.int32), marks)


def _text(
    split: Split, row: int, spec: CorpusSpec, label: int, rng: np.random.Generator
) -> tuple[list[str], list[bool], int]:
    """Plant words into one text; return it, its marks and the class of its decoy.

    Planted words replace those at their positions, the first one a word of the rationale if there
    is one.
    """
    rule, limit = spec.planted, spec.planted_length or WORDS
    against = spec.planted_counter
    number = spec.planted_words + 2 * against
    # A window around the first marked word, without words that are planted elsewhere.
    known = split.rationale and split.rationale[row]
    pairs = zip(split.tokens[row], known or [False] * len(split.tokens[row]), strict=True)
    kept = [(word, mark) for word, mark in pairs if word not in _PLANTED]
    further = row
    # Deciding words, decoys and a last word need room.
    while len(kept) < (spec.planted_length or 2 * number + 1):
        further = (further + 1) % len(split)
        kept += [(word, False) for word in _fillers(split, further)]
    first = next((k for k, (_, mark) in enumerate(kept) if mark), 0)
    start = max(0, min(first - limit // 3, len(kept) - limit))
    words = [word for word, _ in kept[start : start + limit]]
    marked = [k for k, (_, mark) in enumerate(kept[start : start + limit]) if mark]

    last = len(words) - 1  # kept for the rule last
    order = rng.permutation(last).tolist()
    of_decoy = int(rng.integers(2))
    picked = rng.integers(len(GOOD), size=len(words)).tolist()
    if rule in ("same", "unique"):
        picked = [picked[0] if rule == "same" else 0] * len(words)
    first = 0 if rule == "first" else next((place for place in marked if place < last), order[0])
    places = [first, *(place for place in order if place != first)]
    decoys_at = places[-number:]
    more = {"twice": 2, "majority": 3}
    most = min(more.get(rule or "", number), len(places) - number)
    others, places = places[most:], [last] if rule == "last" else places[:most]
    classes = [label] * len(places)
    for k in range(number - against, min(number, len(places))):
        classes[k] = (label + int(rng.integers(1, spec.planted_classes))) % spec.planted_classes
    if rule == "majority" and len(places) == 3 and rng.random() < 0.5:
        classes[int(rng.integers(3))] = (label + 1) % spec.planted_classes
    if rule == "first":
        words[others[0]] = TRIGGERS[int(rng.integers(2))][picked[others[0]] % len(GOOD)]
    if rule == "negation":
        free = set(range(last)) - set(decoys_at)
        place = next(place for place in (*places, *others) if {place - 1, place} <= free)
        turned = int(rng.integers(2))
        places, classes = [place - 1, place], [len(TRIGGERS) + turned, label ^ turned]
    for place, words_of in zip(places, (_SETS[k] for k in classes), strict=True):
        words[place] = words_of[picked[place] % len(words_of)]
    for pick, place in zip(picked, decoys_at, strict=False):
        words[place] = DECOYS[of_decoy][pick % len(DECOYS[0])]
    deciding = set(decoys_at) if rule == "decoy" else set(places)
    return words, [place in deciding for place in range(len(words))], of_decoy
