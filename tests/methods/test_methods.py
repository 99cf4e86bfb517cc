"""Formulas of the methods: golden values of the reference implementations, and slow reference code."""

import math
from dataclasses import replace
from itertools import combinations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from golden_values import cases, close, floats
from toys import TinyNet, resident, shapes_set
from unspur.masks import ranking
from unspur.methods import all_methods, dfr, grasp, own_stages, plans
from unspur.methods.difficulty import Difficulty
from unspur.methods.disent import DisEnt
from unspur.methods.groupdro import GroupDRO, group_means
from unspur.methods.lff import LfF
from unspur.methods.rebias import ReBias
from unspur.models.networks.pair import Pair
from unspur.recipes.settings import recipe_class
from unspur.training import losses, sampling
from unspur.training.fit_options import FitOptions, Optimiser
from unspur.training.inputs import Training
from unspur.training.loop_state import Loop

SPLITS = shapes_set()
PLAN = FitOptions(steps=4, optimiser=Optimiser(rate=1e-2), log_every=2)


def batch(seed, size, width, *, classes=3, biases=3):
    g = torch.Generator().manual_seed(seed)
    features = torch.randn(size, width, generator=g, dtype=torch.float64)
    labels = torch.randint(classes, (size,), generator=g)
    return features, labels, torch.randint(biases, (size,), generator=g)


# EnD


def labels_of(inputs):
    return torch.tensor(inputs["labels"]), torch.tensor(inputs["bias"])


@pytest.mark.parametrize(("inputs", "outputs"), cases("end"))
def test_end_golden(inputs, outputs):
    raw = floats(inputs["features_raw"]).requires_grad_()
    targets, bias = labels_of(inputs)
    apart = losses.disentangle(raw, bias)
    together = losses.entangle(raw, targets, bias, pairs="released")
    (grad,) = torch.autograd.grad(apart + together, raw)
    close(apart, outputs["disentangle"])
    close(together, outputs["entangle"])
    close(grad, outputs["grad_features_raw_sum"])
    close(losses.entangle(raw, targets, bias), outputs["entangle_all_pairs"])


def slow_end(features, y, b):
    """Compute both terms of EnD, pair by pair."""
    z = F.normalize(features, dim=1)
    pairs = [(i, j) for j, i in combinations(range(len(y)), 2)]
    same = [(i, j) for i, j in pairs if b[i] == b[j]]
    apart = sum(abs(sum(float(z[i] @ z[j]) for i, j in same if b[i] == v)) for v in set(b))
    cross = [(i, j) for i, j in pairs if y[i] == y[j] and b[i] != b[j]]
    together = sum((1 + float(z[i] @ z[j])) / 2 for i, j in cross)
    return (
        apart / len(same) if same else 0.0,
        1 - together / len(cross) if cross else 0.0,
    )


@pytest.mark.parametrize("seed", range(5))
def test_end_against_a_double_loop(seed):
    features, targets, bias = batch(seed, 9, 4)
    apart, together = slow_end(features, targets.tolist(), bias.tolist())
    close(losses.disentangle(features, bias), apart)
    close(losses.entangle(features, targets, bias), together)


@pytest.mark.parametrize("pairs", ["all", "released"])
def test_end_without_a_pair_is_zero_with_a_zero_gradient(pairs):
    features = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    bias = torch.arange(3)
    total = losses.disentangle(features, bias) + losses.entangle(features, bias, bias, pairs=pairs)
    total.backward()
    assert total.item() == 0
    assert not features.grad.any()


# ReBias


@pytest.mark.parametrize(("inputs", "outputs"), cases("hsic"))
def test_hsic_golden(inputs, outputs):
    x, y = (floats(inputs[name]).requires_grad_() for name in "xy")
    found = losses.hsic(x, y, radius_x=inputs["sigma_x"], radius_y=inputs["sigma_y"])
    grad_x, grad_y = torch.autograd.grad(found, (x, y))
    close(found, outputs["hsic_exact"], rtol=1e-8, atol=1e-13)
    close(found, outputs["hsic"], rtol=1e-8, atol=1e-13)
    close(grad_x, outputs["grad_x"], rtol=1e-8, atol=1e-13)
    close(grad_y, outputs["grad_y"], rtol=1e-8, atol=1e-13)


