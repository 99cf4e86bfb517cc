"""Write and read suspects.parquet, which opens faster than suspects.csv if there are very many rows.

It has the columns of suspects.csv, with the score as a number. It is also written for more than 100,000
samples, if pyarrow is installed (`pip install 'unspur[table]'`), and can be passed to --suspects.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

from ..errors import DataError
from ..extras import need
from .suspect_rows import NEW_LABEL, CorrectedRow

PARQUET = "suspects.parquet"
MANY = 100_000  # rows above which the file is written
SUFFIXES = (".parquet", ".pq")


def render_parquet(tables: Iterable[dict[str, Any]]) -> IO[bytes] | None:
    """Return tables with the same columns as one temporary file; None, with a warning, without pyarrow."""
    try:
        arrow, parquet = need("pyarrow", extra="table"), need("pyarrow.parquet", extra="table")
    except ModuleNotFoundError:
        warnings.warn(
            f"suspects.csv has more than {MANY:,} rows and opens slowly. To write {PARQUET} too, which opens "
            "fast, run: pip install 'unspur[table]'",
            stacklevel=4,
        )
        return None
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
    found = map(arrow.table, tables)
    first = next(found)
    with parquet.ParquetWriter(file, first.schema) as writer:
        for table in chain([first], found):
            writer.write_table(table)
    return file


def read_parquet(path: Path) -> Iterator[CorrectedRow]:
    """Yield every row of a Parquet file."""
    try:
        table = need("pyarrow.parquet", extra="table").read_table(path)
    except ModuleNotFoundError as error:
        raise DataError(f"{path}: {error}") from None
    except Exception as error:  # pyarrow raises many kinds of errors for damaged files
        raise DataError(f"{path} cannot be read as Parquet ({error}).") from None
    named = next((name for name in ("path", "index") if name in table.column_names), None)
    if named is None or "flag" not in table.column_names:
        raise DataError(
            f"{path}: the columns path (or index) and flag are needed; it has "
            f"{', '.join(map(repr, table.column_names)) or 'none'}."
        )
    columns = (named, "flag", "note", NEW_LABEL)
    chosen = table.select([name for name in columns if name in table.column_names])
    number = 0
    for batch in chosen.to_batches(max_chunksize=MANY):
        for row in batch.to_pylist():
            number += 1
            cells = (str(row.get(name) or "") for name in columns[1:])
            yield CorrectedRow(number, str(row[named]), *cells)
