"""Compare losses with the reference implementations, plain double loops and closed forms."""

import math

import pytest
import torch
import torch.nn.functional as F

from golden_values import cases, close, close_float32, floats
from unspur.training import losses


def batch(seed, size, width, classes, *, scale=1.0):
    """Return random features, targets and flags in float64."""
    generator = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(size, width, generator=generator, dtype=torch.float64)
    targets = torch.randint(classes, (size,), generator=generator)
    return x, targets, torch.rand(size, generator=generator) < 0.3


# Generalised cross entropy


@pytest.mark.parametrize(("inputs", "outputs"), cases("gce"))
def test_gce_golden(inputs, outputs):
    targets = torch.tensor(inputs["labels"])
    logits = floats(inputs["logits"]).requires_grad_()
    loss = losses.gce(logits, targets, q=inputs["q"])
    (grad,) = torch.autograd.grad(loss.mean(), logits)
    close(loss, outputs["true_gce_per_sample"])
    close(grad, outputs["true_gce_grad_logits_of_mean"])


@pytest.mark.parametrize(("inputs", "outputs"), cases("gce"))
def test_gce_released_golden(inputs, outputs):
    targets = torch.tensor(inputs["labels"])
    logits = floats(inputs["logits"]).requires_grad_()
    loss = losses.gce_released(logits, targets, q=inputs["q"])
    (grad,) = torch.autograd.grad(loss.mean(), logits)
    close(loss, outputs["per_sample"])
    close(loss.mean(), outputs["mean"])
    close(grad, outputs["grad_logits_of_mean"])


@pytest.mark.parametrize(("inputs", "outputs"), cases("gce"))
def test_gce_golden_in_float32(inputs, outputs):
    targets, logits = torch.tensor(inputs["labels"]), floats(inputs["logits"], torch.float32)
    close_float32(losses.gce(logits, targets), outputs["true_gce_per_sample"])
    close_float32(losses.gce_released(logits, targets), outputs["per_sample"])


@pytest.mark.parametrize("q", [0.3, 0.7, 1.0])
def test_gce_against_a_loop(q):
    logits, targets, _ = batch(0, 9, 5, 5)
    for i, loss in enumerate(losses.gce(logits, targets, q=q).tolist()):
        total = sum(math.exp(v) for v in logits[i].tolist())
        p = math.exp(float(logits[i, targets[i]])) / total
        assert loss == pytest.approx((1 - p**q) / q, rel=1e-12)


def test_gce_between_cross_entropy_and_absolute_error():
    logits, targets, _ = batch(1, 9, 5, 5)
    p = logits.softmax(1)[torch.arange(9), targets]
    torch.testing.assert_close(losses.gce(logits, targets, q=1.0), 1 - p)
    near_zero = losses.gce(logits, targets, q=1e-7)
    torch.testing.assert_close(near_zero, -p.log(), rtol=1e-5, atol=1e-6)


def test_gce_released_has_q_times_the_true_gradient():
    logits, targets, _ = batch(2, 9, 5, 5)
    logits.requires_grad_()
    (true,) = torch.autograd.grad(losses.gce(logits, targets, q=0.7).sum(), logits)
    (released,) = torch.autograd.grad(losses.gce_released(logits, targets, q=0.7).sum(), logits)
    torch.testing.assert_close(released, 0.7 * true)


@pytest.mark.parametrize("loss", [losses.gce, losses.gce_released])
def test_gce_of_a_hopeless_sample_has_no_gradient(loss):
    """p underflows to 0 in float32 here; p^q times the cross entropy's gradient is still 0."""
    logits = torch.tensor([[200.0, 0.0], [0.5, 0.0]], requires_grad=True)
    (grad,) = torch.autograd.grad(loss(logits, torch.tensor([1, 1])).sum(), logits)
    assert grad[0].tolist() == [0.0, 0.0]
    assert grad[1].abs().min() > 0


def test_half_precision_is_converted_to_float32():
    logits, targets, _ = batch(3, 6, 4, 4)
    for loss in (losses.cross_entropy, losses.gce, losses.gce_released):
        half = loss(logits.bfloat16(), targets)
        assert half.dtype == torch.float32
        torch.testing.assert_close(half, loss(logits.bfloat16().float(), targets))


# The epoch-ensemble miner's loss


