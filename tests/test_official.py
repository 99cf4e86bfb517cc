"""`python -m benchmarks --official DIR`: time a folder with the entry points of the authors' code."""

import argparse
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from toys import shapes_set
from unspur.store import read_document

sys.path.insert(0, str(Path(__file__).parent.parent))
official = pytest.importorskip("benchmarks.official", reason="not run from a source tree")
shims = pytest.importorskip("benchmarks.official_shims")
child = pytest.importorskip("benchmarks.official_child")
benchmarks = pytest.importorskip("benchmarks.__main__")
CPU = torch.device("cpu")

# Short files with the names, the methods and the options of the authors' code that the comparison uses.
MAIN = """
import argparse
from munch import Munch
from training.pruning_solver import PruneSolver

parser = argparse.ArgumentParser()
for name in ("pretrain_iter", "pruning_iter", "retrain_iter"):
    parser.add_argument(f"--{name}", type=int)
parser.add_argument("--select_with_GCE", action="store_true")
parser.add_argument("--train_root_dir")
args, _ = parser.parse_known_args()
PruneSolver(Munch(vars(args))).train()
"""
LOADER = """
class InputFetcher:
    def __next__(self):
        return None
"""
SOLVER = """
import time
from pathlib import Path
from types import SimpleNamespace
from data.data_loader import InputFetcher
from sklearn.manifold import TSNE


class PruneSolver:
    def __init__(self, args):
        TSNE(n_components=2, n_iter=3000)
        images = list(Path(args.train_root_dir, "cmnist", "1pct").rglob("*.png"))
        loader = SimpleNamespace(dataset=images)
        self.args, self.loaders = args, SimpleNamespace(train=BatchList(images), val=loader)

    def steps(self, count, seconds):
        fetcher = InputFetcher()
        for number in range(count):
            next(fetcher)
            time.sleep(seconds)
            yield number

    def train_ERM(self, iters):
        for number in self.steps(iters, 0.004):
            if number == iters // 2:
                self.update_pseudo_label(None, self.loaders.train, iters, 7)

    def train_PRUNE(self, iters):
        list(self.steps(iters, 0.012))

    def retrain(self, iters, freeze=True):
        list(self.steps(iters, 0.008))

    def update_pseudo_label(self, scores, loader, iters, every):
        time.sleep(0.1)

    def save_wrong_idx(self, loader):
        assert [type(names) for _, names in loader] == [list]

    def validation(self, loader):
        time.sleep(0.01)

    def train(self):
        self.train_ERM(self.args.pretrain_iter)
        if self.args.select_with_GCE:
            self.save_wrong_idx(self.loaders.train)
        self.train_PRUNE(self.args.pruning_iter)
        self.retrain(self.args.retrain_iter)


class BatchList(list):
    def __init__(self, images):
        super().__init__([(0, ("a", "b"))])
        self.dataset = images
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a stand-in for the authors' code; torchvision seems to be installed."""
    code = tmp_path / "code"
    for name, text in {
        "main.py": MAIN,
        "data/data_loader.py": LOADER,
        "training/pruning_solver.py": SOLVER,
    }.items():
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_text(text)
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "torchvision.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "path")
    return code


def test_every_stage_and_every_pass_over_the_data_is_timed(folder):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    times, changes = official.time_theirs(folder, shapes_set(samples=60), CPU, steps=40)
    sleeps = {"mine": 4, "pretrain": 4, "prune": 12, "finetune": 8}
    assert times.step_ms.keys() == sleeps.keys()
    assert all(times.step_ms[stage] >= least for stage, least in sleeps.items())
    assert times.prediction_s > 0.1 * official.THEIR_IMAGES["scores of samples"] / 120
    assert any("list" in change for change in changes)
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_step_is_the_mean_after_the_warm_up_without_passes_over_the_data(monkeypatch):
    now = 0.0
    monkeypatch.setattr(child, "_now", lambda: now)
    timer = child.StageTimer(warm_up=2)

    def wait(seconds):
        nonlocal now
        now += seconds

    def stage():
        for seconds in (9.0, 9.0, 2.0, 3.0, 4.0):  # the first two warm up
            timer.count_step()
            wait(seconds)
            timer.run_pass("scores of samples", 10, lambda: wait(100.0))

    timer.run("prune", stage)
    assert timer.rows[-1] == {"stage": "prune", "steps": 3, "ms": 3000.0}
    assert timer.rows[0] == {"pass": "scores of samples", "images": 10, "seconds": 100.0}


