#!/bin/sh
# The first hour on a GPU: checks and measures what no CPU can show, in under eight minutes.
#     benchmarks/gpu.sh [results.md] [further flags of benchmarks/gpu.py]
set -eu
cd "$(dirname "$0")/.."
out="${1:-gpu.md}"
[ $# -gt 0 ] && shift
nvidia-smi || echo "no nvidia-smi here" >&2
PYTHONPATH="$PWD" exec "${PYTHON:-python}" benchmarks/gpu.py --device cuda --minutes 7.5 --out "$out" "$@"
