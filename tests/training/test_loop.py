"""The training loop: it learns, equals a plain loop, resumes bit for bit and stops at Ctrl-C."""

import math
import os
import signal
import threading
from dataclasses import replace

import pytest
import torch
from torch import nn

from toys import MemoryCheckpointer, NoSync, TinyNet, resident, same, shapes_set
from unspur import masks, noise
from unspur.errors import Interrupted, TrainingError
from unspur.methods import ERM, Amplified, Confident, Debiased, MaskSearch
from unspur.store import Workspace
from unspur.training import loop_state, sampling
from unspur.training.fit_options import FitOptions, Optimiser
from unspur.training.inputs import Training
from unspur.training.loop import fit
from unspur.training.loop_state import BLOCK, Loop
from unspur.training.method import Method, Player
from unspur.training.numerics import deterministic
from unspur.training.prediction import predict
from unspur.training.watchers import Best, Curve, Iterates, Unseen

SPLITS = shapes_set()
CONFLICT = SPLITS.conflicting("train")
PLAN = FitOptions(steps=24, optimiser=Optimiser(rate=1e-2, schedule="cosine"), log_every=10)


def make(name, seed=0):
    """Return a method by name, with random weights from the seed."""
    torch.manual_seed(seed)
    model = TinyNet()
    if name == "search":
        masks.attach(model, init=0.5)
        return MaskSearch(model, head="head", sparsity=1e-6, align=0.5)
    if name == "tuned":
        keep = {"conv.weight": torch.rand_like(model.conv.weight) > 0.3}
        masks.apply(model, keep, drop=0.2)
        return Debiased(model, head="head", align=0.5)
    if name == "dropout":
        model.head = nn.Sequential(nn.Dropout(0.5), model.head)
        return ERM(model)
    return {"erm": ERM, "amplified": Amplified, "confident": Confident}[name](model)


def oversampled(batch=32, seed=5):
    return sampling.Weighted(1 + 4 * CONFLICT.double(), batch=batch, seed=seed)


def run(method, plan=PLAN, *, augment="crop-flip", order=None, **kwargs):
    source = resident(SPLITS, augment=augment, seed=3)
    fit(method, source, order or oversampled(), plan, **kwargs)
    return method


def accuracy(method):
    logits = predict(method.eval().predict, resident(SPLITS).plain())
    return float((logits.argmax(1) == SPLITS.train.targets).double().mean())


class Seen(ERM):
    """ERM that records its batches and losses."""

    def __init__(self, model):
        super().__init__(model)
        self.batches, self.each = [], []

    def forward(self, batch, player):
        losses = super().forward(batch, player)
        self.batches.append((batch.index.clone(), batch.x.clone(), int(batch.step)))
        self.each.append(losses["cross_entropy"].item())
        return losses


class Call:
    """A watcher that calls a function."""

    def __init__(self, function, every=1):
        self.function, self.every = function, every

    def __call__(self, method, step):
        return self.function(method, step) or {}

    def state(self):
        return {}

    def restore(self, state):
        assert not state


# Learning, logging and progress


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_it_learns(optimiser):
    method = make("erm")
    assert accuracy(method) < 0.8
    rate = {"adam": 1e-2, "sgd": 5e-2}[optimiser]
    plan = FitOptions(steps=80, optimiser=Optimiser(name=optimiser, rate=rate))
    run(method, plan, augment="none", order=sampling.Passes(torch.arange(240), batch=32, seed=1))
    assert accuracy(method) >= 0.88  # more than the colour alone explains
    assert method.training is False


def test_logged_rows_are_the_means_since_the_last_row():
    checkpointer, method = MemoryCheckpointer(), Seen(TinyNet())
    run(method, checkpointer=checkpointer)
    assert [row["step"] for row in checkpointer.rows] == [10, 20, 24]
    for row, (first, last) in zip(checkpointer.rows, [(0, 10), (10, 20), (20, 24)], strict=True):
        assert row.keys() == {"step", "cross_entropy", "loss", "rate", "seconds"}
        mean = sum(method.each[first:last]) / (last - first)
        assert row["loss"] == row["cross_entropy"] == pytest.approx(mean, rel=1e-5)
        assert row["rate"] == PLAN.optimiser.rate_at(last - 1, 24)


