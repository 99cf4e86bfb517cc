#!/bin/sh
# Build the source archive and the wheel, check both, install each into an empty environment and run it there.
# Dependencies are those of .venv, so that nothing large is installed; `nox -s minimal` installs them anew.
set -eu
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
rm -rf dist
"$python" -m build >"$away/build.log" 2>&1 || {
    cat "$away/build.log"
    exit 1
}
"$python" -m twine check --strict dist/*
"$python" scripts/check_archives.py dist
for archive in dist/*; do
    env=$away/$(basename "$archive")
    "$python" -m venv --without-pip "$env"
    "$python" -m pip --python "$env/bin/python" install -q --disable-pip-version-check --no-deps "$archive"
    packages=$("$env/bin/python" -c 'import site; print(site.getsitepackages()[0])')
    "$python" -c 'import sys; print(*(p for p in sys.path if p.endswith("-packages")), sep="\n")' >"$packages/dependencies.pth"
    (
        cd "$away"
        "$env/bin/python" -c 'import sys, unspur; assert unspur.__file__.startswith(sys.prefix), unspur.__file__
for name in unspur.__all__: getattr(unspur, name)'
        echo "$(basename "$archive"): $("$env/bin/unspur" --version), $("$env/bin/unspur" recipes | wc -l) lines of recipes"
        "$env/bin/unspur" recipes show demo >/dev/null
    )
done
