"""Compare the appendix simulation with training in torch, and learned masks with closed forms."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from unspur.theory import pruning, simulation
from unspur.theory.environments import agreement, fair, φ_limit
from unspur.theory.error_rates import exact_error
from unspur.theory.simulation import Rule


def train_alone(p, seed, rule, *, d, samples, epochs, batch):
    """Train one classifier in torch: a linear layer without bias, labels 0 and 1, BCE, torch's optimiser."""
    agrees = torch.from_numpy(
        np.where(simulation.uniforms(seed, samples, d) < p, 1.0, -1.0)
    ).float()
    y = torch.where(
        torch.arange(samples) % 2 == 0, 1.0, -1.0
    )  # any labels: the loss depends on Y·X only
    x = torch.cat([y[:, None], y[:, None] * agrees], dim=1)
    layer = torch.nn.Linear(d + 1, 1, bias=False)
    layer.weight.data = torch.from_numpy(simulation.starting_weights(seed, d))[None].clone()
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[rule.name]
    optimiser = kind(layer.parameters(), lr=rule.rate)
    for order in simulation.orders(epochs, samples):
        for part in torch.from_numpy(order).split(batch):
            optimiser.zero_grad()
            F.binary_cross_entropy_with_logits(layer(x[part])[:, 0], (y[part] + 1) / 2).backward()
            optimiser.step()
    return layer.weight.detach()[0].numpy()


# Training


def test_training_together_equals_training_alone():
    rules, ps, seeds = (Rule("sgd", 0.1), Rule("adam", 1e-2)), (0.6, 0.95), (0, 3)
    how = {"d": 4, "samples": 300, "epochs": 5, "batch": 64}
    whole = simulation.train(ps, seeds=seeds, rules=rules, **how)
    assert whole.shape == (2, 2, 2, 5)
    for (k, rule), (i, p), (j, seed) in itertools.product(
        enumerate(rules), enumerate(ps), enumerate(seeds)
    ):
        alone = train_alone(p, seed, rule, **how)
        np.testing.assert_allclose(whole[k, i, j], alone, rtol=1e-4, atol=1e-5)


def test_a_problem_does_not_depend_on_the_others():
    how = {"d": 3, "samples": 200, "epochs": 3, "batch": 50}
    whole = simulation.train((0.6, 0.9), seeds=(0, 1, 2), **how)
    part = simulation.train((0.9,), seeds=(2,), rules=(Rule("adam", 1e-3),), **how)
    np.testing.assert_allclose(part[0, 0, 0], whole[1, 1, 2], rtol=1e-5)


def test_training_twice_gives_the_same_bits():
    how = {"seeds": (0, 1), "d": 3, "samples": 100, "epochs": 2, "batch": 64}
    assert (simulation.train((0.7,), **how) == simulation.train((0.7,), **how)).all()


def test_training_keeps_the_number_of_threads():
    before = torch.get_num_threads()
    seen = []
    simulation.train(
        (0.7,), seeds=(0,), d=2, samples=20, epochs=3, batch=8,
        progress=lambda epoch, epochs: seen.append((epoch, epochs, torch.get_num_threads())),
    )  # fmt: skip
    assert seen == [(1, 3, 1), (2, 3, 1), (3, 3, 1)]
    assert torch.get_num_threads() == before


def test_starting_weights_are_distributed_as_in_a_linear_layer():
    drawn = np.stack([simulation.starting_weights(seed, 15) for seed in range(200)])
    assert np.abs(drawn).max() <= 0.25
    assert drawn.std() == pytest.approx(0.25 / math.sqrt(3), rel=0.03)
    assert (drawn < 0).mean() == pytest.approx(0.5, abs=0.03)


def test_the_paper_figure():
    """The mean of an independent run with three seeds is within three standard errors of ours."""
    known = {  # p: ratio and accuracy with SGD 0.1, ratio with Adam 1e-3
        0.6: (0.035, 1.00, 0.07),
        0.7: (0.09, 1.00, 0.20),
        0.8: (0.26, 0.85, 0.50),
        0.9: (0.57, 0.69, 0.75),
        0.95: (0.74, 0.64, 0.83),
        0.99: (0.86, 0.615, 0.86),
    }
    seeds = tuple(range(6))
    weights = simulation.train(tuple(known), seeds=seeds)
    ratio, accuracy = simulation.weight_ratio(weights), simulation.accuracy(weights)
    apart = 3 * math.sqrt(1 / 3 + 1 / len(seeds))
    for i, (sgd, right, adam) in enumerate(known.values()):
        for ours, theirs in ((ratio[0, i], sgd), (accuracy[0, i], right), (ratio[1, i], adam)):
            assert abs(ours.mean() - theirs) < apart * ours.std(ddof=1) + 0.006
    for k in (0, 1):
        assert (np.diff(ratio[k].mean(axis=1)) > 0).all()
        assert (np.diff(accuracy[k].mean(axis=1)) < 1e-3).all()


