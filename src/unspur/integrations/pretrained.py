"""`PretrainedClassifier`: the model of a run as Hugging Face's Hub stores it.

model = unspur.PretrainedClassifier("runs/photos", license="mit")
model.save_pretrained("photos-classifier")         # a folder with weights, scores and a model card
model.push_to_hub("me/photos-classifier")          # the same on the Hub
model = unspur.PretrainedClassifier.from_pretrained("me/photos-classifier")
logits = model(images)                             # (N, C, H, W) as the data held them
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from .. import run_api
from ..boundary import explain_system
from ..deploy.export import copy_for_hub
from ..errors import UsageError
from ..runs.classifier import load
from ..runs.result_folder import refuse_other

try:
    from huggingface_hub import ModelHubMixin, snapshot_download
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "PretrainedClassifier needs huggingface_hub, which is not installed. Run: pip install 'unspur[hub]'"
    ) from error


class PretrainedClassifier(ModelHubMixin):
    """A model of a run, or of an export, that can be saved for the Hub and loaded from it.

    `folder` is the folder of the run. `model` and `trust` are as for `unspur.load`; `slim` removes dead
    channels before saving; `license` is stated on the model card, such as "mit" or "cc-by-4.0".
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        model: nn.Module | None = None,
        trust: bool = False,
        slim: bool = False,
        license: str = "",
    ):
        self.folder, self.model, self.trust = Path(folder), model, trust
        self.slim, self.license = slim, license
        self.classifier = load(folder, model, trust=trust)
        self._hub_mixin_config = (
            None  # model.json describes the model; a path must not leave the machine
        )

    def __call__(self, images: Tensor) -> Tensor:
        """Return the logits of images (N, C, H, W) as the data held them."""
        logits: Tensor = self.classifier(images)
        return logits

    @explain_system()
    def _save_pretrained(self, save_directory: Path) -> None:
        """Write the model, its scores and its card to a folder; files of the same names are replaced.

        Raises StoreError for the folder of a run or an audit, whose files would be replaced.
        """
        refuse_other(save_directory, "export")
        if (self.folder / "export.json").exists():  # an export: it has all of this already
            if self.slim or self.license:
                raise UsageError(
                    f"{self.folder} is an export, whose files are copied as they are. Leave slim and license "
                    "out, or give the folder of the run."
                )
            if self.folder.resolve() != Path(save_directory).resolve():
                copy_for_hub(self.folder, Path(save_directory))
            return
        with tempfile.TemporaryDirectory(prefix="unspur-") as temporary:
            out = Path(temporary) / "export"
            run_api.export(
                self.folder,
                out,
                hub=True,
                license=self.license,
                slim=self.slim,
                model=self.model,
                trust=self.trust,
            )
            shutil.copytree(out, save_directory, dirs_exist_ok=True)

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        force_download: bool = False,
        local_files_only: bool = False,
        token: str | bool | None = None,
        **options: Any,
    ) -> PretrainedClassifier:
        """Load a model from a folder, or from the Hub by its name."""
        if Path(model_id).is_dir():
            return cls(model_id, **options)
        folder = snapshot_download(
            model_id,
            revision=revision,
            cache_dir=cache_dir,
            force_download=force_download,
            local_files_only=local_files_only,
            token=token,
        )
        return cls(folder, **options)