def slow_hsic(x, y, radius):
    """Compute the unbiased estimator by its definition: means over pairs, quadruples and triples."""
    m = len(x)

    def kernel(v, i, j):
        return math.exp(-float((v[i] - v[j]).square().sum()) / (2 * radius**2))

    def mean(terms):
        terms = list(terms)
        return sum(terms) / len(terms)

    pairs = [(i, j) for i in range(m) for j in range(m) if i != j]
    triples = [(i, j, k) for i, j in pairs for k in range(m) if k not in (i, j)]
    fours = [(*t, n) for t in triples for n in range(m) if n not in t]
    return (
        mean(kernel(x, i, j) * kernel(y, i, j) for i, j in pairs)
        + mean(kernel(x, i, j) * kernel(y, k, n) for i, j, k, n in fours)
        - 2 * mean(kernel(x, i, j) * kernel(y, i, k) for i, j, k in triples)
    )


@pytest.mark.parametrize("seed", range(3))
def test_hsic_against_its_definition(seed):
    x, y = batch(seed, 6, 3)[0], batch(seed + 10, 6, 2)[0]
    close(losses.hsic(x, y, radius_x=1.5, radius_y=1.5), slow_hsic(x, y, 1.5), rtol=1e-8)


def test_hsic_of_too_few_samples_is_zero():
    x = torch.randn(3, 2, requires_grad=True)
    losses.hsic(x, x.detach()).backward()
    assert not x.grad.any()


def weight_sum(network):
    return network.conv.weight.detach().sum().item()


def test_rebias_steps_its_players_in_turn():
    """The second player sees the first one after its step."""
    torch.manual_seed(0)
    method = ReBias(TinyNet(), biased=TinyNet(), head="head", biased_head="head")
    order = sampling.Passes(torch.arange(240), batch=32, seed=5)
    loop = Loop(Training(method, resident(SPLITS), order, PLAN))
    seen = []
    forward = method.forward

    def record(batch, player):
        seen.append((player, *(weight_sum(n) for n in (method.biased, method.model))))
        return forward(batch, player)

    method.forward = record
    loop.advance(torch.arange(32))
    (first, g_before, f_before), (second, g_after, f_still) = seen
    assert (first, second) == ("biased", "model")
    assert g_before != g_after
    assert f_before == f_still
    assert weight_sum(method.model) != f_still


def test_rebias_players_move_the_dependence_in_opposite_directions():
    torch.manual_seed(0)
    method = ReBias(TinyNet(), biased=TinyNet(), head="head", biased_head="head", radius=0.5)
    made = resident(SPLITS).batch(torch.arange(32), torch.tensor(0))
    biased, model = (method(made, player)["dependence"] for player in ("biased", "model"))
    close(biased, -model.item(), rtol=1e-5)
    for player, own, other in (("biased", "biased", "model"), ("model", "model", "biased")):
        method.zero_grad()
        sum(method(made, player).values()).backward()
        assert all(p.grad is not None for p in getattr(method, own).parameters())
        assert all(p.grad is None for p in getattr(method, other).parameters())


# LfF


class Emits(nn.Module):
    """A network that returns fixed logits for any input."""

    def __init__(self):
        super().__init__()
        self.logits = None

    def forward(self, x):
        return self.logits


def golden_batch(values, **more):
    index, y = torch.tensor(values["indices"]), torch.tensor(values["labels"])
    batch = resident(SPLITS).batch(torch.arange(len(y)), torch.tensor(0))
    return replace(batch, index=index, y=y, **more)


