"""Adds up JUnit files: count.py STATUS FILE... prints "N passed, N failed, N skipped".

STATUS is not 0 where a suite reported failure. A suite that left no file, or one
that failed without a failed test, counts as one failure: nothing gets lost. Tests
that a suite says it left out, in a property of its file, are said in a line before.
"""

import sys
import xml.etree.ElementTree as xml
from pathlib import Path


def outcome(case):
    kinds = {child.tag for child in case}
    if any("Test not selected" in child.get("message", "") for child in case):
        return "left out"
    if kinds & {"failure", "error"} or case.get("status") == "fail":
        return "failed"
    if "skipped" in kinds or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def main(status, *files):
    counts = dict(passed=0, failed=0, skipped=0)
    left = 0
    for file in files:
        if not Path(file).exists():
            counts["failed"] += 1
            print(f"{file}: the suite left no result", file=sys.stderr)
            continue
        root = xml.parse(file).getroot()
        left += sum(int(each.get("value")) for each in root.iter("property") if each.get("name") == "left out")
        for case in root.iter("testcase"):
            kind = outcome(case)
            if kind in counts:
                counts[kind] += 1
            if kind == "failed":
                print(f"failed: {case.get('classname')} {case.get('name')}", file=sys.stderr)
    if status != "0" and not counts["failed"]:
        counts["failed"] = 1
        print("a suite ended badly without a failed test", file=sys.stderr)
    if left:
        print(f"{left} rows of large tables were left out; tools/check.sh --all runs them")
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
