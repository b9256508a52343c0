"""Explain ten sentences with attnaudit, Captum, Inseq and BertViz: lines, seconds, and answers.

    pip install --no-deps --target FOLDER inseq==0.7.1 bertviz==1.4.1 treescope 'typeguard<=2.13.3'
    PYTHONPATH=FOLDER python -m benchmarks.peers --data-dir DIR RUNS/minilm-0/model

Lines are those of the bodies of the functions below, seconds those of a second call, on one thread.
Inseq reads models that write, so it explains the next token of an untrained GPT-2 (4 layers of 4
heads, width 128), for which attnaudit is timed too.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import textwrap
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import attnaudit as aa
from attnaudit.core.errors import describe_error
from attnaudit.corpora.read import read_corpus
from attnaudit.hf.encode import load_tokenizer
from attnaudit.hf.load import load_pretrained
from attnaudit.hf.model import FAILURES
from attnaudit.hf.texts import texts_of
from attnaudit.tracing.settings import ReplacementSettings
from benchmarks.output import print_header, print_row

TEXTS, STEPS = 10, 32


def attnaudit_scores(model: Any, tokenizer: Any, texts: list[str]) -> Any:
    """Return integrated gradients."""
    return aa.hf.collect(model, tokenizer, texts, scores="integrated_gradients", heads=[0])


def attnaudit_answer(model: Any, tokenizer: Any, texts: list[str]) -> Any:
    """Judge the heatmap of integrated gradients."""
    copies = ReplacementSettings(texts=TEXTS)
    scores = {"heatmap": "integrated-gradients", "heads": [0], "replacement": copies}
    trace = aa.hf.collect(model, tokenizer, texts, **scores)
    return aa.audit(trace).verdict


def captum(model: Any, tokenizer: Any, texts: list[str]) -> Any:
    """Return integrated gradients, with padding as the baseline."""
    from captum.attr import LayerIntegratedGradients

    def probability(ids: torch.Tensor) -> torch.Tensor:
        return model(ids).logits.softmax(-1)

    explainer, found = LayerIntegratedGradients(probability, model.get_input_embeddings()), []
    for text in texts:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        base = ids.clone()
        base[0, 1:-1] = tokenizer.pad_token_id
        target = int(probability(ids).argmax())
        maps: Any = explainer.attribute(ids, base, target=target, n_steps=STEPS)
        found.append(maps.sum(-1)[0].abs())
    return found


def bertviz(model: Any, tokenizer: Any, texts: list[str]) -> Any:
    """Draw the attention of every head."""
    from bertviz import head_view  # pyright: ignore[reportMissingImports]

    model.set_attn_implementation("eager")
    pages = []
    for text in texts:
        ids = tokenizer(text, return_tensors="pt")
        attention = model(**ids, output_attentions=True).attentions
        tokens = tokenizer.convert_ids_to_tokens(ids["input_ids"][0])
        pages.append(head_view(attention, tokens, html_action="return"))
    return pages


def inseq(model: Any, tokenizer: Any, texts: list[str]) -> Any:
    """Return integrated gradients of the next token."""
    import inseq  # pyright: ignore[reportMissingImports]

    explainer = inseq.load_model(model, "integrated_gradients", tokenizer=tokenizer)
    written = {"generation_args": {"max_new_tokens": 1, "min_new_tokens": 1}}
    return explainer.attribute(texts, n_steps=STEPS, show_progress=False, **written)


ANSWERS: dict[Callable[..., Any], str] = {
    attnaudit_scores: "how much each word adds to the prediction",
    attnaudit_answer: "the same, and whether the output follows those words when they are replaced",
    captum: "how much each word adds to the prediction",
    bertviz: "where each head attends; nothing about the prediction",
    inseq: "how much each word adds to the next token",
}


def lines_of(function: Callable[..., Any]) -> int:
    """Count the lines of a function's body, without docstring and blank lines."""
    source = textwrap.dedent(inspect.getsource(function))
    body = ast.unparse(ast.parse(source).body[0].body[1:])  # pyright: ignore
    return len([line for line in body.splitlines() if line.strip()])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--data-dir", required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    test = texts_of(read_corpus("sst", data_dir=options.data_dir, raw=True)).of_split("test")
    texts, tokenizer = test.text[:TEXTS], load_tokenizer(options.model)
    size = {"n_layer": 4, "n_head": 4, "n_embd": 128, "vocab_size": len(tokenizer)}
    size |= dict.fromkeys(("bos_token_id", "eos_token_id"), tokenizer.sep_token_id)
    writer = GPT2LMHeadModel(GPT2Config(pad_token_id=tokenizer.pad_token_id, **size)).eval()
    # Inseq compares a text with what its tokens are read back as.
    read_back = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    texts = [tokenizer.decode(tokenizer(text)["input_ids"], **read_back) for text in texts]
    print_header(("model", "tool", "lines", "CPU seconds", "answer"))
    for name, model in (("classifier", load_pretrained(options.model)), ("GPT-2", writer)):
        tools = [one for one in ANSWERS if name == "classifier" or one in (attnaudit_scores, inseq)]
        for tool in tools:
            try:
                tool(model, tokenizer, texts)
                begun = time.process_time()
                tool(model, tokenizer, texts)
                spent = f"{time.process_time() - begun:.1f}"
            except (*FAILURES, ImportError) as error:
                spent = f"fails: {describe_error(error)[:150]}"
            print_row((name, tool.__name__, lines_of(tool), spent, ANSWERS[tool]))


if __name__ == "__main__":
    main()
