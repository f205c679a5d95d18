"""Makes token files of text: polyrank tokenize FILE.. --tokenizer tokenizer.json -o NAME.

The tokens go to NAME.bin, and the ends of documents to NAME.idx, as Megatron-LM has them; polyrank-run --data NAME.bin
reads both. A document is a file of text (.txt; with --lines each line), an object of .jsonl or .json, or a row of .csv,
.parquet or .arrow, of which --text-field names the text. With --prompt-field the text of that field is put in front of it
and is not learned: NAME.mask marks it, for polyrank-run --mask-prompts. Files may be compressed by gzip (.gz).
"""

import argparse
import array
import csv
import gzip
import json
import os
import sys
import zlib
from pathlib import Path

from ._tools import Error

_BATCH = 256  # documents that are tokenized at once
_TYPES = {"uint16": ("H", 8), "int32": ("i", 4)}  # the code of array, and that of the index


def _records(path):
    """(where it is, a dict or the text) of each document of a file."""
    name = path[:-3] if path.endswith(".gz") else path
    kind = Path(name).suffix.lower()
    if kind in (".parquet", ".pq", ".arrow", ".feather"):
        yield from _rows(path)
        return
    if kind not in (".txt", ".jsonl", ".json", ".csv"):
        raise Error(f"{path}: text is read of .txt, .jsonl, .json, .csv, .parquet and .arrow files"
                    + ("; unpack it first: zstd -d " + path if kind == ".zst" else ""))
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8-sig", newline="") as file:
        if kind == ".txt":
            yield path, file.read()
        elif kind == ".csv":
            csv.field_size_limit(1 << 30)  # else 128 KiB, which a document may exceed
            for number, row in enumerate(csv.DictReader(file), 2):
                yield f"{path}, row {number}", row
        elif kind == ".json":
            try:
                objects = json.load(file)
            except json.JSONDecodeError as error:
                raise Error(f"{path}: {error}; of one object in each line the name is .jsonl") from None
            if not isinstance(objects, list):
                raise Error(f"{path}: is no list of objects")
            for number, each in enumerate(objects):
                yield f"{path}, object {number}", each
        else:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        yield f"{path}, line {number}", json.loads(line)
                    except json.JSONDecodeError as error:
                        raise Error(f"{path}, line {number}: {error}") from None


def _rows(path):
    from .columns import _rowsOf

    number = 0
    for _, table in _rowsOf(path):
        for batch in table().to_batches(_BATCH):
            for row in batch.to_pylist():
                yield f"{path}, row {number}", row
                number += 1


def _textOf(where, record, field):
    if isinstance(record, str):
        return record
    if not isinstance(record, dict):
        raise Error(f"{where}: is {type(record).__name__}, not an object with fields")
    if field not in record:
        raise Error(f"{where}: has no field '{field}'; it has: {', '.join(map(str, record))}")
    if not isinstance(record[field], str):
        what = "missing (null)" if record[field] is None else f"no text, but {type(record[field]).__name__}"
        if isinstance(record[field], list):
            what += "; of a conversation make one text first, by the tokenizer's chat template"
        raise Error(f"{where}: field '{field}' is {what}")
    return record[field]


