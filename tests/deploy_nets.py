"""Small networks with the dependencies between layers that channel removal must handle."""

import torch
import torch.nn.functional as F
from torch import nn


class Joined(nn.Module):
    """A layer concatenated with the layer that reads it, batch norm over both, and a flatten."""

    def __init__(self, classes=5):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(12)
        self.third = nn.Conv2d(12, 6, 1)
        self.head = nn.Linear(6 * 16, classes)

    def forward(self, x):
        x = self.first(x).relu()
        x = torch.cat([x, self.second(x)], 1)
        x = self.third(self.norm(x).relu())
        return self.head(F.adaptive_avg_pool2d(x, 4).flatten(1))


class Attention(nn.Module):
    """Attention written out by hand, as in many vision transformers."""

    def __init__(self, width, heads):
        super().__init__()
        self.num_heads, self.head_dim = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        b, n, _ = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(*qkv.unbind(0))
        return self.proj(out.transpose(1, 2).reshape(b, n, -1))


class Block(nn.Module):
    def __init__(self, width, heads, own):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.own = own
        self.attn = (
            Attention(width, heads)
            if own
            else nn.MultiheadAttention(width, heads, batch_first=True)
        )
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        y = self.norm1(x)
        x = x + (self.attn(y) if self.own else self.attn(y, y, y)[0])
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class SmallViT(nn.Module):
    """A small vision transformer on 16 × 16 images."""

    def __init__(self, classes=5, *, width=24, heads=3, own=False):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 17, width))
        self.blocks = nn.Sequential(Block(width, heads, own), Block(width, heads, own))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class Mobile(nn.Module):
    """Depthwise convolutions, a squeeze-and-excite gate, an inverted residual."""

    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6))
        self.up = nn.Sequential(nn.Conv2d(6, 12, 1, bias=False), nn.BatchNorm2d(12), nn.ReLU6())
        self.deep = nn.Sequential(
            nn.Conv2d(12, 12, 3, padding=1, groups=12, bias=False), nn.BatchNorm2d(12), nn.SiLU()
        )
        self.squeeze, self.excite = nn.Conv2d(12, 4, 1), nn.Conv2d(4, 12, 1)
        self.down = nn.Sequential(nn.Conv2d(12, 6, 1, bias=False), nn.BatchNorm2d(6))
        self.head = nn.Linear(6, classes)

    def forward(self, x):
        x = F.relu(self.stem(x))
        y = self.deep(self.up(x))
        y = y * torch.sigmoid(self.excite(self.squeeze(y.mean((2, 3), keepdim=True)).relu()))
        return self.head((x + self.down(y)).mean((2, 3)))


class Sigmoids(nn.Module):
    """Activations that are not 0 at 0, before a padded and before an unpadded convolution."""

    def __init__(self, classes=5):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 8, 3, padding=1)
        self.c = nn.Conv2d(8, 8, 3, bias=False)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        x = torch.sigmoid(self.a(x))
        x = torch.sigmoid(self.b(x))
        return self.head(torch.sigmoid(self.c(x)).mean((2, 3)))


class Halves(nn.Module):
    """A layer split into two halves by its width: removing channels from one half would move the split."""

    def __init__(self, classes=5):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(4, 6, 3, padding=1)
        self.head = nn.Linear(6, classes)

    def forward(self, x):
        left, right = self.a(x).chunk(2, dim=1)
        return self.head(self.b(left * torch.sigmoid(right) + left).relu().mean((2, 3)))
