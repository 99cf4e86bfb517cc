"""What the header of every recipe file says about it, and where it departs from the original."""

from __future__ import annotations

from unspur.methods import ABOUT

NOTES: dict[str, list[str]] = {
    "dcwp": [
        "DCWP, published settings: noise on the logit, positives where either is a suspect.",
    ],
    "released-code": [
        "DCWP as its released code runs it: noise on the probability, positives by column.",
    ],
    "paper-text": [
        "DCWP to the letter of the paper: sum of absolute logits, its order of upweighting.",
    ],
    "unspur": ["Our preset, the default of unspur.debias: nothing in it needs to know the bias."],
    "debias": [
        "What `unspur debias` chooses by itself on a GPU, here for a set without a shortcut.",
        "There is nothing to gain: the result should be as good as the ordinary model, or be it.",
    ],
    "erm": ["ERM: ordinary training, with the settings of DCWP's pretraining."],
    "slim": [
        "Our preset on whole channels: masks are learned on them, and 30 % of the multiply–adds are left.",
        "Then `unspur export RUN --slim --onnx`. prune.keep is the share; weights count by multiply–adds.",
    ],
    "slim-magnitude": [
        "The control of slim: channels by the L2 norm of their weights, 30 % of the multiply–adds left.",
        "Norms are taken relative to their layer's mean; the fine-tuning is that of slim.",
    ],
    "end": [
        "EnD: cross entropy + disentangling by bias + entangling by class. It reads bias labels.",
        "80 epochs as in the original, weights 1 and 1 as in the DCWP paper; network and optimiser are "
        "those of ERM. The original's features pass a tanh and have length 1: set model.options.unit.",
    ],
    "rebias": [
        "ReBias: independent (HSIC) of a network that sees single pixels. It knows what kind of bias it is.",
        "80 epochs as in the original; network and optimiser are those of ERM, the biased network the same "
        "with kernel 1. The last iterate counts; the original keeps the best of an unbiased set.",
    ],
    "mrm": [
        "MRM: masks learned on uniform batches with cross entropy, weights rewound, retrained.",
        "The retraining has the full budget of ERM.",
    ],
    "mrm-debias": [
        "MRM_debias: DCWP's masks, weights rewound, retrained with plain cross entropy.",
        "The retraining has the full budget of ERM; the paper's figure gives it 3,000 steps.",
    ],
    "lff": [
        "LfF: two networks, the second learns most from what the first, amplified, fails on.",
        "100 epochs of 235 steps as in the original; networks and optimiser are those of ERM, not MLPs at "
        "1e-3.",
    ],
    "disent": [
        "DisEnt: two encoders disentangled, bias features swapped within the batch from step 10,000.",
        "50,000 steps and schedule as in the original; encoders are that of the other methods, not an MLP. "
        "The last iterate counts; the original keeps the best on the test set.",
    ],
    "jtt": [
        "JTT: what one pass of ordinary training gets wrong is added 50 times, and training starts anew.",
        "The original has no settings for this data and tunes them on group labels. Ours, not tuned: one "
        "pass (as for CelebA), 50 extra copies (the middle of its grid), the budget and optimiser of ERM.",
    ],
    "groupdro": [
        "GroupDRO: the worst (target, bias) groups weigh most. It reads bias labels.",
        "The paper has no numbers for it. Groups are drawn equally often; step size 0.01, no adjustment; the "
        "budget and optimiser of ERM.",
    ],
    "dfr": [
        "DFR: ERM's features, the last layer refitted to balanced groups. It reads bias labels.",
        "The paper has no numbers for it. Groups are a class with or without conflict: single (target, bias) "
        "cells hold too few samples. Ten balanced subsets of the training split.",
    ],
    "dfr-mined": [
        "DFR with mined groups: the miner's suspects take the place of bias labels.",
        "Otherwise as the recipe with labels.",
    ],
    "dcwp-erm": [
        "DCWP_ERM: suspects are what early-stopped ordinary training gets wrong.",
        "The paper does not say when it stopped; 1,000 steps is the first checkpoint of its code.",
    ],
    "dcwp-unpruned": [
        "DCWP without pruning: oversampling and alignment alone (row 4 of the ablation)."
    ],
    "grasp": [
        "GraSP: 90 % of the weights cut at initialisation, keeping the gradient's flow; then ERM.",
        "Ten samples a class, temperature 200. The budget and optimiser of ERM; the original trains 160 "
        "epochs with SGD. Scores are taken at the network's own initial weights.",
    ],
    "magnitude": [
        "Magnitude pruning of ERM: the smallest 90 % of the weights cut, the rest fine-tuned as ERM is.",
    ],
    "magnitude-debias": [
        "DCWP with the largest weights kept in place of the learned masks, as many overall.",
        "What is left of DCWP's gain is not due to which weights it keeps.",
    ],
    "random-debias": [
        "DCWP with random masks in place of the learned ones, as many weights in every layer.",
        "What is left of DCWP's gain is not due to which weights it keeps.",
    ],
    "lff-mlp": ["LfF with the network of its paper: an MLP on pixels divided by 255 twice."],
    "disent-mlp": ["DisEnt with the network of its paper: an MLP on pixels divided by 255 twice."],
    "rebias-flatnet": [
        "ReBias with the networks of its paper: four convolutions of size 7, and of size 1."
    ],
    "end-flatnet": ["EnD with the network of its paper: four convolutions of size 7."],
}
CIFAR_NOTES: dict[str, list[str]] = {
    "mrm": ["The retraining has the full budget of ERM."],
    "unspur": [
        "Alignment 1 and weight dropout 0.2: chosen in a trial from scratch at 1 %, one seed, with the test "
        "split in view."
    ],
    "end": ["Weights 1 and 1; otherwise the budget of ERM, on which the paper is silent."],
    "rebias": [
        "200 epochs, Adam at 1e-3, radius 1; the biased network is a BagNet-18, our choice."
    ],
    "lff": ["200 epochs as in the original; the network is a ResNet-18, not a ResNet-20."],
    "disent": ["50,000 steps, rate and weights of the original; see the recipes for CMNIST."],
    "jtt": ["One pass (176 steps), 50 extra copies, the budget and optimiser of ERM; not tuned."],
    "grasp": ["90 % pruned; the budget of ERM."],
}
FROM_SCRATCH = (
    "The published numbers start from ImageNet weights; this starts from scratch unless model.init names "
    "a file of weights."
)
AS_ERM = ["The budget and the optimiser of ERM, our choice."]
FACES_NOTES: dict[str, dict[str, list[str]]] = {
    "bffhq/0.5pct": {
        "disent": [
            "50,000 steps, rate and weights of the original, at 128 px; the original has 224 px."
        ],
        "rebias": ["The budget of ERM; the biased network is a BagNet-18. Both are our choice."],
        **dict.fromkeys(("lff", "end", "mrm"), AS_ERM),
        "jtt": [
            "One pass (300 steps), 50 extra copies, the budget and optimiser of ERM; not tuned."
        ],
    },
    "celeba/keep2000": {
        "dcwp": ["The paper has a sparsity of 1e-9, as here, its scripts 5e-6."],
        "disent": ["Settings of the original for BFFHQ; it has none for this data."],
        "rebias": ["The budget of ERM; the biased network is a BagNet-18. Both are our choice."],
        **dict.fromkeys(("lff", "end", "mrm"), AS_ERM),
        "jtt": [
            "One pass (727 steps), 50 extra copies, the budget and optimiser of ERM; not tuned."
        ],
    },
}
SMALL_NOTE = (
    "For a small set of faces at 96 px: 3,000 steps of batch 64 at 1e-3 for every training from the start, "
    "our choice. The published number is of the full set at full size."
)
ABLATED = {
    1: "no pruning, plain cross entropy",
    2: "masks learned with oversampling, retrained with plain cross entropy",
    3: "no pruning, oversampling",
    4: "no pruning, oversampling and alignment",
    5: "pruning with oversampling, no alignment",
    6: "everything: DCWP",
}


