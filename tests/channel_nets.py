"""Small versions of common architectures, and code that is hard to trace; all take 3 × 16 × 16 images."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize


def conv(a, b, kernel=3, act=nn.ReLU, **how):
    """A convolution with batch norm and an activation."""
    return nn.Sequential(
        nn.Conv2d(a, b, kernel, padding=kernel // 2, bias=False, **how), nn.BatchNorm2d(b), act()
    )


class Pooled(nn.Module):
    """Any body, a global average, a linear head."""

    def __init__(self, *body, width, classes=5):
        super().__init__()
        self.body, self.head = nn.Sequential(*body), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Inverted(nn.Module):
    """The block of MobileNetV2; with `gate` (squeeze and excite), the block of EfficientNet."""

    def __init__(self, a, b, *, gate, act):
        super().__init__()
        wide = 3 * a
        self.up, self.deep = conv(a, wide, 1, act), conv(wide, wide, act=act, groups=wide)
        self.squeeze = nn.Conv2d(wide, 4, 1) if gate else None
        self.excite = nn.Conv2d(4, wide, 1) if gate else None
        self.down = conv(wide, b, 1, nn.Identity)
        self.residual = a == b

    def forward(self, x):
        y = self.deep(self.up(x))
        if self.squeeze is not None:
            y = y * self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))).sigmoid()
        return x + self.down(y) if self.residual else self.down(y)


def mobilenet():
    how = {"gate": False, "act": nn.ReLU6}
    blocks = (Inverted(6, 6, **how), Inverted(6, 8, **how), Inverted(8, 8, **how))
    return Pooled(conv(3, 6), *blocks, conv(8, 16, 1), width=16)


def efficientnet():
    how = {"gate": True, "act": nn.SiLU}
    blocks = (Inverted(6, 6, **how), Inverted(6, 8, **how), Inverted(8, 8, **how))
    return Pooled(conv(3, 6), *blocks, conv(8, 16, 1), width=16)


class Dense(nn.Module):
    """DenseNet: every layer reads all layers before it."""

    def __init__(self, a, growth, layers):
        super().__init__()
        self.layers = nn.ModuleList(conv(a + i * growth, growth) for i in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


class Branches(nn.Module):
    """Inception: branches of different kernels, concatenated."""

    def __init__(self, a):
        super().__init__()
        self.one, self.two = conv(a, 4, 1), nn.Sequential(conv(a, 4, 1), conv(4, 6))
        self.pool = nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(a, 3, 1))

    def forward(self, x):
        return torch.cat([self.one(x), self.two(x), self.pool(x)], 1)


class Bottleneck(nn.Module):
    """ResNeXt: a grouped convolution between two of size one."""

    def __init__(self, a, groups):
        super().__init__()
        self.a, self.b = conv(a, a, 1), conv(a, a, groups=groups)
        self.c = conv(a, a, 1, nn.Identity)

    def forward(self, x):
        return F.relu(x + self.c(self.b(self.a(x))))


class Shuffle(nn.Module):
    """ShuffleNet: half of the channels skip the layers, then both halves are shuffled."""

    def __init__(self, a):
        super().__init__()
        h = a // 2
        self.body = nn.Sequential(
            conv(h, h, 1), conv(h, h, act=nn.Identity, groups=h), conv(h, h, 1)
        )

    def forward(self, x):
        left, right = x.chunk(2, dim=1)
        x = torch.cat([left, self.body(right)], 1)
        b, c, *size = x.shape
        return x.view(b, 2, c // 2, *size).transpose(1, 2).reshape(b, c, *size)


class ConvNeXt(nn.Module):
    """Depthwise, layer norm over channels, two linear layers, a learned scale, a residual sum."""

    def __init__(self, a):
        super().__init__()
        self.deep, self.norm = nn.Conv2d(a, a, 3, padding=1, groups=a), nn.LayerNorm(a)
        self.up, self.down = nn.Linear(a, 4 * a), nn.Linear(4 * a, a)
        self.scale = nn.Parameter(torch.ones(a))

    def forward(self, x):
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class VGG(nn.Module):
    """Feature maps that are flattened before two linear layers."""

    def __init__(self, classes=5):
        super().__init__()
        pool = nn.MaxPool2d(2)
        self.body = nn.Sequential(conv(3, 6), pool, conv(6, 8), pool)
        self.hidden, self.head = nn.Linear(8 * 16, 20), nn.Linear(20, classes)

    def forward(self, x):
        return self.head(self.hidden(self.body(x).flatten(1)).relu())


class UNet(nn.Module):
    """A transposed convolution and a skip connection."""

    def __init__(self, classes=5):
        super().__init__()
        self.a, self.b = conv(3, 6), nn.Sequential(nn.MaxPool2d(2), conv(6, 10))
        self.up, self.c = nn.ConvTranspose2d(10, 6, 2, 2), conv(12, 8)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        x = self.a(x)
        return self.head(self.c(torch.cat([x, self.up(self.b(x))], 1)).mean((2, 3)))


class Encoder(nn.Module):
    """torch's own encoder layer on patches."""

    def __init__(self, classes=5):
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 4, 4)
        self.layer = nn.TransformerEncoderLayer(24, 3, 48, batch_first=True, norm_first=True)
        self.head = nn.Linear(24, classes)

    def forward(self, x):
        return self.head(self.layer(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


class SplitHeads(nn.Module):
    """Queries, keys and values by three linear layers, products written out."""

    def __init__(self, width, heads):
        super().__init__()
        self.num_heads = heads
        self.q, self.k, self.v, self.proj = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (
            f(x).view(b, n, self.num_heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        weights = (q @ k.transpose(-2, -1) * 0.3).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, n, -1))


class Tokens(nn.Module):
    """A transformer block around `SplitHeads`."""

    def __init__(self, classes=5, width=24):
        super().__init__()
        self.patches, self.attn = nn.Conv2d(3, width, 4, 4), SplitHeads(width, 3)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 48), nn.Linear(48, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.attn(self.norm1(x))
        return self.head((x + self.down(F.gelu(self.up(self.norm2(x))))).mean(1))


class Functional(nn.Module):
    """Weights that are parameters of the model, used by functions."""

    def __init__(self, classes=5):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(8, 3, 3, 3) / 5)
        self.b1 = nn.Parameter(torch.zeros(8))
        self.w2 = nn.Parameter(torch.randn(6, 8, 3, 3) / 8)
        self.w3 = nn.Parameter(torch.randn(classes, 6))

    def forward(self, x):
        x = F.conv2d(x, self.w1, self.b1, padding=1).relu()
        return F.linear(F.conv2d(x, self.w2).relu().mean((2, 3)), self.w3)


class Shared(nn.Module):
    """One layer that runs twice, on its own output."""

    def __init__(self, classes=5):
        super().__init__()
        self.a, self.b, self.c = conv(3, 8), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 6, 1)
        self.head = nn.Linear(6, classes)

    def forward(self, x):
        x = self.a(x)
        x = self.b(self.b(x).relu()).relu()
        return self.head(self.c(x).relu().mean((2, 3)))


