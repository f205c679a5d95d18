// The variables of other launchers, as they set them: torchrun 2.8, Open MPI
// 4.1, MPICH 4.0, Slurm 22.05.

#include "runtime/launch/OtherLaunchers.h"

#include <gtest/gtest.h>
#include <map>
#include <string>

namespace polyrank::runtime::test {
namespace {

using Variables = std::map<std::string, std::string>;

/// Returns the error; empty if there is none.
std::string refusal(const Variables &variables) {
  Result<void> checked = checkStartedOnce([&](const char *name) {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  return checked ? "" : checked.error().message;
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

const Variables torchrun{{"RANK", "1"},
                         {"WORLD_SIZE", "2"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "2"}};
const Variables openMpi{{"OMPI_COMM_WORLD_RANK", "0"},
                        {"OMPI_COMM_WORLD_SIZE", "4"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables step{{"SLURM_PROCID", "1"},
                     {"SLURM_NTASKS", "2"},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_STEP_NUM_NODES", "1"}};
const Variables mpich{
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}};

Variables with(Variables variables, const char *name, const char *value) {
  variables[name] = value;
  return variables;
}

TEST(OtherLaunchers, SeveralTasksAreRefused) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_TRUE(contains(refusal(torchrun),
                       "torchrun has started 2 tasks (WORLD_SIZE=2), each"));
  EXPECT_TRUE(contains(refusal(openMpi),
                       "mpirun has started 4 tasks (OMPI_COMM_WORLD_SIZE=4)"));
  EXPECT_TRUE(contains(refusal(step), "srun has started 2 tasks"));
  EXPECT_TRUE(contains(refusal(step), "srun -N1 -n1 -c CORES polyrank-run"));
  EXPECT_TRUE(
      contains(refusal(mpich), "mpiexec has started 2 tasks (PMI_SIZE=2)"));
}

TEST(OtherLaunchers, AllTasksSayTheSame) {
  EXPECT_EQ(refusal(with(torchrun, "RANK", "0")), refusal(torchrun));
  EXPECT_EQ(refusal(with(step, "SLURM_PROCID", "0")), refusal(step));
  EXPECT_FALSE(contains(refusal(step), "\n"));
}

TEST(OtherLaunchers, OneTaskIsAsGoodAsNoLauncher) {
  EXPECT_EQ(refusal(with(torchrun, "WORLD_SIZE", "1")), "");
  EXPECT_EQ(refusal(with(openMpi, "OMPI_COMM_WORLD_SIZE", "1")), "");
  EXPECT_EQ(refusal(with(step, "SLURM_STEP_NUM_TASKS", "1")), "");
  EXPECT_EQ(refusal(with(mpich, "PMI_SIZE", "1")), "");
}

TEST(OtherLaunchers, ABatchScriptIsOneProcessWhateverItsJobMayStart) {
  EXPECT_EQ(refusal({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}), "");
}

TEST(OtherLaunchers, AVariableOfTheUsersIsNotALauncher) {
  EXPECT_EQ(refusal({{"WORLD_SIZE", "2"}}), "");
  EXPECT_EQ(refusal(with(torchrun, "WORLD_SIZE", "two")), "");
  EXPECT_EQ(refusal(with(torchrun, "WORLD_SIZE", "2x")), "");
  EXPECT_EQ(refusal(with(torchrun, "RANK", "")), "");
}

TEST(OtherLaunchers, SeveralMachinesHaveAReasonOfTheirOwn) {
  for (const Variables &each :
       {with(torchrun, "LOCAL_WORLD_SIZE", "1"),
        with(openMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        with(step, "SLURM_STEP_NUM_NODES", "2"),
        with(mpich, "MPI_LOCALNRANKS", "1")})
    EXPECT_TRUE(contains(refusal(each), "on several machines"))
        << refusal(each);
  EXPECT_FALSE(contains(refusal(torchrun), "machines"));
}

TEST(OtherLaunchers, TheInnermostIsNamed) {
  Variables both = torchrun;
  both.insert(step.begin(), step.end());
  EXPECT_TRUE(contains(refusal(both), "torchrun has started"));
}

} // namespace
} // namespace polyrank::runtime::test
