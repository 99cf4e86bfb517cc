"""The stages of a run: no work is repeated, labels do not leak, unusual suspects, complete scores."""

import importlib.util
import json
import shutil
import sys
from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import nn

import golden_values
import toys
from toys import Counting, TinyNet, same, shapes_set, without_valid
from unspur import models, runs, stages
from unspur.data.batches import Resident
from unspur.data.splits import Split
from unspur.errors import DataError, ModelError, RecipeError, TrainingError
from unspur.runs.run_numbers import run_numbers
from unspur.stages.mine import _ScoredSamples
from unspur.stages.suspects import Suspects, above, verdict
from unspur.store import Store
from unspur.training import metrics, sampling
from unspur.training.prediction import under
from unspur.training.sampling import Weighted
from unspur.training.watchers import EpochScores

batch = Resident.batch
ALL = ["mine", "pretrain", "prune", "finetune", "evaluate"]
ACCURACIES = {
    *("unbiased", "aligned", "conflicting", "worst_group"),
    *("average", "average_train_weighted", "groups"),
}


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory):
    """Return the store of one plain run, which no test changes."""
    folder = tmp_path_factory.mktemp("plain")
    stages.run(toys.context(folder))
    return folder


@pytest.fixture
def stored(plain_run, tmp_path):
    """Return a store that holds one plain run, and nothing of other tests."""
    return shutil.copytree(plain_run, tmp_path / "stored")


def run_and_list_stages(context):
    """Run a context; return the stages that did work."""
    store = Counting(context.store.root)
    stages.run(replace(context, store=store))
    return store.made


def run(folder, changes=(), **kwargs):
    context = toys.context(folder, changes, **kwargs)
    results, scores = stages.run(context)
    return context, results, scores


# No repeated work


def test_a_first_run_does_all_the_work(tmp_path):
    assert run_and_list_stages(toys.context(tmp_path)) == ALL


def test_a_second_run_does_no_work(stored, monkeypatch):
    fits = Counter()
    monkeypatch.setattr(stages.driver, "fit_together", lambda *a, **k: fits.update(["fit"]))
    assert run_and_list_stages(toys.context(stored)) == []
    assert not fits


def test_a_second_run_gives_the_same_results(stored, tmp_path):
    _, results, scores = run(stored)
    _, again, again_scores = run(tmp_path)
    assert results.keys() == again.keys() == set(ALL) - {"evaluate"}
    for stage, artifact in results.items():
        assert artifact.path.name == again[stage].path.name
        assert same(artifact.tensors, again[stage].tensors)
        assert artifact.facts == again[stage].facts
    assert scores.facts == again_scores.facts


# Several runs at once


def test_runs_together_give_the_same_results_as_alone(tmp_path):
    changes = [["seed=1"], ["seed=2"], ["seed=2", "finetune.share=0.5"]]
    contexts = [toys.context(tmp_path / "together", change) for change in changes]
    for change, (results, scores) in zip(
        changes, stages.run_together(list(map(stages.Run, contexts))), strict=True
    ):
        _, alone, alone_scores = run(tmp_path / "alone", change)
        for stage, artifact in results.items():
            assert artifact.path.name == alone[stage].path.name
            assert same(artifact.tensors, alone[stage].tensors), stage
        assert scores.facts == alone_scores.facts


def test_stages_that_runs_share_are_run_once(tmp_path):
    store = Counting(tmp_path)
    changes = [["finetune.rate=1e-3"], ["finetune.rate=1e-4"], ["finetune.rate=1e-4"]]
    contexts = [replace(toys.context(tmp_path, change), store=store) for change in changes]
    runs = stages.run_together(list(map(stages.Run, contexts)))
    assert Counter(store.made) == Counter([*ALL, "finetune", "evaluate"])
    assert runs[1][0]["finetune"] == runs[2][0]["finetune"] != runs[0][0]["finetune"]


def test_finished_work_is_kept_if_another_run_fails(tmp_path, monkeypatch):
    plain = toys.context(tmp_path, ["plan=erm", "pretrain.rate=1e-3"])
    contexts = [plain, toys.at_rate(plain, "pretrain", 1e30)]
    with pytest.raises(TrainingError):
        stages.run_together(list(map(stages.Run, contexts)))
    steps = []
    monkeypatch.setattr(Resident, "batch", lambda *a, **k: steps.append(a) or batch(*a, **k))
    stages.run(contexts[0])
    assert not steps


def test_a_run_without_suspects_ends_while_the_others_continue(tmp_path):
    clean = shapes_set(conflicting=0)
    contexts = [toys.context(tmp_path), toys.context(tmp_path, splits=clean)]
    (found, _), (clean_run, scores) = stages.run_together(list(map(stages.Run, contexts)))
    assert set(found) == set(ALL) - {"evaluate"}
    assert set(clean_run) == {"mine", "pretrain"}
    assert scores.facts["mining"]["verdict"] == "nothing"


class Dropping(TinyNet):
    """A network that draws from torch's random stream in training."""

    def forward(self, x):
        dropped = nn.functional.dropout(x, 0.2, self.training)
        return self.head(torch.relu(self.norm(self.conv(dropped))).mean((2, 3)))


def test_a_network_with_dropout_does_not_depend_on_the_global_random_stream(tmp_path):
    torch.manual_seed(0)
    model, runs = Dropping(), []
    for seed in (1, 2):
        torch.manual_seed(seed)
        runs.append(run(tmp_path / str(seed), model=model)[1])
    for stage, artifact in runs[0].items():
        assert same(artifact.tensors, runs[1][stage].tensors), stage


