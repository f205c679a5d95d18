"""Says which files include what their layer must not see: includes.py ROOT; exits with 1 where there is one."""

import re
import sys
from pathlib import Path

# A folder, and what its files may include beside their own folder; of several rows that fit the longest counts.
MAY = {
    "support": [],
    "runtime": ["support"],
    "dialects": ["support", "runtime/plan/Collectives.h"],
    "frontends": ["support", "dialects"],
    "compiler": ["support", "dialects", "frontends", "runtime/plan"],
    # Products are measured with the calls that the device will make.
    "compiler/target/cpu": ["support", "dialects", "compiler", "runtime/plan", "runtime/device/cpu/Gemm.h"],
}


def isWithin(path, folder):
    return path == folder or path.startswith(folder + "/")


def wrongIncludes(root):
    for top in sorted({folder.split("/")[0] for folder in MAY}):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in (".cpp", ".h", ".td"):
                continue
            name = file.relative_to(root).as_posix()
            folder = max((f for f in MAY if isWithin(name, f)), key=len)
            for line, text in enumerate(file.read_text().splitlines(), 1):
                include = re.match(r'\s*#?include "([^"]+)"', text)
                if not include or include[1].split("/")[0] not in {*(f.split("/")[0] for f in MAY), "tools", "test"}:
                    continue
                if not any(isWithin(include[1], allowed) for allowed in [folder, *MAY[folder]]):
                    yield f"{name}:{line}: {folder} must not see {include[1]}"


def main():
    wrong = list(wrongIncludes(Path(sys.argv[1])))
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
