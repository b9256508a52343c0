"""Folders of tiny translators with tokenizers of their own kinds, whose pieces are learned here."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from transformers import (
    M2M100Tokenizer,
    MarianTokenizer,
    MBartTokenizer,
    NllbTokenizer,
    T5Tokenizer,
)

from tests.hf.classes import tiny
from tests.hf.tokenizing import texts, vocabulary

START, PAD, END, UNKNOWN = "<s>", "<pad>", "</s>", "<unk>"


def target(text: str) -> str:
    """The other language: every word written from its end."""
    return " ".join(word[::-1] for word in text.split())


def pairs(folder: Path, number: int = 4) -> Path:
    """A folder of pairs."""
    rows = sorted(set(texts()))[:number]
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        (folder / f"{split}.src").write_text("\n".join(rows) + "\n", encoding="utf-8")
        (folder / f"{split}.tgt").write_text("\n".join(map(target, rows)) + "\n", encoding="utf-8")
    return folder


def _learned(path: Path, rows: Sequence[str]) -> list[str]:
    """Write a model of sentencepiece, and return its pieces."""
    out = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(rows),
        model_writer=out,
        vocab_size=150,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path.write_bytes(out.getvalue())
    model = SentencePieceProcessor(model_proto=out.getvalue())
    return [model.id_to_piece(number) for number in range(len(model))]


def _numbered(path: Path, names: Sequence[str]) -> str:
    path.write_text(
        json.dumps({name: number for number, name in enumerate(dict.fromkeys(names))}),
        encoding="utf-8",
    )
    return str(path)


def _marian(place: Path, apart: bool = False) -> Any:
    source, other = (
        _learned(place / "source.spm", texts()),
        _learned(place / "target.spm", list(map(target, texts()))),
    )
    vocab = _numbered(
        place / "vocab.json", [END, UNKNOWN, PAD, *source, *([] if apart else other), ">>xx<<"]
    )
    of_targets = (
        _numbered(place / "target_vocab.json", [END, UNKNOWN, PAD, *other]) if apart else None
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
        return MarianTokenizer(
            str(place / "source.spm"),
            str(place / "target.spm"),
            vocab,
            of_targets,
            separate_vocabs=apart,
        )


def _m2m100(place: Path) -> Any:
    names = [
        START,
        PAD,
        END,
        UNKNOWN,
        *_learned(place / "pieces.spm", [*texts(), *map(target, texts())]),
    ]
    return M2M100Tokenizer(
        _numbered(place / "vocab.json", names),
        str(place / "pieces.spm"),
        src_lang="en",
        tgt_lang="de",
    )


def _t5(place: Path) -> Any:
    return T5Tokenizer(vocab=[(PAD, 0.0), (END, 0.0), (UNKNOWN, 0.0), *vocabulary()], extra_ids=4)


def _mbart(place: Path) -> Any:
    special = [(name, 0.0) for name in (START, PAD, END, UNKNOWN)]
    return MBartTokenizer(vocab=[*special, *vocabulary()], src_lang="en_XX", tgt_lang="ro_RO")


def _nllb(place: Path) -> Any:
    letters = sorted({letter for text in texts() for letter in text if letter != " "})
    names = [START, PAD, END, UNKNOWN, "▁", *letters]
    return NllbTokenizer(
        vocab={name: k for k, name in enumerate(names)},
        merges=[],
        src_lang="eng_Latn",
        tgt_lang="deu_Latn",
    )


KINDS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "marian": ("MarianMTModel", _marian), "marian, vocabularies apart": ("MarianMTModel", lambda place: _marian(place, apart=True)),
    "m2m100": ("M2M100ForConditionalGeneration", _m2m100), "t5": ("T5ForConditionalGeneration", _t5),
    "mbart": ("MBartForConditionalGeneration", _mbart), "nllb": ("M2M100ForConditionalGeneration", _nllb),
}  # fmt: skip


def translator(kind: str, folder: Path) -> tuple[Any, Any]:
    """A model and its tokenizer, saved to ``folder``."""
    name, make = KINDS[kind]
    learned = folder.parent / f"{folder.name}-learned"
    learned.mkdir(parents=True)
    own = make(learned)
    size = max(len(own), *getattr(own, "lang_token_to_id", {"": 0}).values()) + 1
    settings: dict[str, Any] = {
        "vocab_size": size,
        "pad_token_id": own.pad_token_id,
        "eos_token_id": own.eos_token_id,
    }
    if "apart" in kind:
        settings |= {
            "decoder_vocab_size": len(own.target_encoder), "share_encoder_decoder_embeddings": False, "tie_word_embeddings": False
        }  # fmt: skip
    start = own.eos_token_id if kind in ("m2m100", "mbart", "nllb") else own.pad_token_id
    model = tiny(name, **settings, decoder_start_token_id=start)
    model.save_pretrained(folder)
    own.save_pretrained(folder)
    return model, own
