"""The runs that settle why some methods stay below their published numbers: one group for each question."""

from __future__ import annotations

from .ablation_item import KEPT, PARTS
from .item import Cells, ItemCell, cell
from .main_item import RATIOS, RELEASED, STRIDED
from .pruning_item import AGAIN, EVERY

UNIT = ("model.options={unit=true}",)
# The optimiser of EnD's and ReBias's own code: the rate is divided by 10 every 20 epochs.
OWN = {
    stage: (
        *(f"{stage}.rate=1e-3", f"{stage}.betas=[0.9, 0.999]", f"{stage}.weight_decay=1e-4"),
        *(f"{stage}.schedule=step", f"{stage}.decay_every=4300"),
    )
    for stage in ("end", "rebias", "pretrain")
}
ENDS: dict[str, tuple[str, ...]] = {  # the weights of the two terms
    "α = 0.1, β = 1": ("end.disentangle=0.1",),
    "α = 0, β = 1": ("end.disentangle=0.0",),
    "α = 0, β = 0": ("end.disentangle=0.0", "end.entangle=0.0"),
}
RATES = ("0.1", "0.03", "0.01")
DECAYS = ("0", "1e-4", "1e-3", "1e-2", "1e-1")
MASKS: dict[str, tuple[str, ...]] = {
    "DCWP": (),
    "magnitude": ("plan=control", "control.spread=global", "control.how=magnitude"),
    "random": ("plan=control", "control.how=random"),
}
# Fine-tuning of the released code's SGD runs: × 0.1 at 600 steps, suspects 20 times as often.
SGD = ("finetune.schedule=step", "finetune.decay_every=600")
LOW = ("pretrain.rate=0.03",)
RARER = ("finetune.up=20.0",)
LEARN = tuple(
    change for change in AGAIN if not change.startswith(("finetune.align", "finetune.up"))
)
DRAWS = ("0", "1", "2", "3")
MASK_STEPS = ("500", "1000", "1500", "2000")


def every(stage: str, last: int, interval: int = 1000) -> str:
    """Return the change that scores a stage every `interval` steps up to the last one."""
    steps = sorted({*range(interval, last, interval), last})
    return f"{stage}.iterates={steps}"


def _cell(name: str, *changes: str, seeds: int = 2) -> ItemCell:
    return cell(name, *changes, seeds=seeds)


def end_cells() -> Cells:
    """EnD with unit-length features and its own optimiser, ERM with the same, α, and the 7×7 network."""
    found: Cells = {}
    for ratio in RATIOS:
        found["end", "both", ratio] = _cell(f"cmnist/{ratio}-end", *OWN["end"], *UNIT, seeds=4)
    for name, change in ENDS.items():
        found["alpha", name] = _cell("cmnist/0.5pct-end", *OWN["end"], *UNIT, *change)
    for ratio in RATIOS:
        own = ("pretrain.steps=17200", *OWN["pretrain"])
        found["end", "ERM", ratio] = _cell(f"cmnist/{ratio}-erm", *own)
        found["end", "unit", ratio] = _cell(f"cmnist/{ratio}-end", *UNIT, seeds=4)
        found["end", "neither", ratio] = _cell(f"cmnist/{ratio}-end", seeds=4)
    return found


def peak_cells() -> Cells:
    """LfF and DisEnt at 2 % with every thousandth step scored, for several rates and lengths."""
    lff, disent = "cmnist/2pct-lff-selected", "cmnist/2pct-disent-selected"
    scaled = ("disent.swap_start=4000", "disent.decay_every=4000", "disent.decay_from=4000")
    short = ("lff.steps=10000", every("lff", 10_000))
    return {
        ("peak", "LfF"): _cell(lff, every("lff", 23_500)),
        ("peak", "DisEnt, 20,000"): _cell(
            disent, "disent.steps=20000", *scaled, every("disent", 20_000)
        ),
        ("peak", "LfF, 3e-3"): _cell(lff, "lff.rate=3e-3", *short),
        ("peak", "LfF, 1e-3"): _cell(lff, "lff.rate=1e-3", *short),
        ("peak", "DisEnt"): _cell(disent, every("disent", 50_000), seeds=1),
    }


