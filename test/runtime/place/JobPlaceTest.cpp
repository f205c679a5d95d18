// What each launcher sets, as it was recorded from torchrun 2.13, Open MPI
// 4.1.4, Slurm 22.05.8 and MPICH 4.0.2, and the place that follows.

#include "runtime/place/JobPlace.h"

#include <gtest/gtest.h>
#include <map>
#include <string>

namespace polyrank::runtime::test {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environmentOf(const Variables &variables) {
  return [&](const char *name) {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Result<JobPlace> placeOf(const Variables &variables,
                         const PlaceOptions &options = {}) {
  return findPlace(options, environmentOf(variables));
}

void expectError(const Result<JobPlace> &place,
                 std::initializer_list<const char *> parts) {
  ASSERT_FALSE(place) << place->describe();
  for (const char *part : parts)
    EXPECT_NE(place.error().message.find(part), std::string::npos)
        << place.error().message << "\nlacks: " << part;
}

Variables with(Variables variables, const Variables &more) {
  for (const auto &[name, value] : more)
    variables[name] = value;
  return variables;
}

Variables without(Variables variables, const char *name) {
  EXPECT_EQ(variables.erase(name), 1U) << name;
  return variables;
}

/// torchrun --nnodes 2 --nproc-per-node 1, on its second machine.
const Variables torchrun{{"RANK", "1"},
                         {"WORLD_SIZE", "2"},
                         {"LOCAL_RANK", "0"},
                         {"LOCAL_WORLD_SIZE", "1"},
                         {"GROUP_RANK", "1"},
                         {"GROUP_WORLD_SIZE", "2"},
                         {"ROLE_RANK", "1"},
                         {"ROLE_WORLD_SIZE", "2"},
                         {"ROLE_NAME", "default"},
                         {"MASTER_ADDR", "a"},
                         {"MASTER_PORT", "40555"},
                         {"TORCHELASTIC_RESTART_COUNT", "0"},
                         {"TORCHELASTIC_MAX_RESTARTS", "0"},
                         {"TORCHELASTIC_RUN_ID", "none"},
                         {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Variables torchrunPerRank = with(torchrun, {{"RANK", "3"},
                                                  {"WORLD_SIZE", "4"},
                                                  {"LOCAL_RANK", "1"},
                                                  {"LOCAL_WORLD_SIZE", "2"}});
/// mpirun --host a:2,b:2, on b.
const Variables openMpi{{"OMPI_COMM_WORLD_RANK", "2"},
                        {"OMPI_COMM_WORLD_SIZE", "4"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"OMPI_COMM_WORLD_NODE_RANK", "0"},
                        {"PMIX_NAMESPACE", "1843265537"},
                        {"PMIX_RANK", "2"}};
/// srun -N2 -n2, on the second machine.
const Variables step{{"SLURM_PROCID", "1"},
                     {"SLURM_NTASKS", "2"},
                     {"SLURM_LOCALID", "0"},
                     {"SLURM_NODEID", "1"},
                     {"SLURM_JOB_ID", "17"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_STEP_NUM_NODES", "2"},
                     {"SLURM_STEP_NODELIST", "node[01-02]"},
                     {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                     {"SLURM_STEP_RESV_PORTS", "23001-23002"}};
/// mpiexec -ppn 2 -n 4, the third task.
const Variables mpich{{"PMI_RANK", "2"},
                      {"PMI_SIZE", "4"},
                      {"MPI_LOCALRANKID", "0"},
                      {"MPI_LOCALNRANKS", "2"}};

/// What a row expects, as one text.
std::string summaryOf(const JobPlace &place) {
  return place.launcher + " machine " + std::to_string(place.machine) + "/" +
         std::to_string(place.machines) + " local " +
         std::to_string(place.local) + "/" + std::to_string(place.locals) +
         " task " + std::to_string(place.task) + "/" +
         std::to_string(place.tasks) + " at " + place.rendezvous.text() +
         (place.isToExchange ? " by PMIx" : "");
}

struct Row {
  const char *what;
  Variables variables;
  PlaceOptions options;
  std::string place;
};

std::string port(const char *job) { return std::to_string(portOf(job)); }

TEST(JobPlace, EachLauncherSaysIt) {
  const Row rows[]{
      {"nobody", {}, {}, " machine 0/1 local 0/1 task 0/1 at "},
      {"torchrun, a task per machine",
       torchrun,
       {},
       "torchrun machine 1/2 local 0/1 task 1/2 at a:" + port("none a 40555")},
      {"torchrun, a task per rank",
       torchrunPerRank,
       {},
       "torchrun machine 1/2 local 1/2 task 3/4 at a:" + port("none a 40555")},
      {"torchrun on one machine",
       with(torchrunPerRank, {{"WORLD_SIZE", "2"},
                              {"RANK", "1"},
                              {"GROUP_RANK", "0"},
                              {"GROUP_WORLD_SIZE", "1"}}),
       {},
       "torchrun machine 0/1 local 1/2 task 1/2 at "},
      {"torchrun with another address",
       torchrun,
       {.rendezvous = "[fd00::1]:31234"},
       "torchrun machine 1/2 local 0/1 task 1/2 at [fd00::1]:31234"},
      {"torchrun below srun",
       with(torchrun, step),
       {},
       "torchrun machine 1/2 local 0/1 task 1/2 at a:" + port("none a 40555")},
      {"Open MPI",
       openMpi,
       {},
       "mpirun machine 0/2 local 0/2 task 2/4 at " +
           Endpoint{"", portOf("1843265537")}.text() + " by PMIx"},
      {"Open MPI on one machine",
       with(openMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}),
       {},
       "mpirun machine 0/1 local 2/4 task 2/4 at "},
      {"srun", step, {}, "srun machine 1/2 local 0/1 task 1/2 at node01:23001"},
      {"srun without reserved ports",
       without(step, "SLURM_STEP_RESV_PORTS"),
       {},
       "srun machine 1/2 local 0/1 task 1/2 at node01:" + port("17.0")},
      {"srun, a task per rank",
       with(step, {{"SLURM_PROCID", "2"},
                   {"SLURM_STEP_NUM_TASKS", "4"},
                   {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}}),
       {},
       "srun machine 1/2 local 0/2 task 2/4 at node01:23001"},
      {"srun with other numbers of tasks",
       with(step, {{"SLURM_PROCID", "2"},
                   {"SLURM_STEP_NUM_TASKS", "3"},
                   {"SLURM_STEP_TASKS_PER_NODE", "2,1"}}),
       {},
       "srun machine 1/2 local 0/1 task 2/3 at node01:23001"},
      {"srun --mpi=pmix",
       with(step, {{"PMIX_NAMESPACE", "slurm.pmix.17.0"}}),
       {},
       "srun machine 1/2 local 0/1 task 1/2 at :23001 by PMIx"},
      {"srun --mpi=pmix with an address",
       with(step, {{"PMIX_NAMESPACE", "slurm.pmix.17.0"}}),
       {.rendezvous = "b:5"},
       "srun machine 1/2 local 0/1 task 1/2 at b:5"},
      {"srun --mpi=pmi2",
       with(step, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}),
       {},
       "srun machine 1/2 local 0/1 task 1/2 at node01:23001"},
      {"MPICH",
       mpich,
       {.rendezvous = "a"},
       "mpiexec machine 1/2 local 0/2 task 2/4 at a:" + port("")},
      {"options",
       {},
       {.machines = 3, .machine = 2, .rendezvous = "a"},
       " machine 2/3 local 0/1 task 2/3 at a:" + port("")},
      {"options that agree with srun",
       step,
       {.machines = 2, .machine = 1, .rendezvous = "b:5"},
       "srun machine 1/2 local 0/1 task 1/2 at b:5"},
      {"one machine by options",
       {},
       {.machines = 1},
       " machine 0/1 local 0/1 task 0/1 at "},
      {"an indexed job of Kubernetes",
       {{"JOB_COMPLETION_INDEX", "1"}},
       {.machines = 2, .rendezvous = "train-0.train:29400"},
       " machine 1/2 local 0/1 task 1/2 at train-0.train:29400"},
      {"an option wins over Kubernetes",
       {{"JOB_COMPLETION_INDEX", "1"}},
       {.machines = 2, .machine = 0, .rendezvous = "a:5"},
       " machine 0/2 local 0/1 task 0/2 at a:5"},
      {"Kubeflow",
       {{"PET_NODE_RANK", "2"}, {"PET_NNODES", "4"}},
       {.rendezvous = "job-node-0-0.job:5"},
       " machine 2/4 local 0/1 task 2/4 at job-node-0-0.job:5"},
      // Launchers count all machines, and options those without the spares.
      {"a spare by options",
       {},
       {.machines = 2, .machine = 3, .spares = 2, .rendezvous = "a:5"},
       " machine 3/2 local 0/1 task 3/2 at a:5"},
      {"a spare of torchrun",
       with(torchrun, {{"RANK", "2"},
                       {"WORLD_SIZE", "3"},
                       {"GROUP_RANK", "2"},
                       {"GROUP_WORLD_SIZE", "3"}}),
       {.machines = 2, .spares = 1, .rendezvous = "a:5"},
       "torchrun machine 2/2 local 0/1 task 2/3 at a:5"},
      {"a spare of Kubeflow",
       {{"PET_NODE_RANK", "2"}, {"PET_NNODES", "4"}},
       {.spares = 1, .rendezvous = "a:5"},
       " machine 2/3 local 0/1 task 2/3 at a:5"},
  };
  for (const Row &row : rows) {
    Result<JobPlace> place = placeOf(row.variables, row.options);
    ASSERT_TRUE(place) << row.what << ": " << place.error().message;
    EXPECT_EQ(summaryOf(*place), row.place) << row.what;
  }
}

TEST(JobPlace, OneTaskIsAsGoodAsNoLauncher) {
  const char *alone = " machine 0/1 local 0/1 task 0/1 at ";
  for (const Variables &variables :
       {with(torchrun, {{"WORLD_SIZE", "1"}}),
        with(openMpi, {{"OMPI_COMM_WORLD_SIZE", "1"}}),
        with(step, {{"SLURM_STEP_NUM_TASKS", "1"}}),
        with(mpich, {{"PMI_SIZE", "1"}}),
        // A batch script of Slurm, whatever its job may start.
        Variables{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}},
        // Variables of the user's.
        Variables{{"WORLD_SIZE", "2"}},
        Variables{{"RANK", ""}, {"WORLD_SIZE", "2"}},
        Variables{{"RANK", "1"}, {"WORLD_SIZE", "two"}},
        Variables{{"RANK", "1"}, {"WORLD_SIZE", "2x"}},
        // Pods of a job that are not one job.
        Variables{{"JOB_COMPLETION_INDEX", "3"}}}) {
    Result<JobPlace> place = placeOf(variables);
    ASSERT_TRUE(place) << place.error().message;
    EXPECT_EQ(summaryOf(*place), alone);
  }
}

TEST(JobPlace, MasterPortDistinguishesJobsAndIsNeverAskedFor) {
  Result<JobPlace> place = placeOf(torchrun),
                   other = placeOf(with(torchrun, {{"MASTER_PORT", "29500"}}));
  ASSERT_TRUE(place && other);
  EXPECT_NE(place->rendezvous.port, 40555);
  EXPECT_NE(other->rendezvous.port, 29500);
  EXPECT_NE(place->rendezvous.port, other->rendezvous.port);
  EXPECT_EQ(place->rendezvous.host, "a");
}

TEST(JobPlace, TasksOfOneMachineHaveANameThatNoOtherJobHas) {
  std::string name = nameOfTasks(*placeOf(torchrunPerRank));
  EXPECT_TRUE(name.starts_with("torchrun-") && name.ends_with("-1")) << name;
  EXPECT_LE(name.size(), 64U);
  EXPECT_EQ(name, nameOfTasks(*placeOf(with(
                      torchrunPerRank, {{"RANK", "2"}, {"LOCAL_RANK", "0"}}))));
  for (const Variables &other : {Variables{{"GROUP_RANK", "0"}},
                                 {{"TORCHELASTIC_RUN_ID", "x"}},
                                 {{"MASTER_PORT", "5"}}})
    EXPECT_NE(name, nameOfTasks(*placeOf(with(torchrunPerRank, other))));
  EXPECT_EQ(nameOfTasks(*placeOf(mpich, {.rendezvous = "a"})), "");
}

TEST(JobPlace, RestartCountsAreNotUsed) {
  Result<JobPlace> place = placeOf(torchrun),
                   other = placeOf(
                       with(torchrun, {{"TORCHELASTIC_RESTART_COUNT", "3"}}));
  ASSERT_TRUE(place && other);
  EXPECT_EQ(place->describe(), other->describe());
}

TEST(JobPlace, ItSaysWhatItFollowsFrom) {
  EXPECT_EQ(placeOf(torchrunPerRank)->describe(),
            "machine 1 of 2, task 1 of 2 on it; machine 0 is at a:" +
                port("none a 40555") +
                " (torchrun: RANK=3, WORLD_SIZE=4, LOCAL_RANK=1, "
                "LOCAL_WORLD_SIZE=2, GROUP_RANK=1, GROUP_WORLD_SIZE=2, "
                "MASTER_ADDR=a, TORCHELASTIC_RUN_ID=none)");
  EXPECT_EQ(placeOf({}, {.machines = 2, .machine = 1, .rendezvous = "a:5"})
                ->describe(),
            "machine 1 of 2; machine 0 is at a:5 (--machines 2, --machine 1, "
            "--rendezvous a:5)");
  EXPECT_EQ(placeOf({})->describe(), "one machine");
}

TEST(JobPlace, MissingVariablesAreNamed) {
  for (const char *name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
                           "GROUP_WORLD_SIZE", "MASTER_ADDR"})
    expectError(placeOf(without(torchrun, name)),
                {name, "not set", "torchrun", "--machines N --machine I"});
  for (const char *name :
       {"SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NUM_NODES",
        "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"})
    expectError(placeOf(without(step, name)), {name, "not set", "srun"});
  for (const char *name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"})
    expectError(placeOf(without(openMpi, name)), {name, "not set", "mpirun"});
  expectError(placeOf(without(openMpi, "PMIX_NAMESPACE")),
              {"PMIX_NAMESPACE is not set", "--machines N --machine I"});
  expectError(placeOf(without(mpich, "MPI_LOCALNRANKS")), {"MPI_LOCALNRANKS"});
  expectError(placeOf(mpich),
              {"nothing says where machine 0 is", "--rendezvous HOST[:PORT]"});
  // Who says everything needs no launcher that is whole.
  EXPECT_TRUE(placeOf(without(torchrun, "GROUP_RANK"),
                      {.machines = 2, .machine = 1, .rendezvous = "a"}));
}

TEST(JobPlace, SparesLeaveAtLeastTwoMachines) {
  expectError(placeOf(step, {.spares = 1}),
              {"--spares 1: of 2 machines that leaves 1", "start more"});
  expectError(
      placeOf({},
              {.machines = 2, .machine = 3, .spares = 1, .rendezvous = "a"}),
      {"--machine 3", "the machines have the numbers 0 to 2"});
}

TEST(JobPlace, ContradictionsAreNamed) {
  expectError(placeOf(with(torchrun, {{"RANK", "2"}})),
              {"RANK=2 is not below WORLD_SIZE=2", "torchrun"});
  expectError(placeOf(with(torchrun, {{"GROUP_RANK", "2"}})),
              {"GROUP_RANK=2 is not below GROUP_WORLD_SIZE=2"});
  expectError(placeOf(with(torchrun, {{"LOCAL_RANK", "1"}})),
              {"LOCAL_RANK=1 is not below LOCAL_WORLD_SIZE=1"});
  expectError(placeOf(with(torchrun, {{"GROUP_RANK", "-1"}})),
              {"GROUP_RANK=-1 is not a number from 0"});
  expectError(placeOf(with(torchrun, {{"GROUP_RANK", "one"}})),
              {"GROUP_RANK=one is not a number"});
  expectError(placeOf(with(step, {{"SLURM_PROCID", "2"}})),
              {"SLURM_PROCID=2 is not below SLURM_STEP_NUM_TASKS=2"});
  expectError(placeOf(with(step, {{"SLURM_NODEID", "2"}})),
              {"SLURM_NODEID=2 is not below SLURM_STEP_NUM_NODES=2"});
  expectError(placeOf(with(step, {{"SLURM_LOCALID", "1"}})),
              {"SLURM_LOCALID=1 is not below"});
  expectError(placeOf(with(step, {{"SLURM_STEP_NODELIST", "node[01-03]"}})),
              {"node[01-03] has 3 hosts, and SLURM_STEP_NUM_NODES=2"});
  expectError(placeOf(with(step, {{"SLURM_STEP_NODELIST", "node[01-"}})),
              {"SLURM_STEP_NODELIST", "a number is missing"});
  for (const char *counts : {"1", "1(x2", "1(x0)", "x", "0(x2)", "1(x-1),1"})
    expectError(placeOf(with(step, {{"SLURM_STEP_TASKS_PER_NODE", counts}})),
                {"SLURM_STEP_TASKS_PER_NODE=", "does not count the tasks"});
  for (const char *ports : {"0", "x", "70000-70001"})
    expectError(placeOf(with(step, {{"SLURM_STEP_RESV_PORTS", ports}})),
                {"SLURM_STEP_RESV_PORTS=", "begins with no port"});
  expectError(placeOf(with(mpich, {{"MPI_LOCALRANKID", "1"}})),
              {"PMI_RANK=2 is not number MPI_LOCALRANKID=1"});
  expectError(placeOf(with(mpich, {{"PMI_SIZE", "3"}})),
              {"PMI_SIZE=3 tasks are not MPI_LOCALNRANKS=2 on each"});
}

TEST(JobPlace, OptionsThatContradictALauncherAreRefused) {
  expectError(placeOf(torchrun, {.machines = 3}),
              {"--machines 3 contradicts torchrun", "GROUP_WORLD_SIZE=2"});
  expectError(placeOf(torchrun, {.machine = 0}),
              {"--machine 0 contradicts torchrun", "GROUP_RANK=1"});
  expectError(
      placeOf(with(openMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}),
              {.rendezvous = "a"}),
      {"--rendezvous a, but mpirun has started all its 4 tasks on one"});
}

TEST(JobPlace, OneOptionWithoutTheOthersIsRefused) {
  expectError(placeOf({}, {.machines = 2}),
              {"--machines 2, but nothing says which of them this one is",
               "--machine I"});
  expectError(placeOf({}, {.machine = 1}),
              {"--machine 1, but nothing says how many", "--machines N"});
  expectError(placeOf({}, {.machines = 2, .machine = 1}),
              {"machine 1 of 2", "--rendezvous HOST[:PORT]"});
  expectError(placeOf({}, {.rendezvous = "a"}),
              {"--rendezvous a, but nothing says how many"});
  expectError(placeOf({}, {.machines = 2, .machine = 2, .rendezvous = "a"}),
              {"--machine 2, but with --machines 2", "0 to 1"});
  expectError(placeOf({{"JOB_COMPLETION_INDEX", "5"}},
                      {.machines = 2, .rendezvous = "a"}),
              {"JOB_COMPLETION_INDEX=5, but with --machines 2"});
  expectError(placeOf({{"PET_NODE_RANK", "0"}, {"PET_NNODES", "2"}}),
              {"PET_NNODES=2", "--rendezvous HOST[:PORT]"});
  expectError(placeOf({}, {.machines = 2, .machine = 1, .rendezvous = "a:x"}),
              {"'a:x' is not HOST[:PORT]"});
}

TEST(JobPlace, RanksAreSharedOut) {
  JobPlace perMachine = *placeOf(torchrun), perRank = *placeOf(torchrunPerRank);
  EXPECT_EQ(*shareOf(perMachine, 4, false), (RankRange{2, 2}));
  EXPECT_EQ(*shareOf(perRank, 4, false), (RankRange{2, 2}));
  EXPECT_EQ(*shareOf(perMachine, 4, true), (RankRange{0, 4}));
  EXPECT_EQ(*shareOf(perRank, 2, true), (RankRange{0, 2}));
  EXPECT_EQ(*shareOf(JobPlace{}, 4, false), (RankRange{0, 4}));
}

TEST(JobPlace, TasksThatAreNotRanksAreRefusedWithBothNumbers) {
  auto error = [](const JobPlace &place, int ranks, bool wholePlan) {
    Result<RankRange> share = shareOf(place, ranks, wholePlan);
    return share ? std::string() : share.error().message;
  };
  auto contains = [](const std::string &text, const char *part) {
    return text.find(part) != std::string::npos;
  };
  JobPlace three{.launcher = "mpirun", .tasks = 3, .locals = 3};
  EXPECT_TRUE(contains(error(three, 4, false),
                       "mpirun has started 3 tasks for 4 ranks: start 4"));
  JobPlace perRank = *placeOf(torchrunPerRank);
  EXPECT_TRUE(contains(error(perRank, 8, false), "4 tasks for 8 ranks"));
  EXPECT_TRUE(contains(error(perRank, 4, true), "4 tasks for 8 ranks"));
  JobPlace uneven{
      .launcher = "srun", .machines = 2, .machine = 1, .tasks = 4, .locals = 3};
  EXPECT_TRUE(contains(error(uneven, 4, false),
                       "3 tasks on machine 1, and 2 ranks belong there"));
  EXPECT_TRUE(contains(error(*placeOf(torchrun), 3, false),
                       "3 ranks cannot be shared out evenly over 2 machines"));
}

} // namespace
} // namespace polyrank::runtime::test