@pytest.mark.parametrize(("inputs", "outputs"), cases("ecs_scores"))
def test_confident_cross_entropy_golden(inputs, outputs):
    for given, expected in zip(inputs["batches"], outputs["batches"], strict=True):
        logits = floats(given["logits"]).requires_grad_()
        targets = torch.tensor(given["labels"])
        loss = losses.confident_cross_entropy(logits, targets, eta=inputs["eta"])
        (grad,) = torch.autograd.grad(loss, logits)
        # The reference gives NaN if no sample is selected; ours is 0, with a zero gradient.
        close(loss, 0.0 if expected["loss"] is None else expected["loss"])
        close(grad, expected["grad_logits"])
        picked = [any(row) for row in grad.tolist()]
        assert picked == [bool(flag) for flag in expected["selected"]]


def test_confident_cross_entropy_uses_samples_above_eta():
    p = torch.tensor([0.04, 0.049, 0.051, 0.06, 0.9], dtype=torch.float64)
    logits = torch.stack([p, 1 - p], dim=1).log()
    loss = losses.confident_cross_entropy(logits, torch.zeros(5, dtype=torch.long), eta=0.05)
    assert loss.item() == pytest.approx(-float(p[2:].log().mean()), rel=1e-12)


def test_confident_cross_entropy_of_no_confident_sample_is_zero():
    logits = torch.tensor([[9.0, 0.0]] * 3, requires_grad=True)
    loss = losses.confident_cross_entropy(logits, torch.tensor([1, 1, 1]), eta=0.05)
    (grad,) = torch.autograd.grad(loss, logits)
    assert loss.item() == 0
    assert grad.abs().max() == 0


# Group cross entropy and masked mean


def test_group_cross_entropy_against_a_loop():
    values, _, conflict = batch(4, 20, 1, 2)
    values = values.squeeze(1)
    bc = [v for v, c in zip(values.tolist(), conflict.tolist(), strict=True) if c]
    ba = [v for v, c in zip(values.tolist(), conflict.tolist(), strict=True) if not c]
    expected = 80 * sum(bc) / len(bc) + sum(ba) / len(ba)
    assert losses.group_cross_entropy(values, conflict, up=80).item() == pytest.approx(expected)


@pytest.mark.parametrize(("flag", "factor"), [(True, 30.0), (False, 1.0)])
def test_group_cross_entropy_with_one_group_only(flag, factor):
    values = torch.tensor([1.0, 2.0, 6.0])
    loss = losses.group_cross_entropy(values, torch.full((3,), flag), up=30.0)
    assert loss.item() == pytest.approx(factor * 3.0)


def test_masked_mean_ignores_other_entries():
    values = torch.tensor([1.0, math.nan, 5.0, math.inf], requires_grad=True)
    mean = losses.masked_mean(values, torch.tensor([True, False, True, False]))
    mean.backward()
    assert mean.item() == 3.0
    assert values.grad.tolist() == [0.5, 0.0, 0.5, 0.0]
    assert losses.masked_mean(values, torch.zeros(4, dtype=torch.bool)).item() == 0


# Contrast and alignment


def slow_contrast(features, positive, temperature):
    """Return the loss of each anchor by its formula: a loop over anchors, positives and the denominator."""
    z, size = features.tolist(), len(features)
    dot = [
        [sum(a * b for a, b in zip(z[i], z[j], strict=True)) for j in range(size)]
        for i in range(size)
    ]
    anchors = []
    for i in range(size):
        others = [j for j in range(size) if j != i]
        pulled = [j for j in others if positive(i, j)]
        if not pulled:
            anchors.append(None)
            continue
        norm = math.log(sum(math.exp(dot[i][a] / temperature) for a in others))
        anchors.append(-sum(dot[i][j] / temperature - norm for j in pulled) / len(pulled))
    return anchors


@pytest.mark.parametrize(("inputs", "outputs"), cases("supcon"))
def test_contrast_golden_supcon(inputs, outputs):
    raw = floats(inputs["features_raw"]).requires_grad_()
    targets = torch.tensor(inputs["labels"])
    features = F.normalize(raw, dim=1)
    each, has = losses.contrast(
        features, targets[:, None] == targets, temperature=inputs["temperature"]
    )
    # SupCon counts an anchor without a positive as 0; `alignment` leaves it out of the mean.
    loss = each.mean()
    grad, grad_raw = torch.autograd.grad(loss, (features, raw))
    close(loss, outputs["loss"])
    close(grad, outputs["grad_features"])
    close(grad_raw, outputs["grad_features_raw"])
    alone = [inputs["labels"].count(label) == 1 for label in inputs["labels"]]
    assert has.tolist() == [not a for a in alone]
    assert each[~has].abs().sum() == 0


