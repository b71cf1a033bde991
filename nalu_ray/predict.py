"""Asks a trained network: the number after each word of a text (Figure 3) or image of a series."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import ValidationError

from nalu_ray.command.words import Exit, Parser, assignments, guarded, whole
from nalu_ray.errors import ConfigError, did_you_mean, explain, printable
from nalu_ray.registry import tasks
from nalu_ray.results.output import figures, traces
from nalu_ray.results.store import paths
from nalu_ray.results.store.atomic import write_bytes
from nalu_ray.results.store.networks import describe
from nalu_ray.sweep.messages import Messages
from nalu_ray.task import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor, nn

    from nalu_ray.training.checkpoints import Model

SUFFIXES = (".png", ".pdf", ".svg")
_EXAMPLES = """\
examples:
  python -m nalu_ray.predict language five hundred and fifteen
      by the stored network with the lowest validation error
  python -m nalu_ray.predict language "eighty-one" head=nac combine=sum
      by the best of those
  python -m nalu_ray.predict language --figure figure3.png --examples 9
      numbers of the test set, the value after each word (Figure 3)
  python -m nalu_ray.predict mnist_counting --figure counts.png --examples 1
      a series of test images, the counts after each

exit codes: 0 told, 2 bad usage, 3 the results cannot be read
"""


@runtime_checkable
class Reader(Protocol):
    """A task whose networks read texts."""

    name: str
    axes: tuple[str, ...]
    setting_type: type[Setting]

    def build(self, setting: Any) -> nn.Module:
        """Builds a network without trained weights."""

    def words(self, text: str) -> list[str]:
        """Returns the words of a text; raises ValueError, saying why, if it cannot be read."""

    def after_each(
        self, setting: Any, weights: dict[str, Tensor], words: Sequence[str]
    ) -> list[float]:
        """Returns what a trained network says after each word."""

    def unseen(self, setting: Any, seed: int, count: int) -> list[tuple[list[str], float]]:
        """Returns the words of texts that a seed never trained on, and what they stand for."""


@runtime_checkable
class Viewer(Protocol):
    """A task whose networks see series of images."""

    name: str
    axes: tuple[str, ...]
    setting_type: type[Setting]
    names: tuple[str, ...]

    def build(self, setting: Any) -> nn.Module:
        """Builds a network without trained weights."""

    def prepare(self) -> None:
        """Fetches the images; raises RuntimeError, saying how else to get them, if it cannot."""

    def examples(
        self, setting: Any, weights: dict[str, Tensor], seed: int, count: int
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Returns series of images that a seed never trained on, what a network says, the truth."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see :class:`nalu_ray.command.words.Exit`."""
    return guarded(lambda: _predict(argv))


def _predict(argv: Sequence[str] | None) -> int:
    options, unknown = _parser().parse_known_intermixed_args(argv)
    if options.help:
        print(_parser().format_help(), end="")
        return Exit.DONE
    task, text, wanted = _checked(options, unknown)
    with Messages(lambda warning: print(f"warning: {warning}", file=sys.stderr)):
        path, model = _model(options, task, wanted)
    setting = _setting(task, model)
    known = {name: getattr(setting, name) for name in (*task.axes, "lr")} | model.about
    print(f"{printable(path)}: {describe(known)}")
    if isinstance(task, Viewer):
        seen = _series(task, setting, model, options.examples)
        for series in seen:
            print("\n".join(traces.series_lines(series)))
        if options.figure is not None:
            _draw(options.figure, traces.draw_series(seen, describe(known)))
        return Exit.DONE
    asked: list[tuple[list[str], float | None]] = [(text, None)]
    if not text:
        asked = list(task.unseen(setting, model.about["seed"], options.examples))
    found = [
        traces.Trace(words, task.after_each(setting, model.weights, words), target)
        for words, target in asked
    ]
    for trace in found:
        print("\n".join(traces.lines(trace)))
    if options.figure is not None:
        _draw(options.figure, traces.draw(found, describe(known)))
    return Exit.DONE


def _series(task: Viewer, setting: Setting, model: Model, count: int) -> list[traces.Series]:
    try:
        task.prepare()
    except RuntimeError as error:
        raise ConfigError([str(error)]) from error
    return [
        traces.Series(images.numpy(), values.numpy(), targets.numpy(), task.names)
        for images, values, targets in task.examples(
            setting, model.weights, model.about["seed"], count
        )
    ]


