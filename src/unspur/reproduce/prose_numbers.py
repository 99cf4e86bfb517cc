"""The numbers and tables of prose pages, for their templates; each comes from the records, or is an error."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import UnspurError
from ..runs import bench
from ..runs.tables import markdown, percent
from ..store import read_document, read_lines
from . import ITEMS
from .audit_table import audit_page, audit_table
from .code_tables import folder_table, method_table
from .faces_item import within
from .item import Item, Result, Results, mean_sd_text
from .loop_tables import loop_text
from .own_data_tables import clean_table, coverage_table, covered, mean_error, preset_table
from .pages import cut, gain
from .records import Records
from .run_identity import identity
from .runner import look_up, missing_runs
from .search_table import search_table, settings_table
from .speed_table import speed_table

RATIOS = ("0.5pct", "1pct", "2pct", "5pct")
Key = tuple[str, ...] | list[str] | str


class ProseNumbers:
    """The functions of templates. `item` and `key` name a cell of `unspur reproduce`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._results: dict[str, Results] = {}

    def functions(self) -> dict[str, Any]:
        """Return the functions by the name under which templates call them."""
        return {
            name: getattr(self, name)
            for name, value in vars(type(self)).items()
            if not name.startswith("_") and callable(value) and name != "functions"
        }

    # -- cells of items -------------------------------------------------------------------------------

    def result(self, item: str, key: Key) -> Result:
        """Return the runs of a cell; an error if there are none."""
        if not (result := self._cell(item, key)).n:
            parts = (key,) if isinstance(key, str) else tuple(key)
            raise UnspurError(f"{item} has no run of {parts} on record.")
        return result

    def is_recorded(self, item: str, key: Key) -> bool:
        """Return whether a cell has runs on record."""
        return self._cell(item, key).n > 0

    def score(self, item: str, key: Key, of: str = "debiased", metric: str = "unbiased") -> str:
        """Return mean ± standard deviation in per cent."""
        return self._text(self.result(item, key).by_seed(of, metric), item, key, metric)

    def mean(self, item: str, key: Key, of: str = "debiased", metric: str = "unbiased") -> str:
        """Return the mean in per cent."""
        return self.score(item, key, of, metric).partition(" ")[0]

    def seeds(self, item: str, key: Key) -> int:
        """Return the number of seeds on record."""
        return self.result(item, key).n

    def density(self, item: str, key: Key) -> str:
        """Return the share of the weights that is left, as a whole per cent."""
        return f"{100 - float(cut(self.result(item, key))):.0f}"

    def share_cut(self, item: str, key: Key) -> str:
        """Return the share of the weights that is cut, as a whole per cent."""
        return f"{float(cut(self.result(item, key))):.0f}"

    def by_ratio(self, item: str, method: str, metric: str = "unbiased") -> str:
        """Return the means at 0.5 / 1 / 2 / 5 %."""
        return " / ".join(self.mean(item, (method, ratio), metric=metric) for ratio in RATIOS)

    def added(self, item: str, key: Key, base: Key, metric: str = "unbiased") -> str:
        """Return how much a cell is above another, seed by seed, as mean ± standard deviation in points."""
        values = gain(self.result(item, key), self.result(item, base), "debiased", metric)
        if not values:
            raise UnspurError(f"{item}: {key} and {base} have no seed in common.")
        return mean_sd_text(values).replace("-", "−")

    def mean_added(self, item: str, key: Key, base: Key, metric: str = "unbiased") -> str:
        """Return the mean of `added`."""
        return self.added(item, key, base, metric).partition(" ")[0]

    def added_by_ratio(self, item: str, method: str, base: str, *, means: bool = False) -> str:
        """Return `added` at the four ratios: cells of a table, or means with slashes."""
        added = self.mean_added if means else self.added
        cells = [added(item, (method, ratio), (base, ratio)) for ratio in RATIOS]
        return (" / " if means else " | ").join(cells)

    def interval(self, item: str, key: Key, metric: str) -> str:
        """Return the mean and the 95 % interval of a run."""
        return re.sub(r" ± [\d.]+", "", within(self.result(item, key), metric))

    def runs_left(self) -> int:
        """Return the number of runs of all items that are not on record."""
        left = {
            (identity(settings), settings.seed)
            for item in ITEMS.values()
            if isinstance(item, Item)
            for _, settings in missing_runs(item.cells(), self._records, item.extras)
        }
        return len(left)

    def best(self, item: str, key: Key, metric: str = "unbiased") -> str:
        """Return the mean of the best iterates on the test split."""
        return mean_sd_text(self.result(item, key).best(metric)).partition(" ")[0]

    # -- runs of `unspur bench` -----------------------------------------------------------------------

    def bench(self, item: str, name: str, recipe: str = "") -> str:
        """Return mean ± standard deviation of a column of a bench: of one recipe, or of the only one."""
        return percent(self._summary(item, name, recipe))

    def bench_mean(self, item: str, name: str, recipe: str = "", digits: int = 0) -> str:
        """Return the mean of a column of a bench, in per cent."""
        return f"{100 * self._summary(item, name, recipe)['mean']:.{digits}f}"

    def bench_by_ratio(self, item: str, method: str, sep: str = " | ") -> str:
        """Return the debiased models of a bench on CMNIST at four ratios, a dash where there is none."""
        rows = {row["recipe"]["name"]: row["summary"]["debiased"] for row in self._rows(item)}
        names = [f"cmnist/{ratio}-{method}" for ratio in RATIOS]
        if not rows.keys() & set(names):
            raise UnspurError(f"{item} has no recipes cmnist/*-{method}.")
        return sep.join(percent(rows.get(name)) for name in names)

    def bench_page(self, item: str) -> str:
        """Return the tables of a bench."""
        self._rows(item)
        return markdown(self._records.bench(item)).removesuffix("\n")

    def seconds(self, item: str) -> str:
        """Return how long the runs of a bench took."""
        return self._spent(item)[0]

    def setup_seconds(self, item: str) -> str:
        """Return how much of that went into compiling and recording steps."""
        return self._spent(item)[1]

    def precision_errors(self, digits: int = 1) -> list[str]:
        """Return by how many standard errors tf32 is above bf16: DCWP and our preset at four ratios."""
        found = []
        for kind in ("dcwp", "unspur"):
            pairs = (self._rows(f"precision/{kind}-{mode}") for mode in ("tf32", "bf16"))
            for one, other in zip(*pairs, strict=True):
                a, b = one["summary"]["debiased"], other["summary"]["debiased"]
                error = (a["sd"] ** 2 / len(one["runs"]) + b["sd"] ** 2 / len(other["runs"])) ** 0.5
                found.append(f"{(a['mean'] - b['mean']) / error:.{digits}f}")
        return found

    # -- documents ------------------------------------------------------------------------------------

    def speed(self, file: str, name: str) -> str:
        """Return a table of the speed benchmarks."""
        tables = read_document(self.folder / f"{file}.json.gz")["tables"]
        if name not in tables:
            raise UnspurError(f"{file}.json.gz has no table {name!r}.")
        return speed_table(tables[name])

    def search(self, data: str, ratio: str) -> str:
        """Return the table of the development runs on a data set."""
        return search_table(self._search(data, ratio))

    def search_settings(self, data: str, ratio: str) -> str:
        """Return the settings of the development runs on a data set."""
        return settings_table(self._search(data, ratio))

    def audit_cases(self, file: str) -> str:
        """Return the table of the cases of an audit suite."""
        return audit_table(read_document(self.folder / f"{file}.json.gz")["cases"])

    def audit_suite(self, file: str) -> str:
        """Return the table of the cases of an audit suite, and the counts."""
        return audit_page(read_document(self.folder / f"{file}.json.gz")["cases"]).removesuffix(
            "\n"
        )

    def audit_count(self, truth: str, verdicts: Key = (), kinds: Key = (), taken: float = 0) -> str:
        """Return how many unseen cases have one of the verdicts ("right" without any), as `3 of 6`."""
        cases = [
            case
            for case in read_document(self.folder / "audit.json.gz")["cases"]
            if (case["role"], case["truth"]) == ("unseen", truth)
            and (not kinds or case["kind"] in kinds)
            and case.get("taken", 1) >= taken
        ]
        hits = sum(case["verdict"] in verdicts if verdicts else case["right"] for case in cases)
        return f"{hits} of {len(cases)}"

    def gain_coverage(self, what: str = "table", part: str = "suspects") -> str:
        """Return the table of measured gains, how many are covered, or their mean error."""
        runs = read_document(self.folder / "gain-coverage.json.gz")["runs"]
        if what == "table":
            return coverage_table(runs)
        return covered(runs, part) if what == "covered" else mean_error(runs, part)

    def clean_sets(self) -> str:
        """Return the table of sets without a shortcut."""
        return clean_table(read_document(self.folder / "clean-sets.json.gz")["sets"])

    def loop(self, name: str) -> str:
        """Return what was measured of probes and checks."""
        return loop_text(self.folder, name)

    def own_preset(self) -> str:
        """Return the table of settings for own images."""
        return preset_table(read_document(self.folder / "own-preset.json.gz")["runs"])

    def export(self, name: str) -> dict[str, Any]:
        """Return what was measured of an exported model."""
        for line in read_lines(self.folder / "exports.jsonl.gz")[0]:
            if line["name"] == name:
                return dict(line)
        raise UnspurError(f"exports.jsonl.gz has no export {name!r}.")

    def latencies(self, name: str) -> str:
        """Return the cells of an exported model: multiply–adds, file, and time against the whole model."""
        found = self.export(name)
        whole, slim = found["costs"]["whole"], found["costs"]["exported"]
        onnx, size = found["onnx_milliseconds"], found["bytes"]
        pairs = ((whole["milliseconds"], slim["milliseconds"]), (onnx["whole"], onnx["exported"]))
        ratios = [f"{b[batch] / a[batch]:.2f}" for a, b in pairs for batch in ("1", "32")]
        adds = f"{whole['multiply_adds'] / 1e6:.1f} → {slim['multiply_adds'] / 1e6:.1f} M"
        file = f"{size['whole'] / 1e6:.1f} → {size['model.safetensors'] / 1e6:.1f} MB"
        return " | ".join([adds, file, *ratios])

    # -- the code ------------------------------------------------------------------------------------

    def methods(self) -> str:
        """Return the table of the built-in methods."""
        return method_table()

    def folders(self) -> str:
        """Return the table of the folders of the package."""
        return folder_table()

    # -- inside ---------------------------------------------------------------------------------------

    @cached_property
    def _records(self) -> Records:
        return Records(self.folder)

    def _search(self, data: str, ratio: str) -> list[dict[str, Any]]:
        lines = read_lines(self.folder / "preset-search.jsonl.gz")[0]
        if not (found := [run for run in lines if (run["data"], run["ratio"]) == (data, ratio)]):
            raise UnspurError(f"preset-search.jsonl.gz has no run on {data} {ratio}.")
        return found

    def _cell(self, item: str, key: Key) -> Result:
        if item not in self._results:
            if not isinstance(found := ITEMS.get(item), Item):
                raise UnspurError(f"{item!r} is not an item with runs.")
            self._results[item] = look_up(found.cells(), self._records, found.extras)
        parts = (key,) if isinstance(key, str) else tuple(key)
        if parts not in self._results[item]:
            raise UnspurError(f"{item} has no cell {parts}.")
        return self._results[item][parts]

    def _text(self, values: dict[int, float], item: str, key: Key, metric: str) -> str:
        if not values:
            raise UnspurError(f"{item} has no {metric} accuracy of {key} on record.")
        return mean_sd_text(list(values.values()))

    def _rows(self, item: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._records.bench(item)["results"]
        if not rows:
            raise UnspurError(f"there is no run of {item!r} on record.")
        return rows

    def _summary(self, item: str, name: str, recipe: str) -> dict[str, Any]:
        rows = [row for row in self._rows(item) if recipe in ("", row["recipe"]["name"])]
        if len(rows) != 1 or name not in rows[0]["summary"]:
            raise UnspurError(f"{item} has {len(rows)} recipes {recipe!r}, and no single {name!r}.")
        return dict(rows[0]["summary"][name])

    def _spent(self, item: str) -> list[str]:
        self._rows(item)
        return re.findall(r"[\d.]+(?= s)", bench.spent(self._records.bench(item)))
