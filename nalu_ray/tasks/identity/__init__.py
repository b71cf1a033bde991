"""Learning the identity (section 1.1, appendix A): how each activation fails to extrapolate.

An MLP with three hidden layers of eight units learns to return its input from -5 to 5. It is tested
on -20 to 20 (Figure 1) and -1000 to 1000 (Table 5).
"""

from __future__ import annotations

from torch import Tensor, nn

from nalu_ray.results.specs import Axis, FigureSpec, Measure, Selection, TableSpec
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.identity import data, network
from nalu_ray.tasks.identity.network import IdentitySetting
from nalu_ray.training.metrics import mean_absolute_error, mean_squared_error
from nalu_ray.training.supervised import SupervisedTask

ACTIVATIONS = {
    "hardtanh": "Hardtanh",
    "relu6": "ReLU6",
    "softsign": "Softsign",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "threshold": "Threshold",
    "selu": "SELU",
    "elu": "ELU",
    "softshrink": "Softshrink",
    "relu": "ReLU",
    "leaky_relu": "LeakyReLU",
    "tanhshrink": "Tanhshrink",
    "softplus": "Softplus",
    "prelu": "PReLU",
    "none": "None",
}
PROBLEM = ("train_limit", "test_limit", "figure_limit")


class IdentityTask(SupervisedTask[IdentitySetting]):
    """Section 1.1: extrapolation failure on the identity."""

    name = "identity"
    title = "Learning the identity function"
    section = "1.1"
    setting_type = IdentitySetting
    axes = ("layer",)
    splits = ("interpolation", "extrapolation", "figure")
    tables = (
        TableSpec(
            name="identity",
            number=5,
            caption="Mean absolute error on the integers -{test_limit} to {test_limit} after "
            "training on -{train_limit} to {train_limit}. 100 % is the error of predicting 0 "
            "everywhere, the best constant.",
            rows=Axis(field="layer", labels=ACTIVATIONS),
            measures={
                "error": Measure(
                    metric="mae",
                    split="extrapolation",
                    label="Error",
                    statistic="mean",
                    format=".2f",
                ),
                "percent_error": Measure(
                    metric="mae",
                    split="extrapolation",
                    label="% Error",
                    statistic="mean",
                    percent_of_zero="test_limit",
                    format=".1f",
                ),
            },
            layout="columns",
            selection=Selection(step="last"),
            paper={"train_limit": "5", "test_limit": "1000"},
            problem=PROBLEM,
        ),
    )
    figures = (
        FigureSpec(
            name="identity",
            number="1",
            caption="MLPs learn the identity only in the range of values they are trained on.",
            metric="absolute_error",
            split="figure",
            lines=Axis(field="layer", labels=ACTIVATIONS),
            shade="train_limit",
            paper={"train_limit": "5", "figure_limit": "20"},
            x_label="input",
            y_label="mean absolute error",
            select_step=True,
            problem=PROBLEM,
        ),
    )

    def build(self, setting: IdentitySetting) -> nn.Module:
        return network.build(setting)

    def sample(self, setting: IdentitySetting, split: str, streams: Streams) -> Batch:
        return data.draw(setting, split, streams)

    def metrics(
        self, setting: IdentitySetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        return {
            "mae": mean_absolute_error(prediction, target),
            "mse": mean_squared_error(prediction, target),
        }

    def curves(
        self, setting: IdentitySetting, split: str, batch: Batch, prediction: Tensor
    ) -> dict[str, tuple[Tensor, Tensor]]:
        if split != "figure":
            return {}
        error = (prediction - batch.targets).abs().squeeze(2)
        return {"absolute_error": (batch.targets[0, :, 0], error)}

    def memory(self, setting: IdentitySetting, seeds: int) -> int:
        """Counts the hidden layers of the largest set, before and after each activation."""
        limit = max(setting.train_limit, setting.test_limit, setting.figure_limit)
        points = max(2 * limit + 1, setting.batch)
        return 4 * seeds * points * setting.hidden * (2 * setting.hidden_layers + 5)


TASK = IdentityTask()
