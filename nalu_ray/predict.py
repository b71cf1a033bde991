"""Prints a trained network's answer after each word of a text (Figure 3) or image of a series."""

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
from nalu_ray.sweep.warnings import WarningRelay
from nalu_ray.task import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor, nn

    from nalu_ray.training.checkpoints import Model

SUFFIXES = (".png", ".pdf", ".svg")
_EXAMPLES = """\
examples:
  python -m nalu_ray.predict language five hundred and fifteen
      ask the stored network with the lowest validation error
  python -m nalu_ray.predict language "eighty-one" head=nac combine=sum
      ask the best network with these settings
  python -m nalu_ray.predict language --figure figure3.png --examples 9
      draw the answers after each word of nine test numbers (Figure 3)
  python -m nalu_ray.predict mnist_counting --figure counts.png --examples 1
      draw a series of test images and the counts after each

exit codes: 0 success, 2 wrong usage, 3 the results cannot be read
"""


@runtime_checkable
class TextReader(Protocol):
    """A task whose networks read texts."""

    name: str
    axes: tuple[str, ...]
    setting_type: type[Setting]

    def build(self, setting: Any) -> nn.Module:
        """Builds a network without trained weights."""

    def words(self, text: str) -> list[str]:
        """Returns the words of a text.

        Raises:
            ValueError: the text has unknown words or none.
        """

    def after_each(
        self, setting: Any, weights: dict[str, Tensor], words: Sequence[str]
    ) -> list[float]:
        """Returns a trained network's number after each word."""

    def unseen(self, setting: Any, seed: int, count: int) -> list[tuple[list[str], float]]:
        """Returns up to ``count`` texts that a seed did not train on, as words and number."""


@runtime_checkable
class SeriesReader(Protocol):
    """A task whose networks read series of images."""

    name: str
    axes: tuple[str, ...]
    setting_type: type[Setting]
    names: tuple[str, ...]

    def build(self, setting: Any) -> nn.Module:
        """Builds a network without trained weights."""

    def prepare(self) -> None:
        """Downloads the images.

        Raises:
            RuntimeError: no source has them; the message says how to provide them.
        """

    def examples(
        self, setting: Any, weights: dict[str, Tensor], seed: int, count: int
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Returns series of images that a seed did not train on, with answers and targets."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see :class:`nalu_ray.command.words.Exit`."""
    return guarded(lambda: _predict(argv))


def _predict(argv: Sequence[str] | None) -> int:
    options, unknown = _parser().parse_known_intermixed_args(argv)
    if options.help:
        print(_parser().format_help(), end="")
        return Exit.DONE
    task, text, wanted = _checked(options, unknown)
    with WarningRelay(lambda warning: print(f"warning: {warning}", file=sys.stderr)):
        path, model = _model(options, task, wanted)
    setting = _setting(task, model)
    known = {name: getattr(setting, name) for name in (*task.axes, "lr")} | model.about
    print(f"{printable(path)}: {describe(known)}")
    if isinstance(task, SeriesReader):
        examples = _series(task, setting, model, options.examples)
        for series in examples:
            print("\n".join(traces.series_lines(series)))
        if options.figure is not None:
            _draw(options.figure, traces.draw_series(examples, describe(known)))
        return Exit.DONE
    texts: list[tuple[list[str], float | None]] = [(text, None)]
    if not text:
        texts = list(task.unseen(setting, model.about["seed"], options.examples))
    answers = [
        traces.Trace(words, task.after_each(setting, model.weights, words), target)
        for words, target in texts
    ]
    for trace in answers:
        print("\n".join(traces.lines(trace)))
    if options.figure is not None:
        _draw(options.figure, traces.draw(answers, describe(known)))
    return Exit.DONE


def _series(task: SeriesReader, setting: Setting, model: Model, count: int) -> list[traces.Series]:
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
    parser = Parser("python -m nalu_ray.predict", __doc__ or "", _EXAMPLES)
    add = parser.add_argument
    add(
        "words",
        nargs="*",
        metavar="task text [field=value]",
        help="task name (language with a text, mnist_counting or mnist_addition), then fields of "
        "the network such as head=nalu",
    )
    add("-h", "--help", action="store_true", help="show this message and exit")
    add(
        "--checkpoint",
        type=paths.place,
        metavar="FILE",
        help="file of trained networks (default: the best under --out)",
    )
    add(
        "--out",
        type=paths.place,
        default="results",
        help="folder or URI of the results (default: %(default)s)",
    )
    add(
        "--figure",
        type=paths.file,
        metavar="FILE",
        help="draw the answers to the text, or to test examples without one, as .png, .pdf or .svg",
    )
    add(
        "--examples",
        type=whole,
        default=9,
        metavar="N",
        help="number of test numbers or series (default: %(default)s)",
    )
    return parser


def _checked(
    options: argparse.Namespace, unknown: Sequence[str]
) -> tuple[TextReader | SeriesReader, list[str], dict[str, str]]:
    """Returns the task, the words to read and the ``field=value`` pairs.

    Raises:
        ConfigError: the command line is wrong; the error names every mistake.
    """
    mistakes = [_parser().unknown(word) for word in unknown if word[0] == "-"]
    name, *words = [*options.words, *(word for word in unknown if word[0] != "-")] or [""]
    askable = {
        key: task for key, task in tasks().items() if isinstance(task, TextReader | SeriesReader)
    }
    wanted, wrong = assignments([word for word in words if "=" in word])
    mistakes += wrong
    text = " ".join(word for word in words if "=" not in word)
    read: list[str] = []
    task = askable.get(name)
    if task is None:
        mistakes.append(did_you_mean("task to ask", name, askable))
    elif isinstance(task, SeriesReader):
        mistakes += [f"{word}: {name} reads images, not words" for word in text.split()]
    elif text or options.figure is None:
        try:
            read = task.words(text)
        except ValueError as error:
            mistakes.append(str(error))
    if options.examples < 1:
        mistakes.append(f"--examples {options.examples} must be 1 or more")
    if options.figure is not None and options.figure.suffix not in SUFFIXES:
        mistakes.append(f"--figure {options.figure} must end in {', '.join(SUFFIXES)}")
    if mistakes or task is None:
        raise ConfigError(mistakes)
    return task, read, wanted


def _model(
    options: argparse.Namespace, task: TextReader | SeriesReader, wanted: dict[str, str]
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


def _setting(task: TextReader | SeriesReader, model: Model) -> Setting:
    return task.setting_type.model_validate(model.setting)


def _misfit(task: TextReader | SeriesReader, model: Model) -> str | None:
    """Returns why a model cannot be used (another version, or damaged), or None if it can."""
    import torch  # noqa: PLC0415 (keeps --help quick)

    from nalu_ray.training import plain  # noqa: PLC0415 (as above)

    try:
        setting = _setting(task, model)
        with torch.device("meta"):  # any size, without memory
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
