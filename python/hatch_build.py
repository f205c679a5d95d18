"""Adds the tools to the wheel: the files that `cmake --install` wrote into the folder POLYRANK_WHEEL_FILES."""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLATFORM = "manylinux_2_34_x86_64"


class ToolsHook(BuildHookInterface):
    def initialize(self, version, build_data):
        folder = os.environ.get("POLYRANK_WHEEL_FILES")
        if not folder or version == "editable":
            return
        root = Path(folder)
        for path in sorted(root.rglob("*")):
            if path.is_file():
                name = path.relative_to(root).as_posix()
                # Programs come onto PATH; their libraries are looked for in ../lib/polyrank.
                kind, name = ("shared_scripts", path.name) if name.startswith("bin/") else ("shared_data", name)
                build_data[kind][str(path)] = name
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{PLATFORM}"
