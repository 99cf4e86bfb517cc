"""Every plan from end to end: it runs, is scored, is stored once, and loads from its folder."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import toys
import unspur
from toys import Counting, same, shapes_set
from unspur import masks, models, runs, stages
from unspur.errors import MaskError, ModelError, RecipeError
from unspur.methods import own_stages, plans
from unspur.stages.all_stages import stage_records
from unspur.stages.method_stage import ContextInputs
from unspur.stages.results import Results
from unspur.training.prediction import under

ALONE = tuple(own_stages())
QUICK = [
    *(f"{stage}.{key}" for stage in ALONE for key in ("steps=12", "batch=32", "iterates=[6]")),
    *("disent.swap_start=4", "prune.keep=0.5", 'rebias.network.name="mlp"'),
    *("rebias.network.options={ inputs = 192, hidden = [4] }", "refit.subsets=2"),
]
NEEDS_LABELS = ("end", "groupdro", "dfr")


def context(folder, plan, *changes, **kwargs):
    how = ["prune.how=grasp"] if plan == "grasp" else []
    return toys.context(folder, [*QUICK, f"plan={plan}", *how, *changes], **kwargs)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Return a store that holds a run of every plan."""
    folder = tmp_path_factory.mktemp("plans")
    for plan in plans():
        stages.run(context(folder, plan))
    return folder


each_plan = pytest.mark.parametrize("plan", plans())


def test_settings_of_the_start_are_in_the_key_if_they_are_set(tmp_path):
    def start(*changes):
        context = toys.context(tmp_path, changes)
        return stages.Run(context).keys["pretrain"].ingredients.get("start")

    assert start() is None
    assert start("start.pretrained=true", "start.warmup=0") is None
    assert start("start.warmup=3") == {"warmup": 3, "head_first": 0}


def test_head_first_freezes_the_other_layers_for_its_steps(tmp_path):
    changed = {}
    for change in ("start.head_first=40", "start.head_first=20", "start.warmup=5"):
        context = toys.context(tmp_path, ["plan=erm", change])
        weights = stages.run(context)[0].final_weights
        changed[change] = not torch.equal(weights["conv.weight"], context.initial["conv.weight"])
    assert changed == {
        "start.head_first=40": False,  # as many steps as pretraining has
        "start.head_first=20": True,
        "start.warmup=5": True,
    }


def test_a_named_head_that_is_trained_first_is_in_the_key(tmp_path):
    """With another head, other layers are frozen at first, so that the weights differ."""

    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.ReLU(), nn.Linear(4, 2))

    def key(*changes):
        context = toys.context(tmp_path, changes, model=model)
        return dict(stages.Run(context).keys["pretrain"].ingredients)

    for frozen in ((), ("start.head_first=5",)):
        first, other = (key(*frozen, f'model.head="{name}"') for name in ("1", "3"))
        assert (first.get("head") != other.get("head")) is bool(frozen)
    assert "head" not in key("start.head_first=5")  # it follows from the network


@each_plan
def test_a_plan_runs_its_stages_and_is_scored(store, plan):
    results, scores = stages.run(context(store, plan))
    assert tuple(results) == plans()[plan]
    facts = scores.facts
    assert (facts["ordinary"] is None) is ("pretrain" not in results)
    assert (facts["pruned"] is None) is ("prune" not in results)
    assert (facts["mining"] is None) is ("mine" not in results)
    assert 0 <= facts["debiased"]["unbiased"] <= 1
    assert facts["selection"]["rule"] in ("last", "heldout")
    if plan in ALONE:
        assert facts["iterates"].keys() == {"6"}


@each_plan
def test_a_plan_is_stored_and_not_run_again(store, plan):
    counting = Counting(store)
    stages.run(replace(context(store, plan), store=counting))
    assert counting.made == []


