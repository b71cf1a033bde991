"""The tutorial's commands print what it shows.

Trained networks are asked, as the reader asks them. Sweeps find their rows stored: those of
``tests/data/tutorial``, which the first sweep wrote, without the steps that no table shows.
"""

from __future__ import annotations

import doctest
import itertools
import re
import shlex
import shutil
from pathlib import Path

import pytest

from nalu_ray import __main__ as program
from nalu_ray import registry
from nalu_ray.command import execution
from nalu_ray.results.output.save import Stored
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.deviations import members, question

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "tests" / "data" / "tutorial"
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
FENCES = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
# a block of output belongs to the code before it
SHOWN = [
    (kind, code, output)
    for (kind, code), (after, output) in itertools.pairwise(FENCES)
    if after == "text"
]


def same(shown: str, printed: str) -> bool:
    """Whether a text was printed; ``...`` stands for anything, and ends of lines do not count."""
    there, here = (" ".join(text.split()) for text in (printed, shown))
    return doctest.OutputChecker().check_output(here, there, doctest.ELLIPSIS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder after the first sweep."""
    path = tmp_path_factory.mktemp("tutorial")
    shutil.copytree(ROWS, path / "results")
    # steps may run in several processes: each finds what the first sweep leaves
    task = registry.task("static")
    specs = task.specs().model_copy(update={"presets": members(task), "question": question(task)})
    Store(str(path / "results")).write_specs(specs)
    return path


def not_stored(*_: object) -> None:
    pytest.fail("a setting has another id than the stored rows: store those of the command anew")


def test_every_step_that_prints_something_shows_it() -> None:
    kinds = [kind for kind, *_ in SHOWN]
    assert kinds == ["console"] * 6 + ["python"]


@pytest.mark.parametrize("at", range(len(SHOWN)))
def test_a_step_prints_what_the_tutorial_shows(
    at: int,
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind, code, shown = SHOWN[at]
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(Stored, "save_figures", lambda *_: [])  # slow to draw
    monkeypatch.setattr(execution, "run_local", not_stored)
    if kind == "python":
        exec(code, {})
    else:
        name, *words = shlex.split(code.splitlines()[0].removeprefix("python -m nalu_ray."))
        # the rows of fifteen more seeds are not stored: their plan is printed
        words += ["--dry-run"] * ("seeds=20" in words)
        assert program.main([name, *words]) == 0
    out, err = capfd.readouterr()
    first, *others = out.splitlines(keepends=True)
    # in a terminal, warnings come after the line that says which network answers
    assert same(shown, "".join([first, err, *others])), out


def test_a_wrong_number_is_noticed() -> None:
    assert same("...\na  1.5 [0, 2]\n...\n", "x\na  1.5 [0, 2]  \nb\n")
    assert not same("...\na  1.5 [0, 2]\n...\n", "x\na  1.6 [0, 2]\nb\n")
