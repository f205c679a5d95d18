// The options of polyrank-run about jobs of several machines.

#include "tools/polyrank-run/OptionTable.h"

namespace polyrank::runtime {

OptionGroup machineOptions(RunOptions &options) {
  constexpr int64_t mostMachines = 1 << 16;
  MachineRequest &request = options.request;
  return {
      "Machines",
      {
          {"--machines",
           "N",
           &request.said.machines,
           "The machines of the job, each of which runs this command. "
           "torchrun, "
           "mpirun and srun say it themselves (docs/machines.md)",
           {.check = between(int64_t(1), mostMachines)}},
          {"--machine",
           "I",
           &request.said.machine,
           "Which of them this one is, from 0. In an indexed job of Kubernetes "
           "its index, if this is left out",
           {.check = between(int64_t(0), mostMachines - 1)}},
          {"--rendezvous", "HOST[:PORT]", &request.said.rendezvous,
           "Where machine 0 is. The port is one that is free there; the "
           "default "
           "follows from the job's id, or is 23138"},
          {"--interface", "NAME|NETWORK", &request.interface,
           "The network interface (eth0), or the network (10.0.0.0/8), over "
           "which this machine talks to the others (default: that of the route "
           "to machine 0)"},
          {"--key", "FILE", &request.key,
           "The key of the job, by which machines know each other: a file that "
           "--new-key has written, the same on all machines. POLYRANK_KEY may "
           "have its text instead"},
          {"--join-timeout",
           "SECONDS",
           &request.joinTimeout,
           "How long machines wait for each other at the start",
           {.check = between(1.0, 1e6)}},
          {"--rejoin",
           "SECONDS",
           &request.rejoinTimeout,
           "With --restarts: when a machine is lost, how long its place waits "
           "for a spare, or for the same command that is started there again "
           "with its --machine",
           {.check = between(0.0, 1e6), .needs = "--restarts"}},
          {"--spares",
           "K",
           &request.said.spares,
           "With --restarts: so many machines more than share the ranks out, "
           "with the numbers that follow. Each waits until one of the others "
           "is lost, and takes its place",
           {.check = between(int64_t(0), mostMachines), .needs = "--restarts"}},
          {"--plan-if",
           "M=PLAN",
           &request.plansIf,
           "With --restarts: if nobody has come in the place of a lost machine "
           "after --rejoin, those that are left go on with this plan, for M "
           "machines, from the newest checkpoint. May be given for several M",
           {.needs = "--restarts", .excludes = {"--sha256"}}},
          {"--whole-plan", "", &request.wholePlan,
           "Each machine runs all ranks of the plan, on data of its own, "
           "instead of its share of them: machines start, stop and fail "
           "together, and nothing is summed over them"},
          {"--allow-mixed-cpus", "", &request.allowMixedCpus,
           "Start although the machines have different instruction sets, which "
           "compute other bits"},
          {"--wire-check", "on|off",
           choice(&request.checksWire, {{"on", true}, {"off", false}}),
           "on or off: whether the data that ranks send to other machines has "
           "checksums, which find what was damaged on its way. Turn them off "
           "where the network checks as much itself"},
          {"--wire", "tcp|ucx",
           choice(&request.wire, {{nameOf(WireKind::Tcp), WireKind::Tcp},
                                  {nameOf(WireKind::Ucx), WireKind::Ucx}}),
           "What moves the data that ranks send to other machines: tcp, or "
           "ucx, "
           "which is UCX (Debian: libucx0), for InfiniBand, RoCE and "
           "Slingshot. "
           "With ucx, ranks prove who they are, but what they send is not "
           "tied to it: it is for networks that nobody else can reach"},
      }};
}

} // namespace polyrank::runtime
