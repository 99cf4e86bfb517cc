# %% [markdown]
# # What the masks cut
#
# Debiasing learns a mask over the weights and keeps those that help on the suspects. This notebook looks at the masks
# of a small network on coloured digits: how much of each layer remains, and what kind of filters are gone.

# %%

import unspur
from unspur.data import load

digits = load("demo", ratio="5pct")
small = {"train": 4, "valid": 1, "test": 2}  # every n-th image
parts = {
    name: unspur.Split(part.images[:: small[name]], part.targets[:: small[name]])
    for name, part in digits.parts().items()
}
data = unspur.Splits(
    **parts,
    classes=digits.classes,
    bias={name: labels[:: small[name]] for name, labels in digits.bias.items()},
)
steps = {f"{stage}.steps": 80 for stage in ("mine", "pretrain", "adapt", "prune", "finetune")}
channels = {
    "prune.unit": "channel",
    "prune.cut": "share",
    "prune.keep": 0.5,
    "model.options.width": 32,
}
result = unspur.debias(data, model="convnet", settings=steps | channels, anyway=True, out="run")

# %% [markdown]
# ## How much of each layer remains
#
# `result.masks` has one boolean tensor for each masked weight. Here the masks cover whole channels
# (`prune.unit = "channel"`), and half of the multiply–adds remain (`prune.keep = 0.5`). A weight of a convolution
# remains if both its output channel and its input channel do.

# %%
for name, mask in result.masks.items():
    if mask.ndim > 1:
        print(f"{name:16} {tuple(mask.shape)!s:18} {mask.float().mean():.0%} of the weights kept")

# %% [markdown]
# ## What pruning alone changes
#
# `pruned` is the network after the cut and before any weight was retrained.

# %%
for name in ("ordinary", "pruned", "debiased"):
    scores = result.scores[name]
    print(f"{name:9} aligned {scores['aligned']:.0%}, conflicting {scores['conflicting']:.0%}")

# %% [markdown]
# ## Which filters are gone
#
# The first layer sees the colours directly. A filter whose weights are the same for red, green and blue sees only
# brightness; the further they differ, the more it sees colour. The colour share is the part of a filter's energy that
# is not common to the three channels. The picture shows the filters of the ordinary model, the kept ones
# above and the cut ones below, each from the least to the most colourful.

# %%
import matplotlib.pyplot as plt

ordinary = unspur.load("run/ordinary")
filters = next(weight for weight in ordinary.state_dict().values() if weight.ndim == 4)
grey = filters.mean(1, keepdim=True)
colour = (filters - grey).square().flatten(1).sum(1) / filters.square().flatten(1).sum(1)
first = next(mask for mask in result.masks.values() if mask.ndim == 4)
kept = first.flatten(1).any(1)
print(
    f"colour share of kept filters {colour[kept].mean():.0%}, of cut filters {colour[~kept].mean():.0%}"
)

pictures = (filters / filters.abs().amax((1, 2, 3), keepdim=True) + 1) / 2
columns = max(int(kept.sum()), int((~kept).sum()))
figure, axes = plt.subplots(2, columns, figsize=(0.55 * columns, 1.8), squeeze=False)
for line, chosen, title in ((axes[0], kept, "kept"), (axes[1], ~kept, "cut")):
    order = chosen.nonzero().squeeze(1)
    order = order[colour[order].argsort()]
    for axis in line:
        axis.axis("off")
    for axis, index in zip(line, order, strict=False):
        axis.imshow(pictures[index].permute(1, 2, 0))
    line[0].set_title(title, fontsize=10, loc="left")
plt.show()