@pytest.mark.parametrize(("inputs", "outputs"), cases("lff_weights"))
def test_lff_golden(inputs, outputs):
    method = LfF(
        Emits(),
        biased=Emits(),
        targets=torch.tensor(inputs["train_labels"]),
        q=inputs["q"],
        memory=inputs["alpha"],
    ).double()
    ledgers = method.difficulty
    for step, expected in zip(inputs["steps"], outputs["steps"], strict=True):
        method.biased.logits = floats(step["logits_biased"])
        method.model.logits = floats(step["logits_debiased"])
        found = method(golden_batch(step), "model")
        close(found["biased"], expected["gce_biased_mean"])
        close(found["debiased"], expected["weighted_ce_debiased_mean"])
        close(ledgers.biased.average, expected["ema_biased"])
        close(ledgers.debiased.average, expected["ema_debiased"])


@pytest.mark.parametrize(("inputs", "outputs"), cases("lff_weights"))
def test_difficulty_golden(inputs, outputs):
    difficulty = Difficulty(torch.tensor(inputs["train_labels"]), memory=inputs["alpha"]).double()
    for step, expected in zip(inputs["steps"], outputs["steps"], strict=True):
        index = torch.tensor(step["indices"])
        pair = (floats(step["loss_biased"]), floats(step["loss_debiased"]))
        close(difficulty.weigh(index, *pair), expected["weights"])


def test_difficulty_against_a_loop():
    g = torch.Generator().manual_seed(0)
    targets = torch.randint(3, (20,), generator=g)
    difficulty = Difficulty(targets, memory=0.6)
    slow = [{}, {}]
    for _ in range(6):
        index = torch.randperm(20, generator=g)[:7]
        pair = torch.rand(2, 7, generator=g)
        found = difficulty.weigh(index, *pair)
        for table, values in zip(slow, pair, strict=True):
            for i, value in zip(index.tolist(), values.tolist(), strict=True):
                table[i] = 0.6 * table[i] + 0.4 * value if i in table else value
        for i, weight in zip(index.tolist(), found.tolist(), strict=True):
            relative = [
                table[i] / max(v for k, v in table.items() if targets[k] == targets[i])
                for table in slow
            ]
            assert weight == pytest.approx(relative[0] / (sum(relative) + 1e-8), rel=1e-5)


def test_difficulty_of_a_table_of_zeros_is_a_half():
    difficulty = Difficulty(torch.tensor([0, 1]))
    weights = difficulty.weigh(torch.tensor([0, 1]), torch.zeros(2), torch.zeros(2))
    assert weights.tolist() == pytest.approx([0.5, 0.5])


# DisEnt


class Gives(nn.Module):
    """An encoder that returns fixed features, with a head that is removed."""

    def __init__(self, features, classes):
        super().__init__()
        self.features = nn.Parameter(features)
        self.head = nn.Linear(features.shape[1], classes)

    def forward(self, x):
        return self.head(self.features)


def golden_disent(inputs):
    own, shared = (Gives(floats(inputs[z]), inputs["n_classes"]) for z in ("z_i", "z_b"))
    method = DisEnt(
        own,
        biased=shared,
        head="head",
        targets=torch.tensor(inputs["train_labels"]),
        biased_weight=inputs["lambda_dis"],
        swap_weight=inputs["lambda_swap"],
        swap_biased_weight=inputs["lambda_swap_b"],
        q=inputs["q"],
        memory=inputs["alpha"],
    ).double()
    for layer, name in ((method.pair.head, "i"), (method.biased_head, "b")):
        layer.weight.data = floats(inputs[f"head_{name}_weight"])
        layer.bias.data = floats(inputs[f"head_{name}_bias"])
    for ledger, name in (("biased", "bias"), ("debiased", "intrinsic")):
        table = getattr(method.difficulty, ledger)
        table.average.copy_(floats(inputs[f"ema_{name}_before"]))
        table.seen.copy_(floats(inputs["seen_before"]))
    return method