def test_contrast_against_a_loop():
    raw, _, _ = batch(5, 11, 4, 3)
    features = F.normalize(raw, dim=1)
    generator = torch.Generator().manual_seed(6)
    positive = torch.rand(11, 11, generator=generator) < 0.3
    positive[4] = False
    each, has = losses.contrast(features, positive, temperature=0.2)
    slow = slow_contrast(features, lambda i, j: bool(positive[i, j]), 0.2)
    assert has.tolist() == [value is not None for value in slow]
    assert not has[4]
    close(each, [0.0 if value is None else value for value in slow])


def golden_flags(inputs):
    return torch.tensor(inputs["labels"]), torch.tensor(inputs["conflict"], dtype=torch.bool)


@pytest.mark.parametrize(("inputs", "outputs"), cases("dcwp_alignment_released"))
def test_alignment_golden_column(inputs, outputs):
    raw = floats(inputs["features_raw"]).requires_grad_()
    loss = losses.alignment(
        raw, *golden_flags(inputs), temperature=inputs["temperature"], positives="column"
    )
    (grad,) = torch.autograd.grad(loss, raw)
    # The reference gives NaN if no anchor has a positive; ours is 0.
    close(loss, 0.0 if outputs["loss"] is None else outputs["loss"])
    close(grad, outputs["grad_features_raw"])


@pytest.mark.parametrize(("inputs", "outputs"), cases("dcwp_alignment_released"))
def test_alignment_golden_either(inputs, outputs):
    raw = floats(inputs["features_raw"]).requires_grad_()
    loss = losses.alignment(
        raw, *golden_flags(inputs), temperature=inputs["temperature"], positives="either"
    )
    (grad,) = torch.autograd.grad(loss, raw)
    close(loss, 0.0 if outputs["either_loss"] is None else outputs["either_loss"])
    # The golden gradient is with respect to the normalised features: apply the normalisation's Jacobian.
    z, g = floats(inputs["features"]), floats(outputs["either_grad_features"])
    length = floats(inputs["features_raw"]).norm(dim=1, keepdim=True)
    close(grad, ((g - (g * z).sum(1, keepdim=True) * z) / length).tolist(), atol=1e-11)


@pytest.mark.parametrize(("inputs", "outputs"), cases("dcwp_alignment_released"))
def test_alignment_golden_positives(inputs, outputs):
    targets, conflict = golden_flags(inputs)
    features = floats(inputs["features"]).requires_grad_()
    positive = (targets[:, None] == targets) & conflict[None]
    each, has = losses.contrast(features, positive, temperature=inputs["temperature"])
    (grad,) = torch.autograd.grad(losses.masked_mean(each, has), features)
    assert has.tolist() == [count > 0 for count in outputs["positives_per_anchor"]]
    close(grad, outputs["grad_features"])


@pytest.mark.parametrize(("inputs", "outputs"), cases("dcwp_alignment_released")[:2])
def test_alignment_golden_in_float32(inputs, outputs):
    raw = floats(inputs["features_raw"], torch.float32).requires_grad_()
    loss = losses.alignment(raw, *golden_flags(inputs), positives="column")
    (grad,) = torch.autograd.grad(loss, raw)
    close_float32(loss, outputs["loss"])
    close_float32(grad, outputs["grad_features_raw"])


def slow_alignment_of_text(raw, targets, conflict, temperature):
    """Return ℓ_con(S_bc, S) + ℓ_con(S_ba, S_bc) by its formula: a loop over the anchors of both terms."""
    z, y, c = F.normalize(raw, dim=1).tolist(), targets.tolist(), conflict.tolist()
    everyone = range(len(y))
    terms = (
        ([i for i in everyone if c[i]], everyone),
        ([i for i in everyone if not c[i]], [i for i in everyone if c[i]]),
    )

    def similarity(i, j):
        return sum(a * b for a, b in zip(z[i], z[j], strict=True)) / temperature

    total = 0.0
    for anchors, candidates in terms:
        for i in anchors:
            pulled = [j for j in candidates if j != i and y[j] == y[i]]
            others = [a for a in anchors if a != i]
            if pulled and others:
                norm = math.log(sum(math.exp(similarity(i, a)) for a in others))
                total -= sum(similarity(i, j) - norm for j in pulled) / len(pulled)
    return total


