"""PretrainedClassifier: a run saved as the Hub stores it, and back."""

from __future__ import annotations

import json

import pytest
import torch

pytest.importorskip("huggingface_hub")

import unspur
from toys import TinyNet, shapes_set
from unspur.errors import StoreError, UsageError

STEPS = {f"{stage}.steps": 4 for stage in ("mine", "pretrain", "adapt", "prune", "finetune")}
STEPS |= {"mine.how": "oracle", "prune.unit": "weight"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    torch.manual_seed(0)
    unspur.debias(
        shapes_set(),
        model=TinyNet(),
        settings=STEPS,
        anyway=True,
        out=folder / "run",
        store=folder / "store",
    )
    return folder / "run"


@pytest.fixture
def images():
    return shapes_set().test.images[:8]


def test_saved_and_loaded_it_is_the_same_model(run, tmp_path, images):
    model = unspur.PretrainedClassifier(run, model=TinyNet(), license="cc-by-4.0")
    model.save_pretrained(tmp_path / "saved")
    loaded = unspur.PretrainedClassifier.from_pretrained(tmp_path / "saved", model=TinyNet())
    with torch.no_grad():
        assert (loaded(images) == model(images)).all()


def test_the_folder_is_one_that_unspur_loads_and_names_no_path(run, tmp_path):
    unspur.PretrainedClassifier(run, model=TinyNet()).save_pretrained(tmp_path / "saved")
    assert unspur.load(tmp_path / "saved", model=TinyNet())
    assert not (tmp_path / "saved" / "config.json").exists()
    for file in (tmp_path / "saved").glob("*.json"):
        assert str(tmp_path) not in file.read_text()


def test_the_card_has_licence_scores_with_intervals_and_masks(run, tmp_path):
    from huggingface_hub import ModelCard

    model = unspur.PretrainedClassifier(run, model=TinyNet(), license="cc-by-4.0")
    model.save_pretrained(tmp_path / "saved")
    card = ModelCard.load(tmp_path / "saved" / "README.md")
    assert card.data.license == "cc-by-4.0"
    assert card.data.pipeline_tag == "image-classification"
    scores = json.loads((run / "scores.json").read_text())
    unbiased = f"{100 * scores['debiased']['unbiased']:.1f} %"
    assert f"| {unbiased} (" in card.text
    assert "95 % intervals" in card.text
    assert f"{100 * scores['density']['overall']:.1f} % of the masked weights" in card.text


def test_without_a_licence_the_card_says_so(run, tmp_path):
    from huggingface_hub import ModelCard

    unspur.PretrainedClassifier(run, model=TinyNet()).save_pretrained(tmp_path / "saved")
    assert ModelCard.load(tmp_path / "saved" / "README.md").data.license == "unknown"


def test_pushing_uploads_the_saved_folder(run, tmp_path, monkeypatch):
    """What would be uploaded is what save_pretrained writes; the Hub itself is not asked."""
    from huggingface_hub import HfApi

    uploaded = {}

    class Repository:
        repo_id = "me/photos"

    def upload_folder(self, *, folder_path, repo_id, **_):
        uploaded[repo_id] = {path.name for path in folder_path.iterdir()}

    monkeypatch.setattr(HfApi, "create_repo", lambda self, **_: Repository)
    monkeypatch.setattr(HfApi, "upload_folder", upload_folder)
    unspur.PretrainedClassifier(run, model=TinyNet()).push_to_hub("me/photos")
    names = {"README.md", "model.json", "model.safetensors", "scores.json", ".gitattributes"}
    assert names <= uploaded["me/photos"]


def test_an_export_is_saved_as_it_is(run, tmp_path):
    unspur.export(run, tmp_path / "export", hub=True, license="mit", model=TinyNet())
    saved = unspur.PretrainedClassifier(tmp_path / "export", model=TinyNet())
    saved.save_pretrained(tmp_path / "saved")
    first, second = (tmp_path / name / "README.md" for name in ("export", "saved"))
    assert first.read_text() == second.read_text()
    unspur.PretrainedClassifier(tmp_path / "saved", model=TinyNet()).save_pretrained(
        tmp_path / "saved"
    )
    assert first.read_text() == second.read_text()


def test_a_saved_export_has_no_paths_of_this_machine(run, tmp_path):
    unspur.export(run, tmp_path / "export", model=TinyNet())
    assert "store" in json.loads((tmp_path / "export" / "run.json").read_text())
    saved = unspur.PretrainedClassifier(tmp_path / "export", model=TinyNet())
    saved.save_pretrained(tmp_path / "saved")
    record = json.loads((tmp_path / "saved" / "run.json").read_text())
    assert not {"store", "source"} & record.keys()
    assert record["command"] == ""
    unspur.load(tmp_path / "saved", TinyNet())


@pytest.mark.parametrize("options", [{"license": "mit"}, {"slim": True}])
def test_an_export_cannot_get_another_licence_or_fewer_channels(run, tmp_path, options):
    unspur.export(run, tmp_path / "export", model=TinyNet())
    saved = unspur.PretrainedClassifier(tmp_path / "export", model=TinyNet(), **options)
    with pytest.raises(UsageError, match="is an export, whose files are copied as they are"):
        saved.save_pretrained(tmp_path / "saved")


def test_a_run_is_not_replaced(run):
    before = (run / "manifest.json").read_bytes()
    with pytest.raises(StoreError, match="contains a run"):
        unspur.PretrainedClassifier(run, model=TinyNet()).save_pretrained(run)
    assert (run / "manifest.json").read_bytes() == before