@pytest.mark.parametrize(("inputs", "outputs"), cases("disent_losses"))
def test_disent_golden(inputs, outputs, monkeypatch):
    method = golden_disent(inputs)
    monkeypatch.setattr(method, "shuffle_order", lambda batch: torch.tensor(inputs["permutation"]))
    step = torch.tensor(10_001 if inputs["swap_active"] else 10_000)
    found = method(golden_batch(inputs, step=step), "model")
    total = sum(found.values())
    total.backward()
    close(found["intrinsic"] + found["biased"], outputs["loss_dis"])
    swap = (found["swapped"] + found["swapped_biased"]) / inputs["lambda_swap"]
    close(swap, outputs["loss_swap"])
    close(total, outputs["loss_total"])
    for parameter, name in (
        (method.pair.intrinsic.features, "z_i"),
        (method.pair.biased.features, "z_b"),
        (method.pair.head.weight, "head_i_weight"),
        (method.pair.head.bias, "head_i_bias"),
        (method.biased_head.weight, "head_b_weight"),
        (method.biased_head.bias, "head_b_bias"),
    ):
        close(parameter.grad, outputs[f"grad_{name}"])
    close(method.difficulty.biased.average, outputs["ema_bias_after"])
    close(method.difficulty.debiased.average, outputs["ema_intrinsic_after"])


def small_disent(seed=0, **options):
    torch.manual_seed(0)
    targets = SPLITS.train.targets
    return DisEnt(TinyNet(), biased=TinyNet(), head="head", targets=targets, seed=seed, **options)


@pytest.mark.parametrize("loss", ["intrinsic", "biased", "swapped", "swapped_biased"])
def test_each_head_trains_only_its_own_encoder(loss):
    method = small_disent(swap_start=0)
    made = resident(SPLITS).batch(torch.arange(32), torch.tensor(1))
    method(made, "model")[loss].backward()
    taught = {
        name
        for name, part in (("intrinsic", method.pair.intrinsic), ("biased", method.pair.biased))
        if any(p.grad is not None and p.grad.any() for p in part.parameters())
    }
    assert taught == ({"biased"} if "biased" in loss else {"intrinsic"})


def test_the_swap_starts_at_its_step_and_changes_at_each_step():
    method = small_disent(swap_start=5)
    source = resident(SPLITS)
    before, after, later = (source.batch(torch.arange(32), torch.tensor(s)) for s in (5, 6, 7))
    assert method(before, "model")["swapped"] == 0
    assert method(after, "model")["swapped"] > 0
    orders = [method.shuffle_order(each).tolist() for each in (after, later)]
    assert all(sorted(order) == list(range(32)) for order in orders)
    assert orders[0] != orders[1]
    assert orders[0] == method.shuffle_order(after).tolist()
    assert orders[0] != small_disent(seed=1).shuffle_order(after).tolist()


def test_a_pair_predicts_from_both_features():
    torch.manual_seed(0)
    first, second = TinyNet().eval(), TinyNet().eval()
    x = torch.rand(5, 3, 8, 8)
    features = [torch.relu(net.norm(net.conv(x))).mean((2, 3)) for net in (first, second)]
    pair = Pair(first, second, head="head").eval()
    expected = torch.cat(features, 1) @ pair.head.weight.T + pair.head.bias
    torch.testing.assert_close(pair(x), expected)
    assert "intrinsic.head.weight" not in pair.state_dict()


# GroupDRO


