"""The contract of a method, as checks that raise AssertionError; `check_method` runs all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..data.batches import Batch, Preprocess, Source
from ..data.splits import Splits
from ..data.streaming import Streaming
from ..methods import ERM, MethodEntry
from ..training import sampling
from ..training.fit_options import FitOptions, Optimiser
from ..training.inputs import Training
from ..training.loop import fit
from ..training.loop_state import Loop
from ..training.method import Method, MethodInputs
from ..training.prediction import predict
from .tiny import (
    NETWORKS,
    MemoryCheckpointer,
    NoSync,
    TinyInputs,
    WideNet,
    resident,
    same,
    shapes_set,
)

SAMPLES, BATCH = 240, 32
OPTIONS = FitOptions(steps=6, optimiser=Optimiser(rate=1e-2), log_every=3, checkpoint_every=3)


@dataclass(frozen=True)
class Subject:
    """A method to check: its name, how to build it around a network, whether it may use bias labels.

    `pretrained` methods start from a trained network, as those that learn masks do.
    """

    name: str
    build: Callable[[nn.Module, MethodInputs], Method]
    uses_bias_labels: bool = False
    pretrained: bool = False

    def make(self, network: str = "tiny", seed: int = 0) -> Method:
        """Build the method around a fresh network."""
        torch.manual_seed(seed)
        inputs = TinyInputs(shapes_set(), NETWORKS[network])
        return self.build(NETWORKS[network](), inputs)

    def labels(self) -> Tensor | None:
        """Return the bias labels, for a method that declares that it uses them."""
        return shapes_set().bias["train"] if self.uses_bias_labels else None

    def train(
        self,
        method: Method,
        options: FitOptions = OPTIONS,
        *,
        bias: Tensor | None = None,
        checkpointer: MemoryCheckpointer | None = None,
        source: Source | None = None,
    ) -> Method:
        """Train for a few steps on oversampled, augmented batches."""
        splits = shapes_set()
        conflict = splits.conflicting("train")
        assert conflict is not None
        bias = self.labels() if bias is None else bias
        source = source or resident(splits, augment="crop-flip", seed=3, bias=bias)
        order = sampling.Weighted(1 + 4 * conflict.double(), batch=BATCH, seed=5)
        fit(method, source, order, options, checkpointer=checkpointer)
        return method


def subject_of(entry: MethodEntry) -> Subject:
    """Return the subject of the checks for a method of the catalogue, with its default settings."""
    own = entry.own_stage
    if own is None:
        raise ValueError(
            f"{entry.name} has no own stage that could be checked. Check the stages of its plan."
        )
    settings = own.settings()
    return Subject(
        entry.name,
        lambda model, inputs: own.build(model, inputs, settings),
        own.loss.uses_bias_labels,
    )


def check_method(entry: MethodEntry) -> None:
    """Raise AssertionError unless a method passes every check; the message names the check."""
    own = entry.own_stage
    assert own is not None, f"{entry.name}: own_stage is not set, so there is nothing to train."
    assert entry.stages == (entry.name,), f"{entry.name}: its plan must be only its own stage."
    declares_labels = entry.supervision == "bias labels"
    assert declares_labels is own.loss.uses_bias_labels, (
        f"{entry.name}: `supervision` contradicts `uses_bias_labels` of its loss."
    )
    subject = subject_of(entry)
    for name, check in CHECKS.items():
        try:
            check(subject)
        except AssertionError as error:
            raise AssertionError(f"{entry.name} fails a check: {name}. {error}") from error


def tiny_batch(conflict: Tensor | None = None, size: int = BATCH) -> Batch:
    """Return the first samples as a batch, with labels, flags and bias labels."""
    splits = shapes_set()
    found = resident(splits).batch(torch.arange(size), torch.tensor(0))
    flags = found.conflict if conflict is None else conflict
    return replace(found, conflict=flags, bias=splits.bias["train"][:size])


def trains_any_network(subject: Subject) -> None:
    """Check that training changes the parameters of every player, for every network."""
    for network in NETWORKS:
        method, start = subject.make(network), subject.make(network)
        subject.train(method, replace(OPTIONS, steps=2))
        for player, before in zip(method.players(), start.players(), strict=True):
            pairs = zip(player.parameters, before.parameters, strict=True)
            assert not all(torch.equal(a, b) for a, b in pairs), (
                f"{network}: no parameter of {player.name} changes"
            )


def players_step_distinct_parameters(subject: Subject) -> None:
    """Check that every parameter has at most one player, and that the names of players differ."""
    method = subject.make()
    known = {id(p) for p in method.parameters()}
    stepped = [id(p) for player in method.players() for p in player.parameters]
    assert stepped, "no player has parameters"
    assert len(stepped) == len(set(stepped)), "a parameter belongs to two players"
    assert set(stepped) <= known, "a player has a parameter that does not belong to the method"
    names = [player.name for player in method.players()]
    assert len(names) == len(set(names)), "two players have the same name"


def losses_are_finite_and_reach_every_player(subject: Subject) -> None:
    """Check that losses are named, finite scalars with a gradient for each player."""
    for network in NETWORKS:
        method = subject.make(network).train()
        for player in method.players():
            losses = method(tiny_batch(), player.name)
            assert losses, "the method returns no losses"
            assert "loss" not in losses, "`loss` is reserved for the sum of the losses"
            assert all(isinstance(key, str) and loss.shape == () for key, loss in losses.items())
            gradients = _gradients(losses, player.parameters)
            assert any(g.abs().max() > 0 for g in gradients), f"no gradient for {player.name}"


def losses_are_finite_in_unusual_batches(subject: Subject) -> None:
    """Check batches of one sample, of suspects only, and of no suspects."""
    for flag in (False, True):
        for size in (1, BATCH):
            method = subject.make().train()
            for player in method.players():
                losses = method(tiny_batch(torch.full((size,), flag), size), player.name)
                _gradients(losses, player.parameters)


def _gradients(losses: dict[str, Tensor], parameters: tuple[nn.Parameter, ...]) -> list[Tensor]:
    """Return the gradients of the sum of losses, and check that all of them are finite."""
    total = torch.stack(list(losses.values())).sum()
    assert torch.isfinite(total), f"the losses are not finite: {losses}"
    found = torch.autograd.grad(total, parameters, allow_unused=True)
    gradients = [g for g in found if g is not None]
    assert all(torch.isfinite(g).all() for g in gradients), "a gradient is not finite"
    return gradients


def a_step_does_not_synchronise(subject: Subject) -> None:
    """Check that no operation of a step synchronises with the device."""
    order = sampling.Passes(torch.arange(SAMPLES), batch=BATCH, seed=5)
    source = resident(shapes_set(), augment="crop-flip", bias=subject.labels())
    loop = Loop(Training(subject.make(), source, order, OPTIONS))
    with NoSync() as mode:
        loop.advance(torch.arange(BATCH))
        loop.advance(torch.arange(BATCH))
    assert mode.seen


def state_holds_all_that_training_changes(subject: Subject) -> None:
    """Check that six steps equal three steps, a checkpoint and three more steps of a new method."""
    whole, checkpoints = subject.train(subject.make()), MemoryCheckpointer()
    subject.train(subject.make(), replace(OPTIONS, steps=4), checkpointer=checkpoints)
    assert checkpoints.saved is not None
    assert checkpoints.saved[1]["step"] == 3
    resumed = subject.make(seed=1)
    assert not same(resumed.state_dict(), whole.state_dict())
    subject.train(resumed, checkpointer=checkpoints)
    assert same(resumed.state_dict(), whole.state_dict()), "a resumed run differs"


def state_loads_into_a_new_method(subject: Subject) -> None:
    """Check that a new method with the state of a trained one predicts the same."""
    method, fresh = subject.train(subject.make()), subject.make(seed=1)
    fresh.load_state_dict(method.state_dict())
    splits = shapes_set()
    x = resident(splits).preprocess(splits.train.take(torch.arange(16)))
    assert torch.equal(fresh.eval().predict(x), method.eval().predict(x))


def predicting_changes_nothing(subject: Subject) -> None:
    """Check the shape of the logits, and that prediction does not change the state."""
    method = subject.train(subject.make()).eval()
    before = {k: v.clone() for k, v in method.state_dict().items()}
    logits = predict(method.predict, resident(shapes_set()).plain())
    assert logits.shape == (SAMPLES, 2), "there must be one logit per class"
    assert torch.isfinite(logits).all()
    assert same(method.state_dict(), before), "predicting changed the method's state"


def bias_labels_matter_only_if_declared(subject: Subject) -> None:
    """Check that permuted bias labels change the result if and only if the method declares to use them."""
    labels = shapes_set().bias["train"]
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(0))
    first, second = (
        subject.train(subject.make(), bias=b).state_dict() for b in (labels, labels[order])
    )
    assert same(first, second) is not subject.uses_bias_labels, (
        "the method uses bias labels without declaring it, or declares them and does not use them"
    )
    if not subject.uses_bias_labels:
        assert same(first, subject.train(subject.make()).state_dict())


def streamed_images_give_the_same_bits(subject: Subject) -> None:
    """Check that training on streamed and on resident images gives the same weights."""
    splits = shapes_set()
    how: dict[str, Any] = {"conflict": splits.conflicting("train"), "bias": subject.labels()}
    source = Streaming(
        splits.train,
        device=torch.device("cpu"),
        preprocess=Preprocess(),
        augment="crop-flip",
        seed=3,
        **how,
    )
    streamed = subject.train(subject.make(), source=source)
    assert same(streamed.state_dict(), subject.train(subject.make()).state_dict())


def it_learns(subject: Subject) -> None:
    """Check that a method learns to tell vertical bars from horizontal ones if colours are random."""
    fair = shapes_set(conflicting=SAMPLES // 2, seed=3)
    torch.manual_seed(0)
    model = WideNet()
    if subject.pretrained:
        _train_fairly(ERM(model), fair, None)
    method = subject.build(model, TinyInputs(fair, WideNet))
    _train_fairly(method, fair, fair.bias["train"] if subject.uses_bias_labels else None)
    assert fair.test is not None
    test = resident(replace(fair, train=fair.test, bias={"train": fair.bias["test"]}))
    right = predict(method.eval().predict, test.plain()).argmax(1) == test.targets
    for b in (0, 1):
        accuracy = float(right[fair.bias["test"] == b].double().mean())
        assert accuracy > 0.9, f"only {accuracy:.0%} correct for colour {b}"


def _train_fairly(method: Method, splits: Splits, bias: Tensor | None) -> None:
    order = sampling.Passes(torch.arange(SAMPLES), batch=48, seed=5)
    fit(method, resident(splits, bias=bias), order, replace(OPTIONS, steps=150))


CHECKS: dict[str, Callable[[Subject], None]] = {
    "it trains any network": trains_any_network,
    "its players step distinct parameters": players_step_distinct_parameters,
    "its losses are named and finite, and reach every player": losses_are_finite_and_reach_every_player,
    "its losses are finite in unusual batches": losses_are_finite_in_unusual_batches,
    "a step does not synchronise with the device": a_step_does_not_synchronise,
    "its state holds everything that training changes": state_holds_all_that_training_changes,
    "its state can be loaded into a new method": state_loads_into_a_new_method,
    "predicting changes nothing": predicting_changes_nothing,
    "it uses bias labels only if it declares them": bias_labels_matter_only_if_declared,
    "streamed images give the same bits": streamed_images_give_the_same_bits,
    "it learns": it_learns,
}