def test_named_losses_add_up_to_the_loss():
    checkpointer = MemoryCheckpointer()
    run(make("search"), checkpointer=checkpointer)
    for row in checkpointer.rows:
        parts = row["cross_entropy"] + row["alignment"] + row["sparsity"]
        assert row["alignment"] > 0
        assert row["loss"] == pytest.approx(parts, rel=1e-5)


class Follower:
    def __init__(self):
        self.updates = []

    def update(self, step, steps, loss):
        self.updates.append((step, steps, loss))


def test_progress_is_shown_after_the_first_step_and_with_every_new_loss(monkeypatch):
    monkeypatch.setattr(loop_state, "SHOW_EVERY", 1e6)
    follower, checkpointer = Follower(), MemoryCheckpointer()
    run(make("erm"), checkpointer=checkpointer, progress=follower)
    (step, steps, loss), *rest = follower.updates
    assert (step, steps) == (1, 24)
    assert math.isnan(loss)
    assert rest == [(row["step"], 24, row["loss"]) for row in checkpointer.rows]


def test_progress_is_shown_at_intervals_between_two_losses(monkeypatch):
    monkeypatch.setattr(loop_state, "SHOW_EVERY", 0.0)
    follower = Follower()
    run(make("erm"), progress=follower)
    assert [step for step, _, _ in follower.updates] == list(range(1, 25))


def test_watchers_see_the_method_in_eval_mode_at_intervals_and_at_the_end():
    checkpointer, seen = MemoryCheckpointer(), []

    def look(method, step):
        seen.append((step, method.training, method.model.norm.training))
        return {"looked": float(step)}

    method = run(make("erm"), checkpointer=checkpointer, watchers=[Call(look, every=7)])
    assert seen == [(step, False, False) for step in (7, 14, 21, 24)]
    assert [row["step"] for row in checkpointer.rows if "looked" in row] == [7, 14, 21, 24]
    assert method.training


def test_a_watcher_does_not_change_the_result():
    looked = run(make("tuned"), watchers=[Call(lambda method, step: accuracy(method) and None)])
    assert same(looked.state_dict(), run(make("tuned")).state_dict())


# Optimisers and schedules


