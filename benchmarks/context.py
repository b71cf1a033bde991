"""What the networks of the language task know of the words before: where their errors come from.

    python -m nalu_ray.tune language head=nalu combine=recurrent --out results
    python benchmarks/context.py results head=nalu combine=recurrent

For each stored network: its mean absolute error on the test numbers; the same if its LSTM's
recurrent weights are 0, if its forget gates are shut, and both; and the error on three kinds of
test numbers: 50 to 59, of which the fixed division has none in training, others below 100, and the
rest.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import torch
from torch import Tensor

from nalu_ray.tasks.language import TASK
from nalu_ray.tasks.language.data import NUMBERS, encode, words
from nalu_ray.tasks.language.network import LanguageNetwork, LanguageSetting
from nalu_ray.training.best_networks import ENDING, Model, from_bytes

SHUT = -50.0
HEAD = (
    *("seed", "test", "no recurrent weights", "gates shut", "both"),
    *("50 to 59", "others below 100", "from 100 on"),
)


def errors(setting: LanguageSetting, weights: dict[str, Tensor]) -> Tensor:
    """Returns the absolute error of a network on 0 to 999, (1000,)."""
    network = LanguageNetwork(setting)
    network.load_state_dict(weights)
    tokens, lengths = map(torch.from_numpy, encode([words(number) for number in range(NUMBERS)]))
    with torch.no_grad():
        answers: Tensor = network(tokens, lengths).squeeze(-1)
    return (answers - torch.arange(NUMBERS)).abs()


def line(model: Model) -> list[float]:
    """Returns a network's errors in the order of ``HEAD``, but for the seed."""
    setting, weights = LanguageSetting.model_validate(model.setting), model.weights
    # all test numbers, by the task's own draw
    every = TASK.unseen(setting, model.about["seed"], NUMBERS)
    test = torch.tensor(sorted(int(number) for _, number in every))
    bias, units = weights["lstm.bias"].clone(), setting.hidden
    bias[units : 2 * units] = SHUT
    no_weights = {"lstm.weight_h": torch.zeros_like(weights["lstm.weight_h"])}
    changes: tuple[dict[str, Tensor], ...] = (
        {},
        no_weights,
        {"lstm.bias": bias},
        no_weights | {"lstm.bias": bias},
    )
    found = [errors(setting, weights | change)[test] for change in changes]
    fifty, below = (test >= 50) & (test < 60), test < 100
    kinds = (fifty, below & ~fifty, ~below)
    return [
        *(error.mean().item() for error in found),
        *(found[0][kind].mean().item() for kind in kinds),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder of the results")
    parser.add_argument("fields", nargs="*", help="fields that the networks must have, name=value")
    options = parser.parse_args()
    wanted = dict(field.split("=", 1) for field in options.fields)
    print(" | ".join(HEAD))
    lines = []
    for file in sorted((options.out / "language").glob(f"*{ENDING}")):
        for model in from_bytes(file.read_bytes(), file.name):
            if all(str(model.setting.get(name)) == value for name, value in wanted.items()):
                lines.append(line(model))
                print(model.about["seed"], *(f"{error:.3g}" for error in lines[-1]), sep=" | ")
    if not lines:
        parser.error(f"no stored network of language in {options.out} has these fields")
    medians = [statistics.median(column) for column in zip(*lines, strict=True)]
    print("median", *(f"{error:.3g}" for error in medians), sep=" | ")


if __name__ == "__main__":
    main()
