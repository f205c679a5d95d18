"""Names the files that include what their folder must not see: includes.py ROOT; exits with 1 if there is one.

The table itself is checked too: its folders depend on each other without a cycle.
"""

import re
import sys
from pathlib import Path

# A folder, and what its files may include beside their own folder; of several rows that fit the longest counts.
MAY = {
    "support": [],
    "runtime": ["support"],
    "runtime/job": ["support"],
    "runtime/launch": ["support", "runtime/job"],
    "runtime/place": ["support"],
    "runtime/report": ["support", "runtime/plan"],
    "runtime/feed": ["support", "runtime/data"],
    # Communicators know the memory and the events of devices, not devices.
    "runtime/comm": ["support", "runtime/device/DeviceAccess.h", "runtime/device/DeviceMemory.h", "runtime/device/Event.h",
                     "runtime/job/Job.h", "runtime/plan"],
    # Ranks of several machines meet in shared memory on each, and prove each connection as nodes do.
    "runtime/comm/net": ["support", "runtime/comm", "runtime/device/DeviceMemory.h", "runtime/device/Event.h", "runtime/job/Job.h",
                         "runtime/job/net/JobKey.h", "runtime/job/net/Sockets.h", "runtime/job/net/Wire.h", "runtime/plan"],
    # Devices know nothing of what moves data.
    "runtime/device": ["support", "runtime/host", "runtime/plan"],
    # A calibration measures devices and communicators of any kind.
    "runtime/calibrate": ["support", "runtime/comm/Communicator.h", "runtime/comm/MakeCommunicator.h",
                          "runtime/device/Device.h", "runtime/device/MakeDevice.h", "runtime/exec", "runtime/host",
                          "runtime/job/MakeJob.h", "runtime/launch", "runtime/plan", "runtime/report/Messages.h"],
    # A session asks for a device by its target, and for a job and communicators without knowing how their ranks meet.
    "runtime/session": ["runtime/host", "support", "runtime/checkpoint", "runtime/comm/Communicator.h",
                        "runtime/comm/MakeCommunicator.h", "runtime/comm/WireKind.h", "runtime/data", "runtime/device/Device.h", "runtime/feed",
                        "runtime/device/IdleDevice.h", "runtime/device/MakeDevice.h", "runtime/exec",
                        "runtime/job/Frontier.h", "runtime/job/Job.h", "runtime/job/MakeJob.h",
                        "runtime/job/OtherMachines.h", "runtime/job/Window.h",
                        "runtime/launch", "runtime/place", "runtime/plan", "runtime/report"],
    "runtime/session/JoinMachines.cpp": ["support", "runtime/job", "runtime/launch/ControlGroups.h", "runtime/plan",
                                         "runtime/report", "runtime/session"],
    "dialects": ["support", "runtime/plan/Collectives.h", "runtime/plan/Channels.h"],
    "frontends": ["support", "dialects"],
    # No pass uses another one's functions: of a folder of passes others see the list that makes them, and the libraries
    # that are named here.
    "compiler/stage_order": ["support", "runtime/progress"],
    "compiler/cost": ["support", "dialects", "compiler/target/Target.h", "runtime/plan/Collectives.h",
                      "runtime/plan/CollectiveTime.h"],
    "compiler/target": ["support", "dialects"],
    "compiler/target/math": ["support", "dialects"],
    # The library calls of the target are measured as the device will make them.
    "compiler/target/cpu": ["support", "dialects", "compiler/cost", "compiler/target", "compiler/target/math", "runtime/plan",
                            "runtime/device/cpu/Attention.h", "runtime/device/cpu/Gemm.h",
                            "runtime/device/cpu/GemmShape.h"],
    "compiler/target/cuda": ["support", "dialects", "compiler/cost", "compiler/target/Accesses.h", "compiler/target/KernelCache.h",
                             "compiler/target/ScheduleText.h", "compiler/target/Target.h", "compiler/target/Threads.h",
                             "compiler/target/math", "runtime/plan"],
    "compiler/codegen": ["support", "dialects", "compiler/target/Target.h"],
    "compiler/evaluate": ["support", "dialects"],
    "compiler/stages": ["support", "dialects", "compiler/cost", "compiler/stage_order"],
    "compiler/training": ["support", "dialects", "compiler/stages/Passes.h"],
    "compiler/sharding": ["support", "dialects", "compiler/cost", "compiler/stages/Passes.h", "compiler/stages/StageFlow.h"],
    "compiler/overlap": ["support", "dialects", "compiler/cost", "runtime/plan/QueueClock.h", "runtime/plan/Queues.h"],
    "compiler/lowering": ["support", "dialects", "compiler/codegen/Passes.h", "compiler/cost", "compiler/overlap/Passes.h",
                          "compiler/overlap/Timeline.h", "compiler/stage_order", "compiler/target/Target.h",
                          "runtime/plan/CommunicatorProperties.h", "runtime/progress"],
    "compiler/plan": ["support", "dialects", "compiler/cost", "compiler/overlap/Queues.h", "compiler/overlap/Timeline.h", "compiler/target",
                      "runtime/plan"],
    "compiler/strategy": ["support", "dialects", "compiler/cost", "compiler/stage_order", "compiler/sharding/BatchAxes.h",
                          "compiler/sharding/BucketSizes.h", "compiler/sharding/ShardPattern.h"],
    "compiler/driver": ["support", "dialects", "frontends", "compiler", "runtime/plan"],
    "tools": ["support", "dialects", "frontends", "compiler", "runtime"],
}


