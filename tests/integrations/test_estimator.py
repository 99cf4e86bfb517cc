"""DebiasClassifier: scikit-learn's conventions, for arrays, PIL images and paths."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import validate_data

import unspur
from toys import TinyNet, shapes_set
from unspur.data.custom.image_arrays import images_tensor
from unspur.errors import DataError, UnspurError

SHORT = {"pretrain.steps": 30, "pretrain.batch": 16, "pretrain.rate": 0.01, "data.augment": "none"}
STAGES = {
    f"{stage}.{key}": value
    for stage in ("pretrain", "adapt", "prune", "finetune")
    for key, value in (("steps", 6), ("batch", 32))
}
DEBIASING = {"mine.how": "gce", "mine.steps": 60, "mine.batch": 64, "mine.rate": 0.05, **STAGES}
DEBIASING |= {"mine.optimiser": "sgd", "prune.unit": "weight", "data.augment": "none"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def shapes():
    splits = shapes_set()
    return splits.train.images.numpy(), splits.train.targets.numpy()


def quick(**more):
    options = {"model": TinyNet(), "method": "erm", "settings": SHORT, "random_state": 0, **more}
    return unspur.DebiasClassifier(**options)


def test_it_learns_and_returns_labels_of_the_given_type(shapes):
    images, targets = shapes
    names = np.array(["circle", "square"])[targets]
    fitted = quick().fit(images, names)
    assert list(fitted.classes_) == ["circle", "square"]
    assert set(fitted.predict(images)) <= {"circle", "square"}
    assert fitted.score(images, names) > 0.8
    proba = fitted.predict_proba(images)
    assert proba.shape == (len(images), 2)
    assert np.allclose(proba.sum(1), 1)
    assert (fitted.classes_[proba.argmax(1)] == fitted.predict(images)).all()


def test_debiasing_gives_suspects_and_scores(shapes):
    images, targets = shapes
    fitted = unspur.DebiasClassifier(
        TinyNet(), settings=DEBIASING, anyway=True, random_state=0
    ).fit(images, targets)
    assert fitted.suspects_.shape == targets.shape
    assert fitted.suspects_.dtype == bool
    assert fitted.suspects_.any()
    assert fitted.scores_["debiased"]
    assert fitted.result_.masks


def test_one_seed_is_one_model(shapes):
    images, targets = shapes
    estimator = quick()
    first = estimator.fit(images, targets).predict_proba(images)
    again = clone(estimator).fit(images, targets).predict_proba(images)
    assert (first == again).all()
    same = clone(estimator).set_params(random_state=np.int64(0)).fit(images, targets)
    assert (first == same.predict_proba(images)).all()
    state = quick(random_state=np.random.RandomState(3)).fit(images, targets)
    assert state.predict(images).shape == targets.shape


def test_layouts_give_one_answer(shapes):
    images, targets = shapes
    fitted = quick().fit(images, targets)
    expected = fitted.predict_proba(images)
    last = images.transpose(0, 2, 3, 1)
    for other in (last, list(last), torch.from_numpy(images), images.reshape(len(images), -1)):
        assert np.allclose(fitted.predict_proba(other), expected)
    pictures = [Image.fromarray(image) for image in last]
    assert np.allclose(fitted.predict_proba(pictures), expected)


def test_grey_images_and_the_default_network():
    images = np.random.default_rng(0).integers(0, 255, (60, 12, 12), dtype=np.uint8)
    targets = np.arange(60) % 2
    images[targets == 1, 4:8] = 255
    estimator = unspur.DebiasClassifier(method="erm", settings=SHORT, random_state=0)
    fitted = estimator.fit(images, targets)
    assert fitted.image_shape_ == (1, 12, 12)
    assert fitted.score(images, targets) > 0.8
    assert fitted.predict(images.reshape(60, -1)).tolist() == fitted.predict(images).tolist()


def test_paths(shapes, tmp_path):
    images, targets = shapes
    paths = []
    for number, image in enumerate(images[:40].transpose(0, 2, 3, 1)):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(image).save(paths[-1])
    fitted = quick().fit(paths, targets[:40])
    expected = fitted.predict_proba(images[:40])
    assert np.allclose(fitted.predict_proba([str(path) for path in paths]), expected)


def test_pipelines_and_cross_validation(shapes):
    images, targets = shapes
    invert = FunctionTransformer(lambda x: 255 - x)
    pipeline = make_pipeline(invert, quick())
    assert pipeline.fit(images, targets).score(images, targets) > 0.6
    assert len(cross_val_score(quick(), images, targets, cv=2)) == 2
    pipeline.set_params(debiasclassifier__method="jtt")
    assert pipeline.get_params()["debiasclassifier__method"] == "jtt"


def test_a_fitted_estimator_survives_pickling(shapes):
    images, targets = shapes
    fitted = quick().fit(images, targets)
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    assert (again.predict_proba(images) == fitted.predict_proba(images)).all()


class Rows(unspur.DebiasClassifier):
    """Takes the tables of scikit-learn's checks: a row is an image of one line."""

    def _images(self, X, shape):  # noqa: N803
        table = validate_data(self, X, dtype="numeric", reset=shape is None)
        return torch.as_tensor(table, dtype=torch.float32).reshape(len(table), 1, 1, -1)


# A network for images of one line, of any width.
BUILDER = """
from torch import nn

def build(classes):
    spread = nn.Sequential(nn.Flatten(), nn.Unflatten(1, (1, -1)), nn.AdaptiveAvgPool1d(8))
    return nn.Sequential(spread, nn.Flatten(), nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, classes))
"""


@pytest.mark.filterwarnings("ignore")
def test_estimator_checks_of_scikit_learn(tmp_path):
    (tmp_path / "line.py").write_text(BUILDER)
    estimator = Rows(f"{tmp_path}/line.py:build", method="erm", settings=SHORT, random_state=0)
    failed = {
        each["check_name"]: each["exception"]
        for each in check_estimator(estimator, on_fail=None)
        if each["status"] == "failed"
    }
    assert not failed


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((4, 10)), "image_shape"),
        (np.zeros((4, 2, 2, 2, 2)), r"not \(4, 2, 2, 2, 2\)"),
        (np.zeros((4, 5, 5, 5)), "channels"),
        (np.full((4, 5, 5), 300), "between 0 and 255"),
        (np.array([["a"]]), "numbers"),
        ([np.zeros((2, 2)), np.zeros((3, 3))], "one shape"),
        ("photo.png", "list of paths"),
        (["missing.png"], "it is missing"),
    ],
)
def test_wrong_images_are_refused(images, message):
    with pytest.raises(DataError, match=message):
        images_tensor(images)


def test_wrong_labels_and_sizes_are_refused(shapes):
    images, targets = shapes
    with pytest.raises(DataError, match="240 images and 5 labels"):
        quick().fit(images, targets[:5])
    with pytest.raises(DataError, match="one class"):
        quick().fit(images, np.zeros_like(targets))
    fitted = quick().fit(images, targets)
    with pytest.raises(UnspurError, match="fitted to"):
        fitted.predict(images[:, :, :-1])


def test_pictures_of_different_sizes_become_squares():
    pictures = [Image.new("L", (30, 20)), Image.new("RGBA", (10, 200))]
    assert images_tensor(pictures, limit=64).shape == (2, 3, 64, 64)
    assert images_tensor(pictures[:1], limit=15).shape == (1, 3, 10, 15)
    assert images_tensor(pictures, shape=(3, 8, 9)).shape == (2, 3, 8, 9)
