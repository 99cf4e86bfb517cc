"""Exporting a run writes files with the same outputs, a table and a card, and no partial results."""

import json
import re
import shutil
from types import SimpleNamespace

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from deploy_nets import SmallViT
from sealing import edit, reseal
from unspur import cli, masks, recipes, runs
from unspur.deploy import card, formats, staging
from unspur.deploy.check_images import check_images, find_source
from unspur.deploy.export import export
from unspur.deploy.measure import latencies
from unspur.deploy.removal_summary import removal_summary, what_was_masked
from unspur.errors import ModelError, StoreError, TrainingError, UnspurError, UsageError
from unspur.masks.channels import Slimmed, removable
from unspur.masks.channels.gates import unit_masks
from unspur.models import builder
from unspur.store import claim, read_json, read_tensors, seal_folder, write_bytes, write_tensors
from unspur.store.packing import plain_zeros, read_packed, write_packed

ACCURACY = {
    "unbiased": 0.9,
    "aligned": 0.99,
    "conflicting": 0.89,
    "worst_group": 0.5,
    "average": 0.9,
}
SCORES = {
    "evaluated_on": "test",
    "ordinary": {**ACCURACY, "unbiased": 0.5},
    "pruned": None,
    "debiased": ACCURACY,
    "mining": {"text": "A shortcut is likely: 7 of 100 samples contradict it."},
    "density": {"overall": 0.5},
}


def images(count=8, side=16):
    g = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3, side, side), generator=g, dtype=torch.uint8)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("unspur.deploy.measure.BATCHES", (1, 2))


@pytest.fixture
def run(tmp_path):
    """Return the folder of a run with masks on channels; half of its channels are dead."""
    return save_run(tmp_path / "run", 0.5)


@pytest.fixture
def alive(tmp_path):
    """Return the folder of a run without dead channels."""
    return save_run(tmp_path / "alive", 1.0)


def save_run(folder, share):
    """Write the folder of a run with a small network that keeps a share of its channels."""
    made = builder("convnet", 4, {"width": 8})
    model = made.build(0).eval()
    x = images(2) / 255
    channels = removable(model, x)
    keep = torch.rand(channels.count, generator=torch.Generator().manual_seed(1)) < share
    masks.apply(model, unit_masks(model, channels, keep))
    masks.bake(model)
    folder.mkdir()
    checksum = write_tensors(folder / "model.safetensors", model.state_dict())
    about = {
        "format": 1,
        "unspur": "0",
        "builder": dict(made.how),
        "classes": ["a", "b", "c", "d"],
        "input": {"shape": [3, 16, 16], "scale": 255, "mean": [0.5] * 3, "std": [0.5] * 3},
        "sha256": checksum,
    }
    facts = {"recipe": "toy", "data": {"name": "toys", "digest": "123"}}
    for name, content in (("model", about), ("scores", SCORES), ("run", facts)):
        write_bytes(folder / f"{name}.json", json.dumps(content).encode())
    files = ("model.safetensors", "model.json", "scores.json", "run.json")
    seal_folder(folder, "run", files)
    return folder


def exported(run, *kinds, **how):
    how = {"make_slim": True, "seconds": 0.0, **how}
    return export(run, run / "export", images(), kinds=kinds or ("safetensors",), **how)


@pytest.mark.parametrize("kinds", [("safetensors",), ("packed",), ("safetensors", "packed")])
def test_a_slim_model_can_be_loaded(run, kinds):
    done = exported(run, *kinds)
    back, whole = runs.load(done.out), runs.load(run)
    torch.testing.assert_close(back(images()), whole(images()), rtol=0, atol=1e-5)
    sizes = [sum(p.numel() for p in m.parameters()) for m in (back, whole)]
    assert sizes[0] < 0.5 * sizes[1]
    assert done.differences["slim"] < 1e-5
    assert done.differences["read back"] == 0
    assert {p.name for p in done.out.iterdir()} >= {"README.md", "model.json", "export.json"}
    assert (done.out / "model.safetensors").exists() == ("safetensors" in kinds)


def test_a_slim_export_can_be_exported_again(run):
    first = exported(run)
    second = export(
        first.out, run / "again", images(), make_slim=True, kinds=("packed",), seconds=0.0
    )
    a, b = runs.load(first.out), runs.load(second.out)
    torch.testing.assert_close(a(images()), b(images()), rtol=0, atol=1e-6)


