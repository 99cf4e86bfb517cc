"""Multiply–adds: of attention, as torch's counter finds them, and without importing torch's compiler."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from unspur import models
from unspur.masks.multiply_adds import multiply_adds, plain_attention, uses

WIDTH, HEADS, TOKENS = 16, 2, 64


class SmallTransformer(nn.Module):
    """Patches, one attention layer, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x, _ = self.attention(query=x, key=x, value=x, need_weights=False)
        logits: Tensor = self.head(x.mean(1))
        return logits


WEIGHTS = {
    "patches.weight": WIDTH * 3 * 16,
    "attention.in_proj_weight": 3 * WIDTH * WIDTH,
    "attention.out_proj.weight": WIDTH * WIDTH,
    "head.weight": 2 * WIDTH,
}


def test_every_weight_of_attention_is_used_once_for_each_token():
    times = uses(SmallTransformer(), torch.rand(2, 3, 32, 32), WEIGHTS)
    assert times == dict(zip(WEIGHTS, (TOKENS, TOKENS, TOKENS, 1), strict=True))
    alone = uses(SmallTransformer(), torch.rand(2, 3, 32, 32), ["attention.out_proj.weight"])
    assert alone == {"attention.out_proj.weight": TOKENS}


def test_the_products_of_attention_are_counted():
    model, x = SmallTransformer(), torch.rand(2, 3, 32, 32)
    layers = sum(
        size * times for size, times in zip(WEIGHTS.values(), (64, 64, 64, 1), strict=True)
    )
    assert multiply_adds(model, x) == layers + 2 * TOKENS * TOKENS * WIDTH


def test_the_fast_attention_is_used_again_after_counting():
    before = torch.backends.mha.get_fastpath_enabled()
    multiply_adds(SmallTransformer(), torch.rand(1, 3, 32, 32))
    assert torch.backends.mha.get_fastpath_enabled() is before


class Attending(nn.Module):
    """Attention over the rows of an image, and a bilinear product."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 3, batch_first=True)
        self.head = nn.Bilinear(12, 12, 2)

    def forward(self, x):
        rows = x.mean(1)[..., :12]
        mixed = self.attention(rows, rows, rows)[0].mean(1)
        return self.head(mixed, mixed)


NETWORKS = {
    "convnet": lambda: models.builder("convnet", 3, {"width": 4}).build(0),
    "resnet": lambda: models.builder("resnet18", 3).build(0),
    "attention": Attending,
    "transposed": lambda: nn.Sequential(
        nn.ConvTranspose2d(3, 4, 3, stride=2), nn.Flatten(), nn.LazyLinear(2)
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_count_is_that_of_torch(name):
    model, x = NETWORKS[name](), torch.rand(2, 3, 16, 16)
    model(x)
    counter = FlopCounterMode(display=False)
    with plain_attention(), sdpa_kernel(SDPBackend.MATH), torch.no_grad(), counter:
        model.eval()(x[:1])
    assert multiply_adds(model, x) == counter.get_total_flops() // 2 > 0


def test_a_linear_layer_has_one_multiply_add_for_each_weight():
    assert multiply_adds(nn.Linear(7, 5), torch.rand(1, 7)) == 35


def test_counting_and_tracing_do_not_import_the_compiler():
    code = (
        "import sys, torch\n"
        "from unspur.masks.multiply_adds import multiply_adds\n"
        "from unspur.masks.channels.trace import trace\n"
        "model, x = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3)), torch.rand(1, 3, 8, 8)\n"
        "trace(model, x)\n"
        "assert multiply_adds(model, x) == 36 * 27 * 4\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
