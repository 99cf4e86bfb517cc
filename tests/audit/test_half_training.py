"""The samples that the networks of an audit are trained on."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from audits import context, tinted
from unspur.audit.audit_networks import MINER, find
from unspur.audit.crossfit import CrossFit
from unspur.audit.half_training import HalfTraining
from unspur.store import Store


def crossfit_with_suspects(folder, suspects):
    """Return a crossfit whose miners get some samples wrong, without any training."""
    crossfit = CrossFit(context(Store(folder), tinted("shortcut")))
    wrong = torch.zeros(len(crossfit.targets), dtype=torch.bool)
    wrong[suspects] = True
    predicted = torch.where(wrong, 1 - crossfit.targets, crossfit.targets)
    for half in (0, 1):
        unseen = crossfit.half_of != half
        tensors = {"predicted": predicted[unseen], "score": wrong[unseen].float()}
        crossfit.artifacts[MINER, half] = SimpleNamespace(tensors=tensors)
    return crossfit, wrong


@pytest.mark.parametrize(("precision", "wanted"), [("fp32", True), ("bf16", False)])
def test_predictions_have_the_precision_and_the_operations_of_the_training(
    tmp_path, precision, wanted
):
    """They decide who is a suspect, so they must not depend on torch's settings in the process."""
    crossfit, _ = crossfit_with_suspects(tmp_path, slice(0, 600, 20))
    recipe = crossfit.context.recipe
    recipe = recipe.model_copy(update={"precision": precision, "deterministic": wanted})
    training = HalfTraining(
        replace(crossfit, context=replace(crossfit.context, recipe=recipe)), find(MINER), 0
    )
    method, used = training._method(), set()

    def predict(x):
        allowed = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        used.add((*allowed, torch.are_deterministic_algorithms_enabled()))
        return method.model(x)

    method.predict = predict
    assert "predicted" in training.ask(method)
    assert used == {(not wanted, not wanted, wanted)}


@pytest.mark.parametrize("name", ["taught", "matched"])
def test_half_of_the_draws_are_of_oversampled_samples_of_this_half(tmp_path, name):
    """As docs/audit.md says; with a third, the thresholds would have to be chosen again."""
    crossfit, wrong = crossfit_with_suspects(tmp_path, slice(0, 600, 20))
    training = HalfTraining(crossfit, find(name), 0)
    drawn = training._order(seed=1).draw(0, 400).flatten()
    assert (crossfit.half_of[drawn] == 0).all()
    oversampled = wrong if name == "taught" else crossfit.matched
    assert float(oversampled[drawn].double().mean()) == pytest.approx(0.52, abs=0.02)