def test_the_table_has_costs_and_accuracy(run):
    table = {row[0]: row[1:] for row in exported(run).table}
    assert float(table["multiply–adds"][2]) < 0.6
    assert float(table["parameters"][2]) < 0.5
    assert table["unbiased accuracy, ordinary and debiased"] == ["50.0 %", "90.0 %", "–"]
    assert {"torch, batch 1", "torch, batch 2"} <= table.keys()


@pytest.mark.slow
def test_the_table_of_an_ordinary_model_has_no_debiased_one(run):
    edit(run / "scores.json", ordinary=ACCURACY)
    done = exported(run, make_slim=False)
    table = {row[0]: row[1:] for row in done.table}
    assert table["unbiased accuracy of the ordinary model"] == ["90.0 %", "90.0 %", "–"]


def test_onnx_and_pt2_compute_the_same(run):
    pytest.importorskip("onnxscript", reason="the extra deploy")
    onnx = pytest.importorskip("onnx", reason="the extra deploy")
    pytest.importorskip("onnxruntime", reason="the extra deploy")
    done = exported(run, "onnx", "pt2")
    assert done.differences["onnx"] < 1e-4
    assert done.differences["pt2"] < 1e-4
    whole = runs.load(run)
    for open_, name in ((formats.open_onnx, "model.onnx"), (formats.open_pt2, "model.pt2")):
        for count in (1, 5):
            found = open_(done.out / name)(images(count))
            torch.testing.assert_close(found, whole(images(count)).detach(), rtol=0, atol=1e-4)
    notes = {p.key: p.value for p in onnx.load(done.out / "model.onnx").metadata_props}
    assert json.loads(notes["classes"]) == ["a", "b", "c", "d"]
    assert json.loads(notes["input"])["mean"] == [0.5] * 3
    assert not (done.out / "whole.onnx").exists()
    assert "ONNX Runtime, batch 1" in {row[0] for row in done.table}


def test_a_model_without_some_heads_can_be_loaded(tmp_path):
    torch.manual_seed(0)
    model = SmallViT(4).eval()
    channels = removable(model, images(2) / 255)
    keep = torch.ones(channels.count, dtype=torch.bool)
    keep[channels.groups["blocks.0.attn.in_proj_weight"][:2]] = False
    masks.apply(model, unit_masks(model, channels, keep))
    masks.bake(model)
    path = tmp_path / "w.safetensors"
    write_packed(path, model.state_dict())
    fresh = SmallViT(4)
    fresh.load_state_dict(read_packed(path))
    assert torch.equal(fresh.eval()(images() / 255), model(images() / 255))


def test_a_failed_export_leaves_nothing_behind(run, monkeypatch):
    monkeypatch.setattr(
        "unspur.deploy.measure.costs", lambda *a, **k: (_ for _ in ()).throw(OSError("no space"))
    )
    with pytest.raises(StoreError, match="no space"):
        exported(run)
    assert sorted(p.name for p in run.iterdir()) == [
        *("manifest.json", "model.json", "model.safetensors", "run.json", "scores.json"),
    ]


def test_what_a_killed_export_left_does_not_get_into_the_next_one(run):
    left = staging._beside(run / "export")
    for each in left:
        each.mkdir()
        (each / "whole.onnx").touch()
        exported(run)
    assert not (run / "export" / "whole.onnx").exists()
    assert not any(each.exists() for each in left)


def test_copies_that_a_person_has_made_of_an_export_are_kept(run):
    for end in ("old", "partial", "backup"):
        exported(run).out.rename(run / f"export.{end}")
    exported(run)
    kept = [run / f"export.{end}" for end in ("backup", "old", "partial")]
    assert sorted(run.glob("export.*")) == kept
    for each in kept:
        runs.load(each)  # raises if a file is missing or damaged


def test_an_export_through_a_link_replaces_what_the_link_names(run, tmp_path):
    (run / "export").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    for _ in range(3):
        exported(run)
    assert (run / "export").is_symlink()
    runs.load(tmp_path / "elsewhere")


