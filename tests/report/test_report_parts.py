"""The parts of a report: intervals, charts, pictures, maps."""

from __future__ import annotations

import base64
import io
import xml.etree.ElementTree as ElementTree

import jinja2
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from unspur.report import (
    charts,
    curves,
    gallery,
    palette,
    pictures,
    strips,
    terminal,
    triptych,
    words,
)
from unspur.report.charts import Line
from unspur.report.templates import _asset
from unspur.runs.intervals import DRAWS, bootstrap, share_interval, wilson
from unspur.stages.inspection import saliency
from unspur.stages.measured_gain import paired_interval
from unspur.stages.thumbnails import CLASSES, LOOKS, PICTURES, SIDE
from unspur.training import metrics

# Intervals


def scored(n=400, classes=3, seed=0):
    """Return the predictions of two networks; the second is better on conflicting samples."""
    g = torch.Generator().manual_seed(seed)
    targets = torch.randint(classes, (n,), generator=g)
    bias = torch.randint(classes, (n,), generator=g)
    biased = torch.where(torch.rand(n, generator=g) < 0.7, bias, targets)
    debiased = torch.where(torch.rand(n, generator=g) < 0.3, bias, targets)
    return {
        "targets": targets,
        "bias": bias,
        "conflict": targets != bias,
        "predicted.ordinary": biased,
        "predicted.debiased": debiased,
    }


def resample_slowly(tensors, seed=1, draws=1500):
    """Return the scores of both networks for resampled data sets, one resample at a time."""
    g = torch.Generator().manual_seed(seed)
    n = len(tensors["targets"])
    found = []
    for _ in range(draws):
        index = torch.randint(n, (n,), generator=g)
        some = {name: t[index] for name, t in tensors.items()}
        known = {"bias": some["bias"], "conflict": some["conflict"], "classes": 3}
        pair = [
            metrics.scores(some[f"predicted.{name}"], some["targets"], **known)
            for name in ("ordinary", "debiased")
        ]
        found.append(pair)
    return found


def test_intervals_are_those_of_resampling_samples():
    tensors = scored()
    fast, resampled = bootstrap(tensors), resample_slowly(tensors)
    for metric in ("unbiased", "conflicting", "average"):
        before = [getattr(pair[0], metric) for pair in resampled]
        gain = [getattr(pair[1], metric) - getattr(pair[0], metric) for pair in resampled]
        assert fast.accuracy["ordinary"][metric] == pytest.approx(
            np.quantile(before, [0.025, 0.975]), abs=0.012
        )
        assert fast.gain[metric] == pytest.approx(np.quantile(gain, [0.025, 0.975]), abs=0.015)


def test_an_interval_has_a_width_if_all_samples_are_right():
    tensors = scored()
    aligned = int((~tensors["conflict"]).sum())
    assert bool((tensors["predicted.ordinary"] == tensors["targets"])[~tensors["conflict"]].all())
    assert bootstrap(tensors).accuracy["ordinary"]["aligned"] == wilson(aligned, aligned)
    assert share_interval(1.0, 14) == wilson(14, 14)
    assert share_interval(0.5, 14) == wilson(7, 14)


def few_samples(right, n=3):
    """Return two groups of 60 aligned samples and two of `n` conflicting ones, and who gets them right."""
    sizes = torch.tensor([60, n, 60, n])
    targets = torch.tensor([0, 0, 1, 1]).repeat_interleave(sizes)
    bias = torch.tensor([0, 1, 1, 0]).repeat_interleave(sizes)
    return {
        "targets": targets,
        "bias": bias,
        "conflict": targets != bias,
        **{f"predicted.{name}": torch.where(r, targets, 1 - targets) for name, r in right.items()},
    }


