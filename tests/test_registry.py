"""Tasks are found where they lie, by name, without loading the others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nalu_ray import registry, tune
from nalu_ray.command.exits import Exit
from nalu_ray.errors import ConfigError

WHOLE = """
from nalu_fake import FakeRun, FakeSetting, FakeTask

class Mine(FakeTask):
    name = "{name}"
    {more}

TASK = Mine()
"""
SWEEP = "task: {name}\npresets:\n  laptop: {{axes: {{{axis}: [a]}}}}\n"


@pytest.fixture
def package(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., str]]:
    """Makes other packages of one task each, and takes their modules away at the end."""
    monkeypatch.syspath_prepend(tmp_path)
    made = []

    def make(
        source: str, name: str = "mine", module: str = "nalu_mine", axis: str = "layer"
    ) -> str:
        (tmp_path / f"{module}.py").write_text(source)
        (tmp_path / f"{name}.yaml").write_text(SWEEP.format(name=name, axis=axis))
        metadata = tmp_path / f"{module}-0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 0\n")
        points = f"[nalu_ray.tasks]\n{name} = {module}\n"
        (metadata / "entry_points.txt").write_text(points)
        registry.everything.cache_clear()
        made.append(module)
        return name

    yield make
    for module in made:
        sys.modules.pop(module, None)


def test_every_task_has_its_modules_name() -> None:
    assert {"identity", "static"} <= set(registry.names())
    assert all(name == task.name for name, task in registry.tasks().items())
    assert set(registry.tasks()) == set(registry.names())
    assert registry.everything().left_out == ()


def test_a_task_of_another_package_joins(fake: Any) -> None:
    assert fake.name == "fake"
    assert "fake" in registry.names()


def test_a_mistyped_name_is_answered_without_loading_a_task() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'static'"):
        registry.task("statc")
    code = (
        "import sys; from nalu_ray import registry\n"
        "try: registry.task('statc')\n"
        "except ValueError: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_underscored_modules_are_no_tasks() -> None:
    assert not any(name.startswith("_") for name in registry.names())


TOO_LARGE = """
from nalu_ray.results.specs import Axis, TableSpec
TableSpec(name="t", number=12, caption="", rows=Axis(field="layer"), measures={}, layout="columns")
"""
WITH_TABLE = "from nalu_ray.results.specs import Axis, TableSpec\n" + WHOLE.replace(
    "{name}", "mine"
).replace(
    "{more}",
    "tables = (TableSpec(name='t', caption='', rows=Axis({axis}), measures={{}}, "
    "layout='columns'),)",
)


BROKEN = [
    (
        "import nowhere_at_all",
        "cannot be loaded: ModuleNotFoundError: No module named 'nowhere",
    ),
    ("def (", "cannot be loaded: SyntaxError"),
    ("raise RuntimeError('first\\nsecond \\x1b[31m')", "RuntimeError: first second \\x1b[31m"),
    ("raise SystemExit(3)", "cannot be loaded: SystemExit: 3"),
    ("1 / 0", "ZeroDivisionError"),
    (TOO_LARGE, "cannot be loaded: ValidationError: number=12: "),
    ("", "is not a task: it has no TASK"),
    ("TASK = 3", "is not a task: its TASK is of type int, not a nalu_ray.task.Task"),
    (WHOLE.format(name="yours", more=""), "is not a task: it calls itself 'yours'"),
    (
        WHOLE.format(name="mine", more="section = 3"),
        "is not a task: section must be text, got 3",
    ),
    (WHOLE.format(name="mine", more="setting_type = int"), "setting_type must be a subclass"),
    (
        WHOLE.format(name="mine", more="axes = ('layers',)"),
        "is not a task: axes: unknown field 'layers'. Did you mean 'layer'?",
    ),
    (WITH_TABLE.format(axis="field='lyer'"), "is not a task: t.rows: unknown field 'lyer'"),
    (
        WITH_TABLE.format(axis="field='layer', labels={'a': '\\x1b[31m'}"),
        "cannot be loaded: ValueError: control characters in",
    ),
]


def test_tasks_that_cannot_be_loaded_are_named_and_the_others_listed(
    package: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"mine{place}" for place in range(len(BROKEN))]
    for name, (source, _) in zip(names, BROKEN, strict=True):
        package(source.replace('"mine"', f'"{name}"'), name=name, module=f"nalu_{name}")
    assert tune.main(["--list"]) == Exit.DONE
    out, err = capsys.readouterr()
    assert "static" in out
    assert "fake" in out
    lines = {line.split("'")[1]: line for line in err.splitlines()}
    assert len(err.splitlines()) == len(lines) == len(BROKEN)
    for name, (_, words) in zip(names, BROKEN, strict=True):
        assert lines[name].startswith(f"warning: task '{name}' of nalu_{name} ")
        assert words in lines[name]
        assert name not in registry.tasks()
        for command in ([name], [name, "--list"], [name, "--help"]):
            assert tune.main(command) == Exit.USAGE
            out, err = capsys.readouterr()
            assert out == ""
            assert err.splitlines() == [lines[name].replace("warning", "error")]


def test_a_section_may_be_any_text(
    package: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    sections = {"minea": "A.2", "mineb": "Madsen 2020, 4", "minec": "²", "mined": ""}
    for name, section in sections.items():
        package(WHOLE.format(name=name, more=f"section = {section!r}"), name, f"nalu_{name}")
    order = list(registry.tasks())
    assert tune.main(["--list"]) == Exit.DONE
    listed = capsys.readouterr().out
    for name, section in sections.items():
        assert order.index(name) > order.index("parity")  # after those of the paper
        assert section in listed
        for command in (["--list"], ["--help"], ["--dry-run"]):
            assert tune.main([name, *command]) == Exit.DONE
        out, err = capsys.readouterr()
        assert section in out
        assert (f"(section {section})" in out) == bool(section)
        assert "(section )" not in listed + out
        assert err == ""
        specs = registry.task(name).specs()
        assert type(specs).model_validate_json(specs.model_dump_json()) == specs


def test_sections_are_ordered_as_a_reader_counts(package: Callable[..., str]) -> None:
    package(WHOLE.format(name="mine", more="section = '4.10'"))
    order = list(registry.tasks())
    assert order.index("mine") == order.index("parity") + 1


def test_a_taken_name_is_told_and_ours_stays(
    package: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    package(WHOLE.format(name="static", more=""), name="static")
    assert type(registry.task("static")).__module__.startswith("nalu_ray.tasks.static")
    assert tune.main(["--list"]) == Exit.DONE
    expected = "task 'static' of nalu_mine left out: nalu_ray.tasks.static has the name"
    assert capsys.readouterr().err == f"warning: {expected}\n"


def test_a_sweep_that_does_not_fit_its_task_is_said_in_its_line(
    package: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    package(WHOLE.format(name="minea", more=""), "minea", "nalu_minea", axis="unheard")
    package(WHOLE.format(name="mineb", more="memory = None"), "mineb", "nalu_mineb")
    assert tune.main(["--list"]) == Exit.DONE
    out = capsys.readouterr().out
    assert "static" in out
    words = " ".join(out.split())
    assert "unknown field 'unheard'" in words
    assert "TypeError: 'NoneType' object is not callable" in words
