"""Commands that only list things do not import torch; `import unspur` imports nothing heavy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unspur import cli
from unspur.cli.lazy_group import COMMANDS, load_command
from unspur.recipes import method_list

HEAVY = ("torch", "numpy", "triton", "sklearn", "matplotlib", "torchvision", "safetensors")
PROGRAM = """
import json, sys
sys.argv = ["unspur", *{words}]
from unspur.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("HEAVY", json.dumps([name for name in {heavy} if name in sys.modules]))
"""


def loaded_by(words, folder):
    code = PROGRAM.format(words=words, heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder
    )
    text, _, names = done.stdout.rpartition("HEAVY ")
    assert text.strip()
    return json.loads(names)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["recipes"],
        ["recipes", "list", "cmnist/*"],
        ["methods"],
        ["runs", "list"],
    ],
    ids=" ".join,
)
def test_lists_do_not_import_torch(words, tmp_path):
    (tmp_path / "runs" / "store" / "mine-1").mkdir(parents=True)
    assert loaded_by(words, tmp_path) == []


def test_help_groups_the_commands_and_begins_with_those_for_own_images():
    shown = subprocess.run(
        [sys.executable, "-m", "unspur", "--help"], capture_output=True, text=True, check=True
    ).stdout
    places = [shown.index(f"─ {place.heading} ─") for place in COMMANDS.values()]
    assert places == sorted(places)
    assert len(set(places)) == 3
    assert {"demo", "audit", "debias"} <= set(list(COMMANDS)[:4])


def test_importing_the_package_imports_nothing_heavy():
    code = f"import sys, unspur; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_function_is_not_replaced_by_the_folder_of_the_same_name():
    code = """
import unspur.audit.result, unspur.report.page
import unspur
assert callable(unspur.audit) and callable(unspur.report), (unspur.audit, unspur.report)
assert set(unspur.__all__) <= set(dir(unspur))
for name in unspur.__all__:
    getattr(unspur, name)
from unspur import audit, report
assert audit is unspur.audit and report is unspur.report
try:
    unspur.nothing
except AttributeError as error:
    assert "nothing" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_has_the_sentence_of_every_command(name):
    command = load_command(name)
    assert command.name == name
    assert (command.help or "").split("\n\n")[0].replace("\n", " ") == COMMANDS[name].help


def test_every_file_of_commands_is_in_the_list():
    folder = Path(cli.__file__).parent
    files = {path.stem for path in folder.glob("*_command*.py")}
    assert files == {place.file for place in COMMANDS.values()}


def test_the_static_list_of_methods_matches_the_code():
    written = Path(method_list.__file__).with_name(method_list.FILE).read_text("utf-8")
    rows = [row for row in method_list.current_rows() if row.name in written]
    assert written == method_list.as_text(rows), "run: python -m unspur.recipes.method_list"


@pytest.mark.parametrize(
    ("words", "near"),
    [(["debia"], "'debia'. Did you mean 'debias'?"), (["runs", "lst"], "'list'?")],
)
def test_a_misspelt_command_gets_the_nearest_one(words, near):
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 2
    assert near in done.output
