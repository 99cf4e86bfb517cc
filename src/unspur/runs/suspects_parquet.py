"""suspects.parquet: the same rows as suspects.csv, which opens slowly where there are very many.

It has the columns of suspects.csv, the score as a number, and is written beside it for more than 100,000
samples, if pyarrow is installed (`pip install 'unspur[table]'`). It can be given back with --suspects too.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..extras import need
from .suspect_rows import NEW_LABEL, CorrectedRow

PARQUET = "suspects.parquet"
MANY = 100_000  # rows above which the file is written
SUFFIXES = (".parquet", ".pq")


def render_parquet(columns: dict[str, Any]) -> bytes | None:
    """Return columns as a Parquet file; None, with a warning, if pyarrow is not installed."""
    try:
        arrow, parquet = need("pyarrow", extra="table"), need("pyarrow.parquet", extra="table")
    except ModuleNotFoundError:
        warnings.warn(
            f"there are more than {MANY:,} suspects and others: suspects.csv is large. For {PARQUET} beside "
            "it, which opens fast, run: pip install 'unspur[table]'",
            stacklevel=4,
        )
        return None
    file = io.BytesIO()
    parquet.write_table(arrow.table(columns), file)
    return file.getvalue()


def read_parquet(path: Path) -> Iterator[CorrectedRow]:
    """Yield every row."""
    try:
        table = need("pyarrow.parquet", extra="table").read_table(path)
    except ModuleNotFoundError as error:
        raise DataError(f"{path}: {error}") from None
    except Exception as error:  # whatever a damaged file makes pyarrow raise
        raise DataError(f"{path} cannot be read as Parquet ({error}).") from None
    named = next((name for name in ("path", "index") if name in table.column_names), None)
    if named is None or "flag" not in table.column_names:
        raise DataError(
            f"{path}: the columns path (or index) and flag are needed; it has "
            f"{', '.join(map(repr, table.column_names)) or 'none'}."
        )
    wanted = (named, "flag", "note", NEW_LABEL)
    chosen = table.select([name for name in wanted if name in table.column_names])
    number = 0
    for batch in chosen.to_batches(max_chunksize=MANY):
        for row in batch.to_pylist():
            number += 1
            cells = (str(row.get(name) or "") for name in wanted[1:])
            yield CorrectedRow(number, str(row[named]), *cells)