class Slide(Method):
    """A method whose loss is its weight: with plain SGD every step subtracts the learning rate."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, batch, player):
        return {"weight": self.weight.sum()}


SCHEDULES = {
    "constant": (Optimiser(), lambda t: 1.0),
    "step": (Optimiser(schedule="step", decay_every=7, decay_by=0.5), lambda t: 0.5 ** (t // 7)),
    "cosine": (Optimiser(schedule="cosine"), lambda t: math.cos(math.pi * t / 48) ** 2),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_follow_their_formula(name):
    optimiser, formula = SCHEDULES[name]
    rates = [0.1 * formula(t) for t in range(24)]
    optimiser = replace(optimiser, name="sgd", rate=0.1, momentum=0.0)
    assert [optimiser.rate_at(t, 24) for t in range(24)] == pytest.approx(rates)
    slide = Slide()
    run(slide, replace(PLAN, optimiser=optimiser))
    assert slide.weight.item() == pytest.approx(-sum(rates), rel=1e-9)


def test_the_warm_up_rises_to_the_rate_of_the_schedule():
    plain = Optimiser(name="sgd", rate=0.1, momentum=0.0, schedule="cosine")
    warm = replace(plain, warmup=4)
    shares = [min(1.0, (t + 1) / 5) for t in range(24)]
    rates = [share * plain.rate_at(t, 24) for t, share in enumerate(shares)]
    assert [warm.rate_at(t, 24) for t in range(24)] == pytest.approx(rates)
    assert warm.rate_at(9, 24, since=10) == 0
    assert warm.rate_at(10, 24, since=10) == pytest.approx(plain.rate_at(10, 24) / 5)
    slide = Slide()
    run(slide, replace(PLAN, optimiser=warm))
    assert slide.weight.item() == pytest.approx(-sum(rates), rel=1e-9)


def headed(seed=0):
    torch.manual_seed(seed)
    return ERM(TinyNet(), head="head")


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_the_head_is_trained_first(name):
    optimiser = Optimiser(name=name, rate=1e-2, head_first=10)
    before = {k: p.clone() for k, p in headed().model.named_parameters()}
    for steps, moved in ((10, {"head"}), (11, {"head", "conv", "bn"})):
        method = run(headed(), replace(PLAN, steps=steps, optimiser=optimiser))
        now = dict(method.model.named_parameters())
        changed = {k.partition(".")[0] for k, p in now.items() if not torch.equal(p, before[k])}
        assert changed & {"head", "conv"} == moved & {"head", "conv"}


def test_a_frozen_head_cannot_be_trained_first():
    states = []
    for head_first in (0, 10):
        method = headed()
        method.model.head.requires_grad_(False)
        plan = replace(PLAN, optimiser=Optimiser(rate=1e-2, head_first=head_first))
        states.append(run(method, plan).model.state_dict())
    assert same(*states)


def test_naming_the_head_without_head_first_changes_nothing():
    states = [run(method).model.state_dict() for method in (headed(), make("erm"))]
    assert same(*states)


def test_head_first_resumes_bit_for_bit():
    plan = replace(PLAN, optimiser=Optimiser(rate=1e-2, warmup=3, head_first=8))
    plan = replace(plan, checkpoint_every=1)
    expected = run(headed(), plan).model.state_dict()
    for stop in (5, 8, 15):
        kept = MemoryCheckpointer()
        run(headed(), replace(plan, steps=stop + 1), checkpointer=kept)
        assert kept.resume()[1]["step"] == stop
        assert same(run(headed(1), plan, checkpointer=kept).model.state_dict(), expected)


def test_a_step_schedule_without_a_period_is_constant():
    assert Optimiser(rate=0.3, schedule="step").rate_at(10**6, 10) == 0.3


def plain_loop(method, optimiser, rates, order, source):
    """Train with a plain loop, as a reference."""
    method.train()
    for t, rate in enumerate(rates):
        for group in optimiser.param_groups:
            group["lr"] = rate
        index = order.draw(t, 1)[0]
        x, y = source.images[index].float() / 255, source.targets[index]
        loss = nn.functional.cross_entropy(method.model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_training_equals_a_plain_loop(name):
    ours, plain = make("erm"), make("erm")
    chosen = Optimiser(name=name, rate=1e-2, weight_decay=1e-2, schedule="cosine")
    run(ours, replace(PLAN, optimiser=chosen), augment="none")
    options = {"lr": 1e-2, "weight_decay": 1e-2, "foreach": False}
    builds = {
        "adam": lambda p: torch.optim.Adam(p, betas=(0.9, 0.99), **options),
        "sgd": lambda p: torch.optim.SGD(p, momentum=0.9, **options),
    }
    rates = [5e-3 * (1 + math.cos(math.pi * t / 24)) for t in range(24)]
    optimiser = builds[name](plain.parameters())
    plain_loop(plain, optimiser, rates, oversampled(), resident(SPLITS))
    start = make("erm").state_dict()
    for key, value in plain.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[key], value, rtol=1e-5, atol=1e-6)
        assert not torch.equal(value, start[key])


# Players


class Duel(Method):
    """min over a, max over b of ab: the step of b depends on whether it uses the new a."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(1.0))
        self.b = nn.Parameter(torch.tensor(1.0))
        self.bystander = nn.Parameter(torch.tensor(1.0))

    def players(self):
        return Player("first", (self.a,)), Player("second", (self.b,))

    def forward(self, batch, player):
        game = self.a * self.b + 0 * self.bystander
        return {"game": game if player == "first" else -game}


DUEL = replace(PLAN, optimiser=Optimiser(name="sgd", rate=0.1, momentum=0.0))


def test_players_alternate():
    duel, checkpointer = Duel(), MemoryCheckpointer()
    run(duel, DUEL, checkpointer=checkpointer)
    a = b = 1.0
    for _ in range(24):
        a -= 0.1 * b
        b += 0.1 * a  # the new a
    assert (duel.a.item(), duel.b.item()) == pytest.approx((a, b), rel=1e-5)
    assert duel.bystander.item() == 1.0
    for row in checkpointer.rows:
        assert {"first.game", "first.loss", "second.game", "second.loss", "loss"} <= row.keys()
        assert row["loss"] == pytest.approx(row["first.loss"] + row["second.loss"])


def test_a_player_steps_its_own_parameters_only():
    duel = Duel()
    for only, other in (("first", "b"), ("second", "a")):
        before = getattr(duel, other).item()
        lone = tuple(p for p in duel.players() if p.name == only)
        duel.players = lambda lone=lone: lone
        run(duel, replace(DUEL, steps=3))
        assert getattr(duel, other).item() == before
        del duel.players
    assert duel.a.item() != 1.0
    assert duel.b.item() != 1.0


