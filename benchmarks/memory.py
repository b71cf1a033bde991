"""Peak memory of a trial, measured and predicted by the plan, by block size.

    python benchmarks/memory.py [--seeds 25 100 400]

Each measurement runs in a separate process. The memory of a bare worker (torch and the tasks
imported, one seed trained) is subtracted, as :meth:`nalu_ray.task.Task.memory` excludes it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

CHILD = """
import resource, sys, torch
torch.set_num_threads(1)
from nalu_ray.registry import task as find
task, seeds, values = find(sys.argv[1]), int(sys.argv[2]), eval(sys.argv[3])
setting = task.setting_type(steps=20, evaluations=1, **values)
run = task.start(setting, range(seeds), torch.device("cpu"))
run.advance()
run.rows()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(peak, task.memory(setting, seeds))
"""
CASES = [("static", {"layer": "nalu", "op": "mul"}), ("identity", {"layer": "relu"})]
MIB = 1024**2


def measure(task: str, values: dict[str, str], seeds: int) -> tuple[int, int]:
    """Returns peak and predicted bytes of a trial."""
    command = [sys.executable, "-c", CHILD, task, str(seeds), repr(values)]
    numbers = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return int(numbers[0]), int(numbers[1])


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[25, 100, 400])
    arguments = parser.parse_args()
    print(f"{'':12}{'seeds':>8}{'measured MiB':>14}{'predicted MiB':>15}")
    for task, values in CASES:
        bare, _ = measure(task, values, 1)
        for seeds in arguments.seeds:
            peak, predicted = measure(task, values, seeds)
            print(f"{task:12}{seeds:8}{(peak - bare) / MIB:14.0f}{predicted / MIB:15.0f}")


if __name__ == "__main__":
    main()
