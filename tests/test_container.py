"""The Dockerfile, as far as it can be read: Docker itself is not run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instructions() -> list[tuple[str, str]]:
    """Return the instructions and their arguments, with the defaults of build arguments filled in."""
    joined = re.sub(r"\\\n", " ", DOCKERFILE)
    lines = [line.split(None, 1) for line in joined.splitlines() if line and line[0] != "#"]
    defaults = dict(text.split("=") for name, text in lines if name == "ARG")
    return [(n, re.sub(r"\$\{(\w+)\}", lambda m: defaults[m[1]], text)) for n, text in lines]


def stages() -> dict[str, str]:
    """Return the image that each stage is built from."""
    found = [text.split(" AS ") for name, text in instructions() if name == "FROM"]
    return {name: image for image, name in found}


def test_there_is_an_image_for_a_cpu_and_one_for_a_gpu() -> None:
    assert {"cpu", "cuda"} <= stages().keys()


def test_images_of_others_have_a_version_that_we_support() -> None:
    others = {image for image in stages().values() if image not in stages()}
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    for image in others:
        name, _, tag = image.partition(":")
        assert name == "python"
        assert tag
        assert "latest" not in tag
        assert f">={tag.partition('-')[0]}" == requires


def test_copied_files_exist_and_are_sent_to_docker() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    copied: set[str] = set()
    for text in (text for name, text in instructions() if name == "COPY"):
        if text.startswith("--from="):
            assert text.split()[0].removeprefix("--from=") in stages()
        else:
            copied |= set(text.split()[:-1])
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert copied == allowed


def test_every_file_that_the_build_reads_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {project["readme"], *(f for f in project["license-files"] if not f.startswith("src/"))}
    assert all(re.search(rf"^COPY .*\b{re.escape(name)}\b", DOCKERFILE, re.M) for name in needed)


def lines_of(stage: str) -> list[str]:
    """Return the instructions of one stage, without comments."""
    part = DOCKERFILE.split(f" AS {stage}\n")[1].partition("\nFROM ")[0]
    return [line for line in part.splitlines() if line and line[0] != "#"]


def test_the_shared_stage_says_how_an_image_is_started() -> None:
    shared = ["WORKDIR /work", 'ENTRYPOINT ["unspur"]', 'CMD ["--help"]']
    assert lines_of("base")[-3:] == shared
    assert [line for line in shared if DOCKERFILE.count(line) != 1] == []


@pytest.mark.parametrize("stage", ["cpu", "cuda"])
def test_images_run_as_an_ordinary_user_with_extras_that_exist(stage: str) -> None:
    *_, install, user = lines_of(stage)
    assert stages()[stage] == "base"
    assert user == "USER unspur"
    extras = re.findall(r"\.whl\)\[([\w,]+)\]", install)[0].split(",")
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras) <= known["optional-dependencies"].keys()
