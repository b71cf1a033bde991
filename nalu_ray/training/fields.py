"""Settings fields, and types of fields, that several tasks share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PydanticSchemaGenerationError,
    model_validator,
)
from torch import nn

from nalu_ray import layers
from nalu_ray.errors import did_you_mean, of_value
from nalu_ray.input.values import Named, ValueReader, reason, scalar
from nalu_ray.task import Setting, added
from nalu_ray.training import penalty_terms, redraw, updates
from nalu_ray.training.learning_rate import ScheduleName
from nalu_ray.training.optimisers import OptimiserName
from nalu_ray.training.recording import Engine

SINCE = "0.3.0"

# field -> the only optimiser that reads it
_OF_ONE_OPTIMISER = {
    "adam_beta2": "adam",
    "adam_eps": "adam",
    "rmsprop_decay": "rmsprop",
    "momentum": "sgd",
    "weight_decay": "muon",
}


def _parts(value: Any) -> Any:
    """Joins a list of parts; an empty text, or ``none``, is no value."""
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        value = ";".join(value)
    return None if isinstance(value, str) and value.strip(" ;").lower() in ("", "none") else value


def _read_by(parse: Callable[[str], Iterable[object]]) -> AfterValidator:
    """Checks a text by a parser, and writes equal parts as equal texts."""
    return AfterValidator(lambda text: ";".join(map(str, parse(text))))


PenaltyTerms = Annotated[
    Annotated[str, _read_by(penalty_terms.parse)] | None, BeforeValidator(_parts)
]
"""Terms of :mod:`nalu_ray.training.penalty_terms`."""

Factors = Annotated[Annotated[str, _read_by(updates.parse_factors)] | None, BeforeValidator(_parts)]
"""Factors of the learning rate, see :func:`nalu_ray.training.updates.parse_factors`."""

Phases = Annotated[Annotated[str, _read_by(updates.parse_phases)] | None, BeforeValidator(_parts)]
"""Phases of training, see :func:`nalu_ray.training.updates.parse_phases`."""

RedrawRule = Annotated[
    Annotated[str, _read_by(lambda text: [redraw.parse_rule(text)])] | None, BeforeValidator(_parts)
]
"""A rule of :mod:`nalu_ray.training.redraw`."""


class SupervisedSetting(Setting):
    """Fields of every supervised task: how it is trained and when it is evaluated.

    Attributes:
        OPTION_FIELDS: for each field that is passed to the layer, the name of the layer's option.
    """

    OPTION_FIELDS: ClassVar[Mapping[str, str]] = {
        "weight_init": "init",
        "gate_init": "gate_init",
        "memory_init": "memory_init",
    }

    lr: float = Field(
        0.01,
        gt=0,
        description="learning rate; with a schedule or a warm-up, its peak",
    )
    steps: int = Field(1000, ge=1, description="training steps per seed")
    optimiser: OptimiserName = Field("adam", description="optimiser, one of torch's or Muon")
    adam_beta2: float = Field(
        0.999, ge=0, lt=1, description="decay rate of Adam's mean of squared gradients"
    )
    momentum: float = Field(0.0, ge=0, lt=1, description="Nesterov momentum of SGD")
    weight_decay: float = Field(
        0.0, ge=0, description="decoupled weight decay of linear layers, for Muon"
    )
    schedule: ScheduleName = Field(
        "constant", description="how the learning rate changes over the steps"
    )
    warmup: int = Field(
        0, ge=0, description="initial steps over which the learning rate rises to lr"
    )
    lr_end: float = Field(0.01, ge=0, le=1, description="final learning rate, as a fraction of lr")
    clip: float | None = Field(
        None, gt=0, description="largest gradient norm per seed; none = no clipping"
    )
    clip_value: float | None = added(
        SINCE, None, gt=0, description="largest magnitude of each gradient value; none = no limit"
    )
    adam_eps: float = added(
        SINCE, 1e-8, gt=0, description="Adam's epsilon, added to the root of the mean of squares"
    )
    rmsprop_decay: float = added(
        SINCE,
        0.99,
        ge=0,
        lt=1,
        description="decay rate of RMSprop's mean of squared gradients; 0.9 in TensorFlow and Flux",
    )
    penalty: PenaltyTerms = added(
        SINCE,
        None,
        description="penalties added to the loss, as name:coefficient[:schedule[:arguments]];... ; "
        "schedules: constant, linear:from_step:to_step, growth:factor:every:highest, "
        "below:bound:from_step; names: the penalties of units, such as sparsity or 0.sparsity, and "
        "l1@PATTERN and l2@PATTERN, over the parameters that match",
    )
    lr_factor: Factors = added(
        SINCE,
        None,
        description="factors of the learning rate by parameter, as PATTERN:factor;...",
    )
    phases: Phases = added(
        SINCE,
        None,
        description="cycle of phases in which only some parameters move, as "
        "steps|PATTERN+PATTERN;steps|PATTERN",
    )
    redraw: RedrawRule = added(
        SINCE,
        None,
        description="fresh parameters for stuck seeds, as every:losses:above:range: every `every` "
        "steps, a seed with more than `losses` losses restarts from U(-range, range) if its mean "
        "loss is above `above` and no longer falls",
    )
    stop: float | None = added(
        SINCE,
        None,
        gt=0,
        description="end a seed early once its loss on interpolation (or validation) is below this",
    )
    engine: Engine = added(
        "0.5.0",
        "auto",
        description="how a step's forward and backward pass are computed: plain; auto (operations "
        "are recorded once and repeated where that gives the same bits); compile, or graph (a "
        "CUDA graph), which round differently",
    )
    deterministic: bool = added(
        "0.5.0",
        False,
        description="on a GPU, use only operations that repeat bit for bit; slower",
    )
    evaluations: int = Field(
        20, ge=1, description="number of evaluations, evenly spaced over the steps"
    )
    shared_inputs: bool = Field(
        False,
        description="give all seeds the same training inputs; faster, but the seeds are no "
        "longer independent",
    )

    def built(self) -> Sequence[layers.LayerEntry] | None:
        """Returns the layers or cells that get ``options`` and the fields of ``OPTION_FIELDS``.

        With None, no field counts as unread and no option is typed.
        """
        return None

    def option_defaults(self, entry: layers.LayerEntry) -> Mapping[str, Any]:
        """Returns what the options of a layer of :meth:`built` are if ``options`` lacks them."""
        return entry.option_defaults

    def layer_options(self, known: Collection[str], **instead: Any) -> dict[str, Any]:
        """Returns those options of a layer or cell that the fields of ``OPTION_FIELDS`` give.

        Args:
            known: names of all of its options.
            instead: values other than the field's, by option.
        """
        values = {option: getattr(self, name) for option, name in self._option_fields().items()}
        return {name: value for name, value in (values | instead).items() if name in known}

    @classmethod
    def _option_fields(cls) -> dict[str, str]:
        """Returns the field of each option that a field gives."""
        option_fields = cls.OPTION_FIELDS.items()
        return {option: name for name, option in option_fields if name in cls.model_fields}

    def unread(self) -> dict[str, str]:
        idle = {
            name: f"optimiser={self.optimiser} has no {name}"
            for name, optimiser in _OF_ONE_OPTIMISER.items()
            if self.optimiser != optimiser
        }
        if self.schedule == "constant":
            idle["lr_end"] = "schedule=constant never leaves lr"
        entries = self.built()
        if entries is None:
            return idle
        unit_options = {option for entry in entries for option in entry.options}
        names = " and ".join(dict.fromkeys(entry.name for entry in entries)) or "a linear layer"
        for option, name in self._option_fields().items():
            if option not in unit_options:
                idle[name] = f"{names} has no {name}"
        return idle

    def remarks(self) -> list[str]:
        return [
            f"penalty={term}: has no effect, as it begins at step {term.schedule.begins:,} of "
            f"{self.steps:,}"
            for term in penalty_terms.parse(self.penalty or "")
            if term.schedule.begins >= self.steps
        ]

    @model_validator(mode="after")
    def _type_options(self) -> SupervisedSetting:
        """Converts each option to the type in its layer's factory; ``check`` refuses unknown names.

        So ``epsilon: 1`` and ``1.0`` are one setting, and ``bias: false`` is not a text. An option
        at its default is left out: both ways are one setting, too.
        """
        options: Mapping[str, Any] = getattr(self, "options", {})
        entries = self.built() if options else None
        if entries is None:
            return self
        fields = self._option_fields()
        types = {name: hint for entry in entries for name, hint in entry.option_types.items()}
        typed = {}
        for name, value in options.items():
            if name in fields:
                raise ValueError(
                    f"options: {name} is not an option here; set the field {fields[name]}="
                )
            typed[name] = _typed_option(name, value, types[name]) if name in types else value
        object.__setattr__(self, "options", typed)  # option_defaults may look at them
        takers = [(set(entry.options), self.option_defaults(entry)) for entry in entries]
        for name, value in list(typed.items()):
            usual = [defaults.get(name, ...) for accepted, defaults in takers if name in accepted]
            if usual and all(_same(value, default) for default in usual):
                del typed[name]
        return self


def _same(value: Any, default: Any) -> bool:
    """Returns whether an option has its default; 1 is 1.0, but not true."""
    if isinstance(value, bool) is not isinstance(default, bool):
        return False
    return isinstance(default, bool | int | float | str | None) and value == default


def _typed_option(name: str, value: Any, hint: Any) -> Any:
    if hint is Any:
        return value
    try:
        return ValueReader(hint).read(value)
    except PydanticSchemaGenerationError:  # a device, say
        raise ValueError(f"options: {name} cannot be set on the command line") from None
    except ValueError as error:
        raise ValueError(f"options: {of_value(name, value, reason(error))}") from None


def _one_of(
    noun: str, names: Callable[[], Collection[str]], single: str | None = None
) -> AfterValidator:
    def check(name: str) -> str:
        return known(noun, name, names(), single)

    return AfterValidator(check)


def known(noun: str, name: str, names: Collection[str], single: str | None = None) -> str:
    """Returns a name that is among ``names``.

    Args:
        noun: what they name.
        name: any name.
        names: those there are.
        single: what is a single unit here, if a pair of units is none of them.

    Raises:
        ValueError: if it is not; the message lists them.
    """
    if name not in names:
        if single:
            layers.check_no_pair(name, names, single)
        raise ValueError(did_you_mean(noun, name, names))
    return name


def without_gate(
    layer: str, parts: Mapping[str, Callable[..., nn.Module] | None]
) -> dict[int, str]:
    """Returns the index of each part of a network whose unit has no gate, with the reason.

    Args:
        layer: the network's name.
        parts: the class or factory of each part in order, None for an affine one.
    """
    return {
        index: f"layer={layer}: {part} has no gate"
        for index, (part, unit) in enumerate(parts.items())
        if unit is None or "gate_init" not in layers.options_of(unit)
    }


def split_range(value: Any) -> Any:
    """Splits a text at its colons; returns anything else as it is."""
    return value.split(":") if isinstance(value, str) else value


def split_list(value: Any) -> Any:
    """Splits a text at its colons and wraps a number in a list; returns the rest as it is."""
    return [value] if isinstance(value, int | float) else split_range(value)


def _options(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.startswith("{"):
        return scalar(value)
    pairs = [part.partition(":") for part in value.split(";") if part]
    options = {name: scalar(text) for name, _, text in pairs}
    if len(options) < len(pairs):
        raise ValueError("an option is given twice; write name:value;name:value")
    return options


def _known_init(init: float | str) -> float | str:
    layers.check_init("initialisation", init)
    return init


def _ordered(value: tuple[float, float]) -> tuple[float, float]:
    if not value[0] < value[1]:
        raise ValueError(f"empty range {value[0]}:{value[1]}; write low:high with low < high")
    return value


LayerName = Annotated[str, _one_of("layer", layers.names), Named(layers.names)]
"""A network of :mod:`nalu_ray.layers` by its registered name."""

CellName = Annotated[str, _one_of("cell", layers.cell_names, "cell"), Named(layers.cell_names)]
"""A recurrent cell of :mod:`nalu_ray.layers` by its registered name, or any unit."""


def _single_layers() -> list[str]:
    return sorted({*layers.names()} - {*layers.pair_names()})


SingleName = Annotated[str, _one_of("layer", _single_layers, "layer"), Named(_single_layers)]
"""A network of a single layer by its registered name."""

Range = Annotated[tuple[float, float], BeforeValidator(split_range), AfterValidator(_ordered)]
"""A pair low < high, written ``low:high`` on the command line."""

NumberOrName = Annotated[float | str, Field(union_mode="left_to_right")]
"""A number where it reads as one, else a name."""

Init = Annotated[NumberOrName, AfterValidator(_known_init)]
"""An initialisation of :mod:`nalu_ray.layers`, a name or a constant."""

PerLayer = Annotated[tuple[Init, ...], BeforeValidator(split_list)]
"""An initialisation for each layer, first to last, written ``a:b``."""

Options = Annotated[dict[str, bool | int | float | str | None], BeforeValidator(_options)]
"""Named values, written ``name:value;name:value`` on the command line."""

# Fields of several tasks, with their help; a setting names one and gives its default.

CellOptions = Annotated[
    Options, Field(description="further arguments of the cell, as name:value;name:value")
]
"""Options of a recurrent cell."""

WeightInit = Annotated[
    Init,
    Field(description="initialisation of W_hat and M_hat, a name or a number (not in the paper)"),
]
"""How the weights of a NAC or NALU start."""

GateInit = Annotated[
    Init,
    Field(description="initialisation of the NALU's G, a name or a number (not in the paper)"),
]
"""How the gate of a NALU starts."""

MemoryInit = Annotated[
    float | None,
    Field(
        description="initial W_hat and M_hat of a recurrent NAC or NALU, from each unit of h to "
        "itself (0 to the others); with a large value, h starts as a memory; none = as weight_init"
    ),
]
"""How strongly the state of a recurrent NAC or NALU starts as a memory."""
