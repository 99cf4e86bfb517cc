# %% [markdown]
# # Audit a folder
#
# You have a folder of labelled images and want to know whether a classifier could take a shortcut in it. This
# notebook writes such a folder, audits it, and looks at the images that contradict the shortcut. It uses digits that
# come with `unspur`: in 95 % of the training images the colour predicts the class.
#
# Everything is small so that it runs on one CPU core in under a minute. Leave `settings` out for your own images.

# %%
from pathlib import Path

from PIL import Image

import unspur
from unspur.data import load

train = load("demo", ratio="5pct").train
for number in range(0, len(train), 4):
    folder = Path("digits") / str(int(train.targets[number]))
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(train.images[number].permute(1, 2, 0).numpy()).save(folder / f"{number}.png")

print(
    len(list(Path("digits").rglob("*.png"))),
    "images in",
    len(list(Path("digits").iterdir())),
    "classes",
)

# %% [markdown]
# ## The audit
#
# An audit trains several small networks on halves of the images and asks each about the other half. Some of them see
# the images without colour, without the border, or without coarse structure. `unspur audit digits` does the same from
# the shell.

# %%
audit = unspur.audit("digits", out="audit", settings={"mine.steps": 60, "pretrain.steps": 60})
print(audit.finding.text)

# %% [markdown]
# The folder `audit` now holds a report to read in the browser, all numbers, and a table of all images with the most
# suspicious first.

# %%
print(*sorted(path.name for path in Path("audit").iterdir()), sep="\n")
print()
print(*Path("audit/suspects.csv").read_text().splitlines()[:6], sep="\n")

# %% [markdown]
# ## What contradicts the shortcut
#
# For each class: four images that the miner is sure of, and the four strongest suspects. The suspects have other
# colours than the rest of their class. Nobody told the audit that colours matter.

# %%
import csv

import matplotlib.pyplot as plt

rows = list(csv.DictReader(Path("audit/suspects.csv").read_text().splitlines()))
figure, axes = plt.subplots(10, 8, figsize=(6, 7.5))
for label, line in zip(map(str, range(10)), axes, strict=True):
    members = [row for row in rows if row["label"] == label]
    for axis, row in zip(line, [*members[-4:], *members[:4]], strict=True):
        axis.imshow(Image.open(Path("digits") / row["path"]))
        axis.axis("off")
axes[0, 1].set_title("     typical", fontsize=10)
axes[0, 5].set_title("     suspects", fontsize=10)
plt.show()
