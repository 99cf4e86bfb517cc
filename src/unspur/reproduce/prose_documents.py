"""Template functions for measurements other than runs (audits, speed, exports) and for tables of the code."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..audit.thresholds import THRESHOLDS
from ..errors import UnspurError
from ..store import read_document, read_lines
from .audit_table import audit_page, audit_table, recall_table
from .code_tables import folder_table, method_table
from .loop_tables import loop_text
from .own_data_tables import (
    clean_table,
    coverage_table,
    covered,
    mean_error,
    network_table,
    preset_table,
)
from .search_table import search_table, settings_table
from .speed_table import speed_table

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

    def search(self, data: str, ratio: str, part: int = 1) -> str:
        """Return the table of development runs on a data set; `part` is the first or the second search."""
        return search_table(self._search(data, ratio, part))

    def search_settings(self, data: str, ratio: str, part: int = 1) -> str:
        """Return the settings of the development runs on a data set."""
        return settings_table(self._search(data, ratio, part))

    def audit_cases(self, file: str) -> str:
        """Return the table of the cases of an audit suite."""
        return audit_table(read_document(self.folder / f"{file}.json.gz")["cases"])

    def audit_suite(self, file: str) -> str:
        """Return the table of the cases of an audit suite, and the counts."""
        return audit_page(read_document(self.folder / f"{file}.json.gz")["cases"]).removesuffix(
            "\n"
        )

    def audit_recall(self) -> str:
        """Return the table of unseen shortcuts found, by kind and share of exceptions."""
        return recall_table(read_document(self.folder / "audit.json.gz")["cases"], ("unseen",))

    def audit_note(self) -> str:
        """Return a remark if the recorded suite was run with other thresholds than the current ones."""
        recorded = read_document(self.folder / "audit.json.gz")["thresholds"]
        if recorded == asdict(THRESHOLDS):
            return ""
        return (
            "These cases were measured with the previous rule. It had other thresholds and did not examine "
            "the border alone, large areas alone or unlikely labels."
        )

    def audit_count(self, truth: str, verdicts: Key = (), kinds: Key = (), taken: float = 0) -> str:
        """Return how many unseen cases have one of the verdicts, such as "3 of 6".

        Without `verdicts`, right verdicts are counted. `taken` is the lowest error of the miner on
        exceptions.
        """
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
        """Return the table of measured gains, the number of covering intervals, or the mean error."""
        runs = read_document(self.folder / "gain-coverage.json.gz")["runs"]
        if what == "table":
            return coverage_table(runs)
        return covered(runs, part) if what == "covered" else mean_error(runs, part)

    def clean_sets(self) -> str:
        """Return the table of data sets without a shortcut."""
        return clean_table(read_document(self.folder / "clean-sets.json.gz")["sets"])

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

    def _search(self, data: str, ratio: str, part: int) -> list[dict[str, Any]]:
        lines = read_lines(self.folder / "preset-search.jsonl.gz")[0]
        key = (data, ratio, part)
        found = [run for run in lines if (run["data"], run["ratio"], run.get("part", 1)) == key]
        if not found:
            raise UnspurError(f"preset-search.jsonl.gz has no run on {data} {ratio}.")
        return found
