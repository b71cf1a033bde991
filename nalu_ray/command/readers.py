"""Tasks whose trained networks answer questions: what they offer, and the choice of a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import ValidationError

from nalu_ray.command.network_choice import Chosen, choose
from nalu_ray.errors import ConfigError, explain
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch, Setting
from nalu_ray.trained import Shipped, pick

if TYPE_CHECKING:
    from torch import Tensor, nn

    from nalu_ray.training.best_networks import Model


@runtime_checkable
class Askable(Protocol):
    """A supervised task, as far as its trained networks are asked."""

    name: str
    axes: tuple[str, ...]
    setting_type: type[Setting]

    def build(self, setting: Any) -> nn.Module:
        """Builds a network without trained weights."""

    def sample(self, setting: Any, split: str, streams: Streams) -> Batch:
        """Returns an evaluation set."""

    def references(
        self, setting: Any, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        """Returns reference scores on an evaluation set, among them the best constant's."""


@runtime_checkable
class TextReader(Askable, Protocol):
    """A task whose networks read texts."""

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
class SeriesReader(Askable, Protocol):
    """A task whose networks read series of images."""

    names: tuple[str, ...]

    def prepare(self) -> None:
        """Downloads the images.

        Raises:
            RuntimeError: no source has them; the message says how to provide them.
        """

    def examples(
        self, setting: Any, weights: dict[str, Tensor], seed: int, count: int
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Returns series of images that a seed did not train on, with answers and targets."""


def choose_model(
    task: Askable,
    out: str,
    wanted: Mapping[str, str],
    *,
    checkpoint: str | None = None,
    shipped: bool = False,
) -> Chosen[Model]:
    """Returns the model to ask: of a file, the best stored one, or a shipped one.

    Args:
        task: the task.
        out: folder or URI of the results.
        wanted: values that the model must have, as text.
        checkpoint: a file of models to choose from instead.
        shipped: whether to leave the stored ones out.

    Raises:
        ConfigError: there is no such model.
        StoreError: the results cannot be read.
    """
    from nalu_ray.training import best_networks  # noqa: PLC0415 (keeps --help quick)

    def fit(model: Model) -> None:
        if (wrong := _misfit(task, model)) is not None:
            raise best_networks.ModelError(wrong)

    def known(data: bytes, name: str) -> list[dict[str, Any]]:
        return [model.setting | model.about for model in best_networks.from_bytes(data, name)]

    def ours() -> tuple[Shipped, Model]:
        entry, data = pick(task.name, "model", wanted, known)
        (model,) = best_networks.from_bytes(data, entry.file)
        fit(model)
        return entry, model

    try:
        if checkpoint:
            return Chosen(best_networks.load(checkpoint, task.name, wanted, fit), checkpoint)
        if shipped:
            entry, model = ours()
            return Chosen(model, entry.file, entry)
        return choose(
            "model",
            out,
            wanted,
            stored=lambda: best_networks.best(out, task.name, wanted, fit),
            shipped=ours,
        )
    except best_networks.ModelError as error:
        raise ConfigError([str(error)]) from error


def setting_of(task: Askable, model: Model) -> Setting:
    """Returns the setting that a model was trained with."""
    return task.setting_type.model_validate(model.setting)


def doubts(task: Askable, setting: Setting, model: Model) -> Iterator[str]:
    """Yields a line if a model errs at least half as much as the best constant answer.

    The error is the one that selected the model, of the same evaluation set.
    """
    split, metric, error = (model.about[name] for name in ("split", "metric", "value"))
    streams = Streams(task.name, [model.about["seed"]], split)
    batch = task.sample(setting, split, streams)
    references = task.references(setting, split, batch, streams.fork(split))
    if (constant := references.get(f"constant_{metric}")) is None:
        return
    least = float(constant[0])
    if not error < least / 2:  # NaN is bad, too
        yield (
            f"this network's {split} {metric} is {error:.3g}; "
            f"one constant answer to everything reaches {least:.3g}"
        )


def _misfit(task: Askable, model: Model) -> str | None:
    """Returns why a model cannot be used (another version, or damaged), or None if it can."""
    import torch  # noqa: PLC0415 (keeps --help quick)

    from nalu_ray.training import tensor_files  # noqa: PLC0415 (as above)

    try:
        setting = setting_of(task, model)
        with torch.device("meta"):  # any size, without memory
            return tensor_files.misfit(task.build(setting), model.weights)
    except ValidationError as error:
        return "; ".join(explain(error))
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error).split("\n", maxsplit=1)[0]
