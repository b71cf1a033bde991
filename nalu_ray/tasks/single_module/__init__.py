"""Single Module Arithmetic Task (Mistry et al., 2022): one unit, two inputs, nine ranges.

The target is x_1 + x_2, x_1 - x_2, x_1 x_2 or x_1 / x_2. With more than two inputs, the unit must
leave the others out. Where the two lie is random per seed and fixed within a seed.

Mistry et al., "A Primer for Neural Arithmetic Logic Modules" (2022),
https://arxiv.org/abs/2101.09530; Mistry, Farrahi and Hare, "Learning Division with Neural
Arithmetic Logic Modules" (2021), https://arxiv.org/abs/2110.05177.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

from torch import Tensor, nn

from nalu_ray.results import leaderboard
from nalu_ray.results.publication import read
from nalu_ray.results.specs import Axis, FigureSpec, Measure, Selection, TableSpec
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.single_module import data, network
from nalu_ray.tasks.single_module.network import SingleModuleSetting
from nalu_ray.training.supervised import SupervisedTask

CAPTION = (
    "Single Module Arithmetic Task, {op}: one unit on two of {inputs} inputs, by the range of x in "
    "training."
)
WORDS = {"op": {"add": "a + b", "sub": "a - b", "mul": "a × b", "div": "a / b"}}
DATA = ("op", "inputs", "opposite", "distribution", "weight_error", "solved_below")
FOLLOWS = {"test_range": "train_range", "test_signs": "train_range"}
OWN = ("mixed-signs", "small-divisors", "benford", "snmu-noise", "inalu*")
NINE = ("-20:-10", "-2:-1", "-1.2:-1.1", "-0.2:-0.1", "-2:2", "0.1:0.2", "1:2", "1.1:1.2", "10:20")
MIXED = ("-2:2", "-50:50", "-100:100")
OPPOSITE = {"-2:-0.1": " / 0.1:2", "0.1:2": " / -2:-0.1", "-2:-1": " / 1:2", "1:2": " / -2:-1"}
SMALL = ("0:0.0001", "0:0.001", "0:0.01", "0:0.1", "0:1")


def _as_stored(ranges: Mapping[str, str]) -> dict[str, str]:
    """Returns labels by range as tables read it, from those by range as it is written."""
    return {str([float(end) for end in text.split(":")]): ranges[text] for text in ranges}


def _tables(name: str, ranges: Mapping[str, str], presets: Sequence[str]) -> list[TableSpec]:
    """Returns success rates, costs and learning rates of units by range; ``ranges`` are labels."""
    specs = leaderboard.tables(
        name,
        CAPTION,
        units=Axis(field="layer"),
        operations=Axis(field="train_range", labels=_as_stored(ranges), others=False),
        solved_below="solved_mse",
        presets=tuple(presets),
        problem=DATA,
        paper={"test_size": "10000", "batch": "128"},
    )
    return [table.model_copy(update={"words": WORDS, "follows": FOLLOWS}) for table in specs]


RATE = Measure(
    metric="mse", split="extrapolation", label="solved, %", statistic="rate", format=".0f"
)
PUBLISHED_INALU = read(files("nalu_ray.results") / "published" / "inalu.csv")
NOISE = TableSpec(
    name="snmu_noise",
    title="Ranges of noise",
    caption="x1 × x2 by the sNMU with noise of several ranges: solved seeds, per cent, by range of "
    "x in training.",
    rows=Axis(
        field="options",
        labels={
            "{}": "U(1, 5), as published",
            '{"noise_low": 0.01, "noise_high": 0.05}': "U(0.01, 0.05)",
            '{"noise_low": 0.1, "noise_high": 0.5}': "U(0.1, 0.5)",
            '{"noise_low": 1.0, "noise_high": 2.0}': "U(1, 2)",
            '{"noise_low": 5.0, "noise_high": 10.0}': "U(5, 10)",
            '{"batch_noise": true}': "U(1, 1 + 1 / sd)",
        },
    ),
    columns=Axis(field="train_range", labels=_as_stored({text: text for text in NINE})),
    models="rows",
    measures={"rate": RATE},
    solved_below="solved_mse",
    presets=("snmu-noise",),
    problem=DATA,
    follows=FOLLOWS,
    paper={"test_size": "10000", "batch": "128"},
)
REDUNDANT = TableSpec(
    name="redundant_division",
    title="Division among redundant inputs",
    caption="Single Module Arithmetic Task, a / b: one unit on two of 10 inputs. Runs on all "
    "ranges of x together.",
    rows=Axis(field="layer"),
    measures={"rate": RATE.model_copy(update={"format": ".1f"})},
    layout="columns",
    pooled="train_range",
    solved_below="solved_mse",
    where={"op": "div"},
    presets=("redundant-10",),
    publication=read(files("nalu_ray.results") / "published" / "division.csv")[
        "redundant_division"
    ],
    problem=DATA,
    follows=FOLLOWS,
    paper={"test_size": "10000", "batch": "128"},
)
INALU = FigureSpec(
    name="inalu",
    caption="First experiment of Schlör, Ring and Hotho (2020): seeds of the iNALU whose last "
    "extrapolation error is below {solved_below}, by the range of x in training.",
    metric="mse",
    split="extrapolation",
    x="train_range",
    lines=Axis(field="options", labels={"{}": "own weights", '{"shared": true}': "shared weights"}),
    panels=Axis(field="op", labels=WORDS["op"]),
    statistic="rate",
    solved_below="solved_mse",
    selection=Selection(step="last"),
    presets=("inalu*",),
    publication=PUBLISHED_INALU["inalu"],
    x_label="range of x in training",
    y_label="solved, %",
    problem=DATA,
    follows=FOLLOWS,
)
INALU_ALL = TableSpec(
    name="inalu_all",
    title="The iNALU's first experiment",
    caption="First experiment of Schlör, Ring and Hotho (2020): runs of the iNALU whose last "
    "extrapolation error is below {solved_below}, on all ranges of x together.",
    rows=INALU.lines,
    columns=Axis(field="op", labels=WORDS["op"]),
    models="rows",
    measures={"rate": RATE},
    pooled="train_range",
    selection=INALU.selection,
    solved_below="solved_mse",
    presets=INALU.presets,
    publication=PUBLISHED_INALU["inalu_exp1"],
    problem=("inputs", "opposite", "weight_error", "solved_below"),
    follows={**FOLLOWS, "distribution": "train_range"},
)


class SingleModuleTask(SupervisedTask[SingleModuleSetting]):
    """One unit on two of its inputs."""

    name = "single_module"
    title = "Single Module Arithmetic Task (Mistry et al., 2022)"
    setting_type = SingleModuleSetting
    axes = ("layer", "op", "train_range")
    tables = (
        *_tables(
            "single_module", {text: text for text in NINE}, ["*", *(f"!{name}" for name in OWN)]
        ),
        *_tables(
            "mixed_signs",
            {text: text for text in MIXED} | {text: text + of_b for text, of_b in OPPOSITE.items()},
            ["mixed-signs"],
        ),
        *_tables("small_divisors", {text: text for text in SMALL}, ["small-divisors"]),
        *_tables("benford", {"10:100": "10:100"}, ["benford"]),
        REDUNDANT,
        INALU_ALL,
        NOISE,
    )
    figures = (INALU,)

    def build(self, setting: SingleModuleSetting) -> nn.Module:
        return network.build(setting)

    def sample(self, setting: SingleModuleSetting, split: str, streams: Streams) -> Batch:
        return data.sample(setting, split, streams)

    def references(
        self, setting: SingleModuleSetting, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        """Returns the success threshold of the extrapolation set."""
        if split != "extrapolation":
            return {}
        return {"solved_mse": data.solved_error(setting, batch, streams.seeds)}

    def memory(self, setting: SingleModuleSetting, seeds: int) -> int:
        """Counts the evaluation sets, a step's inputs with three copies, and activations."""
        examples = len(self.splits) * setting.test_size + 4 * max(setting.batch, setting.test_size)
        activations = 18 * max(setting.batch, setting.test_size) * setting.inputs
        return 4 * seeds * (examples * setting.inputs + activations)


TASK = SingleModuleTask()
