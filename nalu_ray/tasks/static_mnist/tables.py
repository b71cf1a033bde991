"""Tables and figures of static MNIST."""

from __future__ import annotations

from nalu_ray.results.specs import Axis, FigureSpec, Measure, Selection, TableSpec, learning_figure
from nalu_ray.tasks.static_mnist.network import EXACT, FOLDS

RULE = Selection(metric="mse", split="validation")
PROBLEM = ("op", "fold")
SHARES = {"validation": "validation", "seen": "test images, seen pairs", "test": "unseen pairs"}
MODELS = Axis(
    field="layer",
    labels={
        EXACT: "True operation (reference)",
        "nmu": "NMU",
        "snmu": "sNMU",
        "nru": "NRU",
        "nmru": "NMRU",
        "real_npu": "Real NPU",
        "modified_real_npu": "Modified Real NPU",
        "none": "Affine",
        "relu": "MLP",
    },
)
WORDS = {
    "op": {"mul": "Products", "div": "Quotients"},
    "fold": {"none": f"the fold of its own of {FOLDS}", "0": "fold 0"},
}
CAPTION = (
    "{op} of two MNIST digits. Training shows nine tenths of the pairs of digits, and each seed "
    "leaves out {fold}; test images are in no other set. Validation has seen pairs. A run is "
    "solved if its error is below the upper 99 % limit of the mean error of the reference, whose "
    "convnet learns under the true operation."
)

RIGHT = (
    "{op} of two MNIST digits: right results and digits read right (%). A product is right if it "
    "rounds to the true one, a quotient if times the divisor it rounds to the dividend."
)


def tables() -> tuple[TableSpec, ...]:
    """Returns the table of errors, and that of shares of right results and digits."""
    errors = {
        f"mse_{split}": Measure(
            metric="mse", split=split, label=f"{label}: MSE", format=".3g", statistic="median"
        )
        for split, label in SHARES.items()
    }
    shares = {
        f"{metric}_{split}": Measure(
            metric=metric,
            split=split,
            label=f"{label}: {noun}",
            statistic="median",
            scale=100,
            better="higher",
            worst=0.0,
        )
        for metric, noun in (("exact", "results"), ("digits", "digits"))
        for split, label in SHARES.items()
        if split != "validation"
    }
    return (
        _table("static_mnist", CAPTION, errors, solved_like=EXACT),
        _table("static_mnist_right", RIGHT, shares),
    )


def _table(
    name: str, caption: str, measures: dict[str, Measure], solved_like: str | None = None
) -> TableSpec:
    return TableSpec(
        name=name,
        title="Static MNIST",
        caption=caption,
        rows=MODELS,
        measures=measures,
        layout="columns",
        selection=RULE,
        solved_like=solved_like,
        board=solved_like is not None,
        words=WORDS,
        problem=PROBLEM,
    )


def figures() -> tuple[FigureSpec, ...]:
    """Returns the figure of the error on unseen pairs during training."""
    return (
        learning_figure(
            name="static_mnist_learning",
            caption="Squared error on unseen pairs during training.",
            metric="mse",
            split="test",
            lines=MODELS,
            panels=Axis(field="op", labels={"mul": "Product", "div": "Quotient"}),
            selection=RULE,
            y_label="mean squared error",
            problem=("fold",),
        ),
    )