def test_a_gain_on_few_samples_is_not_certain():
    """If one image of one becomes right, the gain is 100 points, and nothing is known about others."""
    conflict = few_samples({}, n=1)["conflict"]
    found = bootstrap(few_samples({"ordinary": ~conflict, "debiased": conflict | ~conflict}, n=1))
    assert found.gain["conflicting"] == pytest.approx(paired_interval(2, 0, 2))
    assert found.gain["conflicting"][0] < 0 < found.gain["conflicting"][1]
    assert found.gain["aligned"] == pytest.approx(paired_interval(0, 0, 120))
    assert found.gain["unbiased"][0] < 0.5 < found.gain["unbiased"][1]
    assert found.gain["worst_group"][0] < 0.5


@pytest.mark.parametrize("metric", ["unbiased", "conflicting", "average"])
def test_intervals_of_few_samples_have_a_coverage_of_95_per_cent(metric):
    rng, chance = np.random.default_rng(0), np.array([0.95, 0.6])
    truth = {"unbiased": 0.775, "conflicting": 0.6, "average": (60 * 0.95 + 3 * 0.6) / 63}
    held, draws = 0, 300
    for _ in range(draws):
        probability = torch.from_numpy(chance[few_samples({})["conflict"].long().numpy()])
        right = torch.from_numpy(rng.random(126)) < probability
        tensors = few_samples({"debiased": right})
        low, high = bootstrap(tensors).accuracy["debiased"][metric]
        held += low <= truth[metric] <= high
    assert held >= 0.92 * draws


def test_the_worst_group_is_the_one_that_is_worst_in_the_data():
    tensors = scored()
    known = {"bias": tensors["bias"], "conflict": tensors["conflict"], "classes": 3}
    worst = metrics.scores(tensors["predicted.ordinary"], tensors["targets"], **known).worst_group
    low, high = bootstrap(tensors).accuracy["ordinary"]["worst_group"]
    assert low < worst < high


def test_without_bias_labels_there_is_only_an_average():
    tensors = {k: v for k, v in scored().items() if k not in ("bias", "conflict")}
    found = bootstrap(tensors)
    assert found.accuracy["ordinary"].keys() == {"average"}
    low, high = found.accuracy["ordinary"]["average"]
    share = float((tensors["predicted.ordinary"] == tensors["targets"]).double().mean())
    width = 1.96 * (share * (1 - share) / 400) ** 0.5
    assert (low, high) == pytest.approx((share - width, share + width), abs=0.006)
    assert share_interval(share, 400) == pytest.approx((low, high), abs=0.006)


def test_one_network_alone_has_no_gain():
    tensors = {k: v for k, v in scored().items() if k != "predicted.ordinary"}
    assert bootstrap(tensors).gain == {}


def test_a_group_of_one_sample_and_a_part_without_any():
    tensors = {
        "targets": torch.tensor([0, 0, 1]),
        "bias": torch.tensor([0, 0, 1]),
        "conflict": torch.tensor([False, False, False]),
        "predicted.debiased": torch.tensor([0, 1, 1]),
    }
    found = bootstrap(tensors).accuracy["debiased"]
    assert all(0 <= low <= high <= 1 for m, (low, high) in found.items() if m != "conflicting")
    assert np.isnan(found["conflicting"]).all()
    assert DRAWS >= 1000


# Charts


LINES = [Line("<total>", [(k, 5.0 / (k + 1)) for k in range(1, 1000)]), Line("part", [(1, 0.5)])]


def test_charts_are_valid_xml_and_deterministic():
    chart = charts.lines(LINES, words='says "<so>"', mark=(300, "kept"))
    root = ElementTree.fromstring(chart)
    assert root.attrib["aria-label"] == 'says "<so>"'
    assert chart == charts.lines(LINES, words='says "<so>"', mark=(300, "kept"))
    (line,) = root.findall("polyline")
    assert len(line.attrib["points"].split()) <= 301
    assert len(root.findall("circle")) == 1  # a line of one point is a dot
    other = ElementTree.fromstring(charts.swatch(1)).find("polyline")
    assert line.attrib.get("stroke-dasharray") != other.attrib.get("stroke-dasharray")


