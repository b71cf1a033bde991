"""The flags of ``tune`` and their help, apart from what they ask for: the help is there at once."""

from __future__ import annotations

from nalu_ray.command import words as cli
from nalu_ray.input import invocation
from nalu_ray.results.store import paths
from nalu_ray.sweep.resources import PRESETS, Resources
from nalu_ray.sweep.search import ALGORITHMS

ABOUT = """\
Runs a task's sweep and prints its table. Stored seeds are not run again: rerun the same command to
resume, or a larger one to run only the difference.

The sweep is a preset of tune_configs/<task>.yaml: --preset NAME, or preset=NAME. Override its
fields with field=value; commas make a grid: layer=nac,nalu op=add,mul. layer=all means every layer
that the task can train. seeds=100 means seeds 0 to 99, seeds=3,7 and seeds=0-9,20-29 those seeds.
Search ranges of numbers with lr=log:1e-4:1 (uniform in the logarithm) or clip=uniform:0.1:2, and
samples=50, the number of points; search_seed=1 draws other points.
"""
EXAMPLES = """\
examples:
  python -m nalu_ray.tune --list
      list the tasks and how long their laptop presets take here
  python -m nalu_ray.tune static --preset smoke
      seconds: check that everything works
  python -m nalu_ray.tune static layer=nac,nalu op=add,mul lr=0.01,0.001 hidden=2,4 seeds=100
      a grid of 16 settings with seeds 0 to 99
  python -m nalu_ray.tune static layer=nac op=add lr=log:1e-4:1 samples=50 seeds=5
      a random search over learning rates, with five seeds per learning rate
  python -m nalu_ray.tune static op=add seeds=3,7 --local
      two seeds per layer, in this process and without Ray
  python -m nalu_ray.tune static op=mul --print-config
      print the sweep as YAML: save it, edit it, run it with --config FILE
  python -m nalu_ray.tune static --preset paper --address auto --gpus-per-trial auto
      the paper's sweep, on this machine's Ray cluster
  python -m nalu_ray.tune static --help
      list a task's fields

exit codes: 0 success, 1 some seeds failed, 2 wrong usage or input, 3 stopped by storage or Ray
(rerun the same command to resume), 130 Ctrl-C, 143 terminated
"""
# what pyproject.toml's extras of these names install: nalu-ray itself is on no package index
EXTRAS = {
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "mlflow": "mlflow",
    "search": "optuna>=4",
}
TITLES = {"tensorboard": "TensorBoard", "wandb": "Weights & Biases", "mlflow": "MLflow"}


def parser() -> cli.Parser:
    """Returns the command's flags."""
    tune_parser = cli.Parser("python -m nalu_ray.tune", ABOUT, EXAMPLES)
    tune_parser.add_argument(
        "words", nargs="*", metavar="task [key=value]", help="task name, then field=value overrides"
    )
    add = tune_parser.add_argument_group("what to run").add_argument
    add("-h", "--help", action="store_true", help="print this help; with a task, its fields")
    add("--list", action="store_true", help="list the tasks; with a task, its presets")
    add("--preset", help=f"{', '.join(PRESETS)} or another of the task (default: laptop)")
    add(
        "--config",
        type=paths.file,
        metavar="FILE",
        help="your own sweep file, as printed by --print-config",
    )
    add("--print-config", action="store_true", help="print the resulting sweep as YAML")
    add("--dry-run", action="store_true", help="print the plan without running it")
    add(
        "--out",
        type=paths.place,
        default="results",
        help="folder or URI of the stored rows (default: %(default)s)",
    )
    add("--search", choices=ALGORITHMS, help="how to choose values of ranges (default: random)")
    add("--rerun-failed", action="store_true", help="rerun seeds that failed")
    add(
        "--rerun",
        action="store_true",
        help="rerun seeds whose rows were produced by another version of the code",
    )
    add("--fail-fast", action="store_true", help="stop at the first seed that fails")
    add = tune_parser.add_argument_group("where to run").add_argument
    add("--local", action="store_true", help="run in this process, without Ray (same rows)")
    add("--address", help="Ray cluster to join, 'auto' for this machine's (default: $RAY_ADDRESS)")
    for name, field in Resources.model_fields.items():
        add(flag(name), metavar="N", help=f"{field.description} (default: the preset's)")
    add = tune_parser.add_argument_group("output").add_argument
    add("-q", "--quiet", action="store_true", help="print only warnings and failures")
    add(
        "-v",
        "--verbose",
        action="store_true",
        help="also print every planned trial and the overhead per trial",
    )
    for name, title in TITLES.items():
        add(
            f"--{name}",
            action="store_true",
            help=f"also log to {title} ({invocation.install(EXTRAS[name])})",
        )
    return tune_parser


def flag(field: str) -> str:
    """Returns the flag of a field of :class:`Resources`."""
    return f"--{field.replace('_', '-')}"
