"""Copies of the texts of a torch module: every argument that follows from the tokens is changed."""

import numpy as np
import torch

from attnaudit.tracing.settings import ReplacementSettings
from tests.torch.test_pooling import TOKENS, collected, made

WORDS = ["", *sorted({word for text in TOKENS for word in text})]


def batch(texts):
    """Ids, which say what the tokens are, and a mask."""
    ids = torch.tensor([[*map(WORDS.index, text), *[0] * (5 - len(text))] for text in texts])
    return (ids, ids > 0), texts


def test_copies_are_the_module_on_tokens_of_other_texts():
    net, ((own, mask), texts) = made(outputs=1), batch(TOKENS)
    seen = []
    net.embedding.register_forward_hook(lambda module, given, output: seen.append(given[0]))
    trace = collected(net, [((own, mask), texts)])
    for row, ids in enumerate(torch.stack(seen[-240:], dim=1)):
        lost = np.zeros(ids.shape, bool)
        for copy, places in zip(lost, trace.table["replaced"][row].to_list(), strict=True):
            copy[places] = True
        assert (ids == own[row]).numpy()[~lost].all()
        for place in range(len(texts[row])):
            others = [text for text in texts if text is not texts[row]]
            same = [text[place : place + 1] for text in others if len(text) > place]
            words = {WORDS.index(word) for text in same or others for word in text}
            assert {*ids[lost[:, place], place].tolist()} <= words
        expected = net(ids, mask[row].expand(240, 5)).sigmoid().detach().numpy()
        found = trace.table["replaced_prediction"][row].to_numpy()
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_there_are_no_copies_if_no_argument_says_what_the_tokens_are():
    (ids, mask), texts = batch(TOKENS)
    again = [["a", "good", "a"], *texts[1:]]  # "a" has two ids
    assert not collected(made(), [((ids, mask), again)]).has("replaced")
    left_out = collected(made(), [batch(TOKENS)], replacement=ReplacementSettings(texts=0))
    assert not left_out.has("replaced")