def test_weight_ratio_and_accuracy_against_loops():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(2, 3, 6))
    weights[0, 0] = [1.0, 0.5, 0.5, 0.5, 0.5, 0.0]  # ties
    ratio, accuracy = simulation.weight_ratio(weights), simulation.accuracy(weights)
    biased = simulation.accuracy(weights, 0.8)
    for i, j in itertools.product(range(2), range(3)):
        w = weights[i, j]
        assert ratio[i, j] == pytest.approx(sum(w[1:]) / 5 / w[0])
        for agree, value in ((0.5, accuracy[i, j]), (0.8, biased[i, j])):
            right = 0.0
            for bits in itertools.product((-1, 1), repeat=5):
                output = w[0] + sum(a * b for a, b in zip(w[1:], bits, strict=True))
                chance = math.prod(agree if bit == 1 else 1 - agree for bit in bits)
                right += chance * (0.5 if abs(output) < 1e-9 else output > 0)
            assert value == pytest.approx(right)


def test_accuracy_is_one_minus_the_exact_error():
    w = np.random.default_rng(1).normal(size=16)
    assert simulation.accuracy(w) == pytest.approx(1 - exact_error(w, np.ones(16), fair()).loss)


# Learned masks


def expected(loss, w, π, q):
    """Return E loss(O) over every mask and input, with π and w as plain lists."""
    total = 0.0
    choices = [((0.0, 1 - π[0]), (w[0], π[0]))]
    for weight, keep in zip(w[1:], π[1:], strict=True):
        choices.append(((0.0, 1 - keep), (weight, keep * q), (-weight, keep * (1 - q))))
    for terms in itertools.product(*choices):
        total += math.prod(chance for _, chance in terms) * loss(sum(value for value, _ in terms))
    return total


LOSSES = {
    "exponential": lambda o: math.exp(-o),
    "logistic": lambda o: math.log1p(math.exp(-o)),
    "error": lambda o: 0.5 if abs(o) < 1e-9 else float(o < 0),
}


def slope(f, π, j):
    """Return df/dπ_j by finite differences; exact for functions that are linear in each π."""
    up, down = list(π), list(π)
    up[j], down[j] = π[j] + 1e-4, π[j] - 1e-4
    return (f(up) - f(down)) / 2e-4


def gradient(objective, w, π, q, batch=1):
    w, π = np.array(w), np.array(π)
    return pruning._GRADIENTS[objective](w, π, np.array([q]), np.random.default_rng(0), batch)


def test_exact_gradients_against_differences():
    w, π, q = [0.9, 0.5, -0.3, 0.7], [0.6, 0.2, 0.8, 0.5], 0.7

    def log_bound(π):
        mean = π[0] + (2 * q - 1) * sum(a / w[0] * k for a, k in zip(w[1:], π[1:], strict=True))
        return -2 * mean**2 / (4 * sum((a / w[0]) ** 2 for a in w[1:]) + 1)

    def log_exponential(π):
        return math.log(expected(LOSSES["exponential"], w, π, q))

    for objective, f in (("bound", log_bound), ("exponential", log_exponential)):
        plain = [slope(f, π, j) for j in range(4)]
        np.testing.assert_allclose(gradient(objective, w, π, q), plain, atol=1e-7)


@pytest.mark.parametrize("objective", ["logistic", "error"])
def test_sampled_gradients_are_unbiased(objective):
    w, π, q = [1.0, 0.5, 0.5, 0.7], [0.6, 0.2, 0.8, 0.5], 0.7
    drawn = gradient(objective, w, π, q, batch=200_000)
    for j in range(4):
        plain = slope(lambda π: expected(LOSSES[objective], w, π, q), π, j)
        assert drawn[j] == pytest.approx(plain, abs=0.005)


