"""Counter-based random numbers: fixed bits, the right distribution, independence in every argument."""

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from unspur import noise

EDGE_WORDS = [0, 1, 2, 0xFFFF, 0x10000, 0x1FFFF, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFF0000]
EDGE_WORDS += [0xDEADBEEF, 0xFFFFFFFE, 0xFFFFFFFF]
N = 1 << 18


def chi_square_z(counts: torch.Tensor, expected: torch.Tensor | float) -> float:
    """Return how many standard deviations a chi-square statistic is away from its mean."""
    counts = counts.double()
    freedom = counts.numel() - 1
    return (float(((counts - expected) ** 2 / expected).sum()) - freedom) / math.sqrt(2 * freedom)


def correlation_z(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the correlation of two long vectors in standard deviations."""
    pair = torch.stack([a.double().flatten(), b.double().flatten()])
    return float(torch.corrcoef(pair)[0, 1]) * math.sqrt(pair.shape[1])


@pytest.mark.parametrize(
    ("seed", "step", "stream", "expected"),
    [
        (0, 0, 0, [737199405, 601684415, 620207615, 1274981290]),
        (7, 3, 1000, [1804435085, 2106749367, -780854971, -1096582712]),
        (2**40 + 5, 123456, 5, [779188233, -505505423, 1187322345, 1733160417]),
        (0, 2**32 - 1, 1, [-296159623, -1044767639]),
    ],
)
def test_the_bits_never_change(seed, step, stream, expected):
    """Another number here would silently change every recorded run."""
    assert noise.bits(seed, step, stream, (len(expected),)).tolist() == expected


def test_the_shape_only_reshapes_the_positions():
    flat = noise.bits(3, 4, 5, (24,))
    assert torch.equal(noise.bits(3, 4, 5, (2, 3, 4)), flat.reshape(2, 3, 4))
    assert torch.equal(noise.bits(3, 4, 5, (7,)), flat[:7])


@pytest.mark.parametrize("step", [0, 1, 5, 99_999, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40 + 3])
def test_integer_and_tensor_steps_give_equal_bits(step):
    expected = noise.bits(11, step, 1003, (5, 7))
    assert torch.equal(noise.bits(11, torch.tensor(step), 1003, (5, 7)), expected)


def test_the_type_of_the_step_tensor_does_not_matter():
    expected = noise.bits(11, 5, 1, (9,))
    assert torch.equal(noise.bits(11, torch.tensor(5, dtype=torch.int32), 1, (9,)), expected)


def test_a_tensor_of_steps_gives_the_numbers_of_each_step():
    steps = torch.tensor([[0, 1, 17], [2**31, 2**32 - 1, 5]])
    block = noise.bits(2, steps, 9, (4, 3))
    assert block.shape == (2, 3, 4, 3)
    for row in range(2):
        for column in range(3):
            alone = noise.bits(2, int(steps[row, column]), 9, (4, 3))
            assert torch.equal(block[row, column], alone)


def test_the_three_forms_of_the_mixer_agree():
    integers = [noise._mix(word) for word in EDGE_WORDS]
    wide = noise._mix(torch.tensor(EDGE_WORDS, dtype=torch.int64))
    words = torch.tensor([noise._signed(word) for word in EDGE_WORDS], dtype=torch.int32)
    assert wide.tolist() == integers
    assert [word & 0xFFFFFFFF for word in noise._mix_words(words).tolist()] == integers


def test_the_mixer_is_one_to_one():
    words = torch.arange(1 << 20) * 4093 % (1 << 32)
    assert len(noise._mix(words).unique()) == len(words)


def test_uniform_is_strictly_inside_the_unit_interval(monkeypatch):
    extremes = torch.tensor([0, 0x1FF, -1, -(2**31), 2**31 - 1], dtype=torch.int32)
    monkeypatch.setattr(noise, "bits", lambda *args: extremes)
    u = noise.uniform(0, torch.tensor([0]), 0, (5,))
    assert u.tolist() == [2**-24, 2**-24, 1 - 2**-24, 0.5 + 2**-24, 0.5 - 2**-24]
    assert noise.logistic(u).isfinite().all()
    assert noise.blocks._to_uniform(extremes.numpy().view("uint32")).tolist() == u.tolist()


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 128), (2, noise.blocks.BLOCK), (70_001, 2)])
@pytest.mark.parametrize("step", [0, 7, 2**31 + 5])
def test_blocks_have_the_numbers_of_tensor_operations(shape, step):
    """A tensor of steps uses tensor operations, a single step uses NumPy in blocks."""
    for seed, stream in ((0, 0), (2**40 + 5, noise.MIX), (-3, noise.FIRST_WEIGHT + 2)):
        for function in (noise.bits, noise.uniform):
            [expected] = function(seed, torch.tensor([step]), stream, shape)
            found = function(seed, step, stream, shape)
            assert found.dtype == expected.dtype
            assert torch.equal(found, expected)


def test_other_devices_and_traces_use_tensor_operations():
    assert noise.is_plain_cpu(None)
    assert noise.is_plain_cpu("cpu")
    assert not noise.is_plain_cpu("meta")
    with torch.device("meta"):
        assert noise.uniform(0, 0, 0, (3,)).is_meta
    with FakeTensorMode():
        assert isinstance(noise.uniform(0, 0, 0, (3,)), FakeTensor)


@pytest.mark.parametrize("seed", [0, 1, 55, 2**33])
def test_uniform_has_the_right_distribution(seed):
    u = noise.uniform(seed, 3, noise.FIRST_WEIGHT, (N,)).double()
    assert abs(float(u.mean()) - 1 / 2) < 4 * math.sqrt(1 / 12 / N)
    assert abs(float(u.var()) - 1 / 12) < 4 * math.sqrt(1 / 180 / N)
    counts = torch.bincount((u * 1024).long(), minlength=1024)
    assert abs(chi_square_z(counts, N / 1024)) < 4


def test_pairs_of_neighbours_fill_the_square():
    u = noise.uniform(0, 0, 0, (N,)).double()
    cells = (u[:-1] * 32).long() * 32 + (u[1:] * 32).long()
    assert abs(chi_square_z(torch.bincount(cells, minlength=1024), (N - 1) / 1024)) < 4.5


def test_first_numbers_of_many_steps_are_uniform():
    """A short draw at each of many steps (a batch of indices) must be as good as one long draw."""
    steps = torch.arange(N // 4)
    u = noise.uniform(1, steps, noise.SAMPLE, (4,)).double()
    for position in range(4):
        counts = torch.bincount((u[:, position] * 256).long(), minlength=256)
        assert abs(chi_square_z(counts, len(steps) / 256)) < 4
    assert abs(correlation_z(u[:-1], u[1:])) < 4


def test_seeds_steps_and_streams_are_independent():
    base = noise.uniform(5, 10, 1000, (N,))
    others = [(seed, 10, 1000) for seed in (0, 4, 6, 5 + 2**32)]
    others += [(5, step, 1000) for step in (0, 9, 11, 11_000)]
    others += [(5, 10, stream) for stream in (0, 999, 1001, 1064)]
    for key in others:
        assert abs(correlation_z(base, noise.uniform(*key, (N,)))) < 4, key


def test_neighbouring_positions_are_independent():
    u = noise.uniform(5, 10, 1000, (N,))
    for lag in (1, 2, 3, 9, 64, 256, 4096):
        assert abs(correlation_z(u[lag:], u[:-lag])) < 4, lag


@pytest.mark.parametrize("what", ["seed", "step", "stream", "position"])
def test_each_of_the_32_bits_flips_half_of_the_time(what):
    n = 1 << 16
    a = noise.bits(5, 10, 1000, (n + 1,))
    b = {
        "seed": noise.bits(6, 10, 1000, (n,)),
        "step": noise.bits(5, 11, 1000, (n,)),
        "stream": noise.bits(5, 10, 1001, (n,)),
        "position": a[1:],
    }[what]
    flips = torch.stack([((a[:n] ^ b) >> bit) & 1 for bit in range(32)]).double().mean(1)
    assert float((flips - 0.5).abs().max()) < 4.5 * 0.5 / math.sqrt(n)


def test_logistic_noise_has_the_logistic_distribution():
    g = noise.logistic(noise.uniform(8, 0, 1000, (N,))).double()
    variance = math.pi**2 / 3
    # The fourth central moment of the logistic distribution is 7 pi^4 / 15.
    spread = math.sqrt((7 * math.pi**4 / 15 - variance**2) / N)
    assert abs(float(g.mean())) < 4 * math.sqrt(variance / N)
    assert abs(float(g.var()) - variance) < 4 * spread
    for cut in (-3.0, -1.5, 0.0, 1.5, 3.0):
        expected = 1 / (1 + math.exp(-cut))
        sd = math.sqrt(expected * (1 - expected) / N)
        assert abs(float((g < cut).double().mean()) - expected) < 4 * sd


def test_logistic_inverts_the_sigmoid():
    u = torch.tensor([1e-6, 0.1, 0.5, 0.9, 1 - 1e-6], dtype=torch.float64)
    torch.testing.assert_close(torch.sigmoid(noise.logistic(u)), u, rtol=1e-12, atol=0)


def test_the_streams_of_one_seed_are_different():
    named = [noise.PERMUTE, noise.SAMPLE, noise.FLIP, noise.CROP_ROW, noise.CROP_COLUMN]
    named.append(noise.HOLD_OUT)
    assert len(set(named)) == len(named)
    assert max(named) < noise.FIRST_WEIGHT


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
@pytest.mark.parametrize("shape", [(1,), (3, 256), (258, 256), (7, 5, 3), (100_003,)])
@pytest.mark.parametrize("step", [0, 7, 2**31 + 5, 2**33 + 1])
def test_one_kernel_draws_the_same_numbers(shape, step):
    """Compare the fused kernel on a GPU with the definition on the CPU, for keys of either sign."""
    for seed, stream in ((0, 0), (2**40 + 5, noise.MIX), (-3, noise.FIRST_WEIGHT + 2)):
        at = torch.tensor(step, device="cuda")
        assert noise.is_fused(at)
        fused = noise.uniform(seed, at, stream, shape)
        assert torch.equal(fused.cpu(), noise.uniform(seed, step, stream, shape))


def test_compiled_and_cpu_steps_use_plain_operations():
    assert not noise.is_fused(torch.tensor(3))
