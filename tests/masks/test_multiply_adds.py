"""Multiply–adds are those that torch's counter finds, without importing its compiler."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from unspur import models
from unspur.masks.multiply_adds import multiply_adds


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
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
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
