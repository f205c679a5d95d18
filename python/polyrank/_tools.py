"""Finds the tools, writes their command lines, and turns what they refuse into exceptions."""

import importlib.metadata
import os
import re
import shutil
import subprocess
from pathlib import Path


class Error(RuntimeError):
    """What a tool refused or could not do; the text is the tool's own. `code` is its exit status, None if it is not a
    tool's."""
    __module__ = "polyrank"  # as it is caught

    def __init__(self, text, code=None):
        super().__init__(text)
        self.code = code


def find(name):
    """The path of polyrank-NAME: in the folder POLYRANK_BIN, else where pip installed it with this module, else on PATH."""
    tool = f"polyrank-{name}"
    if folder := os.environ.get("POLYRANK_BIN"):
        return str(Path(folder) / tool)
    try:
        files = importlib.metadata.files("polyrank") or []
    except importlib.metadata.PackageNotFoundError:  # imported from a checkout
        files = []
    for file in files:
        if file.name == tool:
            return str(file.locate().resolve())
    if path := shutil.which(tool):
        return path
    raise Error(f"there is no {tool}: it is neither installed with this module nor on PATH; POLYRANK_BIN names its folder")


def arguments(options):
    """The options as the tools take them: {"lr_schedule": "constant"} as --lr-schedule constant."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
            continue
        if isinstance(value, dict):
            value = [f"{key}={each}" for key, each in value.items()]
        for each in value if isinstance(value, (list, tuple)) else [value]:
            words.append(f"{option}={os.fspath(each) if isinstance(each, os.PathLike) else each}")
    return words


def start(command, **options):
    """The process of a tool, which has begun."""
    try:
        return subprocess.Popen(command, text=True, errors="replace", **options)
    except OSError as error:
        raise Error(f"cannot start {command[0]}: {error.strerror}") from None


def call(name, *words, **options):
    """What polyrank-NAME prints on standard output and on standard error."""
    command = [find(name), *map(os.fspath, words), *arguments(options)]
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    output, messages = process.communicate()
    raiseIfFailed(command[0], process.returncode, messages)
    return output, messages


def raiseIfFailed(tool, code, messages):
    if code < 0:
        raise Error(f"{messages}{tool} was ended by signal {-code}".strip(), code)
    if code:
        raise Error(messages.strip() or f"{tool} ended with exit status {code}", code)


def version():
    """The version of the package; of a checkout that is not installed, what support/Version.h says."""
    try:
        return importlib.metadata.version("polyrank")
    except importlib.metadata.PackageNotFoundError:
        header = Path(__file__).parents[2] / "support/Version.h"
        return re.search(r'versionText = "([^"]+)"', header.read_text())[1]
