# %% [markdown]
# # Compare methods on your data
#
# Which method removes the shortcut from *your* images? `unspur.compare` trains several on the same images, with the
# same network and number of steps, and puts their scores side by side. Here: ordinary training (`erm`), JTT, our
# preset (`unspur`), and DFR on the suspects (`dfr-mined`). None of them sees a bias label.

# %%
import unspur
from unspur.data import load

digits = load("demo", ratio="5pct")
steps = {f"{stage}.steps": 80 for stage in ("mine", "pretrain", "adapt", "prune", "finetune")}
comparison = unspur.compare(
    digits,
    ["erm", "jtt", "unspur", "dfr-mined"],
    model="convnet",
    settings=steps | {"model.options.width": 32},
    out="compared",
)

# %% [markdown]
# ## The table
#
# `compared/comparison.html` shows this with explanations, and every method has a run folder of its own to go on from.

# %%
print(f"{'method':18} {'aligned':>8} {'conflicting':>12} {'networks':>9} {'weights kept':>13}")
for method in comparison.methods:
    aligned, conflicting = method.scores["aligned"].value, method.scores["conflicting"].value
    networks = method.networks.partition(":")[0]
    print(
        f"{method.title:18} {aligned:8.0%} {conflicting:12.0%} {networks:>9} {method.weights_kept:13.0%}"
    )

# %% [markdown]
# ## With intervals
#
# The bars are 95 % intervals over the test images. They say how much another choice of test images could change the
# numbers, not how much another seed could: run several seeds before you call one method better. Trainings are very
# short here, so the ranking is not a result about the methods.

# %%
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(7, 3))
for offset, kind in ((-0.15, "aligned"), (0.15, "conflicting")):
    shares = [method.scores[kind] for method in comparison.methods]
    low = [share.value - share.interval[0] for share in shares]
    high = [share.interval[1] - share.value for share in shares]
    places = [number + offset for number in range(len(shares))]
    axis.errorbar(
        places, [share.value for share in shares], [low, high], fmt="o", capsize=4, label=kind
    )
axis.set_xticks(range(len(comparison.methods)), [method.title for method in comparison.methods])
axis.set_ylim(0, 1.05)
axis.set_ylabel("accuracy")
axis.legend()
plt.show()
