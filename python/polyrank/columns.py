"""Feeds a run with columns of Parquet, Arrow or CSV files:

    polyrank-run model.plan --data 'command:python3 -m polyrank.columns train-*.parquet'

Each column of numbers is an input of the plan by its name, or as --columns says; a column of lists needs lists of the
input's length. Rows are taken in the files' order. A run that goes on from a checkpoint gets the rows that follow.
"""

import argparse
import shlex
import sys

from ._feed import feed
from ._tools import Error

_BLOCK = 64 << 20  # about the most bytes in a block of several rows


def _rowsOf(path):
    """The parts of a file in their order: the number of rows of each, and a function that reads them as a table."""
    try:
        import pyarrow
    except ImportError:
        raise Error(f"{path}: is read by pyarrow, which is not installed: pip install pyarrow") from None
    try:
        if path.endswith((".parquet", ".pq")):
            from pyarrow import parquet

            with parquet.ParquetFile(path) as file:
                def read(group):
                    try:
                        return file.read_row_group(group)
                    except (OSError, pyarrow.ArrowException) as error:
                        raise Error(f"{path}: {error}") from None

                for group in range(file.num_row_groups):
                    yield file.metadata.row_group(group).num_rows, lambda group=group: read(group)
        elif path.endswith((".arrow", ".feather", ".ipc")):
            memory = pyarrow.memory_map(path)
            try:
                reader = pyarrow.ipc.open_file(memory)
                batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
            except pyarrow.ArrowInvalid:  # a stream, as the library datasets writes
                batches = pyarrow.ipc.open_stream(memory)
            for batch in batches:
                yield batch.num_rows, lambda batch=batch: pyarrow.Table.from_batches([batch])
        elif path.endswith(".csv"):
            from pyarrow import csv

            for batch in csv.open_csv(path):
                yield batch.num_rows, lambda batch=batch: pyarrow.Table.from_batches([batch])
        else:
            raise Error(f"{path}: columns are read of .parquet, .arrow, .feather and .csv files")
    except (OSError, pyarrow.ArrowException) as error:
        raise Error(f"{path}: {error}") from None


def _arrayOf(path, name, column):
    import pyarrow

    def wrong(what):
        return Error(f"{path}: column '{name}' {what}")

    column = column.combine_chunks()
    lengths = []
    while pyarrow.types.is_list(column.type) or pyarrow.types.is_large_list(column.type) \
            or pyarrow.types.is_fixed_size_list(column.type):
        if column.null_count:
            raise wrong(f"has {column.null_count} rows without a value (null)")
        sizes = column.value_lengths().unique().to_pylist()
        if len(sizes) != 1:
            raise wrong(f"has lists of {min(sizes)} to {max(sizes)} elements; an input has one length: pad or cut them")
        lengths.append(sizes[0])
        column = column.flatten()
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        raise wrong(f"holds text: polyrank tokenize {shlex.quote(path)} --tokenizer tokenizer.json --text-field {shlex.quote(name)} "
                    "-o tokens")
    if not _isNumber(kind):
        raise wrong(f"holds {kind}, which is no number: give others with --columns, or write a loader")
    if column.null_count:
        raise wrong(f"has {column.null_count} values that are missing (null): fill them in first")
    return column.to_numpy(zero_copy_only=False).reshape(-1, *lengths)


def _isNumber(kind):
    import pyarrow

    return pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind)


def _isOfNumbers(kind):
    while hasattr(kind, "value_type"):
        kind = kind.value_type
    return _isNumber(kind)


def _columnsOf(path, table, columns):
    names = columns or {name: name for name, kind in zip(table.schema.names, table.schema.types) if _isOfNumbers(kind)}
    for column in names.values():
        if column not in table.column_names:
            raise Error(f"{path}: has no column '{column}'; it has: {', '.join(table.column_names)}")
    if not names:
        raise Error(f"{path}: has no column of numbers; it has: {', '.join(f'{field.name} ({field.type})' for field in table.schema)}")
    return {name: _arrayOf(path, column, table[column]) for name, column in names.items()}


def read(paths, columns=None, epochs=1, first=0, rows=1024):
    """Batches of at most so many rows, fewer where rows are long, from row `first` of the run on; `columns` has the column
    of each input, `epochs` is how often the files are read (0: without end)."""
    done = epoch = 0
    while epochs == 0 or epoch < epochs:
        before = done
        for path in paths:
            for count, table in _rowsOf(path):
                if first < done + count:
                    part = table().slice(max(0, first - done))
                    size = max(1, min(rows, _BLOCK * len(part) // max(1, part.nbytes)))
                    for begin in range(0, len(part), size):
                        yield _columnsOf(path, part.slice(begin, size), columns)
                done += count
        if done == before:
            raise Error(f"{', '.join(paths)}: no rows")
        epoch += 1


def main(arguments=None):
    parser = argparse.ArgumentParser("python3 -m polyrank.columns", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help=".parquet, .arrow, .feather or .csv")
    parser.add_argument("--columns", help="the columns, by commas: x,labels or INPUT=COLUMN (default: all of numbers)")
    parser.add_argument("--epochs", type=int, default=1, help="how often to read them; 0: without end (default 1)")
    options = parser.parse_args(arguments)
    columns = options.columns and {each.split("=")[0]: each.split("=")[-1] for each in options.columns.split(",")}
    feed(lambda first: read(options.files, columns, options.epochs, first))


if __name__ == "__main__":
    try:
        main()
    except Error as error:
        sys.exit(f"polyrank.columns: {error}")