@pytest.mark.parametrize(
    "ys", [[0.0], [0.0, 0.0], [-3.0, 2.0], [1e-9, 1e3], [5.0, 5.0], [1e7, 2e7], [0.2, 9.0]]
)
@pytest.mark.parametrize("percent", [True, False])
def test_any_numbers_can_be_drawn(ys, percent):
    points = [(float(k), y) for k, y in enumerate(ys)]
    root = ElementTree.fromstring(charts.lines([Line("a", points)], words="w", percent=percent))
    assert "nan" not in ElementTree.tostring(root, encoding="unicode")
    assert len(root.findall("text")) >= 3


def test_lines_stay_within_the_picture():
    root = ElementTree.fromstring(charts.lines(LINES, words="w"))
    for line in root.findall("polyline"):
        for pair in line.attrib["points"].split():
            x, y = map(float, pair.split(","))
            assert charts.LEFT - 0.1 <= x <= charts.WIDE
            assert 0 <= y <= charts.HIGH


@pytest.mark.parametrize("high", [4.0, 40.0, 5e5])
def test_a_logarithmic_axis_has_at_least_three_ticks(high):
    line = Line("a", [(1.0, high), (2.0, high / 31)])
    root = ElementTree.fromstring(charts.lines([line], words="w"))
    upwards = [
        t for t in root.findall("text") if t.attrib["text-anchor"] == "end" and t.text != "step"
    ]
    assert len(upwards) >= 3


# Strips


AXIS = strips.Axis(
    -0.2, 0.6, [strips.Zone(0.1, "no"), strips.Zone(0.6, "<yes>", "found")], chance=0
)


def test_a_strip_shows_its_marks_and_thresholds():
    marks = [strips.Mark("<a>", 0.3, "0.3"), strips.Mark("b", 0.2, "20 %", start=0.1, counts=False)]
    root = ElementTree.fromstring(strips.strip(marks, AXIS, words='says "<so>"'))
    assert root.attrib["aria-label"] == 'says "<so>"'
    texts = [text.text for text in root.findall("text")]
    assert texts == ["no", "<yes>", "<a>", "0.3", "b", "20 %", "0.1", "0", "−0.2", "0.6"]
    kinds = [circle.attrib["class"] for circle in root.findall("circle")]
    assert kinds == ["mark", "mark open", "mark open"]
    turns = {
        p.attrib["d"][1:].split()[0] for p in root.findall("path") if p.attrib["class"] == "turn"
    }
    assert turns == {root.findall("rect")[1].attrib["x"]}


def test_names_of_a_strip_overlap_with_nothing():
    marks = [strips.Mark("a name that reaches across the threshold", 0.3, "0.3")] * 3
    root = ElementTree.fromstring(strips.strip(marks, AXIS, words="w"))
    names = [float(text.attrib["y"]) for text in root.findall("text")]
    for rect in root.findall("rect"):
        top, high = float(rect.attrib["y"]), float(rect.attrib["height"])
        assert all(y + 4 <= top or y - 10 >= top + high for y in names)
    for path in root.findall("path"):
        if path.attrib["class"] in ("turn", "tally"):
            top, high = (float(part) for part in path.attrib["d"].split()[1].split("v"))
            assert all(y + 4 <= top or y - 10 >= top + high for y in names)


def test_the_name_of_a_narrow_zone_stays_in_the_picture():
    zones = [strips.Zone(0.02, "wrong labels"), strips.Zone(0.97), strips.Zone(1.0, "a shortcut")]
    root = ElementTree.fromstring(strips.strip([], strips.Axis(0.0, 1.0, zones), words="w"))
    for text in root.findall("text")[:2]:
        half = strips.LETTER * len(text.text) / 2
        assert float(text.attrib["x"]) - half > 0
        assert float(text.attrib["x"]) + half < charts.WIDE


@pytest.mark.parametrize("value", [-9.0, -0.2, 0.0, 0.6, 1.0])
def test_marks_stay_on_the_axis(value):
    picture = strips.strip([strips.Mark("a", value, "x")], AXIS, words="w")
    (circle,) = ElementTree.fromstring(picture).findall("circle")
    assert strips.EDGE <= float(circle.attrib["cx"]) <= charts.WIDE - strips.EDGE


