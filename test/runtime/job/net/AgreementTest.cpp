// Machines that disagree are named, with both values and the way out.

#include "runtime/job/net/NodeStatement.h"

#include "test/runtime/job/net/ExampleMessages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace polyrank::runtime::net {
namespace {

std::string disagreement(void (*change)(NodeStatement &),
                         bool allowMixedCpus = false) {
  NodeStatement one = test::exampleStatement(), two = one;
  change(two);
  Result<void> agree = checkAgreement(0, one, 3, two, allowMixedCpus);
  return agree ? "" : agree.error().message;
}

TEST(Agreement, TheSameAgree) {
  EXPECT_EQ(disagreement([](NodeStatement &) {}), "");
}

TEST(Agreement, WhatDiffersIsNamedWithBothValues) {
  EXPECT_EQ(disagreement([](NodeStatement &two) { two.plan = 255; }),
            "machines 0 and 3 do not agree: the hash of the plan is "
            "0123456789abcdef on machine 0 and 00000000000000ff on machine 3; "
            "copy the same plan file to both");
  EXPECT_EQ(disagreement([](NodeStatement &two) { two.version = "0.2.0"; }),
            "machines 0 and 3 do not agree: the version of polyrank-run is "
            "0.1.0 on machine 0 and 0.2.0 on machine 3; install the same "
            "version on both");
  EXPECT_EQ(
      disagreement([](NodeStatement &two) { two.protocol = netProtocol + 1; }),
      fmt::format("machines 0 and 3 do not agree: the protocol of polyrank-run "
                  "is {} on machine 0 and {} on machine 3; install the same "
                  "version on both",
                  netProtocol, netProtocol + 1));
  EXPECT_EQ(disagreement([](NodeStatement &two) { two.ranks = 4; }),
            "machines 0 and 3 do not agree: the number of ranks is 2 on "
            "machine 0 and 4 on machine 3; start the same number on both");
  EXPECT_EQ(
      disagreement([](NodeStatement &two) { two.settings = "seed=1,steps=3"; }),
      "machines 0 and 3 do not agree: what the options say is nothing "
      "on machine 0 and seed=1 on machine 3; give both the same "
      "options");
  EXPECT_EQ(disagreement([](NodeStatement &two) { two.data = "other"; }),
            "machines 0 and 3 do not agree: the fingerprint of the data is "
            "data on machine 0 and other on machine 3; let both read the same "
            "data");
}

TEST(Agreement, CheckpointsAreComparedWhereBothNameOne) {
  EXPECT_EQ(disagreement([](NodeStatement &two) { two.resumed = "step 3"; }),
            "machines 0 and 3 do not agree: the checkpoint to resume from is "
            "none on machine 0 and step 3 on machine 3; let both resume from "
            "the same one");
  EXPECT_EQ(disagreement([](NodeStatement &two) { two.resumed = ""; }), "");
}

TEST(Agreement, CpusMayDifferIfThatIsAllowed) {
  auto change = [](NodeStatement &two) { two.cpu = "avx512f,fma"; };
  EXPECT_EQ(disagreement(change),
            "machines 0 and 3 do not agree: what the CPU alone has is avx2 on "
            "machine 0 and avx512f on machine 3; CPUs that differ compute "
            "other bits: take machines of one kind, or allow it by "
            "--allow-mixed-cpus");
  EXPECT_EQ(disagreement(change, true), "");
}

TEST(Agreement, MemoryAndLimitsMayDiffer) {
  EXPECT_EQ(disagreement([](NodeStatement &two) {
              two.memory = 1;
              two.openFiles = 2;
            }),
            "");
}

} // namespace
} // namespace polyrank::runtime::net
