"""Tables, folders and servers that the tests of the review share."""

from __future__ import annotations

import contextlib
import csv
import http.client
import json
import shlex
import threading
import time
from dataclasses import replace
from pathlib import Path
from unittest import mock
from urllib.parse import urlsplit

import torch
from PIL import Image, ImageDraw
from torch import Tensor, nn

import toys
from unspur import models, stages
from unspur.data.splits import Split
from unspur.review import review_server
from unspur.review.debias_job import DebiasJob
from unspur.review.image_sources import FileImages
from unspur.review.network_views import NetworkViews, no_networks
from unspur.review.review_desk import ReviewDesk
from unspur.review.review_folder import Review
from unspur.review.review_server import open_server
from unspur.runs.classifier import Classifier
from unspur.workflow import Outcome, save_outcome

PATIENCE = 120  # seconds that tests wait for what must come; a busy machine may need many of them
CLASSES = ("cat", "dog", "<i>owl</i>")


def write_table(folder: Path, count: int = 12, *, suspects: int | None = None) -> Path:
    """Write a suspects.csv of images with decreasing scores; the first ones are suspects."""
    folder.mkdir(parents=True, exist_ok=True)
    flagged = count // 2 if suspects is None else suspects
    with (folder / "suspects.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["path", "label", "score", "predicted", "flag", "note"])
        for i in range(count):
            label = CLASSES[i % 2]
            guess = CLASSES[1 - i % 2] if i < flagged else label
            flag = "suspect" if i < flagged else ""
            writer.writerow(
                [f"{label}/{i:05d}.png", label, f"{1 - i / count:.4f}", guess, flag, ""]
            )
    return folder / "suspects.csv"


def read_rows(path: Path) -> dict[str, dict[str, str]]:
    """Return the rows of a suspects.csv by name."""
    with path.open(newline="", encoding="utf-8") as file:
        return {row["path"]: row for row in csv.DictReader(file)}


def paint(path: Path, number: int) -> Path:
    """Write a picture of a number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", (120, 100), (40 + 37 * number % 200, 90, 160))
    ImageDraw.Draw(image).text((40, 40), str(number), fill="white")
    image.save(path)
    return path


def make_desk(folder: Path, pictures: int = 6, *, read_only: bool = False) -> ReviewDesk:
    """Return a desk without networks, whose images repeat a few pictures."""
    review = Review(folder, read_only=read_only)
    files = [paint(folder.parent / "pictures" / f"{i}.png", i) for i in range(pictures)]
    paths = [files[i % pictures] for i in range(len(review.replay.table))]
    images = FileImages(paths)
    views = NetworkViews(no_networks, images, "There is no network here.")
    return ReviewDesk(review, images, views, DebiasJob(folder), list(CLASSES), "animals")


class SquareModel(nn.Module):
    """A network that predicts the first class if a square is bright; it waits for `gate`."""

    def __init__(self, left: int, gate: threading.Event):
        super().__init__()
        self.left, self.gate = left, gate
        self.head = nn.Linear(1, 2)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([[1.0], [-1.0]]))
            self.head.bias.copy_(torch.tensor([-0.8, 0.8]))

    def forward(self, x: Tensor) -> Tensor:
        assert self.gate.wait(PATIENCE)
        square = x[:, :, :4, self.left : self.left + 4]
        return self.head(square.mean((1, 2, 3))[:, None])


def make_region_desk(
    folder: Path,
    count: int = 40,
    *,
    dog: str = "dog",
    read_only: bool = False,
    crop: str = "stretch",
) -> tuple[ReviewDesk, threading.Event]:
    """Return a desk with two networks, and an event that they wait for.

    Images have 16 x 16 pixels. The squares 0,0,4,4 and 8,0,4,4 are white in a cat and black in a dog. The
    ordinary model sees only the first square, the debiased model only the second.
    """
    table = write_table(folder, count)
    table.write_text(table.read_text().replace(",dog", f",{dog}"))
    review, gate = Review(folder, read_only=read_only), threading.Event()
    gate.set()
    images = FileImages([_paint_squares(folder, i) for i in range(count)])
    shape = {"shape": (3, 16, 16), "mean": (0, 0, 0), "std": (1, 1, 1), "crop": crop}
    about = {"classes": ("cat", dog), "input": shape}

    def load() -> dict[str, Classifier]:
        places = {"ordinary": 0, "debiased": 8}
        return {name: Classifier(SquareModel(x, gate), about) for name, x in places.items()}

    views = NetworkViews(load, images)
    return ReviewDesk(review, images, views, DebiasJob(folder), ["cat", dog], "animals"), gate


def _paint_squares(folder: Path, number: int) -> Path:
    path = folder.parent / "squares" / f"{number}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", (16, 16), (100, 100 + number, 100))
    for left in (0, 8):
        image.paste("black" if number % 2 else "white", (left, 0, left + 4, 4))
    image.save(path)
    return path


@contextlib.contextmanager
def serving(desk: ReviewDesk):
    """Serve a desk in a thread, and yield its URL."""
    # Any port: at the usual one, a page whose server has ended could ask the server of another test.
    with mock.patch.object(review_server, "USUAL_PORT", 0):
        server = open_server(desk)
    running = server.prepare()
    thread = threading.Thread(target=running.run, kwargs={"sockets": [server.socket]})
    thread.start()
    try:
        while not running.started:
            time.sleep(0.01)
        yield server.url
    finally:
        running.should_exit = True
        thread.join()
        server.socket.close()


def request(url: str, method: str = "GET", body: object = None, **headers: str):
    """Send one request; return its status, headers and bytes."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=PATIENCE)
    own = {"Host": where.netloc}
    if method == "POST":
        own |= {"Origin": f"http://{where.netloc}", "Content-Type": "application/json"}
    own |= {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if body is None else json.dumps(body).encode()
    target = where.path + (f"?{where.query}" if where.query else "")
    connection.request(method, target, data, {k: v for k, v in own.items() if v is not None})
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


SHORT = [f"--set={stage}.steps=2" for stage in ("mine", "pretrain", "adapt", "prune", "finetune")]
SHORT += ["--model=convnet", "--set=model.options.width=4", "--set=prune.batch_norm_batches=1"]


def make_run(folder: Path) -> Path:
    """Write a small run of a named network and its image files; return the folder of the run."""
    splits = toys.shapes_set(seed=1)
    train = splits.train
    names = tuple(f"{splits.classes[t]}/{i:03d}.png" for i, t in enumerate(train.targets.tolist()))
    for name, image in zip(names, train.images, strict=True):
        path = folder / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
    splits = replace(splits, train=Split(train.images, train.targets, names), valid=None, test=None)
    splits = replace(splits, bias={}, bias_classes=())
    builder = models.builder("convnet", 2, {"width": 4})
    context = toys.context(folder / "store", splits=splits, builder=builder)
    results, scores = stages.run(context)
    photos = str(folder / "photos")
    options = ["--out", "elsewhere", "--device=cpu", "--anyway", "-q", *SHORT]
    command = shlex.join(["unspur", "debias", photos, *options])
    outcome = Outcome(context, results, scores, None)
    save_outcome(outcome, folder / "run", command=command, source=photos)
    return folder / "run"
