# %% [markdown]
# # What the masks cut
#
# Debiasing learns a mask over the weights and keeps those that help on the suspects. This notebook looks at the masks
# of a small network on coloured digits: how much of each layer remains, and what kind of channels are gone.
#
# `plan = "dcwp"` prunes the ordinary model itself, as the paper does. Our preset would first adapt the network to mixed
# images, and its masks would not belong to the channels of the ordinary model.

# %%
import torch

import unspur
from unspur.data import load

digits = load("demo", ratio="5pct")
steps = {f"{stage}.steps": 80 for stage in ("mine", "pretrain", "adapt", "prune", "finetune")}
channels = {
    "plan": "dcwp",
    "prune.unit": "channel",
    "prune.cut": "share",
    "prune.keep": 0.5,
    "model.options.width": 32,
}
result = unspur.debias(digits, model="convnet", settings=steps | channels, anyway=True, out="run")

# %% [markdown]
# ## How much of each layer remains
#
# `result.masks` has one boolean tensor for each masked weight. Here the masks cover whole channels
# (`prune.unit = "channel"`), and half of the multiply–adds remain (`prune.keep = 0.5`). A weight of a convolution
# remains if both its output channel and its input channel do.

# %%
for name, mask in result.masks.items():
    if mask.ndim > 1:
        print(
            f"{name:16} {tuple(mask.shape)!s:18} {100 * mask.float().mean():.0f} % of the weights kept"
        )

# %% [markdown]
# ## What pruning alone changes
#
# `pruned` is the network after the cut and before any weight was retrained.

# %%
for name in ("ordinary", "pruned", "debiased"):
    scores = result.scores[name]
    print(
        f"{name:9} aligned {100 * scores['aligned']:.0f} %, conflicting {100 * scores['conflicting']:.0f} %"
    )

# %% [markdown]
# ## What the channels that were cut had learned
#
# In the test images the colour is independent of the digit. So one can ask of every channel of the ordinary model how
# much of the variance of its mean activation is explained by the colour, and how much by the digit.


# %%
def explained(values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the share of each column's variance that lies between the groups of a label."""
    groups = [values[labels == label] for label in labels.unique()]
    between = sum(len(group) * (group.mean(0) - values.mean(0)).square() for group in groups)
    return between / (values - values.mean(0)).square().sum(0)


def activations(model: torch.nn.Module, layer: str, images: torch.Tensor) -> torch.Tensor:
    """Return the mean activation of every channel of a layer for every image."""
    found: list[torch.Tensor] = []
    hook = model.get_submodule(layer).register_forward_hook(
        lambda module, inputs, output: found.append(output.mean((2, 3)))
    )
    with torch.no_grad():
        model(images)
    hook.remove()
    return torch.cat(found)


ordinary = unspur.load("run/ordinary")
layers = {}
for number in range(3):
    values = activations(ordinary, f"model.body.{number}", digits.test.images)
    kept = result.masks[f"body.{number}.0.weight"].flatten(1).any(1)
    by_colour = explained(values, digits.bias["test"])
    by_digit = explained(values, digits.test.targets)
    layers[number] = (kept, by_colour, by_digit)
    for name, chosen in (("kept", kept), ("cut", ~kept)):
        colour, digit = by_colour[chosen].nanmean(), by_digit[chosen].nanmean()
        print(
            f"layer {number}, {name:4} channels: colour explains {100 * colour:.0f} %, the digit {100 * digit:.0f} %"
        )

# %% [markdown]
# The channels that were cut go by the colour more than those that were kept, and less by the digit. The masks never
# saw a colour label: they were learned from the suspects.

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharex=True, sharey=True)
for axis, (number, (kept, by_colour, by_digit)) in zip(axes, layers.items(), strict=True):
    axis.scatter(by_colour[kept], by_digit[kept], s=14, label="kept")
    axis.scatter(by_colour[~kept], by_digit[~kept], s=22, marker="x", label="cut")
    axis.set_title(f"layer {number}")
    axis.set_xlabel("explained by the colour")
axes[0].set_ylabel("explained by the digit")
axes[2].legend()
plt.show()