def test_mask_search_changes_the_logits_and_nothing_else():
    method, start = make("search"), make("search").state_dict()
    run(method)
    for name, value in method.state_dict().items():
        learned = "logits" in name or "norm.running" in name or "num_batches" in name
        assert torch.equal(value, start[name]) is not learned, name


# Resuming


class Stops(Workspace):
    """A workspace that raises an error right after its first checkpoint."""

    def checkpoint(self, tensors, facts):
        super().checkpoint(tensors, facts)
        raise InterruptedError


def watched(every=4, steps=(3, 8, 17, 24)):
    valid = shapes_set(seed=2)
    unseen = Unseen(resident(valid), torch.ones(240, dtype=torch.bool))
    best = Best(unseen, valid.conflicting("train"), every=every)
    return [best, Iterates(steps), Curve(unseen, every=5)]


def log_of(workspace):
    """Return the log without the seconds."""
    lines = (workspace.path / "log.jsonl").read_text().splitlines()
    return [line.partition(', "seconds"')[0] for line in lines]


def assert_resumes(tmp_path, name, plan, stop):
    """Check that a run that fails at a step and is resumed equals an uninterrupted run."""
    plan = replace(plan, checkpoint_every=stop)
    whole, whole_watchers = make(name), watched()
    whole_workspace = Workspace(tmp_path / "whole")
    run(whole, plan, watchers=whole_watchers, checkpointer=whole_workspace)
    with pytest.raises(InterruptedError):
        run(make(name), plan, watchers=watched(), checkpointer=Stops(tmp_path / "cut"))
    torch.manual_seed(99)
    resumed, watchers = make(name, seed=1), watched()  # no state of the first attempt is reused
    workspace = Workspace(tmp_path / "cut")
    run(resumed, plan, watchers=watchers, checkpointer=workspace)
    assert same(resumed.state_dict(), whole.state_dict())
    for a, b in zip(watchers, whole_watchers, strict=True):
        assert same(a.state(), b.state())
    assert watchers[0].step == whole_watchers[0].step > 0
    assert {name.partition(".")[0] for name in watchers[1].weights_by_step} == {
        "3",
        "8",
        "17",
        "24",
    }
    assert log_of(workspace) == log_of(whole_workspace)


@pytest.mark.parametrize("stop", [1, 4, 13, 23])
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("name", ["erm", "search", "tuned"])
def test_resumed_equals_uninterrupted(tmp_path, name, optimiser, stop):
    plan = replace(PLAN, optimiser=replace(PLAN.optimiser, name=optimiser))
    assert_resumes(tmp_path, name, plan, stop)


@pytest.mark.parametrize("stop", [BLOCK - 1, BLOCK, BLOCK + 1])
def test_resumed_equals_uninterrupted_at_a_new_block_of_indices(tmp_path, stop):
    assert_resumes(tmp_path, "erm", replace(PLAN, steps=BLOCK + 4), stop)


def test_resumed_equals_uninterrupted_for_a_network_with_dropout(tmp_path):
    assert_resumes(tmp_path, "dropout", PLAN, 13)


def test_resumed_equals_uninterrupted_for_two_players():
    plan = replace(DUEL, optimiser=Optimiser(rate=1e-2))
    whole, checkpointer = run(Duel(), plan), MemoryCheckpointer()

    def die(method, step):
        if step == 14:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run(
            Duel(),
            replace(plan, checkpoint_every=11),
            checkpointer=checkpointer,
            watchers=[Call(die)],
        )
    assert checkpointer.saved[1]["step"] == 11
    resumed = run(Duel(), plan, checkpointer=checkpointer)
    assert same(resumed.state_dict(), whole.state_dict())


@pytest.mark.parametrize("name", ["erm", "search", "tuned", "dropout"])
def test_a_run_does_not_depend_on_the_global_random_stream(name):
    first = make(name)
    torch.manual_seed(1)
    run(first)
    second = make(name)
    torch.manual_seed(2)
    run(second)
    assert same(first.state_dict(), second.state_dict())


def test_batches_follow_the_order_and_the_step():
    method = Seen(TinyNet())
    run(method)
    order, source = oversampled(), resident(SPLITS, augment="crop-flip", seed=3)
    assert [step for _, _, step in method.batches] == list(range(24))
    for index, x, step in method.batches:
        assert torch.equal(index, order.draw(step, 1)[0])
        assert torch.equal(x, source.batch(index, torch.tensor(step)).x)


