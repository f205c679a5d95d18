"""Feeds a run: writes the batches of any loader as blocks, which polyrank-run reads (docs/data-files.md)."""

import json
import os
import sys
from collections.abc import Mapping

from ._tools import Error

# NumPy's names of types -> those of a block, which are safetensors'.
_TYPES = {"bool": "BOOL", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32",
          "int64": "I64", "uint64": "U64", "float16": "F16", "float32": "F32", "float64": "F64"}


def firstSample():
    """The number of the sample with which a feed is to begin: 0, or more where a run goes on from a checkpoint."""
    text = os.environ.get("POLYRANK_FEED_FIRST", "0")
    if not text.isdecimal():
        raise Error(f"POLYRANK_FEED_FIRST is '{text}', which is no number of a sample")
    return int(text)


def _arrayOf(name, value):
    """An array of NumPy in C order, and the name of its type in a block."""
    import numpy

    if hasattr(value, "detach"):  # a tensor of PyTorch
        value = value.detach().cpu().contiguous()
        if str(value.dtype) == "torch.bfloat16":  # NumPy has no such type
            return value.view(sys.modules["torch"].int16).numpy(), "BF16"
        value = value.numpy()
    array = numpy.ascontiguousarray(value)
    if array.dtype.name not in _TYPES:
        raise Error(f"polyrank.feed: '{name}' holds {array.dtype}, which no input takes: make numbers of it first"
                    + (" (rows of different lengths are no array: pad them)" if array.dtype == object else ""))
    return array.astype(array.dtype.newbyteorder("<"), copy=False), _TYPES[array.dtype.name]


def block(batch, sample=None):
    """The parts of a block, bytes and arrays, that has the arrays of `batch`; `sample` is the number of its first row."""
    header, parts, offset = {}, [], 0
    if sample is not None:
        header["__metadata__"] = {"sample": str(sample)}
    for name, value in batch.items():
        array, kind = _arrayOf(name, value)
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
        parts.append(array)
    return [_headOf(header), *parts]


def _headOf(header):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text


_END = _headOf({"__metadata__": {"end": "1"}})  # the block with which a feed ends


def _rowsOf(batch):
    lengths = {name: len(value) for name, value in batch.items()}
    if len(set(lengths.values())) != 1:
        raise Error(f"polyrank.feed: skip=True counts rows, and a batch has {lengths or 'no arrays'}; give a function of the first "
                    "sample instead")
    return next(iter(lengths.values()))


def _named(batch, names):
    if isinstance(batch, Mapping):
        return batch
    if names is None:
        raise Error(f"polyrank.feed: a batch is a dict of arrays by the names of the plan's inputs, and the loader gives "
                    f"{type(batch).__name__}; of tuples say the names: feed(loader, names=('x', 'labels'))")
    if len(batch) != len(names):
        raise Error(f"polyrank.feed: a batch has {len(batch)} arrays, and names= has {len(names)}: {', '.join(names)}")
    return dict(zip(names, batch))


def _skip(batches, rows):
    """The batches without their first rows."""
    for batch in batches:
        count = _rowsOf(batch)
        if rows >= count:
            rows -= count
        else:
            yield {name: value[rows:] for name, value in batch.items()} if rows else batch
            rows = 0


def feed(loader, names=None, skip=False, path=None):
    """Writes all batches of a loader to the run that has started this program (`--data 'command:python loader.py'`), or
    to the FIFO that POLYRANK_FEED or `path` names. Returns when the loader ends, or the run.

    `loader` is any iterable of dicts of arrays, of NumPy or PyTorch, by the names of the plan's inputs, each with a
    row for each sample; of tuples, `names` has their names. A DataLoader with its workers is one. The number of rows
    need not be that of a step.

    A run that goes on from a checkpoint begins with a later sample (firstSample()). Give a function that takes its
    number and returns the loader from there on, or, if the loader gives the same batches each time, `skip=True`: then
    the ones before are read and dropped, for which all arrays of a batch need a row for each sample. Otherwise the loader
    begins anew, and checkpoints say "not exact".
    """
    path = path or os.environ.get("POLYRANK_FEED")
    if not path:
        raise Error("polyrank.feed: nobody reads: start this program by polyrank-run --data 'command:python loader.py', or "
                    "give the path of a FIFO (POLYRANK_FEED)")
    first = firstSample()
    isFunction = callable(loader) and not hasattr(loader, "__iter__")
    isCounted = skip and not isFunction
    sample = first if isFunction or skip or not first else None  # None: the number is not known
    try:
        # An error closes the file, so that the reader of a FIFO learns of it.
        with open(path, "wb", buffering=0) as out:
            batches = (_named(batch, names) for batch in (loader(first) if isFunction else loader))
            for batch in _skip(batches, first) if isCounted else batches:
                for part in block(batch, sample):
                    _write(out, part)
                sample = sample + _rowsOf(batch) if isCounted else None  # a block without a number follows on the one before
            _write(out, _END)
    except BrokenPipeError:  # the run has ended
        pass


def _write(out, part):
    """Writes all bytes; a pipe takes some at a time."""
    rest = memoryview(part if isinstance(part, bytes) else part.reshape(-1).view("u1"))
    while rest:
        rest = rest[out.write(rest):]
