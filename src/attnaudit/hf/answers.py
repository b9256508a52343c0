"""Answers that a model writes itself, token after token the most probable."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from attnaudit.core import InputError, Progress, count, describe_error, silent
from attnaudit.hf.model import WRITING, reading, require_task
from attnaudit.hf.texts import Texts


def with_answers(
    model: Any, tokenizer: Any, texts: Texts, tokens: int | None, progress: Progress = silent
) -> Texts:
    """Let a language model write the answers to texts, or the targets of an encoder–decoder.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        texts: The texts.
        tokens: Most tokens of an answer; None keeps the texts as they are.
        progress: Receives the number of texts done.

    Returns:
        The texts to which an answer was written.

    Raises:
        InputError: The model is a classifier, the texts have answers, or none is written.
    """
    if tokens is None:
        return texts
    task, operation = require_task(model), "write answers"
    if task not in WRITING or texts.answer is not None:
        got = "texts with answers" if task in WRITING else "a classifier"
        expected = "a language model, and texts without answers"
        raise InputError(operation, type(model).__name__, got, expected, "leave out generate")
    prompts = texts.text if task == "seq2seq" else [texts.prompt(k)[0] for k in range(len(texts))]
    answers = []
    with reading(model), torch.no_grad():
        for done, prompt in enumerate(prompts, start=1):
            ids = tokenizer(prompt, return_tensors="pt")["input_ids"].to(model.device)
            try:
                written = model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=tokens,
                    do_sample=False,
                    num_beams=1,
                    pad_token_id=tokenizer.pad_token_id or 0,
                )
            except Exception as error:  # whatever a generation_config.json makes it do
                where, got = type(model).__name__, describe_error(error)
                raise InputError(operation, where, got, "settings of greedy search") from error
            new = written[0, 0 if task == "seq2seq" else ids.shape[1] :]
            answers.append(tokenizer.decode(new, skip_special_tokens=True))
            progress(operation, done, len(prompts))
    own = np.array([bool(answer.strip()) for answer in answers])
    if not own.any():
        got, expected = f"no answer to {count(len(texts), 'text')}", "one token or more"
        raise InputError(operation, type(model).__name__, got, expected, "give the answers")
    said = f"answers of up to {count(tokens, 'token')} written by the model"
    said += f"; {count(int((~own).sum()), 'text')} left out, to which it wrote none" * (
        not own.all()
    )
    side = "second" if task == "seq2seq" else "answer"
    return replace(texts, **{side: answers}, notes=(*texts.notes, said)).take(np.flatnonzero(own))
