"""Multiply–adds of attention, whose layers are not called as modules."""

import torch
from torch import Tensor, nn

from unspur.masks.multiply_adds import multiply_adds, uses

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
