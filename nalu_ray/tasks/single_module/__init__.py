"""Single Module Arithmetic Task (Mistry et al., 2022): one unit, two inputs, nine ranges.

The target is x_1 + x_2, x_1 - x_2, x_1 x_2 or x_1 / x_2. With more than two inputs, the unit must
leave the others out. Where the two lie is random per seed and fixed within a seed.

Mistry et al., "A Primer for Neural Arithmetic Logic Modules" (2022),
https://arxiv.org/abs/2101.09530; Mistry, Farrahi and Hare, "Learning Division with Neural
Arithmetic Logic Modules" (2021), https://arxiv.org/abs/2110.05177.
"""

from __future__ import annotations

from torch import Tensor, nn

from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.single_module import data, network
from nalu_ray.tasks.single_module.network import SingleModuleSetting
from nalu_ray.training.supervised import SupervisedTask


class SingleModuleTask(SupervisedTask[SingleModuleSetting]):
    """One unit on two of its inputs."""

    name = "single_module"
    title = "Single Module Arithmetic Task"
    section = "Mistry et al. (2022)"
    setting_type = SingleModuleSetting
    axes = ("layer", "op", "train_range")
    tables = ()

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
        activations = 10 * max(setting.batch, setting.test_size) * setting.inputs
        return 4 * seeds * (examples * setting.inputs + activations)


TASK = SingleModuleTask()