@each_plan
def test_a_plan_loads_from_its_run_folder(store, plan, tmp_path):
    run_context = context(store, plan)
    results, scores = stages.run(run_context)
    runs.save(run_context, results, scores, tmp_path)
    model = unspur.load(tmp_path, model=toys.TinyNet())
    assert runs.score(model, run_context.splits).as_json() == scores.facts["debiased"]
    assert unspur.recipes.loading.load(str(tmp_path / "recipe.toml")).plan == plan
    with pytest.raises(ModelError, match=r"made with an nn\.Module"):
        unspur.load(tmp_path)


def test_two_encoders_load_without_a_model(tmp_path):
    builder = models.builder("convnet", 2, {"width": 2, "kernel": 3})
    run_context = context(tmp_path / "store", "disent", builder=builder)
    results, scores = stages.run(run_context)
    runs.save(run_context, results, scores, tmp_path / "out")
    found = runs.score(unspur.load(tmp_path / "out"), run_context.splits)
    assert found.as_json() == scores.facts["debiased"]


@each_plan
def test_two_runs_at_once_equal_two_runs_alone(store, plan, tmp_path):
    pairs = stages.run_together(
        [stages.Run(context(tmp_path, plan)), stages.Run(context(tmp_path, plan, "seed=1"))]
    )
    alone, _ = stages.run(context(store, plan))
    for stage, artifact in pairs[0][0].items():
        assert same(artifact.tensors, alone[stage].tensors)


def test_plans_share_their_pretraining(store):
    keys = {
        plan: {
            i["stage"]: context(store, plan).store.path(i).name
            for i in toys.ingredients_of(context(store, plan))
        }
        for plan in plans()
    }
    assert len({stages_["pretrain"] for stages_ in keys.values() if "pretrain" in stages_}) == 1
    assert len({stages_["mine"] for stages_ in keys.values() if "mine" in stages_}) == 1
    assert keys["control"]["prune"] == keys["dcwp"]["prune"] != keys["mrm"]["prune"]


# Bias labels


@each_plan
def test_bias_labels_are_in_the_key_only_if_they_are_used(store, plan):
    splits = shapes_set(seed=1)
    other = replace(splits, bias={name: 1 - b for name, b in splits.bias.items()})
    keys, others = (
        [each.store.path(i).name for i in toys.ingredients_of(each)]
        for each in (context(store, plan, splits=s) for s in (splits, other))
    )
    assert (keys[-1] != others[-1]) is (plan in NEEDS_LABELS)
    assert keys[:-1] == others[:-1]


@pytest.mark.parametrize("plan", NEEDS_LABELS)
def test_missing_bias_labels_are_an_error_before_training(tmp_path, plan):
    splits = replace(shapes_set(seed=1), bias={})
    counting = Counting(tmp_path)
    with pytest.raises(RecipeError, match=f'"{plan}" needs bias labels'):
        stages.run(replace(context(tmp_path, plan, splits=splits), store=counting))
    assert counting.made == []


# Details


def test_rewinding_starts_from_the_initial_weights(store):
    run_context = context(store, "mrm", "finetune.start=initial", "finetune.rate=1e-12")
    results, _ = stages.run(run_context)
    keep = results.masks
    assert keep
    for name, weight in results.weights("finetune").items():
        if name in keep:
            torch.testing.assert_close(weight, run_context.initial[name] * keep[name])


def test_jtt_starts_from_the_initial_weights_and_works_without_suspects(tmp_path):
    results, scores = stages.run(context(tmp_path, "jtt", splits=shapes_set(conflicting=0)))
    assert set(results) == {"mine", "finetune"}
    assert scores.facts["mining"]["verdict"] == "nothing"


@pytest.mark.parametrize("how", ["random", "magnitude"])
@pytest.mark.parametrize("spread", ["layer", "global"])
def test_control_masks_keep_as_many_weights(store, how, spread):
    results, scores = stages.run(
        context(store, "control", f"control.how={how}", f"control.spread={spread}")
    )
    learned, keep = under(results["prune"].tensors, "keep."), results.masks
    assert masks.density(keep) == pytest.approx(masks.density(learned), abs=1e-9)
    assert scores.facts["density"]["overall"] == masks.density(keep)
    assert not same(learned, keep)
    if spread == "layer":
        assert {n: int(k.sum()) for n, k in keep.items()} == {
            n: int(k.sum()) for n, k in learned.items()
        }
    if how == "magnitude":
        weights = results.weights("pretrain")
        kept = torch.cat([weights[n][k].abs() for n, k in keep.items()])
        cut = torch.cat([weights[n][~k].abs() for n, k in keep.items()])
        assert spread == "layer" or kept.min() >= cut.max()


