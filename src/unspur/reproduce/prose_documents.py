"""Template functions for measurements other than runs (audits, speed, exports) and for tables of the code."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

from ..audit.conclusions import LOOKS_ALIKE
from ..audit.thresholds import THRESHOLDS
from ..errors import UnspurError
from ..store import read_document, read_lines
from .audit_ranges import AuditRange, audit_range
from .audit_table import audit_page, recall_table
from .code_tables import folder_table, method_table
from .loop_tables import loop_text
from .own_data_tables import (
    check_table,
    clean_table,
    coverage_table,
    covered,
    criteria_table,
    lead_of_preset,
    mean_error,
    method_comparison,
    network_table,
    preset_table,
    rejected,
    variants_table,
)
from .recorded_values import recorded_value
from .search_table import search_table, settings_table
from .speed_table import machine_and_day, speed_table

Key = tuple[str, ...] | list[str] | str


class ProseDocuments:
    """Functions for templates. Each one reads a file of the records, and fails if the number is missing."""

    def __init__(self, folder: Path):
        self.folder = folder

    def speed(self, file: str, name: str) -> str:
        """Return a table of the speed benchmarks."""
        tables = read_document(self.folder / f"{file}.json.gz")["tables"]
        if name not in tables:
            raise UnspurError(f"{file}.json.gz has no table {name!r}.")
        return speed_table(tables[name])

    def is_measured(self, file: str, name: str) -> bool:
        """Return whether a table of the speed benchmarks is on record."""
        path = self.folder / f"{file}.json.gz"
        return path.is_file() and name in read_document(path)["tables"]

    def measured_on(self, file: str) -> str:
        """Return the machine and the day of a record of the speed benchmarks."""
        return machine_and_day(read_document(self.folder / f"{file}.json.gz"))

    def speed_notes(self, file: str, name: str) -> str:
        """Return the notes of a table of the speed benchmarks as a list."""
        notes = read_document(self.folder / f"{file}.json.gz")["notes"][name]
        return "\n".join(f"- {note}" for note in notes)

    def ratios_within(self, file: str, name: str, low: float, high: float) -> str:
        """Return how many ratios of a table are between two bounds, as `9 of 10`."""
        rows = read_document(self.folder / f"{file}.json.gz")["tables"][name]
        return f"{sum(low <= row['times'] <= high for row in rows)} of {len(rows)}"

    def search(self, data: str, ratio: str, part: int = 1) -> str:
        """Return the table of development runs on a data set; `part` is the first or the second search."""
        return search_table(self._search(data, ratio, part))

    def search_settings(self, data: str, ratio: str, part: int = 1) -> str:
        """Return the settings of the development runs on a data set."""
        return settings_table(self._search(data, ratio, part))

    def candidate(self, name: str, ratio: str) -> str:
        """Return the mean test accuracy of a candidate for the first preset, and its number of runs."""
        runs = self.candidate_runs(name, ratio)
        return f"{mean(runs):.1f} ({len(runs)})"

    def candidate_runs(self, name: str, ratio: str) -> list[float]:
        """Return the unbiased test accuracy of each run of a candidate, in per cent."""
        return [
            round(100 * run["test_unbiased"], 3)
            for run in self._candidates(name)
            if run["ratio"] == ratio
        ]

    def candidate_loss(self, name: str) -> str:
        """Return the mean balanced validation loss of a candidate, over all its runs."""
        return f"{mean(run['valid_balanced_surprise'] for run in self._candidates(name)):.4f}"

    def audit_suite(self, file: str) -> str:
        """Return the table of the cases of an audit suite, and the counts."""
        return audit_page(read_document(self.folder / f"{file}.json.gz")["cases"]).removesuffix(
            "\n"
        )

    def audit_recall(self) -> str:
        """Return the table of unseen shortcuts found, by kind and share of conflicting images."""
        return recall_table(read_document(self.folder / "audit.json.gz")["cases"], ("unseen",))

    def audit_note(self) -> str:
        """Return a remark if the recorded suite was run with other thresholds than the current ones."""
        recorded = read_document(self.folder / "audit.json.gz")["thresholds"]
        few = {name: value for name, value in asdict(THRESHOLDS).items() if name[:4] == "few_"}
        if {**recorded, **few} == asdict(
            THRESHOLDS
        ):  # the cases have more images than these are about
            return ""
        return (
            "They were measured with an earlier version of the rule, which had other thresholds and did not "
            "examine the border alone, large areas alone or unlikely labels. No threshold of that version "
            "was chosen on them. The rates are therefore not those of the present rule."
        )

    def audit_count(
        self,
        truth: str,
        verdicts: Key = (),
        taken: float = 0,
        role: str = "unseen",
        images: str = "",
        file: str = "",
    ) -> str:
        """Return how many cases have one of the verdicts ("right" without any), as `3 of 6`.

        `taken` is the least error of the miner on images that contradict the shortcut, `images` the start
        of the names of the cases. Cases of the role "development" are those that were run on a CPU.
        """
        file = file or ("audit" if role == "unseen" else "audit-dev")
        cases = [
            case
            for case in read_document(self.folder / f"{file}.json.gz")["cases"]
            if (case["role"], case["truth"]) == (role, truth)
            and case["name"].startswith(images)
            and case.get("taken", 1) >= taken
        ]
        hits = sum(case["verdict"] in verdicts if verdicts else case["right"] for case in cases)
        return f"{hits} of {len(cases)}"

    def audit_range(
        self, number: str, truth: str, images: str = "", role: str = "development"
    ) -> AuditRange:
        """Return the range of a number over recorded audits; `.least` and `.most` are its ends."""
        return audit_range(self.folder, number, truth, images, role)

    def value(self, file: str, path: str) -> Any:
        """Return one number of a record by its path, such as `tables/decoding/jpeg_px=500/ms_per_core`."""
        return recorded_value(self.folder, file, path)

    def audit_small_alarms(self) -> str:
        """Count the development cases with few images whose evidence has signs of a shortcut, but none."""
        cases = read_document(self.folder / "audit-900.json.gz")["cases"]
        nulls = [c for c in cases if (c["truth"], c["role"]) == ("null", "development")]
        signs = sum(case["verdict"] == "shortcut" or LOOKS_ALIKE in case["text"] for case in nulls)
        return f"{signs} of {len(nulls)}"

    def threshold(self, name: str, form: str = "g") -> str:
        """Return a threshold of the audit's verdict."""
        return format(getattr(THRESHOLDS, name), form)

    def threshold_percent(self, name: str) -> str:
        """Return a threshold of the audit's verdict in per cent."""
        return f"{100 * getattr(THRESHOLDS, name):g}"

    def gain_coverage(self, what: str = "table", part: str = "suspects") -> str:
        """Return the table of measured gains, a count of covering or rejected runs, or the mean error."""
        runs = read_document(self.folder / "gain-coverage.json.gz")["runs"]
        if what == "table":
            return coverage_table(runs)
        if what == "rejected":
            return rejected(runs)
        return covered(runs, part) if what == "covered" else mean_error(runs, part)

    def clean_sets(self) -> str:
        """Return the table of data sets without a shortcut."""
        return clean_table(read_document(self.folder / "clean-sets.json.gz")["sets"])

    def gain_check(self) -> str:
        """Return the table of runs by which the rule of the gain check was chosen and checked."""
        return check_table(read_document(self.folder / "gain-check.json.gz")["runs"])

    def gain_criteria(self) -> str:
        """Return the table of runs by which criteria for the suspects were tried."""
        return criteria_table(read_document(self.folder / "gain-criteria.json.gz")["runs"])

    def own_methods(self) -> str:
        """Return the table of methods for users' own images on the same suspects."""
        return method_comparison(read_document(self.folder / "own-methods.json.gz")["runs"])

    def own_methods_lead(self) -> str:
        """Return the range of the preset's lead over these methods on conflicting images, in points."""
        return lead_of_preset(read_document(self.folder / "own-methods.json.gz")["runs"])

    def own_augmentation(self) -> str:
        """Return the table of kinds of mixing on users' own images."""
        found = read_document(self.folder / "own-augmentation.json.gz")
        return variants_table(found["runs"], found["views"])

    def own_trial(self, name: str) -> str:
        """Return the table of a trial on users' own images: cells of suspects, or starts of the network."""
        return variants_table(read_document(self.folder / f"own-{name}.json.gz")["runs"])

    def loop(self, name: str) -> str:
        """Return a table or number about probes and checks."""
        return loop_text(self.folder, name)

    def own_preset(self) -> str:
        """Return the table of variants of the preset for users' own images."""
        return preset_table(read_document(self.folder / "own-preset.json.gz")["runs"])

    def own_network(self) -> str:
        """Return the table of networks for small images."""
        return network_table(read_document(self.folder / "own-network.json.gz")["runs"])

    def export(self, name: str) -> dict[str, Any]:
        """Return the measurements of an exported model."""
        for line in read_lines(self.folder / "exports.jsonl.gz")[0]:
            if line["name"] == name:
                return dict(line)
        raise UnspurError(f"exports.jsonl.gz has no export {name!r}.")

    def latencies(self, name: str) -> str:
        """Return the table cells of an exported model: multiply–adds, file size, ratios of time."""
        found = self.export(name)
        whole, slim = found["costs"]["whole"], found["costs"]["exported"]
        size, ratios = found["bytes"], self._latency_ratios(found)
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

    @staticmethod
    def _latency_ratios(found: dict[str, Any]) -> list[str]:
        """Return exported against whole model: torch, then ONNX Runtime, at batch 1 and 32."""
        costs, onnx = found["costs"], found["onnx_milliseconds"]
        torch = {key: costs[key]["milliseconds"] for key in ("whole", "exported")}
        return [
            f"{times['exported'][batch] / times['whole'][batch]:.2f}"
            for times in (torch, onnx)
            for batch in ("1", "32")
        ]

    def _candidates(self, name: str) -> list[dict[str, Any]]:
        runs = read_document(self.folder / "preset-choice.json.gz")["runs"]
        found = [run for run in runs if run["candidate"] == name]
        if not found:
            raise UnspurError(f"preset-choice.json.gz has no candidate {name!r}.")
        return found

    def _search(self, data: str, ratio: str, part: int) -> list[dict[str, Any]]:
        lines = read_lines(self.folder / "preset-search.jsonl.gz")[0]
        key = (data, ratio, part)
        found = [run for run in lines if (run["data"], run["ratio"], run.get("part", 1)) == key]
        if not found:
            raise UnspurError(f"preset-search.jsonl.gz has no run on {data} {ratio}.")
        return found
