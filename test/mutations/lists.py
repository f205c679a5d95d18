"""The lists of mutants (AREA.toml), read and rewritten.

A mutant is one entry of a list, and says by function and expression what of the sources it changes:

    [[mutation]]
    name = "a call may write over its operands"           # what the mutant does
    function = "verifyCallApart"                          # the definition that contains `old` (places.py)
    old = '''verifyApart(what, read, written)'''
    new = '''true'''

`old` stands exactly once in the function, or is the first after the text in `after`. `file` is only given where several
files have such a function with such an expression, and is as little of the path's end as tells them apart. An `old`
that ends in ";" or "}" is a statement, any other is an expression; `old` and `new` are whole, with as many brackets
opened as closed. `equivalent = "reason"` marks a mutant that no program can tell from the original.
"""

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
NUMBERS = 1 << 20  # as in Active.h
KEYS = ("name", "function", "file", "after", "old", "new", "equivalent")  # in the order of an entry
NO_EXPRESSION = re.compile(r"^(if|for|while|case|return|else|break|continue)\b|^(&&|\|\||[.,=<>?:%/^|;])|"
                           r"[-&|.,=<>?:%/^+*;]$")


def numbersIn(reached):
    """The numbers of the mutants that a run has executed, whose bytes in the file MUTANTS_REACHED are 1 (Active.h)."""
    numbers, at = [], reached.find(1)
    while at >= 0:
        numbers.append(at)
        at = reached.find(1, at + 1)
    return numbers


class PlantingError(Exception):
    """A list does not fit the sources; the text names every such entry."""


@dataclass(frozen=True)
class Mutation:
    area: str
    name: str
    function: str
    old: str
    new: str
    file: str = ""
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
            depth, outside = 0, ""  # what is in no brackets
            for character in bare:
                depth += (character in "([{") - (character in ")]}")
                if depth < 0:
                    break
                outside += character if depth == 0 else ""
            if depth:
                return f"the brackets of {text!r} are not in pairs"
            bare = bare.strip()
            if not self.isStatement and ("," in outside.split("<")[0] or outside.count("?") != outside.replace("::", "").count(":")):
                return f"{text!r} is not one expression"
            if self.isStatement:
                if bare.startswith("{") and ";" not in bare and bare.strip("{} \n"):
                    return f"{text!r} is a list, which is neither a statement nor an expression; take one of its elements"
                if bare and not bare.endswith((";", "}")):
                    return f"{text!r} is no statement, in place of one"
            elif not bare or NO_EXPRESSION.search(bare):
                return f"{text!r} is no expression"
        return ""

    def __str__(self):
        return f"{self.area}: {self.name}"


def listsOf(folder=HERE):
    """The paths of all lists."""
    return [path for path in sorted(folder.glob("*.toml")) if path.name != "suites.toml"]


def readLists(folder=HERE):
    """Every mutant of every list."""
    found, problems, numbers = [], [], {}
    for path in listsOf(folder):
        for entry in tomllib.loads(path.read_text()).get("mutation", []):
            name = entry.get("name", "?")
            if unknown := set(entry) - set(KEYS):
                problems.append(f"{path.name}: {name}: unknown key {', '.join(sorted(unknown))}")
            elif missing := {"name", "function", "old", "new"} - set(entry):
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


VALUE = re.compile(r"""^(?P<key>\w+)[ \t]*=[ \t]*(?P<value>'''[\s\S]*?'''(?:'{0,2})|\"""[\s\S]*?\"""(?:"{0,2})|"""
                   r"""'[^'\n]*'|"(?:\\.|[^"\\\n])*")[ \t]*(?:\#.*)?$""", re.MULTILINE)


def quote(value, like):
    """`value` as TOML, in the quotes of the text `like` where these can hold it."""
    literal = not re.search(r"'''|'$|[\x00-\x08\x0b-\x1f]", value)
    if like.startswith("'''") and literal or "\n" in value and literal:
        return f"'''{value}'''"
    if like.startswith("'") and "'" not in value and "\n" not in value:
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False)


def rewrite(text, changes):
    """A list's text with the values of `changes` (name -> key -> value, or None for no such key); all else is kept."""
    out = []
    for part in re.split(r"(?m)^(?=\[\[mutation\]\])", text):
        found = {match["key"]: match for match in VALUE.finditer(part)}
        change = changes.get(tomllib.loads(part)["mutation"][0].get("name"), {}) if part.startswith("[[mutation]]") else {}
        edits = []
        for key, value in change.items():
            match = found.get(key)
            if match and value is not None:
                edits.append((match.start("value"), match.end("value"), quote(value, match["value"])))
            elif match:
                edits.append((match.start(), match.end() + 1, ""))
            elif value is not None:
                before = max((found[k].end() for k in KEYS[:KEYS.index(key)] if k in found), default=len("[[mutation]]"))
                like = found["old"]["value"] if key == "after" else '"'
                edits.append((before, before, f"\n{key} = {quote(value, like)}"))
        for begin, end, value in sorted(edits, key=lambda edit: edit[0], reverse=True):
            part = part[:begin] + value + part[end:]
        out.append(part)
    return "".join(out)