def title(name: str) -> str:
    """A recipe's method, as people call it."""
    tail = name.rpartition("/")[2]
    if tail.startswith("ablation"):
        return f"row {tail.split('-')[1]}"
    kind = tail.partition("-")[2] or tail
    return (
        "DCWP" if kind in ("debias", "unspur", "released-code", "paper-text") else ABOUT[kind].title
    )


def notes(data: str, kind: str) -> list[str]:
    """The lines of a header beside the launch line and the numbers; the first says what it is."""
    if data == "cmnist":
        return NOTES[kind]
    if data == "cifar10":
        return [NOTES[kind][0], "Here on CIFAR-10 itself, which has no shortcut.", FROM_SCRATCH]
    if "/" in data:
        known = FACES_NOTES.get(data)
        more = [SMALL_NOTE] if known is None else known.get(kind, [])
        return [NOTES[kind][0], *more, FROM_SCRATCH]
    return [NOTES[kind][0], *CIFAR_NOTES.get(kind, []), FROM_SCRATCH]


def ablation_notes(index: int, optimiser: str) -> list[str]:
    about = f"Row {index} of the ablation on CMNIST 1 %: {ABLATED[index]}."
    if optimiser == "adam":
        return [about, "Here with Adam and the full pretraining, as in the main table."]
    rate = "Fine-tuning with SGD at 0.01 for 1,000 steps is our choice; masks are learned with Adam as ever."
    return [about, "SGD and 2,000 steps of pretraining, as in the paper.", *([rate] * (index > 1))]
