"""Cues: hidden cues are uniform, exchanged cues come from the donor, and other pixels do not change."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unspur.errors import DataError, UsageError
from unspur.probe import image_changes as changes_module
from unspur.probe.cues import Border, Colour, Corners, Detail, Light, Style
from unspur.probe.image_changes import (
    PLAIN,
    FunctionChange,
    StyleOf,
    as_change,
    every_change,
    hide,
    load_function,
)
from unspur.probe.patches import Patch, read_patch


def images(count: int = 6, side: int = 16, *, channels: int = 3, seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, channels, side, side), generator=g, dtype=torch.uint8)


@pytest.mark.parametrize("name", [*PLAIN, "region 1,2,3,4"])
@pytest.mark.parametrize("kind", ["bytes", "floats", "odd", "grey"])
def test_images_keep_their_shape_and_kind(name: str, kind: str) -> None:
    some = images(side=15 if kind == "odd" else 16, channels=1 if kind == "grey" else 3)
    some = some / 255 if kind == "floats" else some
    cue = hide(name)
    for changed in (cue.hide(some), cue.exchange(some, some.flip(0))):
        assert changed.shape == some.shape
        assert changed.dtype == some.dtype


@pytest.mark.parametrize("name", ["border", "corners", "light", "detail", "region 1,2,3,4"])
def test_an_image_that_is_its_own_donor_does_not_change(name: str) -> None:
    some = images()
    same = hide(name).exchange(some, some)
    assert int((same.int() - some.int()).abs().max()) <= 1


def test_only_the_area_of_a_cue_is_exchanged() -> None:
    some, donors = images(seed=1), images(seed=2)
    for cue, inside in ((Corners(), (1, 1)), (hide("region 4,2,3,5"), (3, 5))):
        area = cue.area(some)  # type: ignore[attr-defined]
        assert area[inside]
        assert not area[8, 8]
        changed = cue.exchange(some, donors)
        assert torch.equal(changed[:, :, area], donors[:, :, area])
        assert torch.equal(changed[:, :, ~area], some[:, :, ~area])


def test_exchanging_the_border_keeps_the_lighting() -> None:
    slope = torch.linspace(0, 100, 16).byte().view(1, 1, 1, 16).expand(2, 3, 16, 16)
    flat = torch.full_like(slope, 50)
    assert torch.allclose(Border().exchange(flat, slope).float(), flat.float(), atol=2)
    framed = flat.clone()
    framed[:, 0, :2], framed[:, 0, -2:] = 200, 200
    changed = Border().exchange(flat, framed)
    assert torch.allclose(changed[:, 0, :2].float(), torch.tensor(200.0), atol=2)
    assert torch.equal(changed[:, :, 2:-2, 2:-2], flat[:, :, 2:-2, 2:-2])


def test_hidden_cues_are_equal_in_all_images() -> None:
    some = images()
    border = Border()
    hidden = border.hide(some)[:, :, border.area(some)]
    assert torch.equal(hidden, hidden[:1, :, :1].expand_as(hidden))
    grey = Colour().hide(some)
    assert torch.equal(grey[:, 0], grey[:, 1])
    slopes = torch.arange(6).view(6, 1, 1, 1) * torch.arange(16).view(1, 1, 1, 16)
    lit = (some // 4 + slopes).to(torch.uint8)
    means = [float(each.double().mean((1, 2, 3)).std()) for each in (lit, Light().hide(lit))]
    assert means[1] < means[0] / 10


def test_colour_and_light_come_from_the_donor() -> None:
    grey = images(channels=1).expand(-1, 3, -1, -1) // 2
    red = torch.zeros_like(grey)
    red[:, 0] = 200
    tinted = Colour().exchange(grey, red)
    assert bool((tinted[:, 0] >= tinted[:, 1]).all())
    assert float(tinted[:, 1:].double().mean()) < 1
    slope = torch.linspace(0, 100, 16).byte().view(1, 1, 1, 16).expand(6, 3, 16, 16)
    flat = torch.full_like(slope, 50)
    assert torch.allclose(Light().exchange(flat, slope).float(), slope.float(), atol=2)


def test_exchanging_detail_copies_texture_and_keeps_the_mean() -> None:
    stripes = (torch.arange(32) % 2 * 200).byte().view(1, 1, 1, 32).expand(4, 3, 32, 32)
    flat = torch.full_like(stripes, 100)
    blurred = Detail().hide(stripes)
    assert float(blurred[..., 8:-8].float().std()) < 5 < float(stripes.float().std())
    textured = Detail().exchange(flat, stripes)
    assert float(textured.float().std()) > 50
    assert abs(float(textured.float().mean()) - 100) < 2
    assert float(Style().hide(images(side=15)).float().std()) > 0


def test_regions_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="16 x 16"):
        hide("region 8,8,9,1").hide(images())
    with pytest.raises(UsageError, match="at least one pixel"):
        hide("region 1,1,0,4")
    for wrong in ("region", "region 1,2,3", "snow", "region -1,2,3,4"):
        with pytest.raises(UsageError, match="Choose one of"):
            hide(wrong)


def test_without_the_extra_the_error_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes_module, "installed", lambda: False)
    for name in ("background", "text"):
        with pytest.raises(UsageError, match=r"pip install 'unspur\[probe\]'"):
            hide(name)
    changes, left_out = every_change(3)
    assert [change.name for change in changes] == list(PLAIN)
    assert left_out == ["background and text: pip install 'unspur[probe]'"]
    assert "colour" not in [change.name for change in every_change(1)[0]]


# Patches


def test_a_patch_is_pasted_at_its_place_and_scaled_down(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from PIL import Image

    Image.new("RGB", (40, 20), (255, 0, 0)).save(tmp_path / "red.png")
    some = images()
    for place, (row, column) in {"corner": (0, 0), "bottom-right": (15, 15)}.items():
        patch = read_patch(tmp_path / "red.png", place)
        pasted, grey = patch.paste(some), patch.paste_grey(some)
        assert bool((pasted[:, 0, row, column] == 255).all())
        assert int((grey[:, :, row, column].int() - 128).abs().max()) <= 1
        assert torch.equal(pasted[:, :, 6:10, 6:10], some[:, :, 6:10, 6:10])
        assert int((pasted != some).any(1).any(0).sum()) <= 4 * 2
    with pytest.raises(UsageError, match="top-left"):
        read_patch(tmp_path / "red.png", "sky")
    (tmp_path / "no.png").write_text("no picture")
    with pytest.raises(DataError, match="cannot be read as an image"):
        read_patch(tmp_path / "no.png", "corner")


def test_transparent_pixels_are_not_pasted() -> None:
    patch = Patch(torch.ones(3, 2, 2), torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), "centre")
    some = torch.zeros(1, 1, 8, 8)
    assert patch.paste(some)[0, 0, 3:5, 3:5].tolist() == [[1, 0], [0, 1]]


# Functions


def test_a_function_must_keep_the_shape_and_the_dtype() -> None:
    some = images()
    assert torch.equal(FunctionChange(lambda image: image.flip(2)).apply(some), some.flip(3))
    for wrong in (lambda image: image[:1], lambda image: image / 255, lambda image: "no"):
        with pytest.raises(UsageError, match="return"):
            FunctionChange(wrong).apply(some)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="failed on an image: ZeroDivisionError"):
        FunctionChange(lambda image: image // (1 // 0)).apply(some)
    with pytest.raises(UsageError, match="a name or a function"):
        as_change(3)
    assert as_change(StyleOf("cat")) == StyleOf("cat")


def test_a_function_is_loaded_from_a_file_with_its_control(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "mine.py"
    path.write_text(
        "def dark(image):\n    return image // 2\n\n\ndark_control = lambda image: image\n"
    )
    change = load_function(f"{path}:dark")
    some = images()
    assert torch.equal(change.apply(some), some // 2)
    assert torch.equal(change.apply_control(some), some)  # type: ignore[arg-type]
    for wrong in (f"{path}:bright", "nothing.py:dark", "dark"):
        with pytest.raises(UsageError, match="no function"):
            load_function(wrong)
