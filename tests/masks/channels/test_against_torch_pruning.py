"""Compare our groups of channels with those of torch-pruning's dependency graph.

The decision page `docs/decisions/channel-tracing.md` is based on these verdicts. The tests fail when a
release of torch-pruning does better or worse; then review the decision. Print the numbers with

    PYTHONPATH=src:tests python tests/masks/channels/test_against_torch_pruning.py
"""

import copy
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

from channel_nets import ARCHITECTURES, ODD
from deploy_nets import Halves, Joined, Mobile, Sigmoids, SmallViT
from unspur.masks import channels
from unspur.masks.channels import removable, slim, units
from unspur.models.head import find_head
from unspur.models.networks.bagnet import BagNet18
from unspur.models.networks.convnet import ConvNet
from unspur.models.networks.flatnet import FlatNet
from unspur.models.networks.mlp import MLP
from unspur.models.networks.pair import Pair
from unspur.models.networks.resnet import ResNet18

tp = pytest.importorskip("torch_pruning", reason="torch-pruning is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # it warns when it guesses

BUILT_IN = {
    "convnet": lambda: ConvNet(5, width=6),
    "convnet, unit features": lambda: ConvNet(5, width=6, unit=True),
    "flatnet": lambda: FlatNet(5, width=4),
    "mlp": lambda: MLP(5, inputs=768, hidden=(20, 16, 8)),
    "resnet18": lambda: ResNet18(5),
    "bagnet18": lambda: BagNet18(5),
    "pair": lambda: Pair(ConvNet(5, width=6), ConvNet(5, width=6), head="head"),
}
SMALL = {
    "concatenation": Joined,
    "ViT, nn.MultiheadAttention": SmallViT,
    "ViT, attention by hand": lambda: SmallViT(own=True),
    "MobileNetV3 block": Mobile,
    "sigmoids": Sigmoids,
    "halves": Halves,
}
NETS = {**BUILT_IN, **SMALL, **ARCHITECTURES, **ODD}

# same: every unit of ours is the same group in torch-pruning, and every channel it offers can be removed.
# unsound: the same groups, but removing some of the channels it offers changes what the network computes.
# other: some of our units are a different group. none: it finds none of our units.
SAME = (
    *("convnet", "flatnet", "mlp", "resnet18", "bagnet18", "pair", "concatenation", "sigmoids"),
    *("MobileNetV3 block", "MobileNetV2", "EfficientNet", "DenseNet", "Inception", "VGG", "U-Net"),
    "a layer twice",
)
UNSOUND = (
    *("convnet, unit features", "ViT, attention by hand", "ResNeXt", "ShuffleNet", "ConvNeXt"),
    *("heads by three layers", "width in the code", "running sum", "group norm"),
    *("scale and buffer", "parametrized"),
)
OTHER = ("ViT, nn.MultiheadAttention", "halves", "TransformerEncoderLayer", "reshapes")
NONE = ("functions", "frozen")
VERDICTS = {
    **dict.fromkeys(SAME, "same"),
    **dict.fromkeys(UNSOUND, "unsound"),
    **dict.fromkeys(OTHER, "other"),
    **dict.fromkeys(NONE, "none"),
}


@dataclass(frozen=True)
class Comparison:
    """Counts of our units, of those that are the same group in torch-pruning, and of what it offers."""

    ours: int
    same: int
    offered: int
    unsound: int
    our_seconds: float
    its_seconds: float

    @property
    def verdict(self) -> str:
        if self.same < self.ours:
            return "other" if self.same else "none"
        return "unsound" if self.unsound else "same"


def images():
    return torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def build(make):
    torch.manual_seed(0)
    return make().eval()


def graph_of(model):
    return tp.DependencyGraph().build_dependency(model, example_inputs=images(), verbose=False)


def group_of(graph, layer, positions):
    return graph.get_pruning_group(
        layer, graph.get_pruner_of_module(layer).prune_out_channels, positions
    )


def places(model, graph, group):
    """Return what a group of torch-pruning removes: (weight, dimension, position)."""
    names = {module: name for name, module in model.named_modules()}
    parameters = {parameter: name for name, parameter in model.named_parameters()}
    found = set()
    for dep, positions in group:
        target = dep.target.module
        if isinstance(target, nn.Parameter):
            name, dim = parameters[target], dep.target.pruning_dim % target.dim()
        elif target in names and getattr(target, "weight", None) is not None:
            name, dim = f"{names[target]}.weight", dimension(graph, dep)
        elif target in names:
            name, dim = names[target], 0  # attention, and other modules without a weight
        else:
            continue
        found |= {(name, dim, i) for i in positions}
    return found


def dimension(graph, dep):
    """Return the dimension of a weight that a step of torch-pruning cuts."""
    one_way = not graph.is_out_channel_pruning_fn(dep.handler)
    reads = one_way and graph.is_in_channel_pruning_fn(dep.handler)
    return int(reads) ^ int(isinstance(dep.target.module, nn.ConvTranspose2d))


def same_units(model, ours, graph):
    """Count the units that torch-pruning groups in the same way, given the rows that make them."""
    count = 0
    weights = {name for name, _ in model.named_parameters() if not name.endswith("bias")}
    modules = dict(model.named_modules())
    for unit in range(ours.count):
        at = {
            (s.name, s.dim, i)
            for s in ours.slots
            if s.name in weights
            for i in (s.units == unit).nonzero().squeeze(1).tolist()
        }
        maker = next(s for s in ours.makers if bool((s.units == unit).any()))
        layer = modules.get(maker.name.rpartition(".")[0])
        rows = (maker.units == unit).nonzero().squeeze(1).tolist()
        if layer in graph.module2node:
            count += places(model, graph, group_of(graph, layer, rows)) == at
    return count


def offers(model, graph, head):
    """Return the layers that torch-pruning would prune; the head is excluded, as its docs require."""
    groups = graph.get_all_groups(ignored_layers=[model.get_submodule(head)] if head else [])
    names = {module: name for name, module in model.named_modules()}
    return [names[group[0].dep.target.module] for group in groups]


def sound(make, name):
    """Return whether torch-pruning can remove a third of a layer's channels after no layer reads them."""
    model = build(make)
    graph, layer = graph_of(model), model.get_submodule(name)
    group = group_of(graph, layer, range(max(1, width(layer) // 3)))
    try:
        unread(model, places(model, graph, group))
        expected = model(images())
        group.prune()
        return torch.allclose(model(images()), expected, atol=1e-4)
    except (RuntimeError, AssertionError, IndexError, KeyError, ValueError):
        return False


@torch.no_grad()
def unread(model, channels):
    """Set the weights that read the channels to zero, in place, so that removing them changes nothing."""
    for name, dim, position in channels:
        layer = model.get_submodule(name.rpartition(".")[0])
        reads = 0 if isinstance(layer, nn.ConvTranspose2d) else 1
        if isinstance(layer, (nn.Linear, nn.modules.conv._ConvNd)) and dim == reads:
            layer.weight.select(dim, position).zero_()


def width(layer):
    return layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels


def compare(make):
    model = build(make)
    mine = removable(model, images())
    began = time.perf_counter()
    units(model, images())
    our_seconds = time.perf_counter() - began
    head = "" if make is ODD["functions"] else find_head(model, images())
    began = time.perf_counter()
    graph = graph_of(model)
    found = offers(model, graph, head)
    its_seconds = time.perf_counter() - began
    widths = {name: width(model.get_submodule(name)) for name in found}
    bad = sum(widths[name] for name in found if not sound(make, name))
    same = same_units(model, mine, graph)
    offered = sum(widths.values())
    return Comparison(mine.count, same, offered, bad, our_seconds, its_seconds)


@pytest.mark.parametrize("name", NETS)
def test_the_verdict_agrees_with_the_decision_page(name):
    assert compare(NETS[name]).verdict == VERDICTS[name]


def test_the_decision_page_has_these_verdicts():
    page = (Path(__file__).parents[3] / "docs/decisions/channel-tracing.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")] for line in page.splitlines()]
    assert {row[1]: row[6] for row in rows if len(row) == 9 and row[1] in NETS} == VERDICTS


def test_torch_pruning_needs_gradients_and_leaves_the_model_in_eval_mode():
    model = ConvNet(5, width=6).train()
    with torch.no_grad(), pytest.raises(AssertionError, match="autograd"):
        graph_of(model)
    units(model, images())
    assert model.training
    graph_of(model)
    assert not model.training


@pytest.mark.parametrize("make", [Sigmoids, BUILT_IN["convnet"]], ids=["sigmoids", "batch norm"])
def test_torch_pruning_drops_the_constants_of_dead_channels(make):
    """Zero rows leave a constant; our code moves it to the next layer."""
    ours = build(make).requires_grad_(False)
    name, layer = next((n, m) for n, m in ours.named_modules() if isinstance(m, nn.Conv2d))
    layer.weight[:2] = 0.0
    for norm in (m for m in ours.modules() if isinstance(m, nn.BatchNorm2d)):
        norm.bias.fill_(1.0)
    expected = ours(images())
    its = copy.deepcopy(ours).requires_grad_(True)
    group_of(graph_of(its), its.get_submodule(name), [0, 1]).prune()
    assert not torch.allclose(its(images()), expected, atol=1e-3)
    slim(ours, images())
    assert torch.allclose(ours(images()), expected, atol=1e-5)
    assert width(ours.get_submodule(name)) < width(build(make).get_submodule(name))


def lines_run(names):
    """Return the lines of our tracing code that these networks run."""
    folder, found = str(Path(channels.__file__).parent), set()

    def note(frame, event, arg):
        if not frame.f_code.co_filename.startswith(folder):
            return None
        found.add((frame.f_code.co_filename, frame.f_lineno))
        return note

    for name in names:
        model = build(NETS[name])
        sys.settrace(note)
        try:
            units(model, images())
        finally:
            sys.settrace(None)
    return found


def print_table():
    print("| network | our units | same | offered | unsound | verdict | ours, ms | its, ms |")
    print("|---|---:|---:|---:|---:|---|---:|---:|")
    for name, make in NETS.items():
        c = compare(make)
        times = f"{1000 * c.our_seconds:.0f} | {1000 * c.its_seconds:.0f}"
        print(
            f"| {name} | {c.ours} | {c.same} | {c.offered} | {c.unsound} | {c.verdict} | {times} |"
        )
    every, needed = lines_run(NETS), lines_run(set(NETS) - set(SAME))
    print(f"\nOf {len(every)} lines that our tracing runs, {len(every - needed)} only for 'same':")
    for file, line in sorted(every - needed):
        print(f"  {Path(file).name}:{line}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print_table()