# What no file may see, whatever the table says, except those that are named.
MUST_NOT = {
    # One list has the targets of the compiler, and one those of the runtime: all other code asks for a target by name.
    # The benchmark of a CPU's call measures it without a plan.
    "compiler/target/cpu": ("compiler/target/cpu", "compiler/target/Targets.cpp"),
    "compiler/target/cuda": ("compiler/target/cuda", "compiler/target/Targets.cpp"),
    "runtime/device/cpu": ("runtime/device/cpu", "runtime/device/MakeDevice.cpp", "compiler/target/cpu", "tools/bench/Attention.cpp"),
    # A session stands above all else of the runtime.
    "runtime/session": ("runtime/session", "tools/polyrank-run"),
    # What a device's addresses stand for: nobody else reads or writes an arena.
    "runtime/device/DeviceAccess.h": ("runtime/device", "runtime/comm/shm", "tools/bench"),
    # One way to move data knows nothing of another, and of no kind of device. One list has them all; whoever launches,
    # watches or reports sees none.
    "runtime/comm/shm": ("runtime/comm/shm", "runtime/comm/net", "runtime/comm/MakeCommunicator.cpp", "tools/bench"),
    # The same of what a job lives in.
    "runtime/job/local": ("runtime/job/local", "runtime/job/MakeJob.cpp", "tools/bench"),
    "runtime/job/net": ("runtime/job/net", "runtime/comm/net", "runtime/session", "tools"),
}


def isWithin(path, folder):
    return path == folder or path.startswith(folder + "/")


def wrongIncludes(root):
    for top in sorted({folder.split("/")[0] for folder in MAY}):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in (".cpp", ".h", ".td"):
                continue
            name = file.relative_to(root).as_posix()
            folder = max((f for f in MAY if isWithin(name, f)), key=len, default="")
            if not folder:
                yield f"{name}: its folder has no row in the table of includes.py"
                continue
            for line, text in enumerate(file.read_text().splitlines(), 1):
                include = re.match(r'\s*#?include "([^"]+)"', text)
                if not include or include[1].split("/")[0] not in {*(f.split("/")[0] for f in MAY), "test"}:
                    continue
                isHidden = any(isWithin(include[1], hidden) and not any(isWithin(name, seer) for seer in seers)
                               for hidden, seers in MUST_NOT.items())
                if isHidden or not any(isWithin(include[1], allowed) for allowed in [folder, *MAY[folder]]):
                    yield f"{name}:{line}: {folder} must not see {include[1]}"


def findCycle(table):
    """Folders of `table` that depend on each other, each on the next one and the last on the first; [] if none do."""
    below = {folder: {other for allowed in allowances for other in table
                      if other != folder and (isWithin(allowed, other) or isWithin(other, allowed))
                      and not isWithin(folder, other)}
             for folder, allowances in table.items()}
    done = set()

    def visit(folder, path):
        if folder in path:
            return path[path.index(folder):]
        if folder in done:
            return []
        for other in sorted(below[folder]):
            if cycle := visit(other, [*path, folder]):
                return cycle
        done.add(folder)
        return []

    return next((cycle for folder in sorted(table) if (cycle := visit(folder, []))), [])


def main():
    wrong = list(wrongIncludes(Path(sys.argv[1])))
    if cycle := findCycle(MAY):
        wrong.append("the table of includes.py has a cycle: " + " -> ".join([*cycle, cycle[0]]))
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
