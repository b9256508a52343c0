"""Folders of tiny translators with tokenizers of their own kinds, whose pieces are learned here."""

from transformers import MBartTokenizer, NllbTokenizer, T5Tokenizer

from tests.hf.classes import tiny
from tests.hf.tokenizing import texts, vocabulary

START, PAD, END, UNKNOWN = "<s>", "<pad>", "</s>", "<unk>"


def target(text):
    """The other language: every word written from its end."""
    return " ".join(word[::-1] for word in text.split())


def pairs(folder, number=4):
    """A folder of pairs."""
    rows = sorted(set(texts()))[:number]
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        (folder / f"{split}.src").write_text("\n".join(rows) + "\n")
        (folder / f"{split}.tgt").write_text("\n".join(map(target, rows)) + "\n")
    return folder


def _t5():
    return T5Tokenizer(vocab=[(PAD, 0.0), (END, 0.0), (UNKNOWN, 0.0), *vocabulary()], extra_ids=4)


def _mbart():
    special = [(name, 0.0) for name in (START, PAD, END, UNKNOWN)]
    return MBartTokenizer(vocab=[*special, *vocabulary()], src_lang="en_XX", tgt_lang="ro_RO")


def _nllb():
    letters = sorted({letter for text in texts() for letter in text if letter != " "})
    names = [START, PAD, END, UNKNOWN, "▁", *letters]
    return NllbTokenizer(
        vocab={name: k for k, name in enumerate(names)},
        merges=[],
        src_lang="eng_Latn",
        tgt_lang="deu_Latn",
    )


KINDS = {
    "t5": ("T5ForConditionalGeneration", _t5),
    "mbart": ("MBartForConditionalGeneration", _mbart),
    "nllb": ("M2M100ForConditionalGeneration", _nllb),
}


def translator(kind, folder):
    """A model and its tokenizer, saved to ``folder``."""
    name, make = KINDS[kind]
    own = make()
    start = own.pad_token_id if kind == "t5" else own.eos_token_id
    model = tiny(
        name,
        vocab_size=len(own) + 1,
        pad_token_id=own.pad_token_id,
        eos_token_id=own.eos_token_id,
        decoder_start_token_id=start,
    )
    model.save_pretrained(folder)
    own.save_pretrained(folder)
    return model, own
