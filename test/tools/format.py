"""Names the files that clang-format would change: format.py ROOT [FOLDER...]; exits with 1 if there is one.

The formatter is the one beside this Python (test/parity/requirements.txt fixes its version, since versions differ in
what they write). `clang-format -i FILE` mends a file.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
from pathlib import Path

FOLDERS = ("cmake", "compiler", "dialects", "frontends", "runtime", "support", "test", "tools")
FORMATTER = Path(sys.executable).parent / "clang-format"


def findChanged(files):
    """The files of this list that the formatter would change."""
    run = subprocess.run([FORMATTER, "--dry-run", *files], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"{FORMATTER} failed: {run.stderr}")
    return sorted(set(re.findall(r"^(.+?):\d+:\d+: warning: code should be clang-formatted", run.stderr, re.MULTILINE)))


def main():
    root, *folders = sys.argv[1:]
    files = sorted(path.relative_to(root).as_posix() for folder in folders or FOLDERS for path in (Path(root) / folder).rglob("*")
                   if path.suffix in (".c", ".cpp", ".h"))
    if not files:
        sys.exit(f"{root} holds no sources")
    os.chdir(root)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = pool.map(findChanged, (files[at:at + 50] for at in range(0, len(files), 50)))
        changed = [name for part in parts for name in part]
    for name in changed:
        print(f"{name}: clang-format -i {name}")
    sys.exit(bool(changed))


if __name__ == "__main__":
    main()
