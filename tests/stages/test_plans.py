"""Every plan from end to end: it runs, is scored, is kept once, comes back from its folder."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

import toys
import unspur
from toys import Counting, same, shapes_set
from unspur import masks, models, runs, stages
from unspur.errors import ModelError, RecipeError
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
    """A store that holds a run of every plan."""
    folder = tmp_path_factory.mktemp("plans")
    for plan in plans():
        stages.run(context(folder, plan))
    return folder


each_plan = pytest.mark.parametrize("plan", plans())


def test_how_training_begins_is_part_of_the_key_where_it_is_set(tmp_path):
    def start(*changes):
        context = toys.context(tmp_path, changes)
        return stages.Run(context).keys["pretrain"].ingredients.get("start")

    assert start() is None
    assert start("start.pretrained=true", "start.warmup=0") is None
    assert start("start.warmup=3") == {"warmup": 3, "head_first": 0}


def test_a_warm_up_and_a_head_that_is_trained_first(tmp_path):
    changed = {}
    for change in ("start.head_first=40", "start.head_first=20", "start.warmup=5"):
        context = toys.context(tmp_path, ["plan=erm", change])
        weights = stages.run(context)[0].final_weights
        changed[change] = not torch.equal(weights["conv.weight"], context.initial["conv.weight"])
    assert changed == {
        "start.head_first=40": False,  # as long as pretraining takes
        "start.head_first=20": True,
        "start.warmup=5": True,
    }


@each_plan
def test_it_makes_its_stages_and_is_scored(store, plan):
    made, scores = stages.run(context(store, plan))
    assert tuple(made) == plans()[plan]
    facts = scores.facts
    assert (facts["ordinary"] is None) is ("pretrain" not in made)
    assert (facts["pruned"] is None) is ("prune" not in made)
    assert (facts["mining"] is None) is ("mine" not in made)
    assert 0 <= facts["debiased"]["unbiased"] <= 1
    assert facts["selection"]["rule"] in ("last", "heldout")
    if plan in ALONE:
        assert facts["iterates"].keys() == {"6"}


@each_plan
def test_it_is_made_once(store, plan):
    counting = Counting(store)
    stages.run(replace(context(store, plan), store=counting))
    assert counting.made == []


@each_plan
def test_it_comes_back_from_its_folder(store, plan, tmp_path):
    made_in = context(store, plan)
    made, scores = stages.run(made_in)
    runs.save(made_in, made, scores, tmp_path)
    model = unspur.load(tmp_path, model=toys.TinyNet())
    assert runs.score(model, made_in.splits).as_json() == scores.facts["debiased"]
    assert unspur.recipes.loading.load(str(tmp_path / "recipe.toml")).plan == plan
    with pytest.raises(ModelError, match=r"made with an nn\.Module"):
        unspur.load(tmp_path)


def test_two_encoders_come_back_without_being_given(tmp_path):
    builder = models.builder("convnet", 2, {"width": 2, "kernel": 3})
    made_in = context(tmp_path / "store", "disent", builder=builder)
    made, scores = stages.run(made_in)
    runs.save(made_in, made, scores, tmp_path / "out")
    found = runs.score(unspur.load(tmp_path / "out"), made_in.splits)
    assert found.as_json() == scores.facts["debiased"]


@each_plan
def test_two_at_once_are_two_alone(store, plan, tmp_path):
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
def test_bias_labels_are_part_of_the_key_where_they_are_used_and_only_there(store, plan):
    splits = shapes_set(seed=1)
    other = replace(splits, bias={name: 1 - b for name, b in splits.bias.items()})
    keys, others = (
        [made.store.path(i).name for i in toys.ingredients_of(made)]
        for made in (context(store, plan, splits=s) for s in (splits, other))
    )
    assert (keys[-1] != others[-1]) is (plan in NEEDS_LABELS)
    assert keys[:-1] == others[:-1]


@pytest.mark.parametrize("plan", NEEDS_LABELS)
def test_missing_bias_labels_are_named_before_anything_is_trained(tmp_path, plan):
    splits = replace(shapes_set(seed=1), bias={})
    counting = Counting(tmp_path)
    with pytest.raises(RecipeError, match=f'"{plan}" needs bias labels of the training split'):
        stages.run(replace(context(tmp_path, plan, splits=splits), store=counting))
    assert counting.made == []


# The pieces


def test_rewinding_starts_from_the_initial_weights(store):
    made_in = context(store, "mrm", "finetune.start=initial", "finetune.rate=1e-12")
    made, _ = stages.run(made_in)
    keep = made.masks
    assert keep
    for name, weight in made.weights("finetune").items():
        if name in keep:
            torch.testing.assert_close(weight, made_in.initial[name] * keep[name])


def test_jtt_starts_afresh_and_goes_on_without_suspects(tmp_path):
    made, scores = stages.run(context(tmp_path, "jtt", splits=shapes_set(conflicting=0)))
    assert set(made) == {"mine", "finetune"}
    assert scores.facts["mining"]["verdict"] == "nothing"


@pytest.mark.parametrize("how", ["random", "magnitude"])
@pytest.mark.parametrize("spread", ["layer", "global"])
def test_control_masks_keep_as_many_weights(store, how, spread):
    made, scores = stages.run(
        context(store, "control", f"control.how={how}", f"control.spread={spread}")
    )
    learned, keep = under(made["prune"].tensors, "keep."), made.masks
    assert masks.density(keep) == pytest.approx(masks.density(learned), abs=1e-9)
    assert scores.facts["density"]["overall"] == masks.density(keep)
    assert not same(learned, keep)
    if spread == "layer":
        assert {n: int(k.sum()) for n, k in keep.items()} == {
            n: int(k.sum()) for n, k in learned.items()
        }
    if how == "magnitude":
        weights = made.weights("pretrain")
        kept = torch.cat([weights[n][k].abs() for n, k in keep.items()])
        cut = torch.cat([weights[n][~k].abs() for n, k in keep.items()])
        assert spread == "layer" or kept.min() >= cut.max()


@pytest.mark.parametrize("how", ["magnitude", "random", "grasp"])
def test_masks_that_are_not_learned_keep_their_share(store, how):
    made, _ = stages.run(context(store, "mrm", f"prune.how={how}", "prune.keep=0.25"))
    keep, weights = made.masks, made.weights("finetune")
    assert masks.density(keep) == pytest.approx(0.25, abs=0.01)
    assert not any(name.startswith("logits.") for name in made["prune"].tensors)
    for name, mask in keep.items():
        assert not weights[name][~mask].any()


def test_weights_drop_out_where_nothing_is_pruned_too(store):
    plain, dropped = (
        stages.run(context(store, "unpruned", f"finetune.drop={drop}"))[0] for drop in (0.0, 0.5)
    )
    assert not same(plain["finetune"].tensors, dropped["finetune"].tensors)


def built(made_in):
    """LfF as a run builds it."""
    own = own_stages()["lff"].own_stage
    model = made_in.network(made_in.initial)
    return own.build(model, ContextInputs(made_in), made_in.recipe.table("lff"))


def test_the_second_network_has_weights_of_its_own(tmp_path):
    builder = models.builder("convnet", 2, {"width": 2, "kernel": 3})
    made_in = context(tmp_path, "lff", builder=builder)
    method = built(made_in)
    assert not same(method.model.state_dict(), method.biased.state_dict())
    again = built(made_in)
    assert same(method.state_dict(), again.state_dict())


def test_groups_are_drawn_equally_often(tmp_path):
    made_in = context(tmp_path, "groupdro")
    training = next(stage_records()["groupdro"].work(made_in, Results()))
    index = training.order.draw(0, 200).flatten()
    groups = made_in.splits.train.targets[index] * 2 + made_in.splits.bias["train"][index]
    share = torch.bincount(groups, minlength=4) / len(groups)
    assert share.tolist() == pytest.approx([0.25] * 4, abs=0.03)


def test_a_head_refitted_on_validation_data(store):
    made, scores = stages.run(context(store, "dfr", "refit.on=valid"))
    assert scores.facts["refit"]["strength"] > 0
    before, after = made.weights("pretrain"), made.weights("refit")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"head.weight", "head.bias"}


def test_a_head_is_refitted_when_other_samples_conflict(store):
    """With "rare", which samples of the validation data conflict is a matter of the training labels."""
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


def test_a_head_is_not_refitted_on_what_is_not_there(tmp_path):
    splits = toys.without_valid(shapes_set(seed=1))
    with pytest.raises(RecipeError, match="needs"):
        stages.run(context(tmp_path, "dfr", "refit.on=valid", "select.rule=last", splits=splits))