@pytest.mark.parametrize("seed", range(6))
def test_alignment_of_the_text_against_a_loop(seed):
    raw, targets, conflict = batch(seed, 13, 5, 3)
    loss = losses.alignment(raw, targets, conflict, temperature=0.2, positives="text")
    close(loss, slow_alignment_of_text(raw, targets, conflict, 0.2))


@pytest.mark.parametrize("flags", [[True] + [False] * 5, [False] * 6, [True] * 6])
def test_alignment_of_the_text_is_finite_without_others(flags):
    """A single conflicting sample has no denominator; without suspects the loss is 0."""
    raw, targets, _ = batch(1, 6, 5, 2)
    raw.requires_grad_()
    conflict = torch.tensor(flags)
    loss = losses.alignment(raw, targets, conflict, positives="text")
    (grad,) = torch.autograd.grad(loss, raw)
    assert bool(grad.isfinite().all())
    close(loss, slow_alignment_of_text(raw.detach(), targets, conflict, 0.07))


@pytest.mark.parametrize("positives", ["either", "column"])
@pytest.mark.parametrize("seed", range(4))
def test_alignment_against_a_loop(seed, positives):
    raw, targets, conflict = batch(seed, 13, 5, 3)
    y, c = targets.tolist(), conflict.tolist()

    def pulls(i, j):
        return y[i] == y[j] and (c[j] or (positives == "either" and c[i]))

    found = slow_contrast(F.normalize(raw, dim=1), pulls, 0.07)
    found = [value for value in found if value is not None]
    assert found, "the batch has no positive pair"
    loss = losses.alignment(raw, targets, conflict, positives=positives)
    close(loss, sum(found) / len(found))


def test_the_gradient_of_alignment_agrees_with_finite_differences():
    raw, targets, conflict = batch(7, 8, 3, 2)
    raw.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: losses.alignment(x, targets, conflict), (raw,))


@pytest.mark.parametrize("positives", ["either", "column"])
def test_alignment_of_identical_features_is_the_log_of_the_others(positives):
    features = torch.ones(6, 4, dtype=torch.float64)
    targets = torch.tensor([0, 0, 0, 1, 1, 1])
    conflict = torch.tensor([True, False, False, True, False, False])
    loss = losses.alignment(features, targets, conflict, positives=positives)
    assert loss.item() == pytest.approx(math.log(5), rel=1e-12)


@pytest.mark.parametrize("size", [1, 2])
def test_alignment_without_a_pair_is_zero_with_a_zero_gradient(size):
    features = torch.randn(size, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss = losses.alignment(features, torch.arange(size), torch.ones(size, dtype=torch.bool))
    loss.backward()
    assert loss.item() == 0
    assert features.grad.tolist() == torch.zeros(size, 3).tolist()


def test_alignment_of_two_of_a_class_is_zero():
    """The denominator consists of the one other sample."""
    raw, _, _ = batch(8, 2, 3, 1)
    loss = losses.alignment(raw, torch.tensor([4, 4]), torch.tensor([True, False]))
    assert loss.item() == pytest.approx(0, abs=1e-12)


def test_alignment_is_finite_for_a_feature_of_zeros():
    features = torch.zeros(4, 3).index_fill(0, torch.tensor([0, 2]), 1.0).requires_grad_()
    loss = losses.alignment(features, torch.zeros(4, dtype=torch.long), torch.tensor([True] * 4))
    loss.backward()
    assert loss.isfinite()
    assert features.grad.isfinite().all()


# Sparsity


def test_sparsity_against_a_loop():
    logits = [torch.tensor([[1.5, -2.0], [0.0, 3.0]]), torch.tensor([-0.5])]
    flat = [1.5, -2.0, 0.0, 3.0, -0.5]
    expected = {
        "sum": sum(flat),
        "absolute": sum(abs(t) for t in flat),
        "probability": sum(1 / (1 + math.exp(-t)) for t in flat),
    }
    assert losses.sparsity(logits).item() == pytest.approx(expected["sum"])
    for kind, value in expected.items():
        assert losses.sparsity(iter(logits), kind=kind).item() == pytest.approx(value)


def test_sparsity_pushes_every_logit_down():
    logits = torch.tensor([2.0, -3.0], requires_grad=True)
    (grad,) = torch.autograd.grad(losses.sparsity([logits]), logits)
    assert grad.tolist() == [1.0, 1.0]
    (grad,) = torch.autograd.grad(losses.sparsity([logits], kind="absolute"), logits)
    assert grad.tolist() == [1.0, -1.0]
