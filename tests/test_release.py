"""What a release is made of: archives, versions that agree, workflows, hooks and the citation."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import unspur

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "unspur"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SITE = ROOT / "mkdocs.yml"


@cache
def script(path: str) -> ModuleType:
    """Import a file that belongs to no package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_targets() -> set[str]:
    found = set(re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(), re.M))
    return found if SITE.is_file() else {*found, "docs"}  # which comes with the site


def commands(workflow: Path) -> str:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return "\n".join(step.get("run", "") for job in jobs for step in job["steps"])


# Archives


def test_the_wheel_gets_every_file_of_the_package_that_is_not_python() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["unspur"]
    covered = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    files = {p for p in PACKAGE.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")}
    assert PACKAGE / "py.typed" in files
    assert sorted(str(path.relative_to(PACKAGE)) for path in files - covered) == []
    assert all(any(PACKAGE.glob(pattern)) for pattern in patterns), "a pattern matches nothing"


def test_archives_that_lack_a_file_or_have_a_foreign_one_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = script("scripts/check_archives.py")
    files = {".gitignore", "LICENSE", "src/unspur/__init__.py", "src/unspur/py.typed"}
    monkeypatch.setattr(archives, "repository_files", lambda: files)
    (tmp_path / "file").write_text("")
    with tarfile.open(tmp_path / "unspur-1.tar.gz", "w:gz") as source:
        for name in (
            *(files - {".gitignore"}),
            "PKG-INFO",
            "src/unspur.egg-info/PKG-INFO",
            "notes.txt",
        ):
            source.add(tmp_path / "file", f"unspur-1/{name}")
    with zipfile.ZipFile(tmp_path / "unspur-1.whl", "w") as wheel:
        wheel.writestr("unspur/__init__.py", "")
        wheel.writestr("unspur-1.dist-info/METADATA", "")
    assert archives.check(tmp_path) == [
        "unspur-1.tar.gz has notes.txt, which git does not know",
        "unspur-1.whl lacks unspur/py.typed: add it to MANIFEST.in",
    ]


# Versions


def test_the_version_is_semantic_and_the_citation_has_it() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", unspur.__version__)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == unspur.__version__


def test_a_release_whose_files_disagree_is_refused(tmp_path: Path) -> None:
    problems = script("scripts/check_release.py").problems
    (tmp_path / "src/unspur").mkdir(parents=True)
    (tmp_path / "src/unspur/version.py").write_text('VERSION = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.0\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 1.2.0 (2026-12-01)\n\n## 1.1.0\n")
    assert problems("v1.2.0", tmp_path) == []
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## Unreleased\n\n## 1.2.0\n")
    assert problems("v1.2.0", tmp_path) == ["CHANGELOG.md says Unreleased, not 1.2.0."]
    assert len(problems("v1.3", tmp_path)) == 4


def test_the_oldest_torch_is_the_same_everywhere() -> None:
    oldest = script("noxfile.py").oldest_torch()
    assert oldest == "2.6.*"
    said = {
        "README.md": rf"{re.escape(oldest[:-2])} or newer",
        "constraints.txt": rf"torch >= {re.escape(oldest[:-2])}\.",
        "SECURITY.md": rf"torch {re.escape(oldest[:-2])} is the oldest",
    }
    assert [
        file for file, text in said.items() if not re.search(text, (ROOT / file).read_text())
    ] == []


def test_the_sessions_of_nox_are_for_the_versions_that_the_project_claims() -> None:
    sessions = script("noxfile.py")
    classifiers = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    assert classifiers == sessions.PYTHONS
    assert PROJECT["project"]["requires-python"] == f">={classifiers[0]}"
    assert sessions.newest_torch() == "2.13.0"


# Files that other programs read


SCHEMAS: dict[str, list[str]] = {
    "vendor.github-workflows": [str(path.relative_to(ROOT)) for path in WORKFLOWS],
    "vendor.github-issue-forms": [f".github/ISSUE_TEMPLATE/{n}.yml" for n in ("bug", "feature")],
    "vendor.github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "vendor.citation-file-format": ["CITATION.cff"],
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_follow_the_schemas_of_the_programs_that_read_them(schema: str) -> None:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        schema,
        *SCHEMAS[schema],
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_targets_and_sessions_that_exist(workflow: Path) -> None:
    text = workflow.read_text()
    called = re.findall(r"\bmake ([\w-]+)", commands(workflow))
    assert called or "nox" in text
    assert set(called) <= make_targets()
    listed = script("noxfile.py")
    for name in re.findall(r'"([a-z]+)-3\.\d+', text):
        assert hasattr(listed, name)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_few_rights_and_fixed_versions(workflow: Path) -> None:
    content: dict[str, Any] = yaml.safe_load(workflow.read_text())
    assert content["permissions"] == {"contents": "read"}
    for job in content["jobs"].values():
        assert not job["runs-on"].endswith("latest")
        assert [
            s["uses"]
            for s in job["steps"]
            if re.search(r"@(main|master)$|^[^@]+$", s.get("uses", "@1"))
        ] == []


def test_the_public_ci_runs_what_our_own_does() -> None:
    lines = re.findall(r"^make (.+)$", (ROOT / ".ci" / "run").read_text(), re.M)
    words = {word for line in lines for word in line.split()}
    own = {word for word in words if not word.startswith(("-", ".venv/"))}
    assert {"check", "test", "dist", "docs", "reproduce-quick"} <= own
    assert own <= set(re.findall(r"\bmake ([\w-]+)", commands(ROOT / ".github/workflows/ci.yml")))


def test_sessions_of_nox_call_targets_that_exist() -> None:
    called = re.findall(r'"make", "([\w-]+)"', (ROOT / "noxfile.py").read_text())
    assert called
    assert set(called) <= make_targets()


@pytest.mark.parametrize(
    ("how", "file"),
    [("config", ".pre-commit-config.yaml"), ("manifest", ".pre-commit-hooks.yaml")],
)
def test_hooks_are_valid(how: str, file: str) -> None:
    command = [sys.executable, "-m", "pre_commit", f"validate-{how}", file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_hooks_run_programs_that_the_project_installs() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    packages = {
        re.match(r"[\w-]+", n)[0] for n in PROJECT["project"]["optional-dependencies"]["dev"]
    }  # type: ignore[index]
    programs = [hook["entry"].split()[0] for hook in local["hooks"]]
    assert {Path(program).name for program in programs} <= packages
    assert all(program.startswith(".venv/bin/") for program in programs)
