# %% [markdown]
# # Deploy to ONNX Runtime
#
# A debiased model with masks on whole channels can be made really smaller: dead channels are removed, and the rest is
# written as an ONNX file that runs without PyTorch. This notebook debiases a small network, exports it, and checks
# the file in ONNX Runtime.

# %%
import unspur
from unspur.data import load

digits = load("demo", ratio="5pct")
steps = {f"{stage}.steps": 80 for stage in ("mine", "pretrain", "adapt", "prune", "finetune")}
channels = {
    "prune.unit": "channel",
    "prune.cut": "share",
    "prune.keep": 0.3,
    "model.options.width": 32,
}
result = unspur.debias(digits, model="convnet", settings=steps | channels, anyway=True, out="run")

# %% [markdown]
# ## Export
#
# `slim=True` removes the dead channels. Every file is compared with the model on real images before it is kept, and
# both are timed. From the shell: `unspur export run --slim --onnx`.

# %%
exported = unspur.export("run", formats=("safetensors", "onnx"), slim=True)
for name, whole, slim, ratio in exported.table:
    print(f"{name:42} {whole:>10} {slim:>10} {ratio:>6}")

# %% [markdown]
# ## Run the file
#
# The file takes images as bytes, in any batch size: preprocessing is part of the graph. Neither PyTorch nor `unspur`
# is needed from here on.

# %%
import onnxruntime

session = onnxruntime.InferenceSession("run/export/model.onnx", providers=["CPUExecutionProvider"])
entry = session.get_inputs()[0]
print(entry.name, entry.type, entry.shape)
print(session.get_modelmeta().custom_metadata_map["classes"])

images, labels = digits.test.images.numpy(), digits.test.targets.numpy()
(logits,) = session.run(None, {entry.name: images})
answers = logits.argmax(1)
print(
    f"accuracy in ONNX Runtime: {100 * (answers == labels).mean():.1f} % of {len(labels)} test images"
)

# %% [markdown]
# ## The answers
#
# Test images whose colour belongs to another class, with the answers of the deployed file. Wrong ones are red.

# %%
import matplotlib.pyplot as plt

conflicting = digits.conflicting("test").nonzero().squeeze(1)[:: len(labels) // 32][:24]
figure, axes = plt.subplots(3, 8, figsize=(9, 4))
for axis, index in zip(axes.flat, conflicting.tolist(), strict=True):
    axis.imshow(images[index].transpose(1, 2, 0))
    right = answers[index] == labels[index]
    axis.set_title(answers[index], fontsize=11, color="black" if right else "red")
    axis.axis("off")
plt.show()