def test_an_error_of_the_code_is_shown_and_ends_the_comparison(folder, capfd):
    (folder / "main.py").write_text("raise RuntimeError('no such layer')")
    with pytest.raises(SystemExit, match="failed with exit code 1; its error is above"):
        official.time_theirs(folder, shapes_set(samples=60), CPU, steps=40)
    assert "RuntimeError: no such layer" in capfd.readouterr().err


def test_another_folder_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"has no main\.py, data/data_loader\.py") as error:
        official.compare(tmp_path, CPU, 100)
    assert official.URL in str(error.value)


def test_without_torchvision_the_message_says_what_to_install(folder, monkeypatch):
    monkeypatch.setattr(official.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="pip install torchvision"):
        official.compare(folder, CPU, 100)


def test_too_few_steps_are_refused(folder):
    with pytest.raises(SystemExit, match="--official-steps 12 is too few"):
        official.compare(folder, CPU, 12)


def test_the_folder_is_an_option_and_the_help_says_that_its_code_is_run():
    parser = argparse.ArgumentParser(prog="benchmarks")
    official.add_options(parser)
    found = parser.parse_args(["--official", "DCWP"])
    assert (found.official, found.official_steps) == (Path("DCWP"), 100)
    assert "runs the code in the folder" in " ".join(parser.format_help().split())


def test_the_table_without_the_folder_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "official"])
    with pytest.raises(SystemExit):
        benchmarks.main()
    assert "needs --official DIR" in capsys.readouterr().err


def test_the_table_and_its_notes_are_recorded(monkeypatch, tmp_path, capsys):
    rows = [{"part": "mine", "theirs_s": 2.0, "ours_tf32_s": 1.0, "tf32_times": 2.0}]
    monkeypatch.setattr(official, "compare", lambda folder, device, steps: (rows, [f"{steps}"]))
    words = [
        "--only",
        "official",
        "--official",
        "DCWP",
        "--official-steps",
        "60",
        "--device",
        "cpu",
    ]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words, "--out", str(tmp_path / "o.json.gz")])
    benchmarks.main()
    assert "| mine | 2 | 1 | 2 |\n60\n" in capsys.readouterr().out
    record = read_document(tmp_path / "o.json.gz")
    assert (record["tables"]["official"], record["notes"]) == (rows, {"official": ["60"]})


def test_our_stages_are_timed_on_the_same_images(monkeypatch):
    small = {"model.options": {"width": 4}} | {f"{s}.batch": 16 for s in official.STAGES}
    change = official.recipes.change
    changed = SimpleNamespace(
        load=official.recipes.load, change=lambda recipe, more: change(recipe, {**more, **small})
    )
    monkeypatch.setattr(official, "recipes", changed)
    times = official.time_ours(shapes_set(samples=120), CPU, "fp32", steps=40)
    assert list(times.step_ms) == list(official.STAGES)
    assert all(ms > 0 for ms in [*times.step_ms.values(), times.prediction_s])


def test_the_table_has_seconds_for_the_published_steps_and_their_ratio():
    theirs = official.Times(dict.fromkeys(official.STAGES, 20.0), 50.0)
    ours = {"tf32": official.Times(dict.fromkeys(official.STAGES, 0.5), 0.5)}
    rows = {row["part"]: row for row in official.table(theirs, ours)}
    assert rows["pretrain"] == {
        "part": "pretrain",
        "steps": 10_000,
        "theirs_ms": 20.0,
        "ours_tf32_ms": 0.5,
        "theirs_s": 200.0,
        "ours_tf32_s": 5.0,
        "tf32_times": 40.0,
    }
    assert rows["sum"]["theirs_s"] == pytest.approx(15_000 * 0.02 + 50)
    assert rows["sum"]["ours_tf32_s"] == pytest.approx(15_000 * 0.0005 + 0.5)
    assert {tuple(row) for row in rows.values()} == {tuple(rows["mine"])}  # the same columns


def test_the_time_of_a_pass_is_scaled_to_the_published_number_of_images():
    rows = [{"stage": "mine", "ms": 3.0}]
    rows += [{"pass": name, "images": 100, "seconds": 1.0} for name in official.THEIR_IMAGES] * 2
    total = sum(official.THEIR_IMAGES.values())
    assert official.read_times(rows).prediction_s == pytest.approx(total / 100)


def test_missing_packages_get_stand_ins(monkeypatch):
    monkeypatch.setattr(shims, "_is_installed", lambda name: name not in ("munch", "imageio"))
    for name in ("munch", "imageio"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    assert [text.partition(",")[0] for text in shims._replace_missing()] == ["munch", "imageio"]
    entry = sys.modules["munch"].Munch(a=1)
    entry.b = 2
    assert (entry.a, entry["b"]) == (1, 2)
    assert not hasattr(entry, "c")
    assert sys.modules["imageio"].imread("x.png") is None