def test_a_finished_training_does_nothing():
    checkpointer, plan = MemoryCheckpointer(), replace(PLAN, steps=13)
    method = make("erm")
    loop = Loop(Training(method, resident(SPLITS), oversampled(), plan, checkpointer=checkpointer))
    loop.step = 13
    loop.save()
    assert same(
        run(make("erm", seed=1), plan, checkpointer=checkpointer).state_dict(), method.state_dict()
    )


# Values that are not finite


class Poisoned(ERM):
    """A method whose loss is NaN from step `at` on; with `late` only the gradient of that step is."""

    def __init__(self, at, late=False):
        super().__init__(TinyNet())
        self.at, self.late = at, late

    def forward(self, batch, player):
        loss = super().forward(batch, player)["cross_entropy"]
        hit = batch.step == self.at
        if self.late:
            zero = torch.where(hit, 0.0, 1.0) * self.model.head.weight.sum() ** 2
            return {"cross_entropy": loss + 1e-3 * zero.sqrt()}
        return {"cross_entropy": loss + torch.where(batch.step >= self.at, torch.nan, 0.0)}


@pytest.mark.parametrize("at", [0, 2, 3, 5, 13, 23])
@pytest.mark.parametrize("log_every", [1, 4, 100])
def test_a_loss_of_nan_stops_training_and_keeps_the_checkpoint_before(at, log_every):
    checkpointer = MemoryCheckpointer()
    plan = replace(PLAN, log_every=log_every, checkpoint_every=3)
    with pytest.raises(TrainingError, match=rf"since step {at}\. .*learning rate"):
        run(Poisoned(at), plan, checkpointer=checkpointer)
    assert (checkpointer.saved[1]["step"] if checkpointer.saved else 0) == at // 3 * 3
    if checkpointer.saved:
        assert all(torch.isfinite(t).all() for t in checkpointer.saved[0].values())
    assert all(math.isfinite(row["loss"]) for row in checkpointer.rows)


def test_an_infinite_loss_stops_training():
    method = make("erm")
    with torch.no_grad():
        method.model.head.bias.fill_(math.inf)
    with pytest.raises(TrainingError, match="since step 0"):
        run(method)


@pytest.mark.parametrize("at", [5, 23])
def test_weights_that_are_not_finite_are_not_checkpointed(at):
    """The loss of a step is finite but its gradient is not: the loss shows it one step later."""
    checkpointer = MemoryCheckpointer()
    with pytest.raises(TrainingError):
        run(Poisoned(at, late=True), replace(PLAN, checkpoint_every=3), checkpointer=checkpointer)
    assert checkpointer.saved[1]["step"] == at // 3 * 3
    assert all(torch.isfinite(t).all() for t in checkpointer.saved[0].values())


# Ctrl-C


def press_at(step):
    def press(method, now):
        if now == step:
            os.kill(os.getpid(), signal.SIGINT)

    return Call(press)


@pytest.mark.parametrize("step", [1, 8, 10, 24])
def test_ctrl_c_writes_a_checkpoint(step):
    checkpointer, before = MemoryCheckpointer(), signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match=rf"step {step} of 24\. .+"):
        run(make("tuned"), checkpointer=checkpointer, watchers=[press_at(step)])
    assert signal.getsignal(signal.SIGINT) is before
    assert checkpointer.saved[1]["step"] == step
    resumed = run(make("tuned", seed=1), checkpointer=checkpointer, watchers=[press_at(-1)])
    assert same(resumed.state_dict(), run(make("tuned")).state_dict())


def test_ctrl_c_twice_stops_at_once():
    def press(method, step):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(make("erm"), watchers=[Call(press)])
    assert signal.getsignal(signal.SIGINT) is before


def test_it_trains_outside_the_main_thread():
    method = make("erm")
    thread = threading.Thread(target=run, args=(method,))
    thread.start()
    thread.join()
    assert same(method.state_dict(), run(make("erm")).state_dict())


# Inside a step


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("name", ["erm", "amplified", "confident", "search", "tuned"])
def test_a_step_waits_for_nothing(name, optimiser, precision):
    plan = replace(PLAN, optimiser=Optimiser(name=optimiser), precision=precision)
    source = resident(SPLITS, augment="crop-flip")
    loop = Loop(Training(make(name), source, oversampled(), plan))
    index = oversampled().draw(0, 1)[0]
    with NoSync() as mode:
        loop.advance(index)
        loop.advance(index)
    assert "aten.convolution_backward" in mode.seen
    assert f"aten._fused_{optimiser}_" in mode.seen
    assert int(loop.clock) == 2


