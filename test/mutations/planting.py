"""The list of bugs, and a copy of the sources that has them all behind a switch.

A bug is one entry of a list in this folder (AREA.toml):

    [[mutation]]
    name = "a gemm's scratch may lie over its result"     # what the bug does
    file = "runtime/plan/VerifyCommands.cpp"
    old = '''verifyApart(what, *gemm.c(), *gemm.scratch())'''
    new = '''true'''

`old` stands exactly once in the file, or is the first after the text in `after`. Where it ends in ";" or "}" it is a
statement and becomes `if (active(N)) { new } else { old }`; else it is an expression and becomes
`(active(N) ? (new) : (old))`; both are whole, with as many brackets opened as closed. `equivalent = "reason"` marks a change that no program can show.
"""

import hashlib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
NUMBERS = 1 << 20  # as in Active.h
INCLUDE = '#include "test/mutations/Active.h"\n#line 1\n'


class PlantingError(Exception):
    """A list that does not fit the sources; says every place."""


@dataclass(frozen=True)
class Mutation:
    area: str
    name: str
    file: str
    old: str
    new: str
    after: str = ""
    equivalent: str = ""

    @property
    def number(self):
        """From 1 to NUMBERS - 1, by the name alone: a new entry rebuilds its own file and no other."""
        digest = hashlib.sha256(str(self).encode()).digest()
        return 1 + int.from_bytes(digest[:8]) % (NUMBERS - 1)

    @property
    def isStatement(self):
        return self.old.rstrip().endswith((";", "}"))

    def findFault(self):
        """Why the texts cannot be a statement or an expression; empty where they may be."""
        for text in (self.old, self.new):
            bare = re.sub(r"""'(\\.|[^'\\])'|"(\\.|[^"\\])*\"""", "0", text)
            depth = 0
            for character in bare:
                depth += (character in "([{") - (character in ")]}")
                if depth < 0:
                    break
            if depth:
                return f"the brackets of {text!r} are not in pairs"
            bare = bare.strip()
            if self.isStatement:
                if bare and not bare.endswith((";", "}")):
                    return f"{text!r} is no statement, in place of one"
            elif not bare or re.search(r"^(if|for|while|case|return|else|break|continue)\b|^(&&|\|\||[.,=<>?:%/^|;])|[-&|.,=<>?:%/^+*;]$", bare):
                return f"{text!r} is no expression"
        return ""

    def find(self, text):
        """Where `old` begins and ends in the file's text."""
        begin = 0
        if self.after:
            begin = text.find(self.after)
            if begin < 0:
                raise PlantingError(f"{self}: {self.file} does not contain {self.after!r}")
            begin += len(self.after)
        place = text.find(self.old, begin)
        if place < 0:
            raise PlantingError(f"{self}: {self.file} does not contain {self.old!r}")
        if self.isStatement and text[:place].rstrip().endswith(tuple("?=(,&|+-*/<")):
            raise PlantingError(f"{self}: {self.old!r} stands where there is no statement; take the whole expression")
        if not self.after and text.find(self.old, place + 1) >= 0:
            raise PlantingError(f"{self}: {self.file} contains {self.old!r} more than once; say `after`")
        return place, place + len(self.old)

    def __str__(self):
        return f"{self.area}: {self.name}"


def readLists(folder=HERE):
    """Every mutation of every list."""
    keys = {"name", "file", "old", "new", "after", "equivalent"}
    found, problems, numbers = [], [], {}
    for path in sorted(folder.glob("*.toml")):
        if path.name == "suites.toml":
            continue
        for entry in tomllib.loads(path.read_text()).get("mutation", []):
            name = entry.get("name", "?")
            if unknown := set(entry) - keys:
                problems.append(f"{path.name}: {name}: unknown key {', '.join(sorted(unknown))}")
            elif missing := {"name", "file", "old", "new"} - set(entry):
                problems.append(f"{path.name}: {name}: no {', '.join(sorted(missing))}")
            else:
                mutation = Mutation(area=path.stem, **entry)
                if numbers.setdefault(mutation.number, mutation) is not mutation:
                    problems.append(f"{path.name}: {name}: has the number of another one; change its name")
                if fault := mutation.findFault():
                    problems.append(f"{path.name}: {name}: {fault}")
                found.append(mutation)
    if problems:
        raise PlantingError("\n".join(problems))
    return found


def plant(text, mutations):
    """The file's text with all of `mutations`; a span inside another stays one of the other's `old`."""
    spans = {}
    problems = []
    for mutation in mutations:
        try:
            spans.setdefault(mutation.find(text), []).append(mutation)
        except PlantingError as error:
            problems.append(str(error))
    ordered = sorted(spans, key=lambda span: (span[0], -span[1]))
    for i, outer in enumerate(ordered):
        for inner in ordered[i + 1:]:
            if inner[0] < outer[1] < inner[1]:
                problems.append(f"{spans[outer][0]} and {spans[inner][0]} overlap in part")
    if problems:
        raise PlantingError("\n".join(problems))

    def render(begin, end, inside):
        """text[begin:end], where `inside` are the spans that lie in it, outermost first."""
        out, position = [], begin
        while inside:
            span, inside = inside[0], inside[1:]
            within = [s for s in inside if s[1] <= span[1] and s[0] >= span[0]]
            inside = [s for s in inside if s not in within]
            out.append(text[position:span[0]])
            old = render(*span, within)
            for mutation in spans[span]:
                call = f"polyrank::mutations::active({mutation.number})"
                if mutation.isStatement:
                    old = f"if ({call}) {{ {mutation.new} }} else {{ {old} }}"
                else:
                    old = f"({call} ? ({mutation.new}) : ({old}))"
            out.append(old)
            position = span[1]
        out.append(text[position:end])
        return "".join(out)

    return INCLUDE + render(0, len(text), ordered)


def writeCopy(root, files, mutations, target):
    """Copies `files` of `root` to `target` with all mutations in them; what has not changed keeps its time."""
    byFile = {}
    for mutation in mutations:
        byFile.setdefault(mutation.file, []).append(mutation)
    problems = [f"{m}: no file {m.file}" for name, ms in byFile.items() if name not in files for m in ms]
    for name in files:
        content = (root / name).read_bytes()
        if name in byFile:
            try:
                content = plant(content.decode(), byFile[name]).encode()
            except PlantingError as error:
                problems.append(str(error))
        path = target / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod((root / name).stat().st_mode)
    if problems:
        raise PlantingError("\n".join(problems))
    for path in [p for p in target.rglob("*") if p.is_file()]:
        if str(path.relative_to(target)) not in files and "__pycache__" not in path.parts:
            path.unlink()
