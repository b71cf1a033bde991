"""The gridworld's settings and what is printed of them. Training: tests/rl."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest
from pydantic import ValidationError

from nalu_ray.errors import explain
from nalu_ray.results.analysis.axes import axis_column, headings
from nalu_ray.rl.agent.network import NetworkConfig
from nalu_ray.rl.setting import GridworldSetting
from nalu_ray.tasks.gridworld import TASK


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 1}, "size=1: "),
        ({"instructions": "12:5"}, "12:5; write smallest:largest, from 1 on"),
        ({"instructions": "0:5"}, "0:5; write smallest:largest"),
        ({"time_limit": 11}, "T may be at most time_limit=11"),
        ({"test_time_limit": 24}, "test_time_limit=24"),
        ({"variant": "grue"}, "variant='grue': unknown core"),
        ({"wiring": "around"}, "unknown value 'around'"),
        ({"nac_init": "zeros"}, "nac_init"),
        ({"steps": 1000}, "warmup=100000: must be below steps=1000"),
        ({"far_instructions": "0:30"}, "each T must be 1 or more"),
        ({"test_instructions": "13:20"}, "some T of instructions=(5, 12)"),
        ({"reward": "late"}, "unknown value 'late'"),
    ],
)
def test_impossible_settings_are_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        GridworldSetting.model_validate(values)
    assert message in "\n".join(explain(caught.value))


def test_a_setting_says_what_is_built() -> None:
    setting = GridworldSetting(variant="lstm_nac", hidden=32, instructions=(3, 9), c=0.2)
    assert setting.network() == NetworkConfig(variant="lstm_nac", hidden=32)
    world = setting.world()
    assert (world.instructions, world.c, world.show) == ((3, 9), 0.2, "first")


def test_fields_that_a_variant_does_not_have_tell_no_settings_apart() -> None:
    assert GridworldSetting(wiring="feedback", sparsity=1.0).id == GridworldSetting().id
    ids = {GridworldSetting(variant="lstm_nac", wiring=w).id for w in ("feedback", "accumulator")}
    assert len(ids) == 2


def test_the_defaults_are_the_papers_task() -> None:
    world = GridworldSetting().world()
    assert (world.size, world.instructions, world.frame_pixels) == (5, (5, 12), 56)
    assert TASK.label(GridworldSetting()) == "gridworld a3c lstm lr=0.001"


def test_a_trial_reserves_its_runners() -> None:
    assert TASK.processes(GridworldSetting(runners=3)) == 3


def test_planning_needs_no_ray() -> None:
    code = (
        "import sys; from nalu_ray.tune import main; "
        "main(['gridworld', '--preset', 'smoke', '--dry-run']); sys.exit('ray' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_counters_whose_start_is_learned_have_a_row_of_their_own() -> None:
    variants = TASK.tables[0].rows
    frame = pd.DataFrame(
        {"variant": ["nac_core", "nac_core", "lstm"], "counter_init": [4.0, 1.0, 1.0]}
    )
    keys = axis_column(frame, variants)
    shown = [(heading.key, heading.label) for heading in headings(variants, keys)]
    assert list(keys) == ["nac_core", "nac_core@counter_init<4", "lstm"]
    assert ("nac_core@counter_init<4", "NAC counters, start learned (ours)") in shown
    assert set(keys) & set(variants.given) == {"nac_core", "nac_core@counter_init<4"}