def test_the_guard_against_waiting_finds_a_wait():
    with NoSync():
        x = torch.ones(3)
        for wait in (lambda: x.sum().item(), lambda: x[x > 0], lambda: bool(x[0]), x.nonzero):
            with pytest.raises(AssertionError, match="inside a step"):
                wait()


def test_bf16_trains():
    plan = replace(PLAN, steps=40, precision="bf16", optimiser=Optimiser(rate=1e-2))
    checkpointer = MemoryCheckpointer()
    half = run(make("erm"), plan, checkpointer=checkpointer)
    assert checkpointer.rows[-1]["loss"] < 0.8 * checkpointer.rows[0]["loss"]
    assert {p.dtype for p in half.parameters()} == {torch.float32}
    full = run(make("erm"), replace(plan, precision="fp32"))
    assert not same(half.state_dict(), full.state_dict())


@pytest.mark.parametrize("how", ["flip", "crop-flip"])
def test_augmentation_is_a_function_of_seed_and_step(how):
    index = torch.arange(64)

    def pixels(step, seed=3):
        return resident(SPLITS, augment=how, seed=seed).batch(index, torch.tensor(step)).x

    source = resident(SPLITS, augment=how, seed=3)
    torch.manual_seed(1)
    backwards = {step: source.batch(index, torch.tensor(step)).x for step in (9, 4, 0)}
    torch.manual_seed(2)
    for step, x in backwards.items():
        assert torch.equal(pixels(step), x)
    assert not torch.equal(pixels(0), pixels(1))
    assert not torch.equal(pixels(0), pixels(0, seed=4))
    assert not torch.equal(pixels(0), resident(SPLITS).batch(index, torch.tensor(0)).x)


def test_about_half_of_the_images_are_flipped():
    source = resident(SPLITS, augment="flip", seed=3)
    plain = resident(SPLITS).batch(torch.arange(240), torch.tensor(0)).x
    x = source.batch(torch.arange(240), torch.tensor(0)).x
    kept = (x == plain).flatten(1).all(1)
    turned = (x == plain.flip(3)).flatten(1).all(1)
    assert (kept | turned).all()
    assert 80 < int(turned.sum()) < 160


def test_crops_are_windows_of_the_image_in_a_black_border():
    source = resident(SPLITS, augment="crop-flip", seed=3)
    found = source.batch(torch.arange(240), torch.tensor(0)).x
    plain = resident(SPLITS).batch(torch.arange(240), torch.tensor(0)).x
    places = set()
    for x, image in zip(found, plain, strict=True):
        fits = [
            (flip, r, c)
            for flip in (False, True)
            for padded in [nn.functional.pad(image.flip(2) if flip else image, (4,) * 4)]
            for r in range(9)
            for c in range(9)
            if torch.equal(padded[:, r : r + 8, c : c + 8], x)
        ]
        assert fits
        places.add(fits[0])
    assert {r for _, r, _ in places} == {c for _, _, c in places} == set(range(9))


@pytest.mark.parametrize("name", ["search", "tuned"])
def test_masks_follow_the_step(name):
    method, used = make(name), []
    mask = method.model.conv.parametrizations.weight[0]
    forward = method.forward

    def look(batch, player):
        weight = method.model.conv.parametrizations.weight.original.detach().clone()
        logits = mask.logits.detach().clone() if name == "search" else None
        used.append((weight, logits, method.model.conv.weight.detach().clone()))
        return forward(batch, player)

    method.forward = look
    run(method)
    kept = set()
    for step, (weight, logits, effective) in enumerate(used):
        u = noise.uniform(mask.seed, step, mask.stream, tuple(weight.shape))
        if name == "search":
            expected = weight * (masks.concrete(logits, noise.logistic(u)) > 0.5)
        else:
            expected = weight * (mask.keep & (u >= 0.2)) / (1 - 0.2)
        torch.testing.assert_close(effective, expected)
        kept.add(tuple((effective != 0).flatten().tolist()))
    assert len(kept) == 24


@pytest.mark.parametrize("warn", [False, True])
def test_torchs_settings_are_restored(warn):
    torch.use_deterministic_algorithms(True, warn_only=warn)
    try:
        with deterministic(False):
            assert not torch.are_deterministic_algorithms_enabled()
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled() is warn
    finally:
        torch.use_deterministic_algorithms(False)
    with deterministic(True):
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
