"""Real launchers on the machines of a Cluster: torchrun, mpirun of Open MPI, srun with daemons of its own.

Each starts a command on all machines and gives a list of processes, one for each of the user's terminals: torchrun has one on each
machine, the others one in all.
"""

import os
import shutil
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import machines

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--no-python")


def whyNot(launcher):
    """The reason why a launcher cannot be tested here; empty if it can."""
    needed = {"torchrun": [], "mpirun": ["mpirun"], "srun": ["srun", "slurmctld", "slurmd", "munged"]}[launcher]
    missing = [program for program in needed if not machines.find(program)]
    return f"{', '.join(missing)} missing (tools/setup.sh --tests)" if missing else ""


def torchrun(cluster, *command, tasks=1, folder="/", env=None, options=(), **more):
    """`tasks` on each machine. The names of the machines must lead somewhere."""
    return [machine.start(*TORCHRUN, "--nnodes", cluster.count, "--nproc-per-node", tasks, "--rdzv-backend", "c10d", "--rdzv-id", "trial",
                          "--rdzv-endpoint", f"{cluster[0].four or cluster[0].six}:29400", *options, *command, folder=folder, env=env, **more)
            for machine in cluster]


def mpirun(cluster, *command, tasks=1, folder="/", env=None, options=(), **more):
    """`tasks` on each machine, which mpirun reaches by what stands in for ssh."""
    agent = cluster.folder / "ssh-stand-in"
    targets = "; ".join(f'[ "$host" != {m.name} ] || target={m.holder.pid}' for m in cluster)
    user = "" if os.geteuid() == 0 else "--user --preserve-credentials "
    agent.write_text('#!/bin/bash\nwhile [[ "$1" == -* ]]; do shift; done\nhost=$1; shift\n' + targets +
                     f'\nexec nsenter --target "$target" {user}--net --uts --mount -- bash -c "$*"\n')
    agent.chmod(0o755)
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    passed = [word for name in (env or {}) for word in ("-x", name)]
    return [cluster[0].start("mpirun", "--host", ",".join(f"{m.name}:{tasks}" for m in cluster), "-n", tasks * cluster.count, "--bind-to", "none",
                             "--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", "eth0", *passed, *options, *command,
                             folder=folder, env={**allowed, **(env or {})}, **more)]


CONFIGURATION = """
ClusterName=trial
SlurmctldHost={first}({address})
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket=/tmp/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/daemon-%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/daemon-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/linear
ReturnToService=2
MpiDefault=none
MpiParams=ports=23000-23100
SwitchType=switch/none
{nodes}
PartitionName=all Nodes={names} Default=YES OverSubscribe=FORCE:4 MaxTime=INFINITE State=UP
"""


class Slurm:
    """A Slurm of its own on the machines of a cluster; its daemons end with them."""

    def __init__(self, cluster):
        self.cluster, self.folder = cluster, cluster.folder / "slurm"
        self.folder.mkdir()
        self.configuration = self.folder / "slurm.conf"
        nodes = "\n".join(f"NodeName={m.name} NodeAddr={m.four or m.six} NodeHostname={m.name} CPUs={os.cpu_count()} RealMemory=1000 State=UNKNOWN"
                          for m in cluster)
        self.configuration.write_text(CONFIGURATION.format(
            first=cluster[0].name, address=cluster[0].four or cluster[0].six, user="root", folder=self.folder, nodes=nodes,
            names=",".join(m.name for m in cluster)))
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self.env = {"SLURM_CONF": str(self.configuration)}
        for machine in cluster:
            (self.folder / f"spool-{machine.name}").mkdir()
            machine.run(machines.find("munged"), "--force", "--socket=/tmp/munge.socket", "--pid-file=/tmp/munge.pid", "--log-file=/tmp/munge.log",
                        "--seed-file=/tmp/munge.seed", f"--key-file={key}")
        quiet = {"stdout": open(self.folder / "output", "ab"), "stderr": open(self.folder / "output", "ab")}
        cluster[0].start(machines.find("slurmctld"), "-D", "-f", self.configuration, env=self.env, **quiet)
        for machine in cluster:
            machine.start(machines.find("slurmd"), "-D", "-N", machine.name, "-f", self.configuration, env=self.env, **quiet)
        for file in quiet.values():
            file.close()
        limit = time.monotonic() + 60
        while True:
            states = cluster[0].run("sinfo", "-h", "-N", "-o", "%T", env=self.env, check=False).split()
            if states == ["idle"] * cluster.count:
                break
            assert time.monotonic() < limit, f"the nodes are {states}\n" + self.logs()
            time.sleep(0.1)

    def logs(self):
        return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in [*self.folder.glob("*.log"), self.folder / "output"])

    def srun(self, *command, tasks=1, folder="/", env=None, options=(), **more):
        cluster = self.cluster
        return [cluster[0].start("srun", f"-N{cluster.count}", f"--ntasks-per-node={tasks}", f"-n{tasks * cluster.count}", "--overcommit",
                                 *options, *command, folder=folder, env={**self.env, **(env or {})}, **more)]
