"""The scripts of docs/scale.md: valid shell syntax, a valid YAML job, and commands that exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from unspur.cli.lazy_group import load_command
from unspur.workflow import ListPart

BASH = shutil.which("bash") or "/bin/bash"
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="not run from a source tree")


def blocks(language: str) -> list[str]:
    """Return the code blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def parse(arguments: list[str]) -> dict[str, object]:
    """Return the options that our command line parses from arguments, without running anything."""
    command: object = load_command(arguments[0])
    left = arguments[1:]
    while hasattr(command, "commands"):
        command, left = command.commands[left[0]], left[1:]  # type: ignore[attr-defined]
    context = command.make_context("unspur", list(left))  # type: ignore[attr-defined]
    return dict(context.params)


def commands(text: str) -> list[list[str]]:
    """Return the arguments of every `unspur` line of a script."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = [shlex.split(line, comments=True) for line in joined.splitlines()]
    return [line[line.index("unspur") + 1 :] for line in lines if "unspur" in line]


def test_every_command_of_the_page_is_one_of_ours() -> None:
    found = [line for text in blocks("sh") for line in commands(text)]
    assert len(found) >= 6
    for arguments in found:
        parse(arguments)


def test_an_address_may_be_left_out() -> None:
    bench = ["bench", "cmnist/*", "--out", "x.json"]
    assert parse(bench)["ray"] == ""
    assert parse([*bench, "--ray"])["ray"] == "local"
    assert parse(["bench", "--ray", "cmnist/*", "--out", "x.json"])["ray"] == "local"
    for address in ("auto", "head:6379", "ray://head:10001"):
        assert parse([*bench, "--ray", address])["ray"] == address
    assert parse(["reproduce", "--ray", "ablation"])["names"] == ["ablation"]


def test_the_shell_accepts_the_script_and_each_job_has_its_part(tmp_path: Path) -> None:
    (script,) = blocks("bash")
    checked = subprocess.run([BASH, "-n"], input=script, text=True, capture_output=True)
    assert checked.returncode == 0, checked.stderr
    (count,) = re.findall(r"^#SBATCH --array=1-(\d+)$", script, re.MULTILINE)
    (tmp_path / "srun").write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')  # prints its arguments
    (tmp_path / "srun").chmod(0o755)
    for number in range(1, int(count) + 1):
        job = {
            "SLURM_SUBMIT_DIR": str(tmp_path),
            "SLURM_ARRAY_TASK_ID": str(number),
            "SLURM_ARRAY_TASK_COUNT": count,
        }
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = subprocess.run(
            [BASH], input=script, text=True, capture_output=True, env={"PATH": path, **job}
        )
        assert done.returncode == 0, done.stderr
        options = parse(done.stdout.splitlines()[1:])
        assert ListPart.parse(str(options["part"])) == ListPart(number, int(count))
        assert options["names"] == ["cmnist/*-dcwp", "cmnist/*-unspur"]


def test_the_job_of_kubernetes() -> None:
    yaml = pytest.importorskip("yaml")
    (text,) = blocks("yaml")
    job = yaml.safe_load(text)
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] in ("OnFailure", "Never")  # a job may have no other
    (container,) = pod["containers"]
    mounted = {each["name"] for each in container["volumeMounts"]}
    assert mounted == {each["name"] for each in pod["volumes"]}
    launch = [*container["command"], *container["args"]]
    at = launch.index("-m")
    assert launch[0] == "torchrun"
    gpus = container["resources"]["limits"]["nvidia.com/gpu"]
    assert f"--nproc-per-node={gpus}" in launch[:at]
    assert launch[at + 1] == "unspur"
    assert parse(launch[at + 2 :])["source"] == "/data/shards"