def test_the_exponential_loss_keeps_a_weight_up_to_its_critical_φ():
    p, w = 0.9, np.array([1.5, 0.2, 0.6, 1.0, 1.4])
    critical = pruning.critical_φ(w[1:], p)
    for weight, φ in zip(w[1:], critical, strict=True):
        q = (1 - φ) * p
        assert weight == pytest.approx(math.log(q / (1 - q)))
    φ = np.linspace(0, float(φ_limit(p)), 23)
    π = pruning.learn(w, agreement(p, φ), objective="exponential", steps=4000, rate=1.0, sparsity=0)
    assert π.shape == (23, 5)
    clear = np.abs(φ[:, None] - critical) > 0.01
    np.testing.assert_allclose(π[:, 1:][clear], (φ[:, None] < critical)[clear].astype(float))
    assert (π[:, 0] == 1).all()


def test_larger_spurious_weights_are_removed_earlier_and_all_before_the_limit():
    critical = pruning.critical_φ(np.linspace(0.01, 3, 20), 0.9)
    assert (np.diff(critical) < 0).all()
    assert (critical < φ_limit(0.9)).all()
    assert pruning.critical_φ(0.0, 0.9) == pytest.approx(float(φ_limit(0.9)))
    assert (
        pruning.critical_φ(math.log(9) / 2, 0.9) > 0
    )  # a weight at the limit of the flow is kept at φ = 0


@pytest.mark.parametrize("objective", ["bound", "exponential", "logistic"])
def test_spurious_weights_are_kept_on_biased_and_removed_on_fair_data(objective):
    """Learned masks keep spurious weights on biased data and remove them if the bits are fair coins."""
    w = np.array([[1.2, *[0.7] * 8], [1.0, *[0.5] * 8]])
    agree = agreement(0.9, np.array([0.0, float(φ_limit(0.9))]))
    π = pruning.learn(w, agree, objective=objective, steps=1000, rate=1.0, batch=64)
    assert π.shape == (2, 2, 9)
    assert π[0, :, 1:].mean() > 0.9
    assert π[1, :, 1:].mean() < 0.1
    assert (π[..., 0] > 0.95).all()
    pruned = simulation.accuracy(w * (π[1] > 0.5))
    assert (pruned == 1).all()
    assert (simulation.accuracy(w) < 0.8).all()


def test_a_weight_without_influence_is_removed_by_sparsity():
    π = pruning.learn([1.0, 0.0], 0.9, objective="exponential", steps=900, rate=1.0, sparsity=1e-3)
    assert π.tolist() == [1.0, 0.0]
    kept = pruning.learn([1.0, 0.0], 0.9, objective="exponential", steps=900, rate=1.0, sparsity=0)
    assert kept.tolist() == [1.0, 0.8]


def test_learning_depends_only_on_its_generator():
    runs = [
        pruning.learn([1.0, 0.5], 0.6, steps=5, rng=np.random.default_rng(seed))
        for seed in (1, 1, 2)
    ]
    assert (runs[0] == runs[1]).all()
    assert (runs[0] != runs[2]).any()


# Wrong parameters


def test_wrong_parameters_of_training():
    for p in (0.5, 1.2):
        with pytest.raises(ValueError, match="p must be above"):
            simulation.train((0.9, p))
    for name, label in (
        ("d", "D"),
        ("samples", "samples"),
        ("epochs", "epochs"),
        ("batch", "batch"),
    ):
        with pytest.raises(ValueError, match=f"{label} must be .* not -1"):
            simulation.train((0.9,), **{name: -1})
    for empty in ({"p": ()}, {"p": (0.9,), "seeds": ()}, {"p": (0.9,), "rules": ()}):
        with pytest.raises(ValueError, match="at least one"):
            simulation.train(**empty)
    with pytest.raises(ValueError, match="a rule is 'sgd' or 'adam', not 'lion'"):
        Rule("lion", 0.1)
    with pytest.raises(ValueError, match="rate must be a positive number"):
        Rule("sgd", 0.0)
    with pytest.raises(ValueError, match="with D from 1 to 20"):
        simulation.accuracy([1.0])


def test_wrong_parameters_of_learning():
    with pytest.raises(ValueError, match="objective must be one of"):
        pruning.learn([1, 1], 0.9, objective="hinge")
    with pytest.raises(ValueError, match="the bound needs w_inv > 0"):
        pruning.learn([-1, 1], 0.9, objective="bound")
    with pytest.raises(ValueError, match="agree must be between 0 and 1"):
        pruning.learn([1, 1], 1.9)
    with pytest.raises(ValueError, match="D of 1 or more"):
        pruning.learn([1], 0.9)
    for name, value in (("steps", 0), ("rate", -1.0), ("batch", 0), ("start", 1.2)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            pruning.learn([1, 1], 0.9, **{name: value})
    with pytest.raises(ValueError, match="p must be above"):
        pruning.critical_φ(0.5, 0.4)
