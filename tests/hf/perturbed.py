"""Perturbed copies of classifiers, and twins of them that read several positions.

``python -m tests.hf.perturbed --copies 200 [FOLDER…]`` counts wrong answers of the checks for tiny
models of random weights, and for saved classifiers.
"""

import argparse
import copy

import torch
from torch import Tensor, nn

from attnaudit.core.errors import InputError
from attnaudit.hf.gate import check_model
from attnaudit.hf.layers import Probe
from attnaudit.hf.load import load_pretrained
from tests.hf.classes import tiny

TINY = ("Bert", "DistilBert", "Llama")
LAST_STATES = ("bert.encoder", "distilbert.transformer", "model.norm")


def perturbed(model, seed):
    """A copy with noise on its weights (even seeds) or a merged random LoRA (odd seeds).

    Every third copy has small logits: its last bias nearly cancels those of a text.
    """
    model, random = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    scale = 10 ** float(torch.empty(1).uniform_(-3, -0.5, generator=random))
    with torch.no_grad():
        for weight in model.parameters():
            noise = torch.randn(weight.shape, generator=random)
            if seed % 2 and weight.dim() == 2:
                up, down = (torch.randn(size, 2, generator=random) for size in weight.shape)
                noise = up @ down.T / 2**0.5
            if weight.dim() == 2 or not seed % 2:
                weight += scale * weight.abs().mean() * noise
        if seed % 3 == 0:
            last = [one for one in model.modules() if isinstance(one, nn.Linear)][-1]
            if last.bias is None:
                last.bias = nn.Parameter(torch.zeros(last.out_features))
            last.bias -= 0.999 * model(**Probe.of(model).inputs).logits[0]
    return model


def pooling(model, share):
    """A copy whose last states have a ``share`` of their mean over all positions."""
    model = copy.deepcopy(model)
    (stack,) = (one for path, one in model.named_modules() if path in LAST_STATES)

    def mean(module, args, output):
        states = output if isinstance(output, Tensor) else output[0]
        mixed = states + share * (states.mean(dim=1, keepdim=True) - states)
        if isinstance(output, Tensor):
            return mixed
        output["last_hidden_state"] = mixed
        return output

    stack.register_forward_hook(mean)
    return model


def reads(model):
    """The position that the checks find, or their refusal."""
    try:
        return check_model(model).reads
    except InputError as error:
        return str(error)


def mistakes(model, seeds, position):
    """Wrong answers for perturbed copies and their twins."""
    twins = {
        "as it is": (lambda own: own, position),
        "mean": (lambda own: pooling(own, 1.0), None),
        "a hundredth of the mean": (lambda own: pooling(own, 0.01), None),
    }
    for seed in seeds:
        own = perturbed(model, seed)
        for name, (twin, expected) in twins.items():
            if (found := reads(twin(own))) != expected:
                yield f"seed {seed}, {name}: {found} where {expected} is right"


def main():
    """Print the number of wrong answers of each model, and the answers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--copies", type=int, default=200)
    parser.add_argument("folders", nargs="*")
    given = parser.parse_args()
    models = {name: tiny(f"{name}ForSequenceClassification") for name in TINY}
    for name, model in [*models.items(), *((one, load_pretrained(one)) for one in given.folders)]:
        position = -1 if name == "Llama" else 0
        found = list(mistakes(model, range(given.copies), position))
        print(f"{name}: {len(found)} mistakes in 3 × {given.copies}", *found, sep="\n", flush=True)


if __name__ == "__main__":
    main()