def test_the_terminal_does_not_speak_of_a_debiased_model_that_there_is_not():
    parts = {"all": 0.9, "suspects": None, "others": 0.9}
    ordinary = {"unbiased": None, "average": 0.9}
    scores = {
        "evaluated_on": "train",
        "ordinary": ordinary,
        "pruned": None,
        "debiased": ordinary,
        "mining": None,
        "selection": {"rule": "last"},
        "unseen": {
            "split": "validation",
            "counts": {"all": 5, "suspects": 0, "others": 5},
            "ordinary": parts,
            "debiased": parts,
        },
    }
    assert "debiased" not in " ".join(terminal.summary(scores))
    other = {**scores, "debiased": {"unbiased": None, "average": 0.8}}
    assert "  all (5): ordinary 90.0 %, debiased 90.0 %" in plain_lines(other)


def plain_lines(scores):
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in terminal.summary(scores)]


def test_a_cloud_names_only_groups_that_form_clusters():
    rng = np.random.default_rng(0)
    middles = [(0, 0), (10, 0), (0, 10), (10, 10)]
    groups = [k for k in range(4) for _ in range(50)]
    apart = [tuple(rng.normal(middles[g])) for g in groups]
    names = {g: f"<{g}>" for g in range(4)}
    labels = [
        [
            t.text
            for t in ElementTree.fromstring(charts.cloud(p, groups, names, words="w")).iter("text")
        ]
        for p in (apart, [tuple(rng.normal(size=2)) for _ in groups])
    ]
    assert labels == [["<0>", "<1>", "<2>", "<3>"], []]


def test_the_names_in_a_cloud_stay_inside_the_picture():
    name = "a longer name"
    names = {0: name, 1: name, 2: "x" * 200}
    places = [(0.0, 0.0), (0.1, 0.0), (9.9, 9.0), (10.0, 9.0), (5.0, 1.0), (5.1, 1.0)]
    drawn = charts.cloud(places, [0, 0, 1, 1, 2, 2], names, words="w")
    texts = [text for text in ElementTree.fromstring(drawn).iter("text") if text.text == name]
    half = 4 * len(name)  # letters are at most eight wide
    assert len(texts) == 2
    assert all(half <= float(text.get("x")) <= 320 - half for text in texts)


def test_a_cloud_of_one_point():
    assert "<path" in charts.cloud([(1.0, 1.0)], [0], {0: "only"}, words="w")


def test_neighbouring_groups_differ_in_colour_and_shape():
    marks = [charts.dot(group) for group in range(28)]
    assert len(set(marks)) == 28
    for one, other in zip(range(27), range(1, 28), strict=True):
        assert palette.GROUPS[one % 7] != palette.GROUPS[other % 7]


@pytest.mark.parametrize(
    ("name", "strongest"), [("vermilion", 0), ("Red", 0), ("green", 1), ("light blue", 2)]
)
def test_a_group_named_after_a_colour_is_drawn_in_it(name, strongest):
    colour = palette.group_colours({0: "fog", 1: name})[1]
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    assert parts.index(max(parts)) == strongest
    assert f'"{colour}"' in charts.dot(1, colour)


def test_groups_without_a_colour_name_are_grey_beside_those_with_one():
    assert palette.group_colours({0: "fog", 1: "blue"})[0] == palette.GREY
    names = {0: "fog", 1: "snow flakes", 9: "rain"}
    assert palette.group_colours(names) == {k: palette.GROUPS[k % 7] for k in names}


def test_a_map_has_the_colours_of_its_names_in_picture_and_legend():
    tensors = {
        "map.features.ordinary": torch.randn(30, 3, generator=torch.Generator().manual_seed(0)),
        "map.targets": torch.arange(30) % 2,
        "map.bias": torch.arange(30) % 3,
    }
    names = ("vermilion", "yellow", "cyan")
    *_, row = triptych.rows(tensors, {"ordinary": "ordinary model"}, ("a", "b"), names)
    for name, (mark, shown) in zip(names, row.legend, strict=True):
        assert shown == name
        assert palette.named_colour(name) in mark
        assert palette.named_colour(name) in row.pictures["ordinary"]


