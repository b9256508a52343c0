"""Does attention over passages find the one that answers a question, and does the answer follow it?

    python -m benchmarks.passages --out DIR [--seeds N] [--steps N]

Train a small causal language model for each seed on generated texts: six passages, of which three
say what colour a thing is, and a question that one of them answers. Audit its answers to 300 new
texts, with passages as segments. Print Markdown tables.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import BloomConfig, BloomForCausalLM, PreTrainedTokenizerFast

from attnaudit.core.files import write_text
from attnaudit.corpora.planted import PEOPLE, pick
from attnaudit.plans.audit import TransformerSpec
from attnaudit.recipes.transformer import audit_transformer
from attnaudit.stats.bootstrap import ratio_intervals
from attnaudit.trace import Trace
from benchmarks.output import print_header, print_row

THINGS = ["basket", "lantern", "letter", "ladder", "kettle", "bicycle", "blanket", "notebook"]
THINGS += ["umbrella", "bucket", "ticket", "map", "coat", "clock", "rope", "cup"]
COLOURS = ["red", "green", "blue", "white", "black", "yellow", "brown", "grey"]
FACT = "{person} painted the {thing} {colour} today ."
OTHERS = "{person} asks {other} about the {thing} .", "{person} paid {other} for the {thing} ."
QUESTION = "what colour is the {thing}"
FACTS, OTHER = 3, 3  # passages of a text to audit
ROWS, BATCH, RATE, QUESTIONS = 300, 16, 2e-3, 6
LAYERS, HEADS, WIDTH = 2, 4, 64
HEATMAP = "mean-last"
SCORES = ("loo", "integrated_gradients", "rollout", "mean_all", "gradient_input", "random")
OF_HEADS = [f"head_{layer}_{head}" for layer in range(LAYERS) for head in range(HEADS)]

Fact = tuple[str, str]  # a thing and its colour


def passages(facts: int, others: int, rng: np.random.Generator) -> tuple[list[str], list[Fact]]:
    """Write passages in a random order; return them, and the facts in the order of the first."""
    draws = iter(rng.random(4 * (facts + others)).tolist())
    things = [THINGS[k] for k in rng.permutation(len(THINGS))[:facts].tolist()]
    known = [(thing, pick(COLOURS, next(draws))) for thing in things]
    texts = [FACT.format(person=pick(PEOPLE, next(draws)), thing=a, colour=b) for a, b in known]
    for _ in range(others):
        words = {"person": pick(PEOPLE, next(draws)), "other": pick(PEOPLE, next(draws))}
        words["thing"] = pick(things, next(draws))
        texts.append(pick(OTHERS, next(draws)).format(**words))
    order = rng.permutation(len(texts)).tolist()
    return [texts[k] for k in order], [known[k] for k in order if k < facts]


def tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer of whole words."""
    forms = " ".join((FACT, *OTHERS, QUESTION)).split()
    words = {*PEOPLE, *THINGS, *COLOURS, *(word for word in forms if word[0] != "{")}
    made = Tokenizer(
        models.WordLevel({word: k for k, word in enumerate(["<pad>", *sorted(words)])}, "<pad>")
    )
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # pyright: ignore[reportAttributeAccessIssue]
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>")