def documents(options):
    """(prompt, text) of each document; the prompt is empty without --prompt-field."""
    for path in options.files:
        try:
            yield from _documentsOf(path, options)
        except UnicodeDecodeError as error:
            raise Error(f"{path}: is no text in UTF-8 ({error}); iconv -f ENCODING -t UTF-8 makes it so") from None
        except (OSError, EOFError, zlib.error, csv.Error) as error:
            raise Error(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def _documentsOf(path, options):
    for where, record in _records(path):
        if isinstance(record, str) and options.prompt_field:
            raise Error(f"{path}: text has no field '{options.prompt_field}'")
        if isinstance(record, str) and options.lines:
            # Not splitlines(), which also splits at form feeds and others.
            yield from (("", line) for line in record.replace("\r\n", "\n").split("\n") if line)
            continue
        prompt = _textOf(where, record, options.prompt_field) if options.prompt_field else ""
        yield prompt, _textOf(where, record, options.text_field)


def _tokenizerOf(path):
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise Error("tokenize needs the library tokenizers: pip install tokenizers") from None
    try:
        return Tokenizer.from_file(path)
    except Exception as error:  # the library raises plain exceptions
        raise Error(f"{path}: is no tokenizer.json of tokenizers: {error}") from None


def _sizeOf(tokenizer):
    """One more than the largest token, since numbers may be left out."""
    return max(tokenizer.get_vocab().values(), default=-1) + 1


def _eosOf(tokenizer, text):
    if text is None:
        return []
    number = int(text) if text.isdecimal() else tokenizer.token_to_id(text)
    if number is None or number >= _sizeOf(tokenizer):
        raise Error(f"--eos {text}: the tokenizer has no such token")
    return [number]


class _Output:
    """The files of tokens, which take their names when all of them are whole."""

    def __init__(self, name, kind, hasMask):
        self.code, self.number = _TYPES[kind]
        self.name, self.hasMask = name, hasMask
        self.lengths = array.array("i")
        folder = Path(name).parent
        if name.endswith("/") or Path(name).is_dir():
            raise Error(f"-o {name}: is a folder; give the files a name in it: {Path(name) / 'tokens'}")
        if not folder.is_dir():
            raise Error(f"-o {name}: there is no folder '{folder}'")
        suffixes = ["bin", "mask"] if hasMask else ["bin"]
        self.files = {suffix: open(f"{name}.{suffix}.part", "wb") for suffix in suffixes}

    def add(self, prompt, text):
        tokens = array.array(self.code, prompt + text)
        tokens.tofile(self.files["bin"])
        if self.hasMask:
            self.files["mask"].write(bytes(len(prompt)) + b"\1" * len(text))
        self.lengths.append(len(tokens))

    def finish(self):
        count, size = len(self.lengths), array.array(self.code).itemsize
        offsets, bounds = array.array("q", bytes(8 * count)), array.array("q", range(count + 1))
        for number in range(1, count):
            offsets[number] = offsets[number - 1] + self.lengths[number - 1] * size
        self.files["idx"] = open(f"{self.name}.idx.part", "wb")
        self.files["idx"].write(b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + bytes([self.number])
                                + count.to_bytes(8, "little") + (count + 1).to_bytes(8, "little"))
        for part in (self.lengths, offsets, bounds):
            part.tofile(self.files["idx"])
        for suffix, file in self.files.items():
            file.close()
            os.replace(file.name, f"{self.name}.{suffix}")

    def discard(self):
        for file in self.files.values():
            file.close()
            Path(file.name).unlink(missing_ok=True)


def _encode(tokenizer, group, options, eos, output):
    """Adds a group of documents. Returns how many were empty."""
    special, hasPrompt = not options.no_special_tokens, bool(options.prompt_field)
    prompts = tokenizer.encode_batch([prompt for prompt, _ in group], add_special_tokens=special)
    # Special tokens stand where a document begins.
    texts = tokenizer.encode_batch([text for _, text in group], add_special_tokens=special and not hasPrompt)
    empty = 0
    for prompt, text in zip(prompts, texts):
        before, after = prompt.ids if hasPrompt else [], text.ids + eos
        if before or after:
            output.add(before, after)
        else:
            empty += 1
    return empty


def tokenize(options):
    tokenizer = _tokenizerOf(options.tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    eos = _eosOf(tokenizer, options.eos)
    kind = "uint16" if _sizeOf(tokenizer) <= 1 << 16 else "int32"
    name = options.output.removesuffix(".bin").removesuffix(".idx")
    output, empty, group = _Output(name, kind, bool(options.prompt_field)), 0, []
    try:
        for document in documents(options):
            group.append(document)
            if len(group) == _BATCH:
                empty += _encode(tokenizer, group, options, eos, output)
                group = []
        if group:
            empty += _encode(tokenizer, group, options, eos, output)
        if not output.lengths:
            raise Error(f"{', '.join(options.files)}: there is no text to tokenize")
        output.finish()
    except BaseException:
        output.discard()
        raise
    print(f"wrote {name}.bin: {sum(output.lengths)} {kind} tokens in {len(output.lengths)} documents"
          + (f" ({empty} without text are left out)" if empty else "")
          + (f"; {name}.mask marks the prompts" if options.prompt_field else ""))


def main(arguments=None):
    parser = argparse.ArgumentParser("polyrank tokenize", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help=".txt, .jsonl, .json, .csv, .parquet or .arrow")
    parser.add_argument("--tokenizer", required=True, metavar="FILE", help="tokenizer.json, as the library tokenizers has it")
    parser.add_argument("-o", "--output", required=True, metavar="NAME", help="writes NAME.bin and NAME.idx")
    parser.add_argument("--text-field", default="text", metavar="NAME", help="the field or column of the text (text)")
    parser.add_argument("--prompt-field", metavar="NAME", help="the field before it that is not learned; writes NAME.mask")
    parser.add_argument("--lines", action="store_true", help="each line of a .txt file is a document")
    parser.add_argument("--eos", metavar="TOKEN", help="a token after each document: its text, or its number")
    parser.add_argument("--no-special-tokens", action="store_true",
                        help="without those that the tokenizer itself adds to a text")
    try:
        tokenize(parser.parse_args(arguments))
    except (Error, OSError) as error:
        sys.exit(f"polyrank tokenize: {error}")


if __name__ == "__main__":
    main()
