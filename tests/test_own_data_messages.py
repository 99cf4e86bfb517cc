"""Messages to users of own images: new weights, crowded classes, close calls, devices, names, files."""

from __future__ import annotations

import csv
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

import toys
import unspur
from toys import SMALL, TinyNet, shapes_set
from unspur import cli, recipes, stages
from unspur.audit import formatting
from unspur.audit.evidence import Evidence, NetworkEvidence
from unspur.audit.statistics import Statistic
from unspur.audit.thresholds import THRESHOLDS
from unspur.audit.verdict import close_call, judge, steps, table_rows
from unspur.data.splits import Split, Splits
from unspur.errors import Interrupted, RecipeError, StoreError
from unspur.report import words
from unspur.stages.estimate import estimate
from unspur.stages.place import pick_device
from unspur.stages.suspects import Suspects, crowded_classes

SETTINGS = recipes.parse_changes(SMALL)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return shapes_set(seed=1)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(each) for each in arguments], catch_exceptions=False)


def plain(output: str) -> str:
    """Return the text of a box in the terminal on one line."""
    return " ".join(output.replace("│", " ").split())


# -- new random weights -------------------------------------------------------------------------------


def test_new_random_weights_give_a_warning(splits: Splits, tmp_path: Path) -> None:
    def debias(seed: int) -> None:
        torch.manual_seed(seed)
        model = TinyNet(2)
        settings = {**SETTINGS, "plan": "erm"}
        unspur.debias(splits, model=model, settings=settings, store=tmp_path, anyway=True)

    debias(0)
    debias(0)  # the same weights: no warning (warnings are errors in tests)
    with pytest.warns(UserWarning, match="has new weights; everything is trained again"):
        debias(1)
    debias(1)


# -- crowded classes ----------------------------------------------------------------------------------


def test_a_class_full_of_suspects_gives_a_warning() -> None:
    targets = torch.tensor([0] * 163 + [1] * 200)
    conflict = torch.zeros(363, dtype=torch.bool)
    conflict[:113] = True
    suspects = Suspects(conflict.float(), conflict, targets)
    assert "113 of 163 of 'owl'" in crowded_classes(suspects, targets, ("owl", "cat"))
    conflict[81:113] = False
    assert crowded_classes(suspects, targets, ("owl", "cat")) == ""


