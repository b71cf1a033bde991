"""The command line: grammar, help, mistakes, plans and sweeps that are printed and not run."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nalu_ray import layers, predict, registry, report, tune, watch
from nalu_ray.command import execution, flags, request, screen
from nalu_ray.command import words as cli
from nalu_ray.command.exits import Exit
from nalu_ray.command.screen import resolved
from nalu_ray.command.words import Changes
from nalu_ray.errors import ConfigError
from nalu_ray.input import invocation
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.machine import GIB, Capacity, Node, raise_open_files
from nalu_ray.sweep.presets import Preset, expand, load_sweep, sweep_of
from nalu_ray.sweep.speeds import Speeds

EXAMPLES = re.findall(r"^  (python -m nalu_ray\.tune .*)$", flags.EXAMPLES, re.MULTILINE)


def call(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, str, list[str]]:
    """Runs a command; returns its exit code, what it printed and its error lines."""
    code = tune.main(shlex.split(line))
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err.splitlines()


# -- grammar ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("layer=a,b", {"layer": ["a", "b"]}),
        ("lr=1e-3,0.5", {"lr": [0.001, 0.5]}),
        ("steps=1e3,2e4", {"steps": [1000, 20000]}),
        ("steps=1.5,1e-3", {"steps": ["1.5", "1e-3"]}),
        ("steps=1_000", {"steps": ["1_000"]}),
        ("lr=1_0,true", {"lr": ["1_0", "true"]}),
        ("folder=[[x,y],[z]],{a,b}", {"folder": ["[[x,y],[z]]", "{a,b}"]}),
        ("folder=[x,y", {"folder": ["[x,y"]}),
        ("folder=1_0", {"folder": ["1_0"]}),
        ("clip=none,1,null", {"clip": [None, 1.0, None]}),
        ("folder=none", {"folder": ["none"]}),
        ("folder=[x,y],z", {"folder": ["[x,y]", "z"]}),
        ("folder=a=b", {"folder": ["a=b"]}),
        ("lr=fast", {"lr": ["fast"]}),
        ("unheard=1,2", {"unheard": ["1", "2"]}),
    ],
)
def test_values_are_typed_as_their_field(fake: Any, word: str, values: dict[str, Any]) -> None:
    read = Changes.read([word], fake.setting_type)
    assert read.values == values
    assert [list(map(type, found)) for found in read.values.values()] == [
        list(map(type, wanted)) for wanted in values.values()
    ]
    assert (read.seeds, read.mistakes) == (None, [])


def test_seeds_are_not_a_field(fake: Any) -> None:
    assert Changes.read(["seeds=3,7"], fake.setting_type) == Changes({}, (3, 7), [])


def test_words_that_are_no_assignment_are_all_told(fake: Any) -> None:
    words = ["lr", "=3", "lr=", "lr=1", "lr=2", "seeds=x"]
    told = Changes.read(words, fake.setting_type).mistakes
    assert [line.split(":")[0].split(" is")[0] for line in told] == [
        "'lr'",
        "'=3'",
        "'lr='",
        "lr",
        "seeds='x'",
    ]


# -- help ------------------------------------------------------------------------------------------


def test_help_shows_every_flag_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--help")
    assert code == Exit.DONE
    for action in flags.parser()._actions:
        assert action.help
        assert all(flag in out for flag in action.option_strings)
    assert "examples:" in out
    assert len(EXAMPLES) == 8


def test_help_of_a_task_shows_every_field(fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "fake --help")
    assert code == Exit.DONE
    for name, field in fake.setting_type.model_fields.items():
        (line,) = [line for line in out.splitlines() if line.startswith(f"  {name} ")]
        assert str(field.description) in line
    assert re.search(r"layer +a\|b\|gamma +a +which network", out)
    assert re.search(r"clip +float or none +none +largest norm", out)
    assert re.search(r"lr +float +0.1 +learning rate", out)


def test_all_stands_for_every_value_that_can_be_listed() -> None:
    fields = registry.task("static").setting_type
    values = Changes.read(["layer=all", "op=all", "lr=all", "inputs=all,3"], fields).values
    assert values["layer"] == layers.names()
    assert values["op"] == ["add", "sub", "mul", "div", "square", "sqrt", "reciprocal"]
    assert values["lr"] == ["all"]  # refused with the others
    assert values["inputs"] == ["all", 3]
    cells = registry.task("program").setting_type
    assert Changes.read(["layer=all"], cells).values["layer"] == layers.cell_names()


@pytest.mark.parametrize(
    ("task", "word", "inside", "outside"),
    [
        ("single_module", "layer=all op=add train_range=1:2", {"nau", "relu"}, {"nau_nmu"}),
        ("static_mnist", "layer=all op=div", {"exact", "nmru", "nau_nmu"}, set()),
        ("sequential_mnist", "layer=all rz=true", {"exact", "nau", "lstm"}, {"nalu_lstm"}),
        ("parity", "last=all", {"affine", "nmu"}, {"nau_nmu", "relu"}),
        ("recurrent", "layer=all op=add", {"nau", "nau_nmu", "lstm"}, {"relu"}),
        ("language", "head=all combine=recurrent", {"none", "nau", "sum"}, {"relu", "nau_nmu"}),
        ("language", "head=all combine=last head_layers=2", {"relu", "nau_nmu"}, {"sum"}),
        ("gridworld", "variant=all", {"nac_core", "lstm", "lstm_nau"}, {"nau_nmu"}),
    ],
)
def test_all_is_every_unit_that_the_task_can_train(
    task: str, word: str, inside: set[str], outside: set[str]
) -> None:
    chosen = registry.task(task)
    fields = chosen.setting_type
    changes = Changes.read(word.split(), fields)
    (name,) = changes.every
    sweep = sweep_of(chosen).presets["laptop"].model_copy(update={"every": changes.every})
    points = expand(sweep, fields, changes.values, changes.seeds)
    found = {point.values[name] for point in points}
    assert inside <= found
    assert not outside & found
    # printed and read again it is the same sweep
    again = resolved(sweep, changes.values, changes.seeds, sweep.resources)
    assert expand(again, fields, {}) == points


def test_all_hides_no_other_mistake() -> None:
    fields = registry.task("single_module").setting_type
    changes = Changes.read(["layer=all", "lr=-1,0.1"], fields)
    sweep = Preset(every=changes.every)
    with pytest.raises(ConfigError, match=r"lr='-1'"):
        expand(sweep, fields, changes.values)


PAIRS = [
    "program layer=nau_nmu",
    "sequential_mnist layer=nau_nmu op=product",
    "mnist_addition layer=nau_nmu",
    "mnist_counting layer=nau_nmu",
    "gridworld variant=nau_nmu",
    "gridworld variant=lstm_nau_nmu",
    "language head=nau_nmu combine=recurrent",
    "single_module layer=nau_nmu",
    "parity last=nau_nmu",
    "recurrent reader=nau_nmu",
]


@pytest.mark.parametrize("line", PAIRS)
def test_a_pair_is_refused_where_one_unit_is_trained(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(capsys, f"{line} --dry-run")
    assert code == Exit.USAGE
    assert len(err) == 1
    assert "'nau_nmu' is a pair of units" in err[0]
    assert "Allowed: " in err[0]
    assert " nmu" in err[0] or " instruction" in err[0]


def test_a_pair_beside_the_lstm_is_a_layer_of_both_units(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = "gridworld variant=lstm_nau_nmu wiring=feedback --dry-run"
    assert call(capsys, line)[0] == Exit.DONE


@pytest.mark.parametrize(
    "line",
    [
        "static preset=npu",
        "static preset=inalu",
        "single_module preset=inalu",
        "recurrent preset=mass",
    ],
)
def test_a_laptop_preset_is_short_and_names_the_full_protocol(
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two = Capacity("two cores", (Node(2, 0, 16 * GIB),))
    monkeypatch.setattr(execution, "this_machine", lambda **_: two)
    monkeypatch.setattr(Speeds, "of_this_machine", Speeds)
    monkeypatch.setattr(screen, "describe_time", lambda seconds: f"{seconds:.0f} seconds")
    times = {}
    for name in (line, f"{line}-laptop"):
        code, out, _ = call(capsys, f"{name} --dry-run")
        assert code == Exit.DONE
        (seconds,) = re.findall(r"^about (\d+) seconds", out, re.MULTILINE)
        times[name] = int(seconds)
        full = re.findall(
            r"^the full protocol takes about (.*)nalu_ray\.tune (.*)$", out, re.MULTILINE
        )
        assert [command for _, command in full] == [line] * (name != line)
        if full:
            assert full[0][0].startswith(
                f"{times[line]} seconds (a guess; not measured on a GPU): "
            )
    assert times[f"{line}-laptop"] <= 45 * 60 < times[line]


def test_the_laptop_preset_names_the_papers(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nalu_ray.tune program preset=paper\n" in call(capsys, "program --dry-run")[1]
    assert "full protocol" not in call(capsys, "program preset=smoke --dry-run")[1]


def test_the_full_protocol_has_the_cells_of_the_command_and_not_its_budget(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "layer=nac,nalu op=mul seeds=2 steps=50 lr=0.1"
    out = call(capsys, f"static preset=madsen-laptop {words} --dry-run")[1]
    full = "nalu_ray.tune static preset=madsen layer=nac,nalu op=mul\n"
    assert full in out
    # of two layers and one operation, it takes a part of the time of all
    alone = call(capsys, "static preset=madsen layer=nac,nalu op=mul --dry-run")[1]
    (time,) = re.findall(r"^about (.*?) \(the preset's guess", alone, re.MULTILINE)
    assert f"the full protocol takes about {time.partition(', of which')[0]} (a guess" in out


@pytest.mark.parametrize("preset", ["madsen-products", "madsen-products-laptop"])
def test_a_preset_may_be_cut_from_one_of_another_name(
    preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = call(capsys, f"static preset={preset} --dry-run")[1]
    assert "nalu_ray.tune static preset=madsen layer=nau_nmu op=mul,square\n" in out
    out = call(capsys, f"static preset={preset} op=mul seeds=1 --dry-run")[1]
    assert "nalu_ray.tune static preset=madsen layer=nau_nmu op=mul\n" in out


def test_a_pair_has_no_other_reader(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "recurrent layer=nau_nmu reader=nau --dry-run")
    assert code == Exit.USAGE
    assert "layer=nau_nmu is a pair, whose second unit reads" in err[0]


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_run(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    code, out, err = call(capsys, line.removeprefix("python -m nalu_ray.tune ") + " --dry-run")
    assert (code, err) == (Exit.DONE, [])
    assert "static" in out
    assert not list(tmp_path.iterdir())


def test_list_shows_tasks_and_presets(fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "--list")
    assert re.search(r"fake +0 +A fake task +4 +30 +\d+ +~?\d+ s", out)
    assert re.search(r"static +4\.1 ", out)
    _, out, _ = call(capsys, "fake --list")
    assert re.search(r"smoke +two settings +2 +4 +\d", out)
    assert re.search(r"laptop +a grid +4 +30 +\d", out)


# -- mistakes --------------------------------------------------------------------------------------


def test_every_mistake_is_told_at_once(
    fake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("")
    line = (
        "fake layer=gama lr=fast hiden=3 seeds=0 steps --preset lptop --cpus-per-trial -1 "
        "--max-concurrent many --dry-rum --local --address auto --out taken"
    )
    code, out, err = call(capsys, line)
    assert (code, out) == (Exit.USAGE, "")
    assert all(line.startswith("error: ") for line in err)
    text = "\n".join(err)
    for words in (
        "unknown option '--dry-rum'. Did you mean '--dry-run'?",
        "--local and --address cannot be combined",
        "--cpus-per-trial='-1': Input should be greater than 0",
        "--max-concurrent='many': Input should be a valid integer",
        f"{tmp_path}/taken",
        "unknown preset 'lptop'. Did you mean 'laptop'?",
        "'steps': expected key=value",
        "seeds='0'",
        "gama",
        "lr='fast'",
        "unknown field 'hiden'",
    ):
        assert words in text
    assert len(err) == 11


def test_every_wrong_value_is_told_at_once(fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = call(capsys, "fake layer=gama lr=fast hiden=3 steps")
    assert [line.removeprefix("error: ").split(":")[0].split(".")[0] for line in err] == [
        "'steps'",
        "unknown field 'hiden'",
        "layer='gama'",
        "lr='fast'",
    ]
    assert "Did you mean 'gamma'?" in err[2]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "no task given; choose from: "),
        ("seeds=3", "no task given"),
        ("fak", "unknown task 'fak'. Did you mean 'fake'?"),
        ("fak --help", "Did you mean 'fake'?"),
        ("fake --preset", "--preset: expected one argument"),
        ("fake --preset paper", "unknown preset 'paper'"),
        ("--list --preset foo", "unknown preset 'foo'"),
        ("static --preset sgd --dry-run", "unknown preset 'sgd'"),
        ("parity preset=sgd --preset paper", "preset='sgd': the preset is already 'paper'"),
        ("parity preset=sgb", "unknown preset 'sgb'. Did you mean 'sgd'?"),
        ("fake --preset smke layr=a", "unknown field 'layr'"),
        ("faek --preset smke", "unknown preset 'smke'"),
        ("fake --config nowhere.yaml", "cannot read sweep"),
        ("fake --cpus-per-trial 1000 --dry-run", "1e+03 CPUs (the largest node has"),
        ("fake --gpus-per-trial 0.4", "1/n such as 0.5 or 0.25, or auto"),
        ("fake --gpus-per-trial 64", "a trial uses at most one GPU"),
        ("fake --gpus-per-trial 1 --dry-run", "1 GPUs (the largest node has 0)"),
        ("fake hidden=1000000000 --dry-run", "GiB (the largest node has"),
        ("fake --out nothing://x", "out=nothing://x"),
        ("fake --layer a", "unknown option '--layer'. Fields are set without dashes: layer=a"),
        ("--layer a fake", "unknown option '--layer'. Fields are set without dashes: layer=a"),
        ("fake --laier=a,b", "unknown option '--laier'. Fields are set without dashes: layer=a,b"),
        ("fake --seeds 3", "unknown option '--seeds'. Fields are set without dashes: seeds=3"),
        ("fake --verbos fake", "unknown option '--verbos'. Did you mean '--verbose'?"),
        ("fake --layer q", "unknown option '--layer'. Fields are set without dashes: layer=VALUE"),
        (
            "fake --seeds none",
            "unknown option '--seeds'. Fields are set without dashes: seeds=VALUE",
        ),
        ("static --scheduler asha", "as a stopped seed has no final value (docs/search.md)"),
        ("static --scheduler=asha", "unknown option '--scheduler=asha': trials are not stopped"),
        ("fake --wandb", "--wandb needs the package wandb: python -m pip install wandb"),
        ("fake --mlflow --local", "--mlflow needs Ray: it cannot be combined with --local"),
    ],
)
def test_a_mistake_is_told_kindly(
    fake: Any,
    line: str,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = request.importlib.util.find_spec
    monkeypatch.setattr(
        request.importlib.util,
        "find_spec",
        lambda name: None if name in ("wandb", "mlflow") else find(name),
    )
    code, out, err = call(capsys, line)
    assert (code, out) == (Exit.USAGE, "")
    assert words in "\n".join(err)
    assert "'a': expected" not in "\n".join(err)
    assert "schedule=asha" not in "\n".join(err)


def test_a_mistake_in_some_settings_names_the_first_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "op=add lr=0.5 penalty=sparsity:1 --dry-run"
    code, _, (error,) = call(capsys, f"static layer=nac,relu,tanh {words}")
    assert code == Exit.USAGE
    assert "unknown penalty 'sparsity'" in error
    assert error.endswith(" (for static relu add lr=0.5)")
    code, _, (error,) = call(capsys, f"static layer=relu,tanh {words}")
    assert "(for " not in error


def test_a_results_folder_that_cannot_be_written_is_refused(
    fake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = call(capsys, "fake --local --out file/results")
    assert code == Exit.USAGE
    assert "cannot write" in err[0]


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    line = f"{sys.executable} -m nalu_ray.tune --help | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == ""


# -- printed, not run ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        "",
        "layer=b lr=0.5,0.25",
        "seeds=3,7",
        "layer=a,b seeds=2 steps=9 clip=none,1 --seeds-per-trial 2",
        "folder=[x,y]",
    ],
)
def test_print_config_is_read_back_as_the_same_sweep(
    fake: Any, tmp_path: Path, changes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"fake {changes}"
    code, text, _ = call(capsys, f"{line} --print-config")
    assert code == Exit.DONE
    file = tmp_path / "sweep.yaml"
    file.write_text(text)
    options, unknown = flags.parser().parse_known_intermixed_args(shlex.split(line))
    asked = request.read(options, unknown, [])
    preset = load_sweep("fake", file).presets["laptop"]
    again = expand(preset, fake.setting_type, {})
    assert {(p.setting.id, p.seeds) for p in again} == {
        (p.setting.id, p.seeds) for p in asked.points
    }
    assert preset.resources == asked.sweep.resources
    _, once_more, _ = call(capsys, "fake --config sweep.yaml --print-config")
    assert once_more == text


def test_a_config_with_one_preset_need_not_be_told_which(
    fake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text, _ = call(capsys, "fake --preset smoke --print-config")
    Path("sweep.yaml").write_text(text)
    code, out, _ = call(capsys, "fake --config sweep.yaml --dry-run")
    assert code == Exit.DONE
    assert "fake (section 0), smoke: 2 settings, 4 seeds" in out


def test_a_dry_run_shows_the_plan_and_touches_nothing(
    fake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, "fake layer=a lr=1 seeds=8 --seeds-per-trial 4 --dry-run")
    assert (code, err, list(tmp_path.iterdir())) == (Exit.DONE, [], [])
    head, trials, time, *lines = out.splitlines()
    assert head == "fake (section 0), laptop: 1 setting, 8 seeds; 0 done before; 8 to do"
    assert trials.startswith("2 trials, ")
    assert time.startswith("about ")
    assert lines == ["  fake a lr=1 seeds 0-3, 20 steps", "  fake a lr=1 seeds 4-7, 20 steps"]


def test_a_dry_run_knows_what_is_done(fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "fake layer=a lr=1 seeds=3 wrong=diverge --local -q")[0] == 1
    _, out, _ = call(capsys, "fake layer=a lr=1 seeds=5 wrong=diverge --dry-run")
    assert "5 seeds; 2 done before, 1 failed before (--rerun-failed runs them); 2 to do" in out


def test_only_a_run_on_ray_imports_it(fake: Any, tmp_path: Path) -> None:
    code = (
        "import sys; from nalu_ray import tune\n"
        "for line in sys.argv[1:]:\n"
        "    assert tune.main(line.split()) == 0, line\n"
        "    assert 'ray' not in sys.modules, line\n"
    )
    lines = ["--help", "static --help", "--list", "static --print-config", "static --dry-run"]
    lines.append("static --preset smoke layer=nac op=add seeds=1 steps=2 --local -q")
    subprocess.run([sys.executable, "-c", code, *lines], cwd=tmp_path, check=True)
    assert len(Store(str(tmp_path / "results")).outcomes("static")) == 1


def test_the_help_needs_nothing_that_is_slow_to_load() -> None:
    code = (
        "import sys; from nalu_ray import tune\n"
        "assert tune.main(['--help']) == 0\n"
        "assert not {'torch', 'ray', 'matplotlib', 'pandas', 'pyarrow'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_types_are_shown_as_they_are_written() -> None:
    assert screen.type_name(float | None) == "float or none"
    assert screen.type_name(tuple[float, float]) == "float:float"


def test_help_of_a_task_shows_types_as_a_user_writes_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = call(capsys, "static --help")
    assert code == Exit.DONE
    assert not any(words in out for words in ("FieldInfo", "typing.", "0x", "Annotated"))
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "float:float" in rows["train_range"]
    assert "float or str:..." in rows["gate_init"]
    assert "name:value;..." in rows["options"]


# -- bounds ----------------------------------------------------------------------------------------

HUGE = "9" * 5000
LETTERS = "x" * 5000
MANY = ",".join(map(str, range(1, 102)))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["seeds=20240601"], "for this one seed write seeds=20240601,"),
        (["seeds=1000000000"], "a count is at most 1,000,000 seeds"),
        ([f"seeds={HUGE}"], "a count is at most 1,000,000 seeds"),
        ([f"steps={HUGE}"], "Unable to parse input string as an integer"),
        (["steps=9223372036854775808"], "whole numbers go up to 2^63 - 1"),
        ([f"lr={HUGE}"], "lr=inf: Input should be a finite number"),
        ([f"layer={LETTERS}"], "layer='xxx"),
        ([f"{LETTERS}=1"], "unknown field 'xxx"),
        ([f"--{LETTERS}"], "unknown option '--xxx"),
        (["--max-concurrent", "1_0"], "--max-concurrent='1_0': write numbers without '_'"),
        (["--max-concurrent", LETTERS], "--max-concurrent='xxx"),
        (["--preset", LETTERS], "unknown preset 'xxx"),
        (["--gpus-per-trial", "1.04"], "--gpus-per-trial='1.04': must be 0, 1, 1/n"),
        (["layer=\udcff"], r"'layer=\udcff': not UTF-8"),
        (["--out", "\udcff"], r"'\udcff': not UTF-8"),
        (["--out", ""], "out=: cannot be used as a results folder: name a folder or a URI"),
        (["lr=" + "[" * 5000], "lr='[[["),
        ([f"clip={MANY}", f"hidden={MANY}"], "a sweep of 40,804 settings or more: at most 10,000"),
    ],
)  # fmt: skip
def test_what_is_too_much_is_refused_in_short_lines(
    fake: Any, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    code = tune.main(["fake", *words, "--dry-run"])
    out, err = capsys.readouterr()
    assert (code, out) == (Exit.USAGE, "")
    assert told in err
    assert all(len(line) < 400 and line.startswith("error: ") for line in err.splitlines())
    assert "Traceback" not in err


def test_a_size_that_no_tensor_can_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    line = "static layer=nac op=add hidden=1000000000000000000 --dry-run"
    code, _, err = call(capsys, line)
    assert code == Exit.USAGE
    assert err == [
        "error: static nac add lr=0.2: cannot be built: Storage size calculation overflowed with "
        "sizes=[1000000000000000000, 100]"
    ]


def test_too_few_open_files_are_told_before_ray_starts(
    fake: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(request, "raise_open_files", lambda: 64)
    code, _, err = call(capsys, "fake layer=a lr=1 seeds=1")
    assert code == Exit.USAGE
    assert err == ["error: ulimit -n is 64: Ray opens up to 1,024 files; --local needs few"]
    assert call(capsys, "fake layer=a lr=1 seeds=1 --local -q")[0] == Exit.DONE


@pytest.mark.skipif(sys.platform == "win32", reason="NOT TESTED: no such limit")
def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = before[1] if before[1] != resource.RLIM_INFINITY else 10**9
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 512), before[1]))
    try:
        assert raise_open_files() == min(hard, 65_536)
        raised = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert raised == (min(hard, 65_536), before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("text", ["1_0", "x", HUGE, "1.5", str(2**63)])
def test_a_flag_takes_plain_whole_numbers(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="a whole number is needed") as caught:
        cli.whole(text)
    assert len(str(caught.value)) < 120
    assert (cli.whole("-3"), cli.number("1e-2")) == (-3, 0.01)
    with pytest.raises(argparse.ArgumentTypeError, match="a number is needed"):
        cli.number("1_0" if text == "1_0" else "x")


def test_what_a_field_does_nothing_for_is_printed_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    line = "recurrent layer=nac,nalu,lstm op=add,mul gate_init=0.5,0.25 seeds=3"
    _, text, _ = call(capsys, f"{line} --print-config")
    Path("sweep.yaml").write_text(text)
    _, plan, _ = call(capsys, f"{line} --dry-run -v")
    code, again, err = call(capsys, "recurrent --config sweep.yaml --dry-run -v")
    assert (code, err) == (Exit.DONE, [])
    # memory is measured anew, and a file has no words that the full protocol's command could keep
    differs = re.compile(r"[0-9.]+ GiB|^the full protocol .*$", re.MULTILINE)
    assert differs.sub("", again) == differs.sub("", plan)
    assert plan.startswith("recurrent (section 4.1), laptop: 18 settings, 54 seeds;")


@pytest.mark.parametrize("command", [tune, report, watch, predict])
@pytest.mark.parametrize("words", ["layer = nalu", "layer= nalu", "layer =nalu"])
def test_spaces_around_the_sign_are_named(
    command: Any, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["static", "op=add", *words.split(), "seeds=2"]) == 2
    assert capsys.readouterr().err == f"error: '{words}': write layer=nalu, without spaces\n"


@pytest.mark.parametrize("words", ["layer=", "layer= seeds=2", "= nac", "layer= --local", "=nac"])
def test_a_word_without_a_value_is_named_as_it_is(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune.main([*words.split(), "--print-config"]) == 2
    assert "without spaces" not in capsys.readouterr().err


@pytest.mark.parametrize("module", [tune, predict, watch])
def test_an_unknown_flag_with_an_empty_value_is_named(
    module: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert module.main(["static", "--wrong", ""]) == Exit.USAGE
    assert "--wrong" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["preset=", "--preset ''"])
def test_an_empty_preset_is_no_preset(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, errors = call(capsys, f"static {words} --dry-run")
    assert code == Exit.USAGE
    assert "preset" in errors[0]


def test_what_is_told_to_install_is_what_the_extras_need() -> None:
    root = Path(request.__file__).parents[2]
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    for name, package in flags.EXTRAS.items():
        assert f'\n{name} = ["{package}"]\n' in text


def test_a_package_is_installed_for_the_python_that_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    find = request.importlib.util.find_spec
    monkeypatch.setattr(
        request.importlib.util, "find_spec", lambda name: None if name == "optuna" else find(name)
    )
    words = "static layer=nac op=add lr=log:1e-4:1 samples=5 --search optuna --dry-run"
    code, _, (error,) = call(capsys, words)
    assert code == Exit.USAGE
    assert shlex.split(error.partition("optuna: ")[2]) == [
        invocation.interpreter(), "-m", "pip", "install", "optuna>=4"
    ]  # fmt: skip
    assert invocation.interpreter() != "python"
    assert "nalu-ray[" not in flags.parser().format_help()