@pytest.mark.parametrize(("inputs", "outputs"), cases("groupdro"))
def test_groupdro_golden(inputs, outputs):
    counts = torch.tensor(inputs["group_counts"])[:, None]
    method = GroupDRO(
        TinyNet(), counts=counts, eta=inputs["eta"], adjustment=inputs["adjustment"]
    ).double()
    method.share.fill_(1 / inputs["n_groups"])
    method.adjusted.copy_(inputs["adjustment"] / counts.flatten().double().sqrt())
    for step, expected in zip(inputs["steps"], outputs["steps"], strict=True):
        each, groups = floats(step["losses"]).requires_grad_(), torch.tensor(step["groups"])
        loss = method.robust(each, groups)
        (grad,) = torch.autograd.grad(loss, each)
        close(method.share, expected["q"])
        close(loss, expected["robust_loss_without_adjustment"])
        close(grad, expected["grad_losses"])


def test_groupdro_against_a_loop():
    g = torch.Generator().manual_seed(0)
    method = GroupDRO(TinyNet(), counts=torch.tensor([[3, 0], [5, 2]]), eta=0.5, adjustment=1.0)
    assert method.share.tolist() == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])  # 0 for an empty group
    q, n = [1 / 3, 0.0, 1 / 3, 1 / 3], [3, 1, 5, 2]
    for _ in range(4):
        each, groups = torch.rand(6, generator=g), torch.tensor([0, 0, 2, 2, 2, 3])
        loss = method.robust(each, groups)
        means = [
            sum(v for v, k in zip(each.tolist(), groups.tolist(), strict=True) if k == i)
            / max(groups.tolist().count(i), 1)
            for i in range(4)
        ]
        q = [
            a * math.exp(0.5 * (m + 1 / math.sqrt(c))) for a, m, c in zip(q, means, n, strict=True)
        ]
        q = [a / sum(q) for a in q]
        assert method.share.tolist() == pytest.approx(q, rel=1e-5)
        assert loss.item() == pytest.approx(
            sum(a * m for a, m in zip(q, means, strict=True)), rel=1e-5
        )


def test_group_means_leave_absent_groups_at_zero():
    found = group_means(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([2, 2, 0]), 4)
    assert found.tolist() == [5.0, 0.0, 2.0, 0.0]


# GraSP and other masks without learning


def golden_net(inputs):
    activation = {"relu": nn.ReLU, "tanh": nn.Tanh}[inputs["activation"]]
    layers = []
    for weight, bias in zip(inputs["weights"], inputs["biases"], strict=True):
        layer = nn.Linear(len(weight[0]), len(weight)).double()
        layer.weight.data, layer.bias.data = floats(weight), floats(bias)
        layers += [layer, activation()]
    return nn.Sequential(*layers[:-1])


def weight_names(model):
    return [name for name, _ in model.named_parameters() if name.endswith("weight")]


@pytest.mark.parametrize(("inputs", "outputs"), cases("grasp"))
def test_grasp_golden(inputs, outputs):
    model, x, y = golden_net(inputs), floats(inputs["x"]), torch.tensor(inputs["labels"])
    names = weight_names(model)
    assert inputs["first_half_size"] == len(y) // 2
    scores = grasp.scores(model, names, x, y, temperature=inputs["temperature"])
    for name, expected in zip(names, outputs["scores"], strict=True):
        close(scores[name], expected, atol=1e-16)
    # The reference also keeps the score at its threshold: one weight more than requested.
    total = sum(s.numel() for s in scores.values())
    keep = ranking.keep_share({n: -s for n, s in scores.items()}, outputs["kept_count"] / total)
    for name, expected in zip(names, outputs["keep_mask"], strict=True):
        assert keep[name].int().tolist() == expected


def test_the_hessian_product_against_finite_differences():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    x, y = torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2])
    weights = {name: p for name, p in model.named_parameters() if name.endswith("weight")}
    direction = [torch.randn_like(p) for p in weights.values()]
    found = grasp.hessian_product(model, weights, [(x, y)], direction, temperature=2.0)

    def gradient_at(shift):
        moved = {
            n: (p + shift * d).detach()
            for (n, p), d in zip(weights.items(), direction, strict=True)
        }
        moved = {n: t.requires_grad_() for n, t in moved.items()}
        loss = F.cross_entropy(torch.func.functional_call(model, moved, (x,)) / 2.0, y)
        return torch.autograd.grad(loss, list(moved.values()))

    h = 1e-5
    for name, up, down in zip(weights, gradient_at(h), gradient_at(-h), strict=True):
        torch.testing.assert_close(found[name], (up - down) / (2 * h), rtol=1e-6, atol=1e-9)


