"""Prints a network's answer after each word of a text (Figure 3), or each image of a series."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nalu_ray.command.exits import Exit, guarded
from nalu_ray.command.network_choice import add_options
from nalu_ray.command.readers import (
    SeriesReader,
    TextReader,
    choose_model,
    doubts,
    setting_of,
)
from nalu_ray.command.words import Parser, assignments, whole
from nalu_ray.errors import ConfigError, did_you_mean, printable
from nalu_ray.input import invocation
from nalu_ray.registry import tasks
from nalu_ray.results.output import figures, traces
from nalu_ray.results.store import paths
from nalu_ray.results.store.atomic_files import write_bytes
from nalu_ray.results.store.networks import describe
from nalu_ray.sweep.warnings import WarningRelay
from nalu_ray.task import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nalu_ray.training.best_networks import Model

EXAMPLE = "language five hundred and fifteen"
SUFFIXES = (".png", ".pdf", ".svg")
_EXAMPLES = """\
examples:
  python -m nalu_ray.predict language five hundred and fifteen
      ask the stored network with the lowest validation error; if none is stored,
      the one that comes with nalu-ray
  python -m nalu_ray.predict language "eighty-one" head=nac combine=sum
      ask the best network with these settings
  python -m nalu_ray.predict language --figure figure3.png --examples 9
      draw the answers after each word of nine test numbers (Figure 3)
  python -m nalu_ray.predict mnist_counting --figure counts.png --examples 1
      draw a series of test images and the counts after each

exit codes: 0 success, 2 wrong usage, 3 the results cannot be read
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see :class:`nalu_ray.command.exits.Exit`."""
    return guarded(lambda: _predict(argv))


def _predict(argv: Sequence[str] | None) -> int:
    options, unknown = _parser().parse_known_intermixed_args(argv)
    if options.help:
        print(_parser().format_help(), end="")
        return Exit.DONE
    task, text, wanted = _checked(options, unknown)
    with WarningRelay(lambda warning: print(f"warning: {warning}", file=sys.stderr)):
        chosen = choose_model(
            task, options.out, wanted, checkpoint=options.checkpoint, shipped=options.shipped
        )
    model = chosen.network
    setting = setting_of(task, model)
    axes = describe({name: getattr(setting, name) for name in task.axes})
    about = model.about
    score = f"{about['split']} {about['metric']} {about['value']:.4g} at step {about['step']:,}"
    print(chosen.header("model", f"{axes}, seed {about['seed']}, {score}"), flush=True)
    if isinstance(task, SeriesReader):
        _prepare(task)
    for line in doubts(task, setting, model):
        print(f"warning: {line}", file=sys.stderr)
    title = f"{axes}, {score}"
    if isinstance(task, SeriesReader):
        examples = _series(task, setting, model, options.examples)
        for series in examples:
            print("\n".join(traces.series_lines(series)))
        if options.figure is not None:
            _draw(options.figure, traces.draw_series(examples, title))
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
        _draw(options.figure, traces.draw(answers, title))
    return Exit.DONE


def _prepare(task: SeriesReader) -> None:
    try:
        task.prepare()
    except RuntimeError as error:
        raise ConfigError([str(error)]) from error


def _series(task: SeriesReader, setting: Setting, model: Model, count: int) -> list[traces.Series]:
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
    add("-h", "--help", action="store_true", help="print this help")
    add_options(parser, "file of trained networks")
    add(
        "--figure",
        type=paths.file,
        metavar="FILE",
        help="draw the answers to the text (without one: to test examples) as .png, .pdf or .svg",
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
    mistakes = [_parser().unknown(word) for word in unknown if word[:1] == "-"]
    name, *words = [*options.words, *(word for word in unknown if word[:1] != "-")] or [""]
    askable = {
        key: task for key, task in tasks().items() if isinstance(task, TextReader | SeriesReader)
    }
    wanted, wrong = assignments([word for word in words if "=" in word])
    mistakes += wrong
    text = " ".join(word for word in words if "=" not in word)
    read: list[str] = []
    task = askable.get(name)
    if task is None:
        mistakes.append(_no_task(name, text, askable))
    elif isinstance(task, SeriesReader):
        mistakes += [f"{word}: {name} reads images, not words" for word in text.split()]
    elif text or options.figure is None:
        try:
            read = task.words(text)
        except ValueError as error:
            digits = [word for word in text.split() if word.isdecimal()]
            hint = f"write the number in words: {_example()}"
            mistakes += [f"{word}: {hint}" for word in digits] or [str(error)]
    if options.shipped and options.checkpoint:
        mistakes.append("--checkpoint names a file of your own: leave out --shipped")
    if options.examples < 1:
        mistakes.append(f"--examples {options.examples} must be 1 or more")
    if options.figure is not None and options.figure.suffix not in SUFFIXES:
        mistakes.append(f"--figure {options.figure} must end in {', '.join(SUFFIXES)}")
    if mistakes or task is None:
        raise ConfigError(mistakes)
    return task, read, wanted


def _example() -> str:
    return invocation.command("predict", EXAMPLE.split())


def _no_task(name: str, text: str, askable: Mapping[str, TextReader | SeriesReader]) -> str:
    """Returns the error line for a command line that does not start with a task."""
    if not name:
        return f"name the task and a text: {_example()}"
    if name.isdecimal():
        return f"{printable(name)}: write the number in words: {_example()}"
    for reader in askable.values():
        with contextlib.suppress(ValueError):  # it reads other words
            if isinstance(reader, TextReader):
                words = [reader.name, *reader.words(f"{name} {text}")]
                return f"name the task: {invocation.command('predict', words)}"
    return did_you_mean("task to ask", name, askable)


def _draw(path: Path, figure: Figure) -> None:
    data = figures.encode(figure, path.suffix[1:])
    try:
        write_bytes(path, data)
    except OSError as error:
        raise ConfigError([f"cannot write {error.filename}: {error.strerror}"]) from error
    print(f"drawn: {path}")


if __name__ == "__main__":
    sys.exit(main())