def test_debias_warns_of_a_crowded_class(splits: Splits, tmp_path: Path) -> None:
    """More than half of one class and no other images conflict, and the oracle flags them."""
    targets = splits.train.targets
    members = (targets == 0).nonzero().squeeze(1)
    bias = targets.clone()
    bias[members[: int(0.6 * len(members))]] = 1
    crowded = replace(splits, bias={**splits.bias, "train": bias})
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match=r"Most images of a class are suspects: .* of 'stands'"):
        result = unspur.debias(
            crowded,
            model=TinyNet(2),
            settings={**SETTINGS, "mine.how": "oracle", "plan": "jtt"},
            out=tmp_path / "run",
            store=tmp_path / "store",
            anyway=True,
        )
    assert "of 'stands'" in result.scores["crowded"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Most images of a class are suspects" in page


# -- close calls and rounding -------------------------------------------------------------------------


def evidence(
    *, gain: float = 0.05, separation: float = 0.5, full: int = 20, clear: int = 50
) -> Evidence:
    network = NetworkEvidence(
        gain=Statistic(gain, 1e-6),
        separation=Statistic(separation, 1e-6),
        reliance=None,
        before=0.1,
        right=0.3,
    )
    return Evidence(
        samples=1000,
        suspects=60,
        error=0.06,
        blind=0.5,
        clear=clear,
        full=full,
        networks={"taught": network},
    )


@pytest.mark.parametrize(
    ("gain", "close"),
    [(0.16, ["gain", "0.16", "0.15"]), (0.30, []), (0.05, [])],
)
def test_a_narrow_pass_is_a_close_call(gain: float, close: list[str]) -> None:
    found = judge(evidence(gain=gain, full=0))
    assert bool(found.close) == bool(close)
    assert all(word in found.close for word in close)
    assert ("a close call" in found.full_text) == bool(close)
    verdict = words.page_verdict({"verdict": found.code, "text": found.full_text})
    assert ("close call" in verdict.headline) == bool(close)


def test_a_narrow_miss_is_a_close_call_too() -> None:
    found = judge(evidence(gain=0.145, full=0))
    assert found.code == "nothing"
    assert found.close.startswith("gain 0.14")


def test_a_number_that_does_not_decide_is_not_a_close_call() -> None:
    """Confident errors do not matter after a clear gain has decided."""
    assert close_call(evidence(gain=0.5)) is None


def test_a_number_below_its_threshold_is_not_rounded_up_to_it() -> None:
    assert formatting.beside(0.3988, 0.4) == "0.399"
    assert formatting.beside(0.4, 0.4) == "0.40"
    assert formatting.beside(0.399999, 0.4) == "0.399999"
    assert formatting.percent_beside(0.35001, 0.35) == "35.001\N{NO-BREAK SPACE}%"
    e, limits = evidence(full=399, clear=1001), THRESHOLDS
    assert f"{e.insistence:.2f}" == f"{limits.insistence:.2f}"
    assert e.insistence < limits.insistence
    step = next(each for each in steps(e) if each.name == "insistence")
    assert step.answer == "no"
    assert "errors 0.40 " not in step.measured
    row = next(row for row in table_rows(e) if row[0] == "confident errors")
    assert row[1] != row[2]


# -- corrected suspects -------------------------------------------------------------------------------


def test_an_unchanged_table_needs_no_training(splits: Splits, tmp_path: Path) -> None:
    mined = toys.context(tmp_path, splits=splits)
    results, _ = stages.run(mined)
    found = results.suspects()
    unchanged = stages.corrections.Corrections(found.conflict, torch.zeros_like(found.conflict))
    again = stages.Run(replace(mined, corrections=unchanged))
    assert again.stored == list(again.keys)
    changed = found.conflict.clone()
    changed[0] = ~changed[0]
    run = stages.Run(replace(mined, corrections=replace(unchanged, conflict=changed)))
    assert "mine" not in run.stored
    mine = next(row for row in estimate(run) if row.stage == "mine")
    assert (mine.steps, mine.seconds) == (0, 0.0)


# -- names, devices, folders --------------------------------------------------------------------------


def test_a_device_that_does_not_exist() -> None:
    with pytest.raises(
        RecipeError, match=r"^there is no device 'gpu'. A GPU is called cuda\. Choose"
    ):
        pick_device("gpu")


@pytest.mark.parametrize("name", ["cminst", "cmnist-1pct", "xyz"])
def test_a_misspelt_recipe_suggests_the_nearest_name(name: str) -> None:
    with pytest.raises(RecipeError) as error:
        recipes.load(name)
    assert len(str(error.value)) < 200
    assert ("cmnist" in str(error.value)) or name == "xyz"


def test_a_dry_run_refuses_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    for command in ("debias", "audit"):
        words = [command, tmp_path, "--out", tmp_path / "taken" / "deep"]
        with pytest.raises(StoreError, match=r"taken is a file\. Name another folder"):
            invoke(*words, *["--dry-run"] * (command == "debias"))


def test_help_shows_no_type_next_to_flags() -> None:
    for command in (["debias"], ["runs", "rm"], ["data", "make"], ["recipes", "show"], []):
        shown = invoke(*command, "--help").output
        assert "bool" not in shown, command
        assert "BOOL" not in shown, command
    shown = plain(invoke("debias", "--help").output)
    assert "96 on a CPU" in shown
    assert "default: 0]" not in shown.split("--seed")[0]


def test_data_check_takes_own_images(splits: Splits, tmp_path: Path) -> None:
    train = splits.train
    assert isinstance(train, Split)
    rows = []
    for i, image in enumerate(train.images[:60]):
        label = splits.classes[int(train.targets[i])]
        path = tmp_path / label / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
        rows.append((str(path.relative_to(tmp_path)), label, "ab"[int(splits.bias["train"][i])]))
    done = invoke("data", "check", tmp_path)
    assert done.exit_code == 0
    assert "60 train images of 2 classes, 8 x 8 pixels" in " ".join(done.output.split())
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label", "colour"), *rows])
    shown = invoke("data", "check", tmp_path / "t.csv", "--bias", "colour").output
    assert " a " in shown
    assert " b " in shown


def test_the_message_after_ctrl_c_names_the_stage(splits: Splits, tmp_path: Path) -> None:
    class Pressing:
        def update(self, step: int, steps: int, loss: float) -> None:
            signal.raise_signal(signal.SIGINT)

    context = toys.context(tmp_path, ["mine.steps=100000"], splits=splits)
    context = replace(context, show=lambda stage: nullcontext(Pressing()))
    with pytest.raises(Interrupted, match=r"^mine: stopped at step \d+ of 100000"):
        stages.run(context)
