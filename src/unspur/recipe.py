"""Every setting and its default, in one place.

The defaults are the `unspur` preset: no number in it needs knowledge of the bias. A recipe file is TOML with
one table a stage; `unspur run` takes its name or path, and `--set prune.sparsity=1e-6` changes one setting.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .errors import RecipeError
from .train import Optimiser, Plan

Positive = Field(gt=0)
Beta = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A strict, frozen table of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Data(Section):
    """Which data, and how pixels become network input."""

    name: Literal["cmnist", "demo", "folder", "given"] = "given"
    ratio: str = "1pct"
    seed: int = 0
    augment: Literal["none", "flip", "crop-flip"] = "none"
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _both(self) -> Data:
        if len(self.mean) != len(self.std):
            raise ValueError("data.mean and data.std go together: as many numbers in each")
        return self


class Model(Section):
    """Which network: a built-in name or `file.py:builder`; `head` is found unless named."""

    name: str = "convnet"
    options: dict[str, int | float | str | bool] = Field(default_factory=dict)
    head: str = ""


class Training(Section):
    """How long and with which optimiser a stage trains."""

    steps: int = Positive
    batch: int = Positive
    optimiser: Literal["adam", "sgd"] = "adam"
    rate: float = Positive
    betas: tuple[Beta, Beta] = (0.9, 0.99)
    momentum: float = Field(0.9, ge=0)
    weight_decay: float = Field(0.0, ge=0)
    schedule: Literal["constant", "step", "cosine"] = "constant"
    decay_every: int = Field(0, ge=0)
    decay_by: float = Field(0.1, gt=0)

    def plan(self, **how: Any) -> Plan:
        """The same for the training loop."""
        optimiser = Optimiser(
            name=self.optimiser,
            rate=self.rate,
            betas=self.betas,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            schedule=self.schedule,
            decay_every=self.decay_every,
            decay_by=self.decay_by,
        )
        return Plan(steps=self.steps, optimiser=optimiser, **how)


class Mine(Training):
    """How samples that contradict the shortcut are found."""

    how: Literal["gce", "early-stopped", "epoch-ensemble", "oracle"] = "gce"
    q: float = Field(0.7, gt=0, le=1)
    gce_form: Literal["released", "exact"] = "released"
    eta: float = Field(0.05, ge=0, lt=1)
    threshold: float = Field(0.8, gt=0, lt=1)
    steps: int = Field(2000, gt=0)
    batch: int = Field(256, gt=0)
    optimiser: Literal["adam", "sgd"] = "sgd"
    rate: float = Field(0.1, gt=0)
    weight_decay: float = Field(1e-4, ge=0)
    schedule: Literal["constant", "step", "cosine"] = "step"
    decay_every: int = Field(600, ge=0)


class Pretrain(Training):
    """How the ordinary model is trained."""

    steps: int = Field(10_000, gt=0)
    batch: int = Field(256, gt=0)
    rate: float = Field(1e-2, gt=0)


class Debias(Training):
    """The debiasing loss. `up` = 0 derives the sampling odds from the suspects (a `share` of each batch)."""

    align: float = Field(0.05, ge=0)
    positives: Literal["either", "column"] = "either"
    temperature: float = Field(0.07, gt=0)
    up: float = Field(0.0, ge=0)
    share: float = Field(1 / 3, gt=0, lt=1)
    cap: float = Field(100.0, ge=1)
    group_weight: float = Field(0.0, ge=0)
    batch: int = Field(256, gt=0)


class Prune(Debias):
    """How masks are learned."""

    steps: int = Field(2000, gt=0)
    rate: float = Field(1e-2, gt=0)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    init: float = 1.5
    noise: Literal["logit", "probability"] = "probability"
    penalty: Literal["sum", "absolute", "probability"] = "sum"
    sparsity: float = Field(1e-8, ge=0)
    keep_zero: bool = False
    batch_norm_batches: int = Field(50, gt=0)


class Finetune(Debias):
    """How the surviving weights are retrained."""

    steps: int = Field(2000, gt=0)
    rate: float = Field(2e-3, gt=0)
    schedule: Literal["constant", "step", "cosine"] = "cosine"
    drop: float = Field(0.0, ge=0, lt=1)
    iterates: tuple[int, ...] = ()


class Select(Section):
    """Which iterate of fine-tuning is kept, without labels of the bias.

    `heldout` follows the balanced loss on suspects and other samples that were kept out of training: the
    validation split where there is one, otherwise a `share` of the training split.
    """

    rule: Literal["last", "heldout"] = "heldout"
    share: float = Field(0.1, gt=0, lt=1)
    minimum: int = Field(10, gt=0)
    every: int = Field(100, gt=0)


class Recipe(Section):
    """All settings of a run."""

    name: str = "unspur"
    plan: Literal["erm", "dcwp"] = "dcwp"
    seed: int = 0
    precision: Literal["fp32", "tf32", "bf16"] = "tf32"
    deterministic: bool = True
    compile: bool = (
        False  # on a GPU: pays from some 40,000 steps on, or where it was compiled before
    )
    log_every: int = Field(100, gt=0)
    watch_every: int = Field(500, gt=0)
    checkpoint_every: int = Field(1000, gt=0)
    data: Data = Data()
    model: Model = Model()
    mine: Mine = Mine()
    pretrain: Pretrain = Pretrain()
    prune: Prune = Prune()
    finetune: Finetune = Finetune()
    select: Select = Select()

    def seeded(self, seed: int) -> Recipe:
        """The same recipe with another seed."""
        return self.model_copy(update={"seed": seed})


def load(name: str, changes: Iterable[str] = ()) -> Recipe:
    """A recipe by built-in name (`cmnist/1pct-dcwp`) or path, with `key=value` changes."""
    path, text = _find(name)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path}: not valid TOML: {error}.") from None
    table.setdefault("name", name.removesuffix(".toml"))
    return parse(table, changes, where=path)


def parse(table: Mapping[str, Any], changes: Iterable[str] = (), *, where: str) -> Recipe:
    """A checked recipe from plain tables."""
    whole = json.loads(json.dumps(table, default=str))  # dates, which TOML knows, become text
    for change in changes:
        _change(whole, change)
    try:
        return Recipe.model_validate_json(json.dumps(whole, default=str))
    except ValidationError as error:
        raise RecipeError(_explain(error, where)) from None


def change(recipe: Recipe, changes: Iterable[str]) -> Recipe:
    """The recipe with some `key=value` changes."""
    return parse(recipe.model_dump(), changes, where=recipe.name)


def names() -> list[str]:
    """The built-in recipes."""
    root = resources.files(__package__) / "recipes"
    with resources.as_file(root) as folder:
        return sorted(
            p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.toml")
        )


def match(pattern: str) -> list[str]:
    """The built-in recipes a pattern such as `cmnist/*-dcwp` names; a plain name or path stays itself."""
    if not any(sign in pattern for sign in "*?["):
        return [pattern]
    if not (found := fnmatch.filter(names(), pattern)):
        raise RecipeError(f"no recipe matches {pattern!r}. Known: {', '.join(names())}.")
    return found


def dump(recipe: Recipe) -> str:
    """The recipe as TOML, complete."""
    top = {k: v for k, v in recipe.model_dump().items() if not isinstance(v, dict)}
    tables = {k: v for k, v in recipe.model_dump().items() if isinstance(v, dict)}
    lines = [f"{k} = {as_toml(v)}" for k, v in top.items()]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{k} = {as_toml(v)}" for k, v in table.items())]
    return "\n".join(lines) + "\n"


def _find(name: str) -> tuple[str, str]:
    if (path := Path(name)).suffix == ".toml" or path.is_file():
        try:
            return name, path.read_text("utf-8")
        except OSError as error:
            raise RecipeError(f"{name}: cannot be read ({error.strerror}).") from None
        except UnicodeDecodeError:
            raise RecipeError(f"{name}: not valid TOML: it is not text in UTF-8.") from None
    file = resources.files(__package__) / "recipes" / f"{name}.toml"
    if not file.is_file():
        raise RecipeError(f"there is no recipe {name!r}.{_suggest(name, names())}")
    return f"{name}.toml", file.read_text("utf-8")


def _change(table: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals:
        raise RecipeError(f"--set {change}: give it as key=value, as in prune.sparsity=1e-6.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    *path, last = key.strip().split(".")
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise RecipeError(f"--set {change}: {part} is a setting, not a table of settings.")
    table[last] = value


def _explain(error: ValidationError, where: str) -> str:
    """One line for each thing that is wrong, with the nearest valid key."""
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            prefix = key.rpartition(".")[0]
            known = [f"{prefix}.{k}".lstrip(".") for k in _keys(prefix)]
            lines.append(f"{where}: unknown key {key}.{_suggest(key, known)}")
        else:
            lines.append(f"{where}: {key} = {problem['input']!r}: {problem['msg']}.")
    return "\n".join(lines)


def _keys(prefix: str) -> list[str]:
    section = Recipe.model_fields.get(prefix)
    return list((section.annotation if section else Recipe).model_fields)  # type: ignore[union-attr]


def _suggest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" Did you mean {close[0]}?" if close else f" Known: {', '.join(known)}."


def as_toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{k} = {as_toml(v)}" for k, v in value.items()) + " }"
            if value
            else "{}"
        )
    if isinstance(value, tuple | list):
        return "[" + ", ".join(as_toml(v) for v in value) + "]"
    return json.dumps(value, ensure_ascii=False)  # TOML has no surrogate pairs