def test_the_plan_has_the_keys_of_the_run(stored):
    context = toys.context(stored)
    assert [ingredients["stage"] for ingredients in toys.ingredients_of(context)] == ALL[:-1]
    assert all(context.store.find(ingredients) for ingredients in toys.ingredients_of(context))


PRUNED, TUNED = ["prune", "finetune", "evaluate"], ["finetune", "evaluate"]
CHANGES = {
    "finetune.rate=1e-3": TUNED,
    "finetune.drop=0.2": TUNED,
    "finetune.iterates=[20]": TUNED,
    "select.every=5": TUNED,
    "select.rule=last": TUNED,
    "prune.sparsity=1e-5": PRUNED,
    "prune.batch_norm_batches=5": PRUNED,
    "prune.align=0.5": PRUNED,
    "pretrain.rate=5e-3": ["pretrain", *PRUNED],
    "pretrain.steps=41": ["pretrain", *PRUNED],
    "mine.q=0.5": ["mine", *PRUNED],
    "mine.steps=41": ["mine", *PRUNED],
    "seed=1": ALL,
    "precision=bf16": ALL,
    "deterministic=false": ALL,
    "data.augment=flip": ALL,
    "name=other": [],
    "log_every=7": [],
    "checkpoint_every=7": [],
    "checkpoint_seconds=5": [],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_setting_reruns_exactly_the_stages_that_depend_on_it(stored, change):
    assert run_and_list_stages(toys.context(stored, [change])) == CHANGES[change]


def test_another_normalisation_reruns_all(stored):
    changes = ["data.mean=[0.1, 0.1, 0.1]", "data.std=[0.5, 0.5, 0.5]"]
    assert run_and_list_stages(toys.context(stored, changes)) == ALL


class TwoHeads(TinyNet):
    """A network with two linear layers that could be the head."""

    def __init__(self):
        super().__init__()
        self.neck = nn.Linear(6, 6)

    def forward(self, x):
        seen = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.head(torch.tanh(self.neck(seen)))


def test_another_head_reruns_the_stages_that_use_its_features(tmp_path):
    torch.manual_seed(0)
    model = TwoHeads()
    assert run_and_list_stages(toys.context(tmp_path, model=model)) == ALL
    assert run_and_list_stages(toys.context(tmp_path, ["model.head=neck"], model=model)) == PRUNED


def replace_tensor(splits, name, **fields):
    """Return the splits with one tensor of one split replaced."""
    part = splits.parts()[name]
    return replace(
        splits, **{name: Split(**{"images": part.images, "targets": part.targets} | fields)}
    )


def one_pixel(splits, name):
    images = splits.parts()[name].images.clone()
    images[3, 0, 0, 0] += 1
    return replace_tensor(splits, name, images=images)


def one_label(splits, name):
    targets = splits.parts()[name].targets.clone()
    targets[3] = 1 - targets[3]
    return replace_tensor(splits, name, targets=targets)


def another_order(splits, name):
    part = splits.parts()[name]
    return replace_tensor(splits, name, images=part.images.flip(0), targets=part.targets.flip(0))


def permuted(splits):
    """Return the splits with their bias labels shuffled."""
    g = torch.Generator().manual_seed(0)
    shuffled = {name: b[torch.randperm(len(b), generator=g)] for name, b in splits.bias.items()}
    return replace(splits, bias=shuffled)


DATA = {
    "a pixel": (lambda s: one_pixel(s, "train"), ALL),
    "a label": (lambda s: one_label(s, "train"), ALL),
    "the order": (lambda s: another_order(s, "train"), ALL),
    "a pixel of valid": (lambda s: one_pixel(s, "valid"), ALL),
    "a label of valid": (lambda s: one_label(s, "valid"), ALL),
    "no valid": (without_valid, ALL),
    "a pixel of test": (lambda s: one_pixel(s, "test"), ["evaluate"]),
    "a label of test": (lambda s: one_label(s, "test"), ["evaluate"]),
    "no test": (lambda s: replace(s, test=None, bias={"train": s.bias["train"]}), ["evaluate"]),
    "bias labels": (permuted, ["evaluate"]),
    "no bias labels": (lambda s: replace(s, bias={}), ["evaluate"]),
    "the sense of bias": (lambda s: replace(s, conflict_when="equal"), ["evaluate"]),
    "the name": (lambda s: replace(s, name="other"), []),
}


@pytest.mark.parametrize("what", DATA)
def test_changed_data_reruns_the_stages_that_use_it(stored, what):
    change, expected = DATA[what]
    assert run_and_list_stages(toys.context(stored, splits=change(shapes_set(seed=1)))) == expected


def test_other_initial_weights_rerun_all(stored):
    torch.manual_seed(1)
    assert run_and_list_stages(toys.context(stored, model=TinyNet())) == ALL


BUILDER = """
import torch
from torch import nn


class Net(nn.Sequential):
    def __init__(self, classes, slope):
        super().__init__(
            nn.Conv2d(3, 6, 3, stride=2), nn.LeakyReLU(slope), nn.Flatten(), nn.Linear(54, classes)
        )


def build(classes, slope=0.1):
    return Net(classes, slope)


def other(classes, slope=0.5):
    return Net(classes, slope)
"""


def from_file(path, function="build", **options):
    return models.builder(f"{path}:{function}", 2, options)


@pytest.fixture
def network(tmp_path):
    path = tmp_path / "network.py"
    path.write_text(BUILDER)
    return path


def test_a_changed_builder_reruns_all(tmp_path, network):
    kept = tmp_path / "store"
    assert run_and_list_stages(toys.context(kept, builder=from_file(network))) == ALL
    assert run_and_list_stages(toys.context(kept, builder=from_file(network))) == []
    network.write_text(BUILDER.replace("slope=0.1", "slope=0.2"))
    assert run_and_list_stages(toys.context(kept, builder=from_file(network))) == ALL


def test_another_builder_of_the_same_file_reruns_all(tmp_path, network):
    """The initial weights are the same, but the forward pass differs."""
    kept = tmp_path / "store"
    assert run_and_list_stages(toys.context(kept, builder=from_file(network))) == ALL
    assert run_and_list_stages(toys.context(kept, builder=from_file(network, "other"))) == ALL


def test_other_options_of_a_builder_rerun_all(tmp_path, network):
    kept = tmp_path / "store"
    assert run_and_list_stages(toys.context(kept, builder=from_file(network))) == ALL
    assert run_and_list_stages(toys.context(kept, builder=from_file(network, slope=0.3))) == ALL


BLOCKS = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, stride=2)

    def forward(self, x):
        return torch.relu(self.conv(x)).mean((2, 3))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        return self.head(self.block(x))
