#!/bin/sh
# The first hour on a GPU: checks and measures what no CPU can show, in under eight minutes.
#     benchmarks/gpu.sh [results.md] [further flags of benchmarks/gpu.py]
# Exit status: 0; 1 if a check failed; 124 or 137 if it was stopped after 475 s, and the table ends there.
# For more time, run benchmarks/gpu.py itself with --minutes.
set -eu
cd "$(dirname "$0")/.."
out="${1:-gpu.md}"
[ $# -gt 0 ] && shift
nvidia-smi || echo "no nvidia-smi here" >&2
PYTHONPATH="$PWD" exec timeout -k 10 475 \
    "${PYTHON:-python}" benchmarks/gpu.py --device cuda --minutes 7.5 --out "$out" "$@"
