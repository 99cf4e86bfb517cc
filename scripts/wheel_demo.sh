#!/bin/sh
# Build a wheel, install it in an empty environment outside the source tree, and run the demo there.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
"$here/.venv/bin/python" -m build --wheel --outdir "$away" "$here" >"$away/build.log" 2>&1 || {
    cat "$away/build.log"
    exit 1
}
cd "$away"
"${PYTHON:-python3}" -m venv env
env/bin/python -m pip install -q --disable-pip-version-check -c "$here/constraints.txt" ./*.whl
env/bin/unspur demo --quiet
test -s runs/demo/model.safetensors