"""


def test_a_changed_part_of_a_given_model_reruns_all(tmp_path):
    def model(name, text):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkey.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        torch.manual_seed(0)
        return module.Net()

    kept = tmp_path / "store"
    with pytest.MonkeyPatch.context() as monkey:
        first = model("blocks_a", BLOCKS)
        second = model("blocks_b", BLOCKS.replace("torch.relu", "torch.tanh"))
        done = run_and_list_stages(toys.context(kept, model=first))
        assert done[:2] == ["mine", "pretrain"]
        assert run_and_list_stages(toys.context(kept, model=first)) == []
        assert run_and_list_stages(toys.context(kept, model=second))[:2] == done[:2]


# No leaks


@pytest.mark.parametrize("change", [lambda s: s, without_valid], ids=["valid", "no valid"])
def test_bias_labels_only_change_the_scores(tmp_path, change):
    splits = change(shapes_set(seed=1))
    _, results, scores = run(tmp_path / "a", splits=splits)
    _, blind, blind_scores = run(tmp_path / "b", splits=permuted(splits))
    _, none, none_scores = run(tmp_path / "c", splits=replace(splits, bias={}))
    assert len(results) == 4
    for stage, artifact in results.items():
        for other in (blind[stage], none[stage]):
            assert other.path.name == artifact.path.name
            assert same(other.tensors, artifact.tensors)
            assert other.facts == artifact.facts
    assert scores.facts["debiased"]["groups"] != blind_scores.facts["debiased"]["groups"]
    for name in ("ordinary", "pruned", "debiased"):
        alone = none_scores.facts[name]
        assert alone["average"] == scores.facts[name]["average"]
        assert {k for k, v in alone.items() if v is not None} == {"average"}
    assert none_scores.facts["mining"]["precision"] is None
    assert none_scores.facts["mining"]["flagged"] == scores.facts["mining"]["flagged"]


def seen_by_training(monkeypatch, folder, **kwargs):
    """Run; return the context, the scores, and how often each training sample was in a batch."""
    seen = Counter()
    batch = Resident.batch

    def record(self, index, step):
        assert len(self.targets) == 240
        seen.update(index.tolist())
        return batch(self, index, step)

    monkeypatch.setattr(Resident, "batch", record)
    context, _, scores = run(folder, **kwargs)
    return context, scores.facts, seen


@pytest.mark.parametrize("up", [0, 80])
def test_held_out_samples_are_never_trained_on(tmp_path, monkeypatch, up):
    splits = without_valid(shapes_set(seed=1))
    changes = [f"prune.up={up}", f"finetune.up={up}"]
    context, scores, seen = seen_by_training(monkeypatch, tmp_path, changes=changes, splits=splits)
    out = set(context.kept_out.nonzero().squeeze(1).tolist())
    assert 12 <= len(out) <= 36  # about a tenth of 240
    assert set(seen) == set(range(240)) - out
    chosen = scores["selection"]
    assert chosen["rule"] == "heldout"
    assert chosen["suspects"] + chosen["others"] == len(out)


def test_with_a_validation_split_nothing_is_kept_out(tmp_path, monkeypatch):
    context, scores, seen = seen_by_training(monkeypatch, tmp_path)
    assert not context.kept_out.any()
    assert set(seen) == set(range(240))
    assert scores["selection"]["rule"] == "heldout"
    assert scores["selection"]["suspects"] + scores["selection"]["others"] == 240


def test_selecting_the_last_step_keeps_nothing_out(tmp_path, monkeypatch):
    splits = without_valid(shapes_set(seed=1))
    context, scores, seen = seen_by_training(
        monkeypatch, tmp_path, changes=["select.rule=last"], splits=splits
    )
    assert not context.kept_out.any()
    assert set(seen) == set(range(240))
    assert scores["selection"] == {"rule": "last", "step": 30, "reason": "asked for"}


def test_held_out_samples_depend_on_the_seed_alone(tmp_path):
    splits = without_valid(shapes_set(seed=1))
    first, again = (
        toys.context(tmp_path, splits=s).kept_out for s in (splits, one_label(splits, "train"))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, toys.context(tmp_path, ["seed=1"], splits=splits).kept_out)


def test_one_of_each_class_is_trained_on(tmp_path):
    splits = without_valid(shapes_set(seed=1))
    targets = torch.zeros_like(splits.train.targets)
    targets[:2] = 1
    rare = replace(splits, train=Split(splits.train.images, targets), bias={})
    for seed in range(40):
        kept_out = toys.context(
            tmp_path, [f"seed={seed}", "select.share=0.9"], splits=rare
        ).kept_out
        assert not kept_out[:2].all()
    assert kept_out.sum() > 180


def test_suspects_have_their_share_of_the_batches(tmp_path, monkeypatch):
    splits = without_valid(shapes_set(seed=1))
    all_odds = []
    monkeypatch.setattr(
        sampling,
        "Weighted",
        lambda odds, **kwargs: all_odds.append(odds) or Weighted(odds, **kwargs),
    )
    changes = ["mine.how=oracle", "select.share=0.4", "prune.up=0", "finetune.up=0"]
    run(tmp_path, changes, splits=splits)
    conflict, targets = splits.conflicting("train"), splits.train.targets
    for odds in all_odds:
        for c in (0, 1):
            share = odds[(targets == c) & conflict].sum() / odds[targets == c].sum()
            assert float(share) == pytest.approx(1 / 3)


def test_an_empty_validation_split_is_ignored(tmp_path):
    splits = shapes_set(seed=1)
    none = torch.zeros(0, dtype=torch.long)
    empty = replace(
        splits, valid=Split(splits.valid.images[:0], none), bias={**splits.bias, "valid": none}
    )
    _, _, scores = run(tmp_path, ["mine.how=oracle"], splits=empty)
    _, _, without = run(tmp_path, ["mine.how=oracle"], splits=without_valid(splits))
    assert scores.facts == without.facts


def test_pixels_that_are_not_finite_are_refused():
    images = torch.zeros(3, 1, 2, 2)
    images[1, 0, 0, 0] = float("nan")
    with pytest.raises(DataError, match=r"1 of 3 images .* not finite .*image 1"):
        Split(images, torch.zeros(3, dtype=torch.long))


# Selection


class Standardising(TinyNet):
    """A network that divides by the standard deviation of an image, which is 0 for a blank one."""

    def forward(self, x):
        return super().forward(x / x.std((1, 2, 3), keepdim=True))


@pytest.mark.parametrize("every", [10, 30], ids=["midway", "at the last step"])
def test_a_prediction_that_is_not_finite_for_a_held_out_sample_is_an_error(tmp_path, every):
    splits = shapes_set(seed=1)
    splits.valid.images[3] = 0
    every = f"select.every={every}"
    context = toys.context(tmp_path, [every], splits=splits, model=Standardising())
    for _ in range(2):
        with pytest.raises(TrainingError, match=r"mine.*valid\.score"):
            stages.run(context)


@pytest.mark.parametrize("change", [lambda s: s, without_valid], ids=["valid", "no valid"])
def test_the_step_with_the_lowest_balanced_loss_is_selected(tmp_path, change):
    changes = ["finetune.iterates=[5, 10, 15, 20, 25, 30]", "select.every=5", "finetune.rate=0.05"]
    context, results, scores = run(tmp_path, changes, splits=change(shapes_set(seed=1)))
    tuned = results["finetune"]
    rows = [row for row in tuned.log if "heldout_suspects" in row]
    assert [row["step"] for row in rows] == [5, 10, 15, 20, 25, 30]
    losses = {r["step"]: (r["heldout_suspects"] + r["heldout_others"]) / 2 for r in rows}
    chosen = scores.facts["selection"]
    assert chosen["step"] == min(losses, key=losses.get)
    assert chosen["loss"] == pytest.approx(min(losses.values()))
    assert same(
        under(tuned.tensors, "weights."), under(tuned.tensors, f"iterate.{chosen['step']}.")
    )
    suspects, others = slow_heldout(context, results, chosen["step"])
    assert chosen["loss"] == pytest.approx((suspects + others) / 2, rel=1e-4)


def slow_heldout(context, results, step):
    """Return the mean of 1 - p over held-out suspects and over other held-out samples, one by one."""
    name = "valid" if context.splits.valid else "train"
    among = torch.ones(240, dtype=torch.bool) if context.splits.valid else context.kept_out
    model = context.network(under(results["finetune"].tensors, f"iterate.{step}.")).eval()
    split, conflict = context.splits.parts()[name], results["mine"].tensors[f"{name}.conflict"]
    losses = {True: [], False: []}
    for i in among.nonzero().squeeze(1).tolist():
        with torch.no_grad():
            p = model(split.images[i : i + 1].float() / 255).softmax(1)[0, split.targets[i]]
        losses[bool(conflict[i])].append(1 - p.item())
    return tuple(sum(each) / len(each) for each in (losses[True], losses[False]))


def test_too_few_held_out_suspects_select_the_last_step(stored):
    changes = ["select.minimum=1000", "finetune.iterates=[30]"]
    _, results, scores = run(stored, changes)
    chosen = scores.facts["selection"]
    assert (chosen["rule"], chosen["step"]) == ("last", 30)
    assert "fewer than 1000 suspects" in chosen["reason"]
    tensors = results["finetune"].tensors
    assert same(under(tensors, "weights."), under(tensors, "iterate.30."))


def test_a_validation_split_of_suspects_alone_selects_nothing(tmp_path):
    """A user may collect only failures: then there are no other samples for the balanced loss."""
    splits = shapes_set(seed=1)
    odd = splits.conflicting("test")
    fooled = Split(splits.test.images[odd], splits.test.targets[odd])
    splits = replace(splits, valid=fooled, bias={"train": splits.bias["train"]})
    splits = replace(splits, bias={**splits.bias, "valid": 1 - fooled.targets})
    _, _, scores = run(tmp_path, ["mine.how=oracle"], splits=splits)
    assert scores.facts["selection"]["rule"] == "last"
    assert scores.facts["debiased"]["average"] > 0


def test_steps_listed_in_the_recipe_are_scored(stored):
    _, results, scores = run(stored, ["select.rule=last"])
    assert set(scores.facts["iterates"]) == {"10", "30"}
    assert scores.facts["iterates"]["30"] == scores.facts["debiased"]
    for step, found in scores.facts["iterates"].items():
        assert found.keys() == ACCURACIES
        weights = under(results["finetune"].tensors, f"iterate.{step}.")
        assert found["average"] == pytest.approx(slow_accuracy(weights))


def slow_accuracy(weights):
    test = shapes_set(seed=1).test
    model = TinyNet()
    model.load_state_dict(weights)
    with torch.no_grad():
        return float((model.eval()(test.images / 255).argmax(1) == test.targets).double().mean())


# Suspects


def ordinary_only(results, scores, code):
    """Check that the plan ended with the ordinary model and that the scores are complete."""
    facts = scores.facts
    assert list(results) == ["mine", "pretrain"]
    assert facts["mining"]["verdict"] == code
    assert "ordinary model" in facts["mining"]["text"]
    assert facts["ordinary"].keys() == ACCURACIES
    assert facts["debiased"] == facts["ordinary"]
    assert facts["pruned"] is None
    assert facts["density"] == {"overall": 1.0, "reachable": 1.0, "macs": 1.0, "layers": {}}
    assert facts["selection"]["rule"] == "last"


@pytest.mark.parametrize("change", [lambda s: s, without_valid], ids=["valid", "no valid"])
def test_without_suspects_the_result_is_the_ordinary_model(tmp_path, change):
    context, results, scores = run(tmp_path, splits=change(shapes_set(seed=1, conflicting=0)))
    assert scores.facts["mining"]["flagged"] == 0
    assert scores.facts["mining"]["precision"] is None
    ordinary_only(results, scores, "nothing")
    runs.save(context, results, scores, tmp_path / "out")
    model = runs.load(tmp_path / "out", model=TinyNet()).model
    assert same(model.state_dict(), results["pretrain"].tensors)


@pytest.mark.parametrize("change", [lambda s: s, without_valid], ids=["valid", "no valid"])
def test_with_too_many_suspects_the_result_is_the_ordinary_model(tmp_path, change):
    changes = ["mine.steps=1", "mine.rate=1e-9"]
    context, results, scores = run(tmp_path, changes, splits=change(shapes_set(seed=1)))
    assert scores.facts["mining"]["flagged"] > 0.35 * 240
    ordinary_only(results, scores, "too-many")
    runs.save(context, results, scores, tmp_path / "out")


def flagged(k, n):
    conflict = torch.arange(n) < k
    return Suspects(conflict.float(), conflict, torch.zeros(n, dtype=torch.int64))


@pytest.mark.parametrize(
    ("k", "n", "code"),
    [
        (0, 240, "nothing"),
        (4, 240, "nothing"),
        (5, 240, "usable"),
        (9, 20_000, "nothing"),
        (10, 20_000, "usable"),
        (84, 240, "usable"),
        (85, 240, "too-many"),
        (240, 240, "too-many"),
    ],
)
def test_verdicts(k, n, code):
    found = verdict(flagged(k, n))
    assert found.code == code
    assert found.usable is (code == "usable")
    assert f"{k} of {n} training samples" in found.text


@pytest.mark.parametrize(
    ("by_class", "code"),
    [
        ({"a": (19, 20), "b": (5, 220)}, "lost-class"),
        ({"a": (18, 20), "b": (6, 220)}, "usable"),  # not more than 90 % of the class
        ({"a": (12, 12), "b": (12, 228)}, "usable"),  # not more than half of the suspects
        ({"a": (13, 13), "b": (11, 227)}, "lost-class"),
        ({"a": (0, 0), "b": (24, 240)}, "usable"),
    ],
)
def test_a_class_of_suspects_was_not_learned(by_class, code):
    found = verdict(flagged(24, 240), by_class=by_class)
    assert found.code == code
    assert found.usable is (code == "usable")
    assert ("of 'a'" in found.text) is (code == "lost-class")


def test_a_run_ends_with_the_ordinary_model_if_a_class_consists_of_suspects(tmp_path):
    """A tenth of the samples has a class of its own, all of whose samples are conflicting."""
    splits = shapes_set(seed=1, conflicting=0)
    tenth = {name: torch.arange(len(part)) % 10 == 0 for name, part in splits.parts().items()}
    parts = {
        name: replace(part, targets=torch.where(tenth[name], 2, part.targets))
        for name, part in splits.parts().items()
    }
    changed = replace(splits, classes=("a", "b", "c"), **parts)
    builder = models.builder("convnet", 3, {"width": 2, "kernel": 3})
    context, results, scores = run(tmp_path, ['mine.how="oracle"'], splits=changed, builder=builder)
    ordinary_only(results, scores, "lost-class")
    assert "24 of 24 of 'c'" in scores.facts["mining"]["text"]
    assert "crowded" not in run_numbers(context, results, scores, None)  # it would say the same


@pytest.mark.parametrize(
    ("against", "of", "code"),
    [
        (17, 20, "noise"),
        (16, 20, "usable"),
        (19, 19, "usable"),
        (100, 100, "noise"),
        (0, 0, "usable"),
    ],
)
def test_a_second_opinion_detects_wrong_labels(against, of, code):
    found = verdict(flagged(24, 240), opinion=torch.arange(of) < against)
    assert found.code == code
    assert found.usable
    assert ("wrong labels" in found.text) is (code == "noise")


def test_a_second_opinion_does_not_change_the_other_verdicts():
    opinion = torch.ones(100, dtype=torch.bool)
    assert verdict(flagged(0, 240), opinion=opinion).code == "nothing"
    assert verdict(flagged(200, 240), opinion=opinion).code == "too-many"


def test_wrong_labels_give_the_verdict_noise(tmp_path):
    """Colour and shape always agree; a tenth of the labels is wrong."""
    splits = shapes_set(seed=1, conflicting=0)
    for name in ("train", "valid"):
        targets = splits.parts()[name].targets.clone()
        targets[:24] = 1 - targets[:24]
        splits = replace_tensor(splits, name, targets=targets)
    _, results, scores = run(tmp_path, splits=splits)
    assert scores.facts["mining"]["verdict"] == "noise"
    assert "finetune" in results


# Miners


@pytest.mark.parametrize("how", ["gce", "early-stopped", "epoch-ensemble"])
def test_miners_find_most_conflicting_samples(tmp_path, how):
    steps = {"gce": 40, "early-stopped": 20, "epoch-ensemble": 40}[how]
    changes = [f"mine.how={how}", "mine.threshold=0.4", f"mine.steps={steps}"]
    context, results, scores = run(tmp_path, changes)
    found = scores.facts["mining"]
    assert found["precision"] > 0.6
    assert found["recall"] > 0.4
    for name in ("train", "valid"):
        suspects = Suspects.of(results["mine"].tensors, name)
        targets = context.splits.parts()[name].targets
        assert len(suspects) == 240
        assert ((suspects.score >= 0) & (suspects.score <= 1)).all()
        if how == "epoch-ensemble":
            assert torch.equal(suspects.conflict, suspects.score > 0.4)
        else:
            assert torch.equal(suspects.conflict, suspects.predicted != targets)
    assert found["flagged"] == int(results["mine"].tensors["train.conflict"].sum())
    quality = metrics.mining_quality(
        results["mine"].tensors["train.conflict"], context.splits.conflicting("train")
    )
    assert {k: found[k] for k in quality} == quality


def test_the_two_forms_of_gce_give_different_suspects(tmp_path):
    _, released, _ = run(tmp_path)
    _, true, _ = run(tmp_path, ['mine.gce_form="exact"'])
    assert not same(released["mine"].tensors, true["mine"].tensors)


def test_the_oracle_flags_the_conflicting_samples(tmp_path):
    context, results, scores = run(tmp_path, ["mine.how=oracle"])
    for name in ("train", "valid"):
        assert torch.equal(
            results["mine"].tensors[f"{name}.conflict"], context.splits.conflicting(name)
        )
    assert (scores.facts["mining"]["precision"], scores.facts["mining"]["recall"]) == (1.0, 1.0)


def test_the_oracle_runs_again_if_the_bias_labels_change(tmp_path):
    splits = shapes_set(seed=1)
    assert run_and_list_stages(toys.context(tmp_path, ["mine.how=oracle"], splits=splits)) == ALL
    again = run_and_list_stages(
        toys.context(tmp_path, ["mine.how=oracle"], splits=permuted(splits))
    )
    assert again[0] == "mine"
    assert "pretrain" not in again


@pytest.mark.parametrize("known", [(), ("test",), ("train",)], ids=lambda known: "-".join(known))
def test_the_oracle_needs_bias_labels_of_every_split(tmp_path, known):
    splits = shapes_set(seed=1)
    splits = replace(splits, bias={name: splits.bias[name] for name in known})
    with pytest.raises(RecipeError, match=r"oracle.*needs bias labels"):
        run(tmp_path, ["mine.how=oracle"], splits=splits)


class Scripted:
    """A fake method: in pass k the label has the probability in row k."""

    def __init__(self, rows, labels, classes):
        self.rows, self.labels, self.classes, self.passes = rows, labels, classes, 0

    def predict(self, x):
        p = self.rows[self.passes][:, None]
        self.passes += 1
        others = ((1 - p) / (self.classes - 1)).expand(-1, self.classes)
        return torch.log(others.scatter(1, self.labels[:, None], p).clamp(min=1e-30))


@pytest.mark.parametrize(("inputs", "outputs"), golden_values.cases("ecs_scores"))
def test_epoch_scores_equal_the_reference(inputs, outputs):
    rows, labels = (
        golden_values.floats(inputs["p_true_class_per_pass"]),
        torch.tensor(inputs["labels"]),
    )
    steps, every = inputs["total_iterations"], inputs["pass_every"]
    method = Scripted(rows, labels, inputs["n_classes"])
    scores = EpochScores(lambda: iter([torch.zeros(1)]), labels, every=every, steps=steps)
    after = []
    for step in range(1, steps + 1):
        if step % scores.every == 0 or step == steps:  # as the loop does
            before = method.passes
            scores(method, step)
            after += [scores.score.clone()] if method.passes > before else []
    assert len(after) == len(outputs["scores_after_each_pass"])
    for ours, theirs in zip(after, outputs["scores_after_each_pass"], strict=True):
        golden_values.close_float32(ours, theirs)
    suspects = above(scores.score, torch.zeros(len(labels), 2), threshold=inputs["tau"])
    assert suspects.conflict.tolist() == [bool(flag) for flag in outputs["flags"]]
    truth = torch.tensor(inputs["bias"]) != labels
    quality = metrics.mining_quality(suspects.conflict, truth)
    assert quality["precision"] == pytest.approx(outputs["precision"])
    assert quality["recall"] == pytest.approx(outputs["recall"])


def test_an_augmented_ensemble_scores_augmented_images(tmp_path):
    """The scores are the mean over passes of 1 - p of the label, for images augmented in each pass."""
    changes = ["mine.how=augmented-ensemble", "data.augment=flip", "mine.steps=14"]
    context = toys.context(tmp_path, changes)
    samples = _ScoredSamples(context)
    first, again, other = (torch.cat([*samples.augmented(step)]) for step in (7, 7, 14))
    plain = torch.cat([*samples.inputs()])
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    flipped = (first == plain.flip(3)).flatten(1).all(1)
    assert bool((flipped | (first == plain).flatten(1).all(1)).all())
    assert 0.3 < float(flipped.double().mean()) < 0.7

    plain_run = toys.context(tmp_path, ["mine.how=epoch-ensemble", *changes[1:]])
    scores = [stages.run(each)[0].suspects("train").score.double() for each in (context, plain_run)]
    assert not torch.equal(*scores)
    assert float((scores[0] - scores[1]).abs().mean()) < 0.2


def test_an_augmented_ensemble_needs_a_single_process(tmp_path, monkeypatch):
    monkeypatch.setattr("unspur.stages.mine.process_count", lambda: 2)
    with pytest.raises(RecipeError, match="works in one process, not in 2"):
        stages.run(toys.context(tmp_path, ["mine.how=augmented-ensemble"]))


def test_a_pass_counts_only_samples_that_are_trained_on(tmp_path, monkeypatch):
    """Kept-out samples make a pass shorter; 240 samples in batches of 32 make a pass of 7 steps."""
    periods = []
    original = EpochScores.__init__

    def record(self, *args, every, steps):
        periods.append(every)
        original(self, *args, every=every, steps=steps)

    monkeypatch.setattr(EpochScores, "__init__", record)
    for splits in (shapes_set(seed=1), without_valid(shapes_set(seed=1))):
        context, _, _ = run(tmp_path, ["mine.how=epoch-ensemble"], splits=splits)
        assert periods[-1] == int((~context.kept_out).sum()) // 32
    assert periods[0] == 7


# Pruning


def test_pruned_weights_are_exactly_zero_everywhere(stored):
    _, results, scores = run(stored)
    keep = under(results["prune"].tensors, "keep.")
    assert keep.keys() == {"conv.weight", "head.weight"}
    assert 0 < scores.facts["density"]["overall"] < 1
    weights = {
        "pruned": under(results["prune"].tensors, "weights."),
        "debiased": under(results["finetune"].tensors, "weights."),
        "iterate": under(results["finetune"].tensors, "iterate.10."),
    }
    for found in weights.values():
        assert found.keys() == TinyNet().state_dict().keys()
        for name, mask in keep.items():
            assert (found[name][~mask] == 0).all()
            assert (found[name][mask] != 0).all()


def test_kept_weights_do_not_change_before_fine_tuning(stored):
    _, results, _ = run(stored)
    keep, pruned = (under(results["prune"].tensors, p) for p in ("keep.", "weights."))
    before, after = results["pretrain"].tensors, under(results["finetune"].tensors, "weights.")
    for name, mask in keep.items():
        assert torch.equal(pruned[name], before[name] * mask)
        assert not torch.equal(after[name], pruned[name])
        assert torch.equal(mask, results["prune"].tensors[f"logits.{name}"] > 0)
    assert torch.equal(pruned["head.bias"], before["head.bias"])


def test_density_is_counted(stored):
    _, results, scores = run(stored)
    keep = under(results["prune"].tensors, "keep.")
    kept = {name: int(mask.sum()) for name, mask in keep.items()}
    facts = scores.facts["density"]
    assert facts["overall"] == sum(kept.values()) / (162 + 12)
    assert facts["layers"] == {
        "conv.weight": kept["conv.weight"] / 162,
        "head.weight": kept["head.weight"] / 12,
    }
    assert facts["reachable"] == facts["overall"]  # here every weight is reachable


def test_batch_norm_statistics_are_re_estimated_after_pruning(stored):
    context, results, _ = run(stored)
    settings, conflict = context.recipe.prune, results["mine"].tensors["train.conflict"]
    train, tensors = context.splits.train, under(results["prune"].tensors, "weights.")
    odds = sampling.derived_odds(conflict, train.targets, share=settings.share, cap=settings.cap)
    order = sampling.Weighted(odds, batch=settings.batch, seed=context.seed("prune"))
    means, variances = [], []
    for index in order.draw(settings.steps, settings.batch_norm_batches):
        x = train.images[index].float() / 255
        seen = nn.functional.conv2d(x, tensors["conv.weight"], stride=2, padding=1)
        means.append(seen.mean((0, 2, 3)))
        variances.append(seen.var((0, 2, 3), unbiased=True))
    torch.testing.assert_close(tensors["norm.running_mean"], torch.stack(means).mean(0))
    torch.testing.assert_close(tensors["norm.running_var"], torch.stack(variances).mean(0))
    assert int(tensors["norm.num_batches_tracked"]) == settings.batch_norm_batches
    stale = results["pretrain"].tensors["norm.running_mean"]
    assert not torch.allclose(tensors["norm.running_mean"], stale, rtol=1e-2)


def test_a_network_without_batch_norm_is_pruned_too(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU(), nn.Linear(8, 2))
    _, results, scores = run(tmp_path, model=model)
    assert "finetune" in results
    assert scores.facts["pruned"].keys() == ACCURACIES


# Scores


def test_scores_have_the_documented_fields(stored, tmp_path):
    context, results, scores = run(stored)
    runs.save(context, results, scores, tmp_path)
    facts = json.loads((tmp_path / "scores.json").read_text())
    promised = {"ordinary", "pruned", "debiased", "mining", "density", "selection"}
    assert facts.keys() == promised | {"evaluated_on", "iterates", "unseen"}
    for name in ("ordinary", "pruned", "debiased"):
        assert facts[name].keys() == ACCURACIES
        assert all(0 <= facts[name][key] <= 1 for key in ACCURACIES - {"groups"})
        assert [len(row) for row in facts[name]["groups"]] == [2, 2]
    assert facts["mining"].keys() == {"precision", "recall", "flagged", "verdict", "text"}
    assert facts["density"].keys() == {"overall", "reachable", "macs", "layers"}
    assert facts["evaluated_on"] == "test"


def test_scores_equal_a_plain_evaluation_of_the_weights(stored):
    _, results, scores = run(stored)
    weights = {
        "ordinary": results["pretrain"].tensors,
        "pruned": under(results["prune"].tensors, "weights."),
        "debiased": under(results["finetune"].tensors, "weights."),
    }
    found = {name: scores.facts[name]["average"] for name in weights}
    assert found == pytest.approx({name: slow_accuracy(w) for name, w in weights.items()})
    assert len(set(found.values())) > 1


def test_an_ordinary_run_has_no_suspects_and_no_masks(tmp_path):
    _, results, scores = run(tmp_path, ["plan=erm"])
    assert list(results) == ["pretrain"]
    assert scores.facts["mining"] is None
    assert scores.facts["pruned"] is None
    assert scores.facts["debiased"] == scores.facts["ordinary"]


def test_plans_share_their_stages(stored):
    assert run_and_list_stages(toys.context(stored, ["plan=erm"])) == ["evaluate"]


def test_without_test_data_the_next_best_split_is_scored(tmp_path):
    splits = shapes_set(seed=1)
    no_test = replace(splits, test=None, bias={n: splits.bias[n] for n in ("train", "valid")})
    _, _, scores = run(tmp_path, splits=no_test)
    assert scores.facts["evaluated_on"] == "valid"
    alone = without_valid(replace(no_test, bias={"train": splits.bias["train"]}))
    context, results, scores = run(tmp_path, splits=alone)
    assert scores.facts["evaluated_on"] == "the training samples kept out of training"
    model = context.network(results["pretrain"].tensors).eval()
    out = context.kept_out
    with torch.no_grad():
        right = model(alone.train.images[out] / 255).argmax(1) == alone.train.targets[out]
    assert scores.facts["ordinary"]["average"] == pytest.approx(float(right.double().mean()))


# Errors


@pytest.mark.parametrize(
    ("stage", "finished"),
    [
        ("mine", set()),
        ("pretrain", {"mine"}),
        ("finetune", {"mine", "pretrain", "prune"}),
    ],
)
def test_a_loss_of_nan_leaves_no_artifact_of_the_stage(tmp_path, stage, finished):
    context = toys.at_rate(toys.context(tmp_path), stage, 1e30)
    with pytest.raises(TrainingError, match="since step"):
        stages.run(context)
    whole = [path for path in context.store.artifacts() if path.suffix == ""]
    assert {path.name.partition("-")[0] for path in whole} == finished
    assert run_and_list_stages(toys.context(tmp_path)) == [
        stage for stage in ALL if stage not in finished
    ]


def test_a_model_of_the_wrong_width_is_refused_before_training(tmp_path):
    with pytest.raises(ModelError, match="2 outputs"):
        run(tmp_path, model=TinyNet(classes=3))
    assert list(Store(tmp_path).artifacts()) == []


class Headless(nn.Module):
    """A network that ends in a convolution."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 3)

    def forward(self, x):
        return self.conv(x).mean((2, 3))


@pytest.mark.parametrize("change", ["name=x", "model.head=nowhere"])
def test_a_model_without_the_head_is_refused_before_training(tmp_path, change):
    model = Headless() if change == "name=x" else TinyNet()
    with pytest.raises(ModelError, match=r"head|nowhere"):
        run(tmp_path, [change], model=model)
    assert list(Store(tmp_path).artifacts()) == []
