"""`DebiasClassifier`: debiasing as an estimator of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from .. import api
from ..data.batches import CHUNK
from ..data.custom.image_arrays import Shape, images_tensor
from ..data.splits import Split
from ..errors import DataError
from ..recipes import own_methods
from ..workflow.debiased_model import DebiasedModel

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "DebiasClassifier needs scikit-learn, which is not installed. Run: pip install 'unspur[sklearn]'"
    ) from error


class InputError(DataError, ValueError):
    """Images or labels that an estimator cannot take; a ValueError, as scikit-learn expects."""


LIMIT = 96  # the largest side of PIL images and files, unless image_shape says otherwise


class DebiasClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of images without the shortcut, with the interface of scikit-learn.

    `X` is an array (N, H, W), (N, H, W, C) or (N, C, H, W), a list of PIL images, or a list of paths.
    An array (N, features) has flattened images of `image_shape` (channels, height, width), by default
    square grey ones. `y` has one label of any type per image. The parameters are those of `unspur.debias`;
    `random_state` is its seed.

    After `fit`: `classes_`, `suspects_` (a boolean per training image), `scores_`, `verdict_` (the audit's
    answer in words), `result_` (what `unspur.debias` returned) and `image_shape_`.
    """

    def __init__(
        self,
        model: nn.Module | str | None = None,
        *,
        method: str = own_methods.DEFAULT,
        settings: Mapping[str, Any] | None = None,
        prefer: str = "balanced",
        anyway: bool = False,
        image_shape: Shape | None = None,
        pretrained: bool = False,
        random_state: Any = None,
        device: str | None = None,
        out: Path | str | None = None,
        store: Path | str | None = None,
        verbose: bool = False,
    ):
        self.model = model
        self.method = method
        self.settings = settings
        self.prefer = prefer
        self.anyway = anyway
        self.image_shape = image_shape
        self.pretrained = pretrained
        self.random_state = random_state
        self.device = device
        self.out = out
        self.store = store
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803  (scikit-learn's name)
        """Train on images `X` with labels `y`, and remove the shortcut if an audit finds one."""
        images = self._images(X, self.image_shape)
        labels = self._labels(y, len(images))
        self.classes_, targets = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError("y has one class; a classifier needs two or more.")
        channels, high, wide = images.shape[1:]
        self.image_shape_: Shape = (channels, high, wide)
        self.result_ = self._debias(images, torch.from_numpy(targets.astype(np.int64)))
        suspects = self.result_.suspects
        found = (
            torch.zeros(len(images), dtype=torch.bool) if suspects is None else suspects.conflict
        )
        self.suspects_ = found.cpu().numpy()
        self.scores_ = self.result_.scores
        self.verdict_: str = (self.scores_.get("judge") or {}).get("text", "")
        return self

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Return the probability of every class for every image, in the order of `classes_`."""
        check_is_fitted(self)
        images = self._images(X, self.image_shape_)
        if tuple(images.shape[1:]) != self.image_shape_:
            raise InputError(
                f"images are {tuple(images.shape[1:])} (channels, height, width); the estimator was fitted "
                f"to {self.image_shape_}."
            )
        return self._probabilities(images).numpy()

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the most probable class of every image."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.non_deterministic = False
        return tags

    def _images(self, X: Any, shape: Shape | None) -> Tensor:  # noqa: N803
        try:
            return images_tensor(X, shape=shape, limit=LIMIT)
        except DataError as error:
            raise InputError(str(error)) from None

    @staticmethod
    def _labels(y: Any, count: int) -> Any:
        if y is None:
            raise InputError("fit requires y to be passed, but the target y is None.")
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        if len(labels) != count:
            raise InputError(f"there are {count} images and {len(labels)} labels.")
        return labels

    def _debias(self, images: Tensor, targets: Tensor) -> DebiasedModel:
        seed = self.random_state
        if isinstance(seed, Integral):  # also a number of numpy, which is the same seed
            seed = int(seed)
        elif seed is not None:
            seed = int(check_random_state(seed).randint(2**31 - 1))
        return api.debias(
            Split(images, targets),
            model=self.model,
            method=self.method,
            settings=self.settings,
            prefer=self.prefer,
            anyway=self.anyway,
            pretrained=self.pretrained,
            classes=tuple(map(str, self.classes_)),
            seed=seed,
            device=self.device,
            out=self.out,
            store=self.store,
            show=self.verbose,
        )

    @torch.no_grad()
    def _probabilities(self, images: Tensor) -> Tensor:
        classifier = self.result_.classifier
        device = next(classifier.parameters()).device
        if images.shape[1] == 1 and classifier.shape[0] == 3:
            images = images.expand(-1, 3, -1, -1)
        parts = [
            classifier(part.to(device)).double().softmax(1) for part in torch.split(images, CHUNK)
        ]
        return torch.cat(parts).cpu() if parts else torch.empty(0, len(self.classes_))
