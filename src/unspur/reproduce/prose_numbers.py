"""Template functions for recorded numbers; a number that is not recorded is an error."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import UnspurError
from ..recipes.published import METRICS
from ..runs import bench
from ..runs.tables import MODELS, markdown, percent
from . import ITEMS
from .faces_item import within
from .gaps_answers import NOT_RUN
from .gaps_item import GAPS, QUESTIONS
from .item import DASH, Item, Result, Results, mean_sd_text, mean_text
from .pages import cut, gain
from .prose_documents import Key, ProseDocuments
from .records import Records
from .runner import look_up, missing_keys

RATIOS = ("0.5pct", "1pct", "2pct", "5pct")


def _bench_text(row: dict[str, Any], name: str) -> str:
    """Format a column of a row of a bench: mean ± standard deviation, or both values of two runs."""
    metric = METRICS.get(row["recipe"]["data"]["name"], "unbiased")
    values = [run[name].get(metric) for run in row["runs"]] if name in MODELS else []
    both = len(values) == 2 and None not in values
    return mean_sd_text(values) if both else percent(row["summary"][name])


class ProseNumbers(ProseDocuments):
    """The functions for templates. `item` and `key` name a cell of `unspur reproduce`."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self._results: dict[str, Results] = {}

    def functions(self) -> dict[str, Any]:
        """Return the functions by the name under which templates call them."""
        names = [name for name in dir(type(self)) if not name.startswith("_")]
        found = {name: getattr(self, name) for name in names if name != "functions"}
        return {name: value for name, value in found.items() if callable(value)}

    # -- cells of items -------------------------------------------------------------------------------

    def result(self, item: str, key: Key) -> Result:
        """Return the runs of a cell; raise an error if there are none."""
        if not (result := self._cell(item, key)).n:
            parts = (key,) if isinstance(key, str) else tuple(key)
            raise UnspurError(f"{item} has no run of {parts} on record.")
        return result

    def answer(self, question: str) -> str:
        """Return the answer to a question of the item `gaps`, from the recorded runs."""
        self._cell("gaps", next(iter(GAPS.cells())))
        found = next(each for each in QUESTIONS if each.group == question)
        text = found.answer(self._results["gaps"]).replace(" -", " −")
        return f"{text[0].lower()}{text[1:]}" if text == NOT_RUN else text

    def is_recorded(self, item: str, key: Key) -> bool:
        """Return whether a cell has runs on record."""
        return self._cell(item, key).n > 0

    def score(self, item: str, key: Key, of: str = "debiased", metric: str = "unbiased") -> str:
        """Return mean ± standard deviation in per cent."""
        return self._text(self.result(item, key).by_seed(of, metric), item, key, metric)

    def mean(self, item: str, key: Key, of: str = "debiased", metric: str = "unbiased") -> str:
        """Return the mean in per cent."""
        self.score(item, key, of, metric)  # raises if there is none
        return mean_text(list(self.result(item, key).by_seed(of, metric).values()))

    def seeds(self, item: str, key: Key) -> int:
        """Return the number of seeds on record."""
        return self.result(item, key).n

    def density(self, item: str, key: Key) -> str:
        """Return the share of weights that are kept, in whole per cent."""
        return f"{100 - float(cut(self.result(item, key))):.0f}"

    def share_cut(self, item: str, key: Key) -> str:
        """Return the share of weights that are cut, in whole per cent."""
        return f"{float(cut(self.result(item, key))):.0f}"

    def by_ratio(self, item: str, method: str, metric: str = "unbiased") -> str:
        """Return the means at 0.5 / 1 / 2 / 5 %."""
        return " / ".join(self.mean(item, (method, ratio), metric=metric) for ratio in RATIOS)

    def added(self, item: str, key: Key, base: Key, metric: str = "unbiased") -> str:
        """Return the difference of two cells, computed by seed, as mean ± standard deviation in points."""
        return mean_sd_text(self._added(item, key, base, metric)).replace("-", "−")

    def mean_added(self, item: str, key: Key, base: Key, metric: str = "unbiased") -> str:
        """Return the mean of `added`."""
        return mean_text(self._added(item, key, base, metric)).replace("-", "−")

    def added_by_ratio(self, item: str, method: str, base: str, *, means: bool = False) -> str:
        """Return `added` at the four ratios: as cells of a table, or only means, separated by slashes."""
        added = self.mean_added if means else self.added
        cells = [added(item, (method, ratio), (base, ratio)) for ratio in RATIOS]
        return (" / " if means else " | ").join(cells)

    def interval(self, item: str, key: Key, metric: str) -> str:
        """Return the mean and the average 95 % interval of a run."""
        return re.sub(r" ± [\d.]+", "", within(self.result(item, key), metric))

    def runs_left(self) -> int:
        """Return the number of runs of all items that are not on record."""
        items = (item for item in ITEMS.values() if isinstance(item, Item))
        left = (missing_keys(item.cells(), self._records, item.extras) for item in items)
        return len({run for missing in left for run in missing})

    def best(self, item: str, key: Key, metric: str = "unbiased") -> str:
        """Return the mean accuracy of the steps that are best on the test split (an oracle)."""
        return mean_text(self.result(item, key).best(metric))

    # -- runs of `unspur bench` -----------------------------------------------------------------------

    def bench(self, item: str, name: str, recipe: str = "") -> str:
        """Return mean ± standard deviation of a column of a bench; a single recipe need not be named."""
        return _bench_text(self._row(item, name, recipe), name)

    def bench_mean(self, item: str, name: str, recipe: str = "", digits: int = 0) -> str:
        """Return the mean of a column of a bench, in per cent."""
        return f"{100 * self._summary(item, name, recipe)['mean']:.{digits}f}"

    def bench_metric(self, item: str, of: str, metric: str) -> str:
        """Return the mean of any accuracy of a bench of one recipe, in per cent with one digit."""
        (row,) = self._rows(item)
        values = [run[of].get(metric) for run in row["runs"]]
        if None in values:
            raise UnspurError(f"{item} has no {metric} accuracy of {of} on record.")
        return f"{100 * sum(values) / len(values):.1f}"

    def bench_by_ratio(self, item: str, method: str, sep: str = " | ") -> str:
        """Return the scores of a method in a bench on CMNIST at four ratios, with dashes for missing ones."""
        rows = {row["recipe"]["name"]: _bench_text(row, "debiased") for row in self._rows(item)}
        names = [f"cmnist/{ratio}-{method}" for ratio in RATIOS]
        if not rows.keys() & set(names):
            raise UnspurError(f"{item} has no recipes cmnist/*-{method}.")
        return sep.join(rows.get(name, DASH) for name in names)

    def bench_page(self, item: str) -> str:
        """Return the tables of a bench."""
        self._rows(item)
        return markdown(self._records.bench(item)).removesuffix("\n")

    def seconds(self, item: str) -> str:
        """Return how long the runs of a bench took."""
        return self._spent(item)[0]

    def setup_seconds(self, item: str) -> str:
        """Return how much of `seconds` was spent on compiling and recording steps."""
        return self._spent(item)[1]

    def precision_errors(self, digits: int = 1) -> list[str]:
        """Return the differences of tf32 and bf16 in standard errors: DCWP and our preset at four ratios."""
        found = []
        for kind in ("dcwp", "unspur"):
            pairs = (self._rows(f"precision/{kind}-{mode}") for mode in ("tf32", "bf16"))
            for one, other in zip(*pairs, strict=True):
                a, b = one["summary"]["debiased"], other["summary"]["debiased"]
                error = (a["sd"] ** 2 / len(one["runs"]) + b["sd"] ** 2 / len(other["runs"])) ** 0.5
                found.append(f"{(a['mean'] - b['mean']) / error:.{digits}f}")
        return found

    # -- helpers --------------------------------------------------------------------------------------

    def _added(self, item: str, key: Key, base: Key, metric: str) -> list[float]:
        values = gain(self.result(item, key), self.result(item, base), "debiased", metric)
        if not values:
            raise UnspurError(f"{item}: {key} and {base} have no seed and precision in common.")
        return values

    @cached_property
    def _records(self) -> Records:
        return Records(self.folder)

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
        return dict(self._row(item, name, recipe)["summary"][name])

    def _row(self, item: str, name: str, recipe: str) -> dict[str, Any]:
        rows = [row for row in self._rows(item) if recipe in ("", row["recipe"]["name"])]
        if len(rows) != 1 or name not in rows[0]["summary"]:
            raise UnspurError(f"{item} has {len(rows)} recipes {recipe!r}, and no single {name!r}.")
        return rows[0]

    def _spent(self, item: str) -> list[str]:
        self._rows(item)
        return re.findall(r"[\d.]+(?= s)", bench.spent(self._records.bench(item)))