def _parser() -> Parser:
    made = Parser("python -m nalu_ray.predict", __doc__ or "", _EXAMPLES)
    made.add_argument(
        "words", nargs="*", metavar="task text [key=value]",
        help="language and words to read, or mnist_counting or mnist_addition; what the network "
        "must be, such as head=nalu",
    )  # fmt: skip
    add = made.add_argument
    add("-h", "--help", action="store_true", help="print this help")
    add(
        "--checkpoint",
        type=paths.place,
        metavar="FILE",
        help="a file of models (default: the best under --out)",
    )
    add(
        "--out",
        type=paths.place,
        default="results",
        help="folder or URI of the results (default: %(default)s)",
    )
    add("--figure", type=paths.file, metavar="FILE",
        help="draw what is told, or what is unseen, as .png, .pdf or .svg")  # fmt: skip
    add("--examples", type=whole, default=9, metavar="N",
        help="how many test numbers or series (default: %(default)s)")  # fmt: skip
    return made


def _checked(
    options: argparse.Namespace, unknown: Sequence[str]
) -> tuple[Reader | Viewer, list[str], dict[str, str]]:
    """Returns task, words to read and ``key=value`` words; raises with every mistake."""
    mistakes = [_parser().unknown(word) for word in unknown if word[0] == "-"]
    name, *words = [*options.words, *(word for word in unknown if word[0] != "-")] or [""]
    askable = {key: found for key, found in tasks().items() if isinstance(found, Reader | Viewer)}
    wanted, wrong = assignments([word for word in words if "=" in word])
    mistakes += wrong
    text = " ".join(word for word in words if "=" not in word)
    read: list[str] = []
    asked = askable.get(name)
    if asked is None:
        mistakes.append(did_you_mean("task to ask", name, askable))
    elif isinstance(asked, Viewer):
        mistakes += [f"{word}: {name} reads no words" for word in text.split()]
    elif text or options.figure is None:
        try:
            read = asked.words(text)
        except ValueError as error:
            mistakes.append(str(error))
    if options.examples < 1:
        mistakes.append(f"--examples {options.examples}: 1 or more is needed")
    if options.figure is not None and options.figure.suffix not in SUFFIXES:
        mistakes.append(f"--figure {options.figure}: it must end in {', '.join(SUFFIXES)}")
    if mistakes or asked is None:
        raise ConfigError(mistakes)
    return asked, read, wanted


def _model(
    options: argparse.Namespace, task: Reader | Viewer, wanted: dict[str, str]
) -> tuple[str, Model]:
    from nalu_ray.training import checkpoints  # noqa: PLC0415 (keeps --help quick)

    def fit(model: Model) -> None:
        if (wrong := _misfit(task, model)) is not None:
            raise checkpoints.ModelError(wrong)

    try:
        if options.checkpoint:
            return options.checkpoint, checkpoints.load(options.checkpoint, task.name, wanted, fit)
        return checkpoints.best(options.out, task.name, wanted, fit)
    except checkpoints.ModelError as error:
        raise ConfigError([str(error)]) from error


def _setting(task: Reader | Viewer, model: Model) -> Setting:
    return task.setting_type.model_validate(model.setting)


def _misfit(task: Reader | Viewer, model: Model) -> str | None:
    """Returns why a model cannot be asked: one of another version, or damaged; None if it can."""
    import torch  # noqa: PLC0415 (keeps --help quick)

    from nalu_ray.training import plain  # noqa: PLC0415 (as above)

    try:
        setting = _setting(task, model)
        with torch.device("meta"):  # whatever size is asked for: without memory
            return plain.misfit(task.build(setting), model.weights)
    except ValidationError as error:
        return "; ".join(explain(error))
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error).split("\n", maxsplit=1)[0]


def _draw(path: Path, figure: Figure) -> None:
    data = figures.encode(figure, path.suffix[1:])
    try:
        write_bytes(path, data)
    except OSError as error:
        raise ConfigError([f"cannot write {error.filename}: {error.strerror}"]) from error
    print(f"drawn: {path}")


if __name__ == "__main__":
    sys.exit(main())