def test_groups_without_a_name_are_called_groups():
    assert [words.group_name(k, ("urban", "1")) for k in range(3)] == [
        "urban",
        "group 1",
        "group 2",
    ]
    groups = {"ordinary": {"groups": [[0.5, 1.0]]}}
    (matrix,) = words.matrices(groups, {"ordinary": "ordinary model"}, ["cat"], [])
    assert matrix.biases == ["group 0", "group 1"]


@pytest.mark.parametrize("ground", ["#ffffff", "#181d24"])
@pytest.mark.parametrize(
    "colour", [*palette.GROUPS, *map(palette.named_colour, ("yellow", "black", "white", "sage"))]
)
def test_marks_are_visible_on_light_and_dark(colour, ground):
    low, high = sorted((palette.luminance(colour), palette.luminance(ground)))
    assert (high + 0.05) / (low + 0.05) >= 3


@pytest.mark.parametrize("share", [k / 20 for k in range(21)])
def test_numbers_are_readable_on_the_heat_map(share):
    fill = palette.ramp(share)
    low, high = sorted((palette.luminance(fill), palette.luminance(palette.on(fill))))
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_the_heat_map_is_brighter_for_larger_shares():
    brightness = [palette.luminance(palette.ramp(k / 50)) for k in range(51)]
    assert brightness == sorted(brightness)


# Curves


def test_curves_come_from_the_log():
    log = [
        {
            "step": 10,
            "loss": 2.0,
            "cross_entropy": 1.5,
            "alignment": 0.5,
            "rate": 0.1,
            "seconds": 1,
        },
        {"step": 10, "unseen_accuracy": 0.25},
        {"step": 10, "heldout_suspects": 0.9, "heldout_others": 0.1},
        {
            "step": 20,
            "loss": 1.0,
            "cross_entropy": 0.8,
            "alignment": 0.2,
            "rate": 0.1,
            "seconds": 2,
        },
        {"setup_seconds": 3.0},
    ]
    loss, accuracy, errors = curves.charts_of("finetune", log, chosen=20)
    assert [name for _, name in loss.legend] == ["total loss", "alignment", "cross entropy"]
    assert "total loss from 2 at step 10 to 1 at step 20" in loss.picture
    assert "from 25.0 %" in accuracy.picture
    assert "selected" in errors.picture
    assert curves.charts_of("control", []) == []
    assert curves.charts_of("erm", [{"step": 1, "loss": 1.0, "cross_entropy": 1.0}])[0].legend == []


# Pictures


def decoded(uri):
    head, _, data = uri.partition(",")
    return head, Image.open(io.BytesIO(base64.b64decode(data)))


def test_small_pictures_are_stored_without_loss():
    picture = torch.randint(0, 256, (3, 8, 9), dtype=torch.uint8)
    head, image = decoded(pictures.uri(picture))
    assert head == "data:image/png;base64"
    assert np.array_equal(np.asarray(image), picture.permute(1, 2, 0).numpy())


def test_commands_in_sentences_are_marked_and_escaped():
    parts = jinja2.Environment(loader=jinja2.FunctionLoader(_asset), autoescape=True)
    prose = parts.get_template("parts.html.j2").module.prose
    marked = 'Use <code class="command">unspur export --slim</code>, &lt;b&gt;.'
    assert str(prose("Use `unspur export --slim`, <b>.")).strip() == marked
    assert str(prose("a &lt; b")).strip() == "a &amp;lt; b"


def test_pictures_of_a_class_that_are_no_suspects_are_explained():
    """A class with few suspects is filled up; the page says so, and what the miner predicts for each."""

    def page(*, flagged: bool) -> str:
        suspect = gallery.Card("data:,", "a.png", "cat", "cat", 0.2, flagged, "", {})
        shelf = gallery.Shelf("cat", 9, int(flagged), [suspect], [])
        parts = jinja2.Environment(
            loader=jinja2.FunctionLoader(_asset), autoescape=True
        ).get_template("parts.html.j2")
        return " ".join(parts.module.gallery([shelf], gallery.FILTERS, False).split())

    explained = "In a class with few suspects, the images with the next highest scores follow."
    assert explained in page(flagged=False)
    assert ">predicted cat</p>" in page(flagged=False)
    assert "all pictures" in page(flagged=False)
    assert explained not in page(flagged=True)