@pytest.mark.parametrize("how", ["magnitude", "random", "grasp"])
def test_masks_by_a_score_keep_their_share(store, how):
    results, _ = stages.run(context(store, "mrm", f"prune.how={how}", "prune.keep=0.25"))
    keep, weights = results.masks, results.weights("finetune")
    assert masks.density(keep) == pytest.approx(0.25, abs=0.01)
    assert not any(name.startswith("logits.") for name in results["prune"].tensors)
    for name, mask in keep.items():
        assert not weights[name][~mask].any()


def test_drop_works_without_pruning(store):
    plain, dropped = (
        stages.run(context(store, "unpruned", f"finetune.drop={drop}"))[0] for drop in (0.0, 0.5)
    )
    assert not same(plain["finetune"].tensors, dropped["finetune"].tensors)


def held_out_loss(run_context, results, step):
    """Return the mean of the losses on held-out suspects and others at a stored step, sample by sample."""
    weights = under(results["lff"].tensors, f"iterate.{step}.")
    model = run_context.network(weights).eval()
    suspects, valid = results.suspects("valid"), run_context.splits.valid
    x = run_context.preprocess(valid.take(torch.arange(len(valid))))
    sums = {True: [], False: []}
    with torch.no_grad():
        for image, target, flag in zip(x, valid.targets, suspects.conflict, strict=True):
            p = torch.softmax(model(image[None])[0], dim=0)
            sums[bool(flag)].append(1 - float(p[target]))
    return sum(sum(each) / len(each) for each in sums.values()) / 2


def test_lff_can_select_its_step_without_bias_labels(store):
    changes = ("lff.iterates=[4, 8, 12]", "select.every=4", "select.minimum=1", 'mine.how="oracle"')
    run_context = context(store, "lff-selected", "select.rule=heldout", *changes)
    results, scores = stages.run(run_context)
    by_step = {step: held_out_loss(run_context, results, step) for step in (4, 8, 12)}
    chosen = scores.facts["selection"]
    assert chosen["rule"] == "heldout"
    assert chosen["step"] == min(by_step, key=by_step.get)
    assert chosen["loss"] == pytest.approx(min(by_step.values()), abs=1e-6)
    iterate = under(results["lff"].tensors, f"iterate.{chosen['step']}.")
    assert same(iterate, results.weights("lff"))


def test_selection_is_in_the_key_of_a_method_only_after_mining(store):
    def key(plan, rule):
        return toys.ingredients_of(context(store, plan, f"select.rule={rule}"))[-1].get("select")

    assert key("lff", "last") is None
    assert key("lff-selected", "last")["rule"] == "last"
    assert key("lff-selected", "heldout")["rule"] == "heldout"


def test_last_steps_are_kept_if_selection_is_off(store):
    _, scores = stages.run(context(store, "disent-selected", "select.rule=last"))
    assert scores.facts["selection"] == {"rule": "last", "step": 12, "reason": "asked for"}


def build_lff(run_context):
    """Build LfF as a run does."""
    own = own_stages()["lff"].own_stage
    model = run_context.network(run_context.initial)
    return own.build(model, ContextInputs(run_context), run_context.recipe.table("lff"))


def test_the_second_network_has_different_weights(tmp_path):
    builder = models.builder("convnet", 2, {"width": 2, "kernel": 3})
    run_context = context(tmp_path, "lff", builder=builder)
    method = build_lff(run_context)
    assert not same(method.model.state_dict(), method.biased.state_dict())
    again = build_lff(run_context)
    assert same(method.state_dict(), again.state_dict())


