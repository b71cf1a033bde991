"""Peak memory of a trial, measured and predicted by the plan, by unit and block size.

    python benchmarks/memory.py [--seeds 25 100 400]

Each measurement runs in a separate process. The memory of a bare worker (torch and the tasks
imported, one seed trained) is subtracted, as :meth:`nalu_ray.task.Task.memory` excludes it.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

import torch

from nalu_ray import registry
from nalu_ray.sweep.block_size import size

MIB = 1024**2
# task, layer, other fields
CASES: list[tuple[str, str, dict[str, int]]] = [
    ("static", "nalu", {}),
    ("static", "real_npu", {}),
    ("static", "nmru", {}),
    ("static", "kan", {}),
    ("single_module", "nalu", {}),
    ("single_module", "kan", {}),
    ("identity", "relu", {}),
    ("recurrent", "nalu", {"steps": 2}),
    ("program", "nru", {"steps": 2}),
]


def measure(task_name: str, layer: str, fields: dict[str, int], seeds: int) -> tuple[int, int]:
    """Returns measured and predicted bytes of a trial, in this process."""
    torch.set_num_threads(1)
    task = registry.task(task_name)
    fields = {"steps": 20, "evaluations": 1, **fields}
    setting = task.setting_type.model_validate({"layer": layer, **fields})
    task.check(setting)
    for block in (1, seeds):
        bare = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run = task.start(setting, range(block), torch.device("cpu"))
        run.advance()
        run.rows()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (peak - bare) * 1024, size(task, setting, seeds)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[25, 100, 400])
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case is not None:
        task, layer, fields = CASES[arguments.case]
        print(*measure(task, layer, fields, arguments.seeds[0]))
        return
    print(f"{'':16}{'layer':10}{'seeds':>8}{'measured MiB':>14}{'predicted MiB':>15}")
    for case, (task, layer, _) in enumerate(CASES):
        for seeds in arguments.seeds:
            words = [sys.executable, __file__, "--case", str(case), "--seeds", str(seeds)]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            taken, predicted = (int(number) / MIB for number in done.stdout.split())
            print(f"{task:16}{layer:10}{seeds:8}{taken:14.0f}{predicted:15.0f}", flush=True)


if __name__ == "__main__":
    main()