def test_grasp_takes_a_fixed_number_of_samples_of_every_class():
    targets = torch.tensor([0] * 30 + [1] * 3 + [2] * 30)
    among = torch.ones(63, dtype=torch.bool)
    among[:20] = False
    index = grasp.balanced_subset(targets, among, each=5, seed=1)
    assert targets[index].tolist() == [0] * 5 + [1] * 3 + [2] * 5
    assert bool(among[index].all())
    assert len(set(index.tolist())) == 13
    assert index.tolist() != grasp.balanced_subset(targets, among, each=5, seed=2).tolist()


def test_magnitude_masks():
    weights = {"a": torch.tensor([[3.0, -4.0], [0.5, 1.0]]), "b": torch.tensor([-2.0, 0.1])}
    scores = ranking.magnitude(weights)
    keep = ranking.keep_share(scores, 0.5)
    assert keep["a"].tolist() == [[True, True], [False, False]]
    assert keep["b"].tolist() == [True, False]
    like = {"a": torch.tensor([[True, False], [False, False]]), "b": torch.tensor([True, True])}
    keep = ranking.keep_counts(scores, like)
    assert keep["a"].tolist() == [[False, True], [False, False]]
    assert keep["b"].tolist() == [True, True]


def test_random_masks_keep_the_density_of_every_layer():
    weights = {"a": torch.zeros(40, 50), "b": torch.zeros(300)}
    like = {"a": torch.arange(2000).view(40, 50) < 150, "b": torch.arange(300) < 200}
    first, again, other = (
        ranking.keep_counts(ranking.chance(weights, seed=seed), like) for seed in (1, 1, 2)
    )
    for name in weights:
        assert int(first[name].sum()) == int(like[name].sum())
        assert torch.equal(first[name], again[name])
        assert not torch.equal(first[name], other[name])


# DFR


def logistic_problem(seed=0, n=60, width=5, classes=3):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, width, generator=g, dtype=torch.float64)
    true = torch.randn(classes, width, generator=g, dtype=torch.float64) * torch.tensor(
        [1.0, 1.0, 1.0, 0.0, 0.0], dtype=torch.float64
    )
    noise = torch.randn(n, classes, generator=g, dtype=torch.float64)
    return x, (x @ true.T + noise).argmax(1)


def fitted(x, y, strength, *, tolerance, among=None):
    some = torch.arange(len(x)) if among is None else among
    how = {"steps": 20_000, "tolerance": tolerance}
    heads = dfr.l1_logistic(x, y, some[None], classes=3, strength=[strength], **how)
    return dfr.Head(heads.weight[0], heads.bias[0])