def test_the_second_network_has_the_weights_of_a_given_model(tmp_path):
    """They may be pretrained, so they are not replaced by random ones."""
    method = build_lff(context(tmp_path, "lff", model=toys.TinyNet()))
    assert same(method.model.state_dict(), method.biased.state_dict())


def test_groups_are_sampled_equally_often(tmp_path):
    run_context = context(tmp_path, "groupdro")
    training = next(stage_records()["groupdro"].work(run_context, Results()))
    index = training.order.draw(0, 200).flatten()
    groups = run_context.splits.train.targets[index] * 2 + run_context.splits.bias["train"][index]
    share = torch.bincount(groups, minlength=4) / len(groups)
    assert share.tolist() == pytest.approx([0.25] * 4, abs=0.03)


def test_a_head_can_be_refitted_on_validation_data(store):
    results, scores = stages.run(context(store, "dfr", "refit.on=valid"))
    assert scores.facts["refit"]["strength"] > 0
    before, after = results.weights("pretrain"), results.weights("refit")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"head.weight", "head.bias"}


def test_a_head_is_refitted_if_other_samples_are_conflicting(store):
    """With "rare", the training labels decide which validation samples are conflicting."""
    three = {k: torch.where(torch.arange(240) % 3 == 0, 2, b) for k, b in shapes_set().bias.items()}
    first = replace(shapes_set(), conflict_when="rare", bias=three)
    turned = torch.where(three["train"] == 2, 2 * first.train.targets, three["train"])
    second = replace(first, bias={**three, "train": turned})
    assert not torch.equal(first.conflicting("valid"), second.conflicting("valid"))
    paths = [
        stages.run(context(store, "dfr", "refit.on=valid", splits=each))[0]["refit"].path
        for each in (first, second)
    ]
    assert paths[0] != paths[1]


def test_the_biased_network_starts_from_a_file(store, tmp_path):
    shape = models.builder("mlp", 2, {"inputs": 192, "hidden": [4]}).build(0).state_dict()
    save_file(
        {k: torch.full_like(v, 0.1) for k, v in shape.items()}, tmp_path / "start.safetensors"
    )
    init = f"rebias.network.init={tmp_path / 'start.safetensors'}"
    scratch, started = context(store, "rebias"), context(store, "rebias", init)
    network = started.recipe.table("rebias").network
    weights = ContextInputs(started).extra_network(network, "biased").state_dict()
    assert all(bool((v == 0.1).all()) for v in weights.values())
    assert toys.ingredients_of(scratch)[-1] != toys.ingredients_of(started)[-1]
    with pytest.raises(ModelError, match="nowhere"):
        toys.ingredients_of(context(store, "rebias", "rebias.network.init=nowhere.safetensors"))


class Unused(toys.TinyNet):
    """A network with a layer that it does not use, and two layers that share a weight."""

    def __init__(self):
        super().__init__()
        self.unused, self.tied = nn.Linear(6, 2), nn.Linear(6, 2)
        self.tied.weight = self.unused.weight


@pytest.mark.parametrize(
    ("plan", "change", "text"),
    [
        *(
            (plan, "model.head=unused", "does not call")
            for plan in ("unpruned", "jtt", "end", "dfr")
        ),
        ("erm", "model.head=nowhere", "no layer 'nowhere'"),
        ("dfr", "model.head=norm", "needs an nn.Linear with 2 outputs"),
        ("unpruned", "finetune.drop=0.5", "unused.weight is tied to tied.weight"),
    ],
)
def test_a_network_that_does_not_fit_is_an_error_before_training(tmp_path, plan, change, text):
    run_context = context(tmp_path, plan, change, "start.head_first=1", model=Unused())
    with pytest.raises((ModelError, MaskError), match=text):
        stages.run(run_context)
    assert list(run_context.store.artifacts()) == []


def test_refitting_on_a_missing_split_is_an_error(tmp_path):
    splits = toys.without_valid(shapes_set(seed=1))
    with pytest.raises(RecipeError, match="needs"):
        stages.run(context(tmp_path, "dfr", "refit.on=valid", "select.rule=last", splits=splits))