class Scaled(nn.Module):
    """A scale and a shift of the channels: one a parameter, one a buffer."""

    def __init__(self, classes=5):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 6, 1)
        self.scale = nn.Parameter(torch.rand(1, 8, 1, 1) + 0.5)
        self.register_buffer("shift", torch.randn(1, 8, 1, 1))
        self.head = nn.Linear(6, classes)

    def forward(self, x):
        return self.head(self.b((self.a(x) * self.scale + self.shift).relu()).relu().mean((2, 3)))


class Reshaped(nn.Module):
    """Reshapes that move channels and hold no weights: space to depth, pixel shuffle, a permutation."""

    def __init__(self, classes=5):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(16, 8, 1)
        self.c, self.head = nn.Conv2d(2, 6, 1), nn.Linear(6, classes)

    def forward(self, x):
        x = F.pixel_unshuffle(self.a(x).relu(), 2)
        x = F.pixel_shuffle(self.b(x).relu(), 2)
        return self.head(self.c(x.flip(1)).relu().permute(0, 2, 3, 1).mean((1, 2)))


class WrittenWidth(nn.Module):
    """A network whose code contains the width as a number."""

    def __init__(self, classes=5):
        super().__init__()
        self.a, self.b, self.head = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 6, 1), nn.Linear(6, classes)

    def forward(self, x):
        x = self.a(x).reshape(len(x), 8, -1).reshape(len(x), 8, *x.shape[2:])
        return self.head(self.b(x).relu().mean((2, 3)))


class RunningSum(nn.Module):
    """An operation over channels that no rule knows."""

    def __init__(self, classes=5):
        super().__init__()
        self.a, self.head = nn.Conv2d(3, 8, 1), nn.Linear(8, classes)

    def forward(self, x):
        return self.head(torch.cumsum(self.a(x), dim=1).mean((2, 3)))


class Halved(nn.Module):
    """A weight under a parametrization, as masks on weights are."""

    def forward(self, weight):
        return weight * 0.5


def parametrized():
    model = Pooled(conv(3, 6), conv(6, 8), width=8)
    parametrize.register_parametrization(model.body[1][0], "weight", Halved())
    return model


def frozen():
    """A network whose weights take no gradient."""
    return Pooled(conv(3, 6), conv(6, 8), width=8).requires_grad_(False)


def grouped_norm():
    norm = nn.GroupNorm(2, 8)
    return Pooled(nn.Conv2d(3, 8, 3, padding=1), norm, nn.ReLU(), conv(8, 6), width=6)


ARCHITECTURES = {
    "MobileNetV2": mobilenet,
    "EfficientNet": efficientnet,
    "DenseNet": lambda: Pooled(conv(3, 6), Dense(6, 4, 3), conv(18, 8, 1), width=8),
    "Inception": lambda: Pooled(conv(3, 6), Branches(6), Branches(13), width=13),
    "ResNeXt": lambda: Pooled(conv(3, 8), Bottleneck(8, 4), Bottleneck(8, 4), width=8),
    "ShuffleNet": lambda: Pooled(conv(3, 8), Shuffle(8), Shuffle(8), conv(8, 6, 1), width=6),
    "ConvNeXt": lambda: Pooled(nn.Conv2d(3, 8, 4, 4), ConvNeXt(8), ConvNeXt(8), width=8),
    "VGG": VGG,
    "U-Net": UNet,
    "TransformerEncoderLayer": Encoder,
    "heads by three layers": Tokens,
}
ODD = {
    "width in the code": WrittenWidth,
    "running sum": RunningSum,
    "group norm": grouped_norm,
    "functions": Functional,
    "a layer twice": Shared,
    "scale and buffer": Scaled,
    "reshapes": Reshaped,
    "parametrized": parametrized,
    "frozen": frozen,
}
