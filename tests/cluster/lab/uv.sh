#!/bin/sh
# uv, as far as cluster.yaml uses it: the lab's environment is there, its packages in a path file.
#   uv pip install --python ENVIRONMENT WORDS
test "$1 $2 $3" = "pip install --python" || { echo "not in the lab: uv $*" >&2; exit 2; }
python=$4/bin/python
shift 4
exec "$python" -m pip install -q "$@"