def test_a_folder_that_is_not_an_export_is_not_replaced(run, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(StoreError, match="not an export"):
        export(run, tmp_path / "mine", images(), make_slim=False, kinds=("packed",))
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_second_export_replaces_the_first(run):
    before = {path.name for path in run.iterdir()}
    exported(run, "packed")
    done = exported(run, "safetensors")
    assert not (done.out / "model.packed.safetensors").exists()
    assert not [path for path in run.iterdir() if path.name not in {*before, "export"}]


def test_a_second_export_keeps_what_a_person_has_added(run):
    out = exported(run, "onnx").out
    (out / "notes.md").write_text("mine")
    (out / ".git").mkdir()
    (out / ".git" / "HEAD").write_text("main")
    for _ in range(2):
        with (out / "README.md").open("a") as file:
            file.write("my words")
        with pytest.warns(UserWarning, match=r"README\.md was edited; the old one was renamed to"):
            exported(run, "safetensors")
    assert (out / "notes.md").read_text() == "mine"
    assert (out / ".git" / "HEAD").read_text() == "main"
    cards = [(out / name).read_text() for name in ("README.md", "README-1.md", "README-2.md")]
    assert ["my words" in text for text in cards] == [False, True, True]
    assert not (out / "model.onnx").exists()
    (out / "manifest.json").write_text("damaged")
    (out / "report.html").write_text("of the export before")
    with pytest.warns(UserWarning, match=r"README\.md was edited"):
        exported(run, "safetensors")
    runs.load(out)
    assert (out / "notes.md").read_text() == "mine"
    assert (out / ".git" / "HEAD").read_text() == "main"
    assert not (out / "report.html").exists()


def test_an_export_survives_a_process_that_was_killed_while_it_was_replaced(run):
    out = exported(run).out
    (out / "notes.md").write_text("mine")
    out.rename(staging._beside(out)[1])
    assert (exported(run).out / "notes.md").read_text() == "mine"
    assert not any(each.exists() for each in staging._beside(out))


def test_every_file_of_an_export_except_the_card_is_sealed(run):
    done = exported(run, "safetensors", "packed")
    names = {path.name for path in done.out.iterdir()} - {"README.md"}
    assert names >= {"export.json", "scores.json", "manifest.json", "model.packed.safetensors"}
    for name in names:
        data = bytearray((done.out / name).read_bytes())
        data[len(data) // 2] ^= 4
        whole = (done.out / name).read_bytes()
        (done.out / name).write_bytes(data)
        with pytest.raises(StoreError, match=rf"{name} is damaged.*(Export the run|Run the comm)"):
            runs.load(done.out)
        (done.out / name).write_bytes(whole)
    (done.out / "README.md").write_text("my own words")
    runs.load(done.out)


def test_a_damaged_run_is_not_exported(run):
    text = (run / "scores.json").read_text()
    (run / "scores.json").write_text(text.replace("0.9", "0.8"))
    with pytest.raises(StoreError, match=r"scores\.json is damaged"):
        exported(run)
    assert not (run / "export").exists()


def test_two_exports_at_the_same_time_are_refused(run):
    with claim(run / "export", run / "export.lock"), pytest.raises(StoreError) as refused:
        exported(run)
    assert "is being written by process" in str(refused.value)
    assert exported(run).out.exists()
    assert not (run / "export.lock").exists()


def test_exporting_runs_no_code_without_trust(run, tmp_path):
    file = tmp_path / "nets.py"
    file.write_text(
        "from pathlib import Path\nfrom unspur.models import BUILTIN\n"
        "Path(__file__).with_name('ran').touch()\nbuild = BUILTIN['convnet']\n"
    )
    about = read_json(run / "model.json")
    about["builder"] = dict(builder(f"{file}:build", 4, {"width": 8}).how)
    edit(run / "model.json", **about)
    (tmp_path / "ran").unlink()
    command = ["export", str(run), "--slim"]
    with pytest.raises(ModelError, match="--trust"):
        CliRunner().invoke(cli.app, command, catch_exceptions=False)
    assert not (tmp_path / "ran").exists()
    done = CliRunner().invoke(cli.app, [*command, "--trust"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    with pytest.raises(ModelError, match="--trust"):
        runs.load(run / "export")
    runs.load(run / "export", trust=True)


def test_a_busy_machine_is_measured_with_one_thread(run, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("unspur.stages.threads.is_busy", lambda: True)
    monkeypatch.setattr("unspur.stages.threads.is_faster_alone", lambda threads: True)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        CliRunner().invoke(cli.app, ["export", str(run), "--slim"], catch_exceptions=False)
    finally:
        torch.set_num_threads(before)
    assert read_json(run / "export" / "export.json")["threads"] == 1


def test_a_file_that_computes_something_else_is_refused():
    with pytest.raises(UnspurError, match="differ by up to 1"):
        formats.agree("the file", lambda x: x, lambda x: x + 1, torch.zeros(2, 2))
    with pytest.raises(UnspurError, match="Nothing was written"):
        formats.agree("the file", lambda x: x, lambda x: x * torch.nan, torch.ones(2, 2))


def test_a_missing_package_is_named_with_its_extra():
    with pytest.raises(UnspurError, match=r"nonesuch.*unspur\[deploy\]"):
        formats.import_extra("nonesuch")


def test_the_card_says_what_was_found(run):
    done = exported(run, hub=True)
    text = (done.out / "README.md").read_text()
    assert text.startswith("---\nlicense: unknown\nlibrary_name: unspur\n")
    for part in (
        "A shortcut is likely",
        "90.0 %",
        "toys",
        "multiply–adds",
        "## Limits",
        "mean [0.5",
    ):
        assert part in text
    assert (done.out / ".gitattributes").exists()
    assert not (exported(run).out / "README.md").read_text().startswith("---")
    unknown = {**SCORES, "debiased": {**ACCURACY, "unbiased": None}, "mining": None}
    about = read_json(run / "model.json")
    other = card.card(about, unknown, {}, done.table, {})
    assert "shortcut was not labelled" in other
    assert "did not search" in other


def test_the_card_of_an_ordinary_model_says_why_it_is_the_result(run):
    about = read_json(run / "model.json")
    only = {**SCORES, "ordinary": ACCURACY, "selection": {}}
    refused = {"debias": False, "verdict": "nothing", "text": "No sign of a shortcut: told so."}
    kept, scored = {"keep": False}, [["cost", "1"]]
    judged = {**only, "mining": None, "judge": refused}
    rejected = {**only, "judge": {**refused, "debias": True, "text": "It is likely: told so."}}
    text = card.card(about, judged, {}, scored, {})
    assert "No sign of a shortcut: told so." in text
    assert "did not search" not in text
    assert "| debiased |" not in text
    text = card.card(about, {**rejected, "gain_check": kept}, {}, scored, {})
    assert "It is likely: told so. Debiasing was tried and is not worth its cost" in text
    assert "| ordinary | 90.0 %" in text
    assert "| debiased |" not in text
    text = card.card(about, {**only, "mining": None}, {"model": "ordinary"}, scored, {})
    assert "did not search" not in text
    assert "| debiased |" in card.card(about, SCORES, {}, scored, {})


def test_the_card_escapes_names(run):
    script = "<script>alert(1)</script>"
    about = {**read_json(run / "model.json"), "classes": [script, "[a](javascript:b)", "a|b\n# c"]}
    scores = {**SCORES, "evaluated_on": script, "mining": {"text": f"*{script}*"}}
    record = {"recipe": script, "data": {"name": script, "digest": "`x`"}}
    text = card.card(about, scores, record, [["cost", script], ["a|b", "1"]], {})
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert r"\[a\](javascript:b)" in text
    assert r"a\|b # c" in text
    assert [line for line in text.splitlines() if line.startswith("# ")] == [
        "# &lt;script&gt;alert(1)&lt;/script&gt;"
    ]


def test_a_model_with_nan_is_not_exported(run, tmp_path):
    folder = tmp_path / "other"
    shutil.copytree(run, folder)
    weights = read_tensors(folder / "model.safetensors")
    next(each for each in weights.values() if each.is_floating_point()).view(-1)[0] = torch.nan
    about = read_json(folder / "model.json")
    about["sha256"] = write_tensors(folder / "model.safetensors", weights)
    (folder / "model.json").write_text(json.dumps(about))
    reseal(folder)
    with pytest.raises(TrainingError, match=r"the model contains .* NaN"):
        exported(folder)
    assert not (folder / "export").exists()


# Packed weights


def test_packed_weights_are_restored_bit_for_bit(tmp_path):
    g = torch.Generator().manual_seed(0)
    keep = torch.rand(64, 64, 3, 3, generator=g) < 0.1
    weights = {
        "conv.weight": torch.randn(64, 64, 3, 3, generator=g) * keep,  # with negative zeros
        "half": (torch.randn(33, 7, generator=g) * (torch.rand(33, 7, generator=g) < 0.2)).half(),
        "dense": torch.randn(50, generator=g),
        "count": torch.tensor(3),
        "none": torch.zeros(9),
        "odd.bits": torch.randn(5),
    }
    path = tmp_path / "w.safetensors"
    write_packed(path, weights)
    back = read_packed(path)
    expected = plain_zeros(weights)
    for name in weights:
        kind = {4: torch.int32, 2: torch.int16, 8: torch.int64}[expected[name].element_size()]
        assert back[name].dtype == expected[name].dtype
        assert torch.equal(back[name].view(kind), expected[name].view(kind))
    density = float(keep.float().mean())
    size = weights["conv.weight"].nbytes
    assert path.stat().st_size < size * (density + 1 / 32) + 3000


def test_a_damaged_packed_file_is_refused(tmp_path):
    path = tmp_path / "w.safetensors"
    write_tensors(path, {"a": torch.zeros(3)})
    with pytest.raises(StoreError, match="no shapes"):
        read_packed(path)
    write_tensors(path, {"b": torch.zeros(3)}, {"shapes": '{"a": [3]}'})
    with pytest.raises(StoreError, match="cannot be unpacked"):
        read_packed(path)


@pytest.mark.parametrize(
    "shapes", ["3", "[]", '{"a": 3}', '{"a": [-1]}', '{"a": ["x"]}', '{"a": 3']
)
def test_damaged_shapes_of_a_packed_file_are_refused(tmp_path, shapes):
    path = tmp_path / "w.safetensors"
    write_tensors(path, {"a.bits": torch.zeros(3), "a.values": torch.zeros(3)}, {"shapes": shapes})
    with pytest.raises(StoreError, match="damaged"):
        read_packed(path)


def test_a_shape_too_large_for_its_bits_is_refused(tmp_path):
    path = tmp_path / "w.safetensors"
    bits = torch.zeros(3, dtype=torch.uint8)
    write_tensors(
        path, {"a.bits": bits, "a.values": torch.zeros(0)}, {"shapes": '{"a": [9000000000]}'}
    )
    with pytest.raises(StoreError, match="a cannot be unpacked"):
        read_packed(path)


# The command


def test_the_command_without_the_data_checks_with_noise(run):
    done = CliRunner().invoke(cli.app, ["export", str(run), "--slim"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "noise" in done.output
    assert "Removed" in done.output
    assert (run / "export" / "model.safetensors").exists()


def test_an_export_says_where_the_images_of_the_run_are(run, tmp_path):
    before = {**read_json(run / "run.json"), "command": ""}
    command = "unspur debias /home/me/photos --out run"
    edit(run / "run.json", source="../photos", store="../store", command=command)
    for out in (run / "export", tmp_path / "far" / "away"):
        export(run, out, images(), kinds=("safetensors",), make_slim=False, seconds=0.0)
        assert find_source(out) == str(tmp_path / "photos")
    export(run, out, images(), kinds=("safetensors",), make_slim=False, seconds=0.0, hub=True)
    assert read_json(out / "run.json") == before  # for the Hub without paths


@pytest.mark.parametrize("name", ["run", "ordinary", "debiased"])
def test_a_run_may_be_named_like_a_folder_of_its_models(tmp_path, name):
    run = save_run(tmp_path / name, 0.5)
    edit(run / "run.json", source="../photos")
    assert find_source(run) == str(tmp_path / "photos")
    for kind in ("ordinary", "debiased"):
        other = save_run(run / kind, 0.5)
        edit(other / "run.json", model=kind)
        assert find_source(other) == str(tmp_path / "photos")
        out = tmp_path / "exports" / kind
        export(other, out, images(), kinds=("safetensors",), make_slim=False, seconds=0.0)
        assert find_source(out) == str(tmp_path / "photos")


def test_the_command_checks_with_the_images_of_an_option(run, tmp_path):
    for label, name in enumerate("abcd"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(4):
            picture = images(8)[(label + i) % 8].permute(1, 2, 0).numpy()
            Image.fromarray(picture).save(tmp_path / "photos" / name / f"{i}.png")
    photos = str(tmp_path / "photos")
    command = ["export", str(run), "--slim", "--images"]
    done = CliRunner().invoke(cli.app, [*command, photos], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert re.search(r"on \d+ real images", " ".join(done.output.split()))
    with pytest.raises(UnspurError, match="nowhere"):
        check_images(run, tmp_path / "nowhere", None)


def test_images_for_the_check_need_no_labels(run, tmp_path):
    picture = images(1)[0].permute(1, 2, 0).numpy()
    (tmp_path / "photos").mkdir()
    Image.fromarray(picture).save(tmp_path / "photos" / "1.png")
    found = check_images(run, tmp_path / "photos", None)
    assert str(found) == "1 real images"
    assert torch.equal(found.images, images(1))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnspurError, match="no image files in"):
        check_images(run, tmp_path / "empty", None)


@pytest.mark.parametrize("kind", ["onnx", "pt2"])
def test_one_image_is_enough_for_the_check(run, kind):
    export(run, run / "export", images(1), kinds=(kind,), make_slim=False, seconds=0.0)
    open_file = formats.open_onnx if kind == "onnx" else formats.open_pt2
    assert open_file(run / "export" / f"model.{kind}")(images(3)).shape == (3, 4)


def test_an_export_with_only_packed_weights_can_be_exported(run):
    packed = exported(run, "packed").out
    again = exported(packed, "safetensors")
    assert torch.equal(runs.load(again.out)(images()), runs.load(packed)(images()))
    assert read_json(again.out / "export.json")["bytes"]["whole"] > 0


@pytest.mark.parametrize(
    "options",
    [{"multiple": 0}, {"multiple": 2, "make_slim": False}, {"license": "mit", "hub": False}],
)
def test_options_without_effect_are_refused(run, options):
    with pytest.raises(UsageError, match=r"multiple|license"):
        exported(run, **options)


def test_the_command_says_why_nothing_was_removed(alive):
    done = CliRunner().invoke(cli.app, ["export", str(alive), "--slim"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "Removed 0 of 56 channels and heads. Nothing was removed: no channel is dead." in said
    assert "--set prune.unit=channel" in said


def test_the_advice_depends_on_why_nothing_was_removed():
    def said(*, units=8, masked="weights", carried=0, filled=0, reasons=()):
        slimmed = Slimmed({"a.weight": (0, units)}, {}, carried, dict(reasons), filled)
        return " ".join(removal_summary(slimmed, masked))

    assert "prune.unit=channel" in said()
    assert "prune.keep=0.3" in said(masked="channels")
    assert "prune.unit" not in said(masked="channels")
    assert "this model was not pruned" in said(masked="nothing")
    assert "--set" not in said(masked="nothing")
    fixed = said(units=0, reasons={"a.weight": "cumsum in body"}.items())
    assert "no channels that can be removed" in fixed
    assert "The channels of a were kept: cumsum in body." in fixed
    assert "prune.unit" not in fixed
    assert "--multiple 1" in said(filled=3)
    assert "prune.unit" not in said(filled=3) + said(carried=1)


def test_the_folder_says_what_the_masks_were_on(tmp_path):
    def masked(name, **scores):
        (tmp_path / "recipe.toml").write_text(recipes.dump(recipes.load(name)))
        (tmp_path / "scores.json").write_text(json.dumps({**SCORES, **scores}))
        return what_was_masked(tmp_path)

    assert what_was_masked(tmp_path) == "weights"
    assert masked("cmnist/1pct-slim") == "channels"
    assert masked("cmnist/1pct-dcwp") == "weights"
    assert masked("cmnist/1pct-jtt") == "nothing"
    assert masked("cmnist/1pct-slim", judge={"debias": False}) == "nothing"
    assert masked("cmnist/1pct-slim", ordinary=ACCURACY) == "nothing"


def test_latencies_stop_after_the_largest_number_of_passes():
    calls = []
    latencies({"a": calls.append}, torch.zeros(1, 2), seconds=60.0, batches=(1,), most_passes=12)
    assert len(calls) == 1 + 12  # the first one warms up


def test_latencies_are_medians_of_alternating_passes(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("time.perf_counter", lambda: clock.now)

    def takes(seconds):
        def run(x):
            clock.now += seconds

        return run

    found = latencies({"a": takes(1.0), "b": takes(0.25)}, torch.zeros(1, 2), seconds=0.0)
    assert found == {"a": {1: 1000.0, 2: 1000.0}, "b": {1: 250.0, 2: 250.0}}