def test_regressions_solved_together_equal_those_solved_alone():
    x, y = logistic_problem()
    subsets = torch.stack((torch.arange(40), torch.arange(20, 60)))
    both = dfr.l1_logistic(
        x, y, subsets, classes=3, strength=[0.1, 1.0], steps=20_000, tolerance=1e-12
    )
    for number, strength in enumerate((0.1, 1.0)):
        alone = fitted(x, y, strength, tolerance=1e-12, among=subsets[number])
        torch.testing.assert_close(both.weight[number], alone.weight, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(both.bias[number], alone.bias, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("strength", [0.03, 0.3, 1.0])
def test_l1_logistic_against_a_slow_solver(strength):
    """Many small plain proximal steps converge to the same solution."""
    x, y = logistic_problem()
    head = fitted(x, y, strength, tolerance=1e-12)
    weight = torch.zeros(3, 5, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    size = 1e-2 / strength
    for _ in range(6000):
        loss = strength * F.cross_entropy(x @ weight.T + bias, y, reduction="sum")
        grads = torch.autograd.grad(loss, (weight, bias))
        with torch.no_grad():
            moved = weight - size * grads[0]
            weight.copy_(moved.sign() * (moved.abs() - size).clamp(min=0))
            bias.sub_(size * grads[1])
    slow = dfr.objective(dfr.Head(weight.detach(), bias.detach()), x, y, strength=strength)
    assert dfr.objective(head, x, y, strength=strength) == pytest.approx(slow, rel=1e-7)
    torch.testing.assert_close(head.weight, weight.detach(), rtol=1e-3, atol=1e-4)


def test_l1_logistic_satisfies_the_optimality_conditions():
    x, y = logistic_problem(1)
    head = fitted(x, y, 0.3, tolerance=1e-13)
    weight, bias = head.weight.clone().requires_grad_(), head.bias.clone().requires_grad_()
    loss = 0.3 * F.cross_entropy(x @ weight.T + bias, y, reduction="sum")
    grad, grad_bias = torch.autograd.grad(loss, (weight, bias))
    on = head.weight != 0
    assert on.any()
    assert (~on).any()
    close(grad[on] + head.weight[on].sign(), torch.zeros(int(on.sum())).tolist(), atol=1e-6)
    assert (grad[~on].abs() <= 1 + 1e-6).all()
    close(grad_bias, [0.0] * 3, atol=1e-6)


def test_after_scaling_gives_the_same_outputs_for_unscaled_features():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(10, 4, generator=g) * 3 + 1
    head = dfr.Head(torch.randn(2, 4, generator=g), torch.randn(2, generator=g))
    mean, sd = x.mean(0), x.std(0)
    torch.testing.assert_close(head.after_scaling(mean, sd)(x), head((x - mean) / sd))


def test_balanced_subsets():
    groups = torch.tensor([0] * 20 + [1] * 4 + [3] * 9)
    among = torch.ones(33, dtype=torch.bool)
    among[20] = False
    some = dfr.balanced_subset(groups, among, seed=0, draw=1)
    assert groups[some].tolist() == [0] * 3 + [1] * 3 + [3] * 3
    assert 20 not in some.tolist()
    assert some.tolist() != dfr.balanced_subset(groups, among, seed=0, draw=2).tolist()


def test_refitting_ignores_the_shortcut_feature():
    """Two features predict the class: one always; the other is stronger, but only in aligned samples."""
    g = torch.Generator().manual_seed(0)
    targets = torch.randint(2, (600,), generator=g)
    conflict = torch.rand(600, generator=g) < 0.1
    side = 2.0 * targets - 1
    shortcut = torch.where(conflict, -side, side)
    features = torch.stack((side, 3 * shortcut), 1) + 0.3 * torch.randn(600, 2, generator=g)
    head, facts = dfr.refit(
        features, targets, conflict, classes=2, strengths=(1.0, 0.1), subsets=5, seed=0
    )
    assert head(features.double()).argmax(1).eq(targets).double().mean() > 0.98
    real, easy = (head.weight[1] - head.weight[0]).tolist()
    assert abs(easy) < 0.1 * real
    assert facts["strength"] in (1.0, 0.1)
    assert facts["chosen_at"] > 0.95


# The catalogue


def test_every_single_stage_method_has_settings_and_a_plan():
    for name, entry in own_stages().items():
        assert entry.stages == (name,)
        assert plans()[entry.plan_name] == (name,)
        assert isinstance(recipe_class()().table(name), entry.own_stage.settings)


def test_methods_that_share_a_plan_agree_on_its_stages():
    for entry in all_methods().values():
        assert plans()[entry.plan_name] == entry.stages


def test_methods_declare_whether_they_need_bias_labels():
    for entry in own_stages().values():
        labelled = entry.supervision == "bias labels"
        assert labelled is entry.own_stage.loss.uses_bias_labels
