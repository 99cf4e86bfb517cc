# %% [markdown]
# # Debias your own model
#
# `unspur.debias` takes any `nn.Module` whose last layer is an `nn.Linear`, and any dataset of (image, label). Here
# both are written out: a small convolutional network, and coloured digits as a `torch` Dataset. In 95 % of the
# training images the colour predicts the class.

# %%
import torch
from torch import nn
from torch.utils.data import Dataset

import unspur
from unspur.data import load

digits = load("demo", ratio="5pct")


class Digits(Dataset):
    """The images of a split, with their labels."""

    def __init__(self, split: str) -> None:
        part = digits.parts()[split]
        self.images, self.labels = part.images, part.targets

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.images[index], int(self.labels[index])


torch.manual_seed(0)  # the same initial weights each time
model = nn.Sequential(
    nn.Conv2d(3, 24, 4, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
    nn.Conv2d(24, 48, 4, stride=2, padding=1), nn.BatchNorm2d(48), nn.ReLU(),
    nn.Conv2d(48, 96, 4, stride=2, padding=1), nn.BatchNorm2d(96), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    nn.Linear(96, 10),
)  # fmt: skip

# %% [markdown]
# ## Train, prune, fine-tune
#
# `debias` trains the ordinary model first, then finds the suspects, learns which weights to keep, and retrains those.
# Stages are short here. `anyway=True` leaves out the audit, which [another notebook](1-audit-a-folder.md) shows.
# The bias labels of the test images, their colours, are used for the scores only.

# %%
steps = {f"{stage}.steps": 80 for stage in ("mine", "pretrain", "adapt", "prune", "finetune")}
result = unspur.debias(
    Digits("train"),
    valid=Digits("valid"),
    test=Digits("test"),
    bias=digits.bias,
    model=model,
    settings=steps,
    anyway=True,
    out="run",
)
for name in ("ordinary", "debiased"):
    scores = result.scores[name]
    print(
        f"{name:9} aligned {100 * scores['aligned']:.0f} %, conflicting {100 * scores['conflicting']:.0f} %"
    )

# %% [markdown]
# `aligned` images follow the shortcut, `conflicting` ones contradict it. The result is a plain module: pruned weights
# are exactly zero, and nothing of `unspur` is needed to use it. The model that you passed is unchanged.

# %%
torch.save(result.model.state_dict(), "debiased.pth")
zeros = sum(int((weight == 0).sum()) for weight in result.model.parameters())
print(
    f"{zeros:,} of {sum(weight.numel() for weight in result.model.parameters()):,} weights are zero"
)
print(
    int(result.suspects.conflict.sum()),
    "suspects among",
    len(result.suspects.conflict),
    "training images",
)

# %% [markdown]
# ## Before and after
#
# Test images that the ordinary model gets wrong because of their colour, with both answers.

# %%
import matplotlib.pyplot as plt

test = Digits("test")
ordinary = unspur.load("run/ordinary", model=model)
debiased = unspur.load("run", model=model)
before, after = ordinary(test.images).argmax(1), debiased(test.images).argmax(1)
fixed = ((before != test.labels) & (after == test.labels)).nonzero().squeeze(1)
figure, axes = plt.subplots(3, 8, figsize=(9, 4))
for axis, index in zip(axes.flat, fixed[:: len(fixed) // 24], strict=False):
    axis.imshow(test.images[index].permute(1, 2, 0))
    axis.set_title(f"{before[index]} → {after[index]}", fontsize=10)
    axis.axis("off")
figure.suptitle("answer of the ordinary → of the debiased model")
plt.show()
