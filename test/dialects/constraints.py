"""Says which numbered constraints no input breaks: constraints.py DOCS TESTS.

A constraint of an op is a numbered line of its description, and its verifier's message begins with the number: `[2] dims ascend ..`.
That of an attribute has the attribute's name before the number, `[layout 4] dim 0 ..`, and a rule of all ops of a dialect, which the
dialect's description states, a letter: `[L4] operand 1 ..`. Elementwise ops share a verifier, so one test of each of its constraints
serves all.
"""

import re
import sys
from pathlib import Path


# verifySameShapes.
SHARED = {"Operands and result have one shape.", "Their elements have one type."}
# The op whose constraint an op of its region breaks.
AROUND = {"kernel.load": "kernel.loops", "kernel.store": "kernel.loops", "kernel.scatter_add": "kernel.loops"}


def constraintsOf(page):
    """(owner, number, text) of each constraint: of an op, of an attribute, or of all ops of the dialect (owner "")."""
    head, *sections = re.split(r"(?m)^### ", page.read_text())
    for number, words in re.findall(r"(?ms)^- \*\*([A-Z]\d+)\*\* (.*?)(?=^- |\n\n|\Z)", head):
        yield "", number, " ".join(words.split())
    for section in sections:
        title = section.split(maxsplit=1)[0]
        owner = title.strip("`") if title.startswith("`") else title.removesuffix("Attr").lower()
        text = re.sub(r"(?ms)^```mlir\n.*?^```", "", section.split("\n#### ")[0])
        for number, words in re.findall(r"(?ms)^(\d+)\. (.*?)(?=^\d+\. |\n\n|\Z)", text):
            yield owner, number, " ".join(words.split())


def brokenIn(test):
    """(owner, number) of each constraint that an expected error names: an op is on the line that the error is at."""
    lines = test.read_text().split("\n")
    for at, line in enumerate(lines):
        expected = re.search(r"expected-error @([+-]\d+) \{\{(?:'[\w.]+' op )?\[(?:(\w+) )?([A-Z]?\d+)\] ", line)
        if not expected:
            continue
        distance, attribute, number = expected.groups()
        op = re.search(r"(?<!#)\b(graph|kernel|pipeline|rank|sharding)\.\w+", lines[at + int(distance)])
        if attribute or number[0].isalpha():
            yield attribute or "", number
        elif op:
            yield op[0], number


def main():
    docs, tests = map(Path, sys.argv[1:])
    stated = {(owner, number): text for page in sorted(docs.glob("*.md")) for owner, number, text in constraintsOf(page)}
    broken = {b if b in stated else (AROUND.get(b[0], b[0]), b[1]) for test in tests.rglob("*errors.mlir") for b in brokenIn(test)}
    shared = SHARED & {stated.get(b) for b in broken}
    wrong = [f"{owner} [{number}] is broken by no test: {text}" for (owner, number), text in stated.items()
             if (owner, number) not in broken and text not in shared]
    wrong += [f"{owner} [{number}] is broken by a test, but not stated" for owner, number in sorted(broken - set(stated))]
    print("\n".join(wrong) or f"{len(stated)} constraints")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
