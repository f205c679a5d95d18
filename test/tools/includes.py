"""Says which files include what their layer must not see: includes.py ROOT; exits with 1 where there is one."""

import re
import sys
from pathlib import Path

# A folder, and what its files may include beside their own folder; of several rows that fit the longest counts.
MAY = {
    "support": [],
    "runtime": ["support"],
    "dialects": ["support", "runtime/plan/Collectives.h", "runtime/plan/Channels.h"],
    "frontends": ["support", "dialects"],
    "compiler": ["support", "dialects", "frontends", "runtime/plan", "runtime/progress"],
    # Its targets are behind an interface. Products are measured with the calls that the device will make.
    "compiler/target/cpu": ["support", "dialects", "compiler", "runtime/plan", "runtime/device/cpu/Gemm.h"],
    "tools": ["support", "dialects", "frontends", "compiler", "runtime"],
}


# What a folder's files must not see all the same, whatever the table says; some files may.
MUST_NOT = {"compiler": ("compiler/target/cpu", ("compiler/target/cpu", "compiler/driver/Stages.cpp")),
            # What a device's addresses stand for: nobody else reads or writes an arena.
            "runtime": ("runtime/device/DeviceAccess.h", ("runtime/device", "runtime/comm/shm")),
            "tools": ("runtime/device/DeviceAccess.h", ("tools/bench",))}


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
                if not include or include[1].split("/")[0] not in {*(f.split("/")[0] for f in MAY), "test"}:
                    continue
                hidden, seers = MUST_NOT.get(folder.split("/")[0], ("", ()))
                isHidden = hidden and isWithin(include[1], hidden) and not any(isWithin(name, seer) for seer in seers)
                if isHidden or not any(isWithin(include[1], allowed) for allowed in [folder, *MAY[folder]]):
                    yield f"{name}:{line}: {folder} must not see {include[1]}"


def main():
    wrong = list(wrongIncludes(Path(sys.argv[1])))
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