def batch(words: Any, others: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return token ids of texts with questions and answers, and where the answers are."""
    facts, rows, size = int(rng.integers(2, FACTS + 2)), [], len(QUESTION.split()) + 1
    for _ in range(BATCH):
        texts, known = passages(facts, others, rng)
        for k in rng.integers(facts, size=QUESTIONS).tolist():
            texts.append(f"{QUESTION.format(thing=known[k][0])} {known[k][1]}")
        rows.append(" ".join(texts))
    ids = torch.tensor(words(rows)["input_ids"])
    is_answer = torch.zeros_like(ids, dtype=torch.bool)
    is_answer[:, [-1 - size * k for k in range(QUESTIONS)]] = True
    return ids, is_answer


def train(folder: Path, seed: int, steps: int) -> None:
    """Train a model, and save it with its tokenizer."""
    torch.manual_seed(seed)
    rng, words = np.random.default_rng([seed, 1]), tokenizer()
    sizes = {"hidden_size": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "initializer_range": 0.06}
    config = BloomConfig(vocab_size=len(words), pad_token_id=0, use_cache=False, **sizes)
    config.bos_token_id = config.eos_token_id = None
    model = BloomForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, betas=(0.9, 0.98))
    for step in range(steps):
        done = step / steps
        # Easy texts come first.
        ids, is_answer = batch(words, int(rng.integers(1 + min(OTHER, int(4 * done)))), rng)
        warm, last = min(1, (step + 1) / 200), min(1, (1 - done) / 0.3)
        optimizer.param_groups[0]["lr"] = RATE * warm * last
        logits = model(ids).logits[:, :-1].transpose(1, 2)
        loss = torch.nn.functional.cross_entropy(logits, ids[:, 1:], reduction="none")
        answers = loss[is_answer[:, 1:]].mean()
        # The other words teach the model to look back.
        (answers + 0.2 * loss.mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 250 == 0:
            print(f"seed {seed}, step {step}: loss {answers.item():.3f}", file=sys.stderr)
    model.save_pretrained(folder)
    words.save_pretrained(folder)


def write_texts(path: Path, seed: int) -> None:
    """Write texts to audit, with the passage that answers the question marked."""
    rng, lines = np.random.default_rng([seed, 2]), []
    for _ in range(ROWS):
        parts, known = passages(FACTS, OTHER, rng)
        thing, colour = known[int(rng.integers(FACTS))]
        text, support = " ".join(parts), next(one for one in parts if f"{thing} {colour}" in one)
        start = text.index(support)
        row = {"text": text, "passages": parts, "known": [[start, start + len(support)]]}
        lines.append(row | {"question": QUESTION.format(thing=thing), "answer": colour})
    write_text(path, "".join(json.dumps(line) + "\n" for line in lines))


def audited(folder: Path, seed: int, steps: int) -> Trace:
    """Train and audit the model of a seed, unless that is done."""
    model, table = folder / "model", folder / "texts.jsonl"
    if not (model / "config.json").exists():
        train(model, seed, steps)
        write_texts(table, seed)
    settings = {"collect.scores": (*SCORES, *OF_HEADS), "collect.heatmap": HEATMAP}
    columns = {"segments": "passages", "rationale": "known"}
    columns |= {name: name for name in ("question", "answer")}
    spec = TransformerSpec.of(model, str(table), settings=settings, seed=seed, **columns)
    return Trace.read(audit_transformer(spec, folder / "audit"))


def right(folder: Path) -> np.ndarray:
    """Return which answers are the model's most probable next words."""
    model = BloomForCausalLM.from_pretrained(folder / "model").eval()
    rows = [json.loads(line) for line in (folder / "texts.jsonl").read_text().splitlines()]
    words = PreTrainedTokenizerFast.from_pretrained(folder / "model")
    ids = words([f"{row['text']} {row['question']} {row['answer']}" for row in rows])["input_ids"]
    ids = torch.tensor(ids)
    with torch.no_grad():
        return (model(ids[:, :-1]).logits[:, -1].argmax(dim=-1) == ids[:, -1]).numpy()


def auc(score: np.ndarray, marks: np.ndarray) -> float:
    """Return how often the marked passage has a higher score than another; ties count half."""
    gaps = score[marks][:, None] - score[~marks]
    return float(((gaps > 0) + 0.5 * (gaps == 0)).mean())


def figures(folder: Path, seed: int, steps: int) -> dict[str, np.ndarray]:
    """Return figures of each text of a seed, by name."""
    trace = audited(folder, seed, steps)
    names = {"shown": f"heatmap {HEATMAP}", **{name: name for name in (*SCORES, *OF_HEADS)}}
    found = {f"AUC, {name}": [] for name in names.values()}
    given = ("p(answer)", "p(answer), others exchanged", "p(answer), supporting exchanged")
    found |= {name: [] for name in given}
    for row, marks in enumerate(trace.table["rationale"].to_list()):
        is_known = np.array(marks)[: FACTS + OTHER]  # the question stands behind
        for column, name in names.items():
            score = trace.ragged(column if column == "loo" else f"importance_{column}")[row]
            found[f"AUC, {name}"].append(auc(score[: len(is_known)], is_known))
        support, lost = int(is_known.argmax()), trace.cell("replaced", row)
        answers = np.array(trace.cell("replaced_prediction", row))[:, 1]
        is_lost = np.array([support in copy for copy in lost])
        values = trace.prediction[row, 1], answers[~is_lost].mean(), answers[is_lost].mean()
        for name, value in zip(given, values, strict=True):
            found[name].append(value)
    accuracy = right(folder).astype(float)
    return {"accuracy": accuracy, **{name: np.array(values) for name, values in found.items()}}


def report(rows: Sequence[dict[str, np.ndarray]]) -> None:
    """Print means with intervals over texts, a column for each seed."""
    print_header(["measure", *(f"seed {seed}" for seed in range(len(rows)))])
    for name in rows[0]:
        cells = []
        for own in rows:
            values, ones = own[name][None], np.ones((1, len(own[name])))
            low, high = ratio_intervals(values, ones, 0, ranges=np.array([[0.0, 1.0]]))
            cells.append(f"{values.mean():.3f} [{low[0]:.3f}, {high[0]:.3f}]")
        print_row([name, *cells])


def main() -> None:
    """Train, audit and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4000)
    options = parser.parse_args()
    seeds = range(options.seeds)
    report([figures(options.out / f"s{k}", k, options.steps) for k in seeds])


if __name__ == "__main__":
    main()