def reset_cells() -> Cells:
    """Weights reset to their initial values and trained with the debiasing loss, in both interpretations."""
    row, kept = "cmnist/ablation-6", f"finetune.iterates={EVERY}]"
    return {
        ("reset", "masks, debiasing loss"): _cell(row, *LEARN, seeds=4),
        ("reset", "no masks, debiasing loss"): _cell(row, "plan=unpruned", *LEARN, seeds=4),
        ("reset", "masks, cross entropy"): _cell(row, *AGAIN, seeds=4),
        ("reset", "DCWP"): _cell(row, kept, seeds=4),
        ("released reset", "masks, debiasing loss"): _cell(row, *RELEASED, *LEARN),
        ("released reset", "masks, cross entropy"): _cell(row, *RELEASED, *AGAIN),
        ("released reset", "DCWP"): _cell(row, *RELEASED, kept),
    }


def released_cells() -> Cells:
    """The ablation and the sparsity curve with the details of the released code."""
    found: Cells = {("row 1", rate): _row_1(rate) for rate in RATES}
    for index, (pruning, aligned, oversampling) in PARTS.items():
        name = f"cmnist/ablation-{index}"
        changes = (*SGD, *(RARER if oversampling else ()))
        changes += RELEASED if pruning else RELEASED[-1:] if aligned else ()
        found["ablation", index, "default"] = _cell(name, seeds=4)
        changes = changes if index != "1" else ()
        found["ablation", index, "released"] = _cell(name, *changes)
        found["ablation", index, "released, rate 0.03"] = _cell(name, *changes, *LOW)
        found["ablation", index, "rate 0.03"] = _cell(name, *LOW)
    for name, controls in MASKS.items():
        sparse = ("prune.sparsity=1e-6", *controls)
        found["sparsity", name, "released"] = _cell("cmnist/1pct-dcwp", *RELEASED, *sparse)
        found["sparsity", name, "default"] = _cell("cmnist/1pct-dcwp", *sparse)
    found["pruning", "default"] = _cell("cifar10c/5pct-dcwp", seeds=4)
    found["pruning", "released"] = _cell("cifar10c/5pct-dcwp", *RELEASED, seeds=4)
    return found


def _row_1(rate: str) -> ItemCell:
    """Return row 1 of the ablation, ordinary training with SGD, at a rate; 0.1 is that of the other rows."""
    changes = () if rate == "0.1" else (f"pretrain.rate={rate}",)
    return _cell("cmnist/ablation-1", *changes)


def jtt_cells() -> Cells:
    """JTT with several weight decays of both trainings, every thousandth step scored."""
    name, steps = "cmnist/0.5pct-jtt", every("finetune", 10_000)
    found: Cells = {}
    for decay in DECAYS:
        both = () if decay == "0" else (f"mine.weight_decay={decay}",)
        found["decay", decay] = _cell(name, *both, f"finetune.weight_decay={float(decay)}", steps)
    return found


def rebias_cells() -> Cells:
    """ReBias with a biased network that sees every pixel and one that sees 16, with both optimisers."""
    name = "cmnist/1pct-rebias"
    return {
        ("rebias", "every pixel", "own"): _cell(name, *OWN["rebias"]),
        ("rebias", "every pixel", "ERM's"): _cell(name),
        ("rebias", "16 pixels", "own"): _cell(name, *STRIDED, *OWN["rebias"]),
        ("rebias", "16 pixels", "ERM's"): _cell(name, *STRIDED, seeds=4),
    }


def text_cells() -> Cells:
    """DCWP to the letter of the paper's text."""
    return {
        ("text", "default"): _cell("cmnist/0.5pct-dcwp", seeds=4),
        ("text", "penalty and order alone"): _cell(
            "cmnist/0.5pct-dcwp", "prune.penalty=absolute", "finetune.up=10", KEPT, seeds=4
        ),
        ("text", "to the letter"): _cell("cmnist/0.5pct-paper-text", seeds=4),
    }


def draw_cells() -> Cells:
    """DCWP and, within it, ERM on several draws of the data; 0 is the draw of all other pages."""
    return {
        ("draw", draw): _cell(
            "cmnist/0.5pct-dcwp", *((f"data.seed={draw}",) if draw != "0" else ())
        )
        for draw in DRAWS
    }


def mask_step_cells() -> Cells:
    """Pruned networks after different numbers of mask steps, which are on record."""
    return {
        ("iterations", data, steps): _cell(
            f"{data}-dcwp", f"prune.steps={steps}", seeds=4 if data.startswith("cmnist") else 2
        )
        for data in ("cmnist/1pct", "cifar10c/1pct")
        for steps in MASK_STEPS
    }


def cells() -> Cells:
    """Return the runs of all questions; the most important ones come first."""
    parts = (end_cells, peak_cells, reset_cells, released_cells, jtt_cells, text_cells)
    found: Cells = {}
    for part in (*parts, draw_cells, rebias_cells, mask_step_cells):
        found |= part()
    return found