def test_a_full_gallery_fits_the_page():
    """Noise compresses worst. Counted are the gallery, and pictures with heat maps or through two views."""
    g = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (3, SIDE, SIDE), generator=g, dtype=torch.uint8)
    assert CLASSES <= PICTURES // 8
    assert len(pictures.uri(noise)) * (PICTURES + 2 * 3 * LOOKS) < 4_500_000


def test_heat_is_orange_and_the_rest_grey():
    picture = torch.randint(0, 256, (3, 4, 4), dtype=torch.uint8)
    heat = torch.zeros(4, 4, dtype=torch.uint8)
    heat[0, 0] = 255
    mixed = pictures.overlay(picture, heat)
    assert tuple(mixed[0, 0]) == tuple(pictures.HEAT)
    assert (mixed[1:].max(2) == mixed[1:].min(2)).all()


def test_saliency_finds_the_pixels_that_a_network_uses():
    class Corner(nn.Module):
        def forward(self, x):
            first = x[:, :, :2, :2].sum((1, 2, 3))
            return torch.stack([first, -first], 1)

    x = torch.rand(5, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    heat = saliency(Corner(), x)
    assert heat.shape == (5, 12, 12)
    assert float(heat[:, :2, :2].mean()) > 0.2
    assert float(heat[:, 3:, 3:].max()) == 0
    # Of a linear network: each pixel's distance from the median colour, in shares of the 99th percentile.
    for number, image in enumerate(x):
        from_median = image - x.transpose(0, 1).flatten(1).median(1).values[:, None, None]
        away = from_median.sum(0).abs()
        away[2:], away[:, 2:] = 0, 0
        brightest = np.quantile(away.numpy(), 0.99)
        np.testing.assert_allclose(heat[number], (away / brightest).clamp(max=1), atol=1e-5)


# Maps


def test_a_map_keeps_clusters_together_and_is_deterministic():
    pytest.importorskip("sklearn", reason="maps are made with the extra 'report'")
    g = torch.Generator().manual_seed(0)
    groups = torch.arange(60) % 3
    features = torch.randn(3, 10, generator=g)[groups] * 5 + torch.randn(60, 10, generator=g)
    places = triptych.layout(features)
    assert places == triptych.layout(features)
    points = torch.tensor(places)
    middles = torch.stack([points[groups == k].mean(0) for k in range(3)])
    assert torch.equal(torch.cdist(points, middles).argmin(1), groups)


def test_maps_are_principal_components_by_default(monkeypatch):
    features = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    tensors = {"map.features.ordinary": features, "map.targets": torch.arange(30) % 2}
    asked = []
    monkeypatch.setattr(triptych, "layout", lambda x: asked.append(x) or [(0.0, 0.0)] * len(x))
    networks, classes = {"ordinary": "ordinary model"}, ("a", "b")
    (row,) = triptych.rows(tensors, networks, classes, ())
    assert not asked
    assert "ordinary" in row.pictures
    assert triptych.principal_plane(features) == [tuple(p) for p in features[:, :2].tolist()]
    triptych.rows(tensors, networks, classes, (), tsne=True)
    assert len(asked) == 1


def test_a_plane_of_one_component_has_a_second_coordinate_of_zero():
    assert triptych.principal_plane(torch.tensor([[1.5], [2.5]])) == [(1.5, 0.0), (2.5, 0.0)]


@pytest.mark.parametrize("width", [1, 3])
def test_maps_of_narrow_and_constant_features(width):
    pytest.importorskip("sklearn", reason="maps are made with the extra 'report'")
    places = triptych.layout(torch.ones(15, width))
    assert len(places) == 15
    assert all(np.isfinite(place).all() for place in places)
