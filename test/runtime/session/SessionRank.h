// A rank of a session in the process of a test, without other ranks.

#pragma once

#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/session/LoadedRank.h"
#include "support/arrays/Npz.h"
#include "test/runtime/PlanBuilder.h"
#include "test/runtime/exec/AloneCommunicator.h"

#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

namespace polyrank::runtime::test {

/// The linear model on one rank, with samples, as if RankLoader had loaded it.
/// What the rank reports goes into a pipe, which the test reads.
class SessionRank {
public:
  explicit SessionRank(const SessionOptions &given = {}) {
    EXPECT_EQ(pipe2(ends, O_NONBLOCK), 0);
    std::vector<float> weights(targets * features, 0.5f);
    std::string file(16, '\0');
    file.append(reinterpret_cast<const char *>(weights.data()),
                weights.size() * sizeof(float));
    writeFile(folder / "weights.bin", file.data(), file.size());
    connect();
    rank = std::make_unique<LoadedRank>(given, *connection);
    rank->loaded.emplace(load(linearPlan({.weights = folder / "weights.bin"})));
    rank->page.emplace(*RunPage::create());
    rank->team = std::make_shared<HostTeam>(1, true);
    std::unique_ptr<CpuDevice> cpu =
        *CpuDevice::create(*rank->plan().images()->Get(0), rank->team);
    rank->job = std::make_unique<AloneJob>(0, 1);
    rank->communicator = std::make_unique<AloneCommunicator>(0, 1);
    rank->everyone = *rank->communicator->createGroup(std::vector<int32_t>{0});
    rank->device = std::move(cpu);
    rank->program = *RankProgram::create(rank->plan(), *rank->device,
                                         *rank->communicator, 0);
    rank->weights.emplace(*Weights::open(*rank->loaded, ""));
    EXPECT_TRUE(rank->program->loadParameters(rank->weights->sources()));
    rank->steps = 3;
  }
  ~SessionRank() {
    rank.reset();
    close(ends[0]);
    close(ends[1]);
  }

  LoadedRank &operator*() { return *rank; }
  LoadedRank *operator->() { return rank.get(); }

  /// Gives the rank samples, all features with this value.
  void openSamples(float value) {
    constexpr int64_t count = 8;
    std::vector<float> x(size_t(count * features), value);
    std::vector<float> labels(size_t(count * targets), 1);
    NpzWriter writer(*OutputFile::create(folder / "data.npz"));
    EXPECT_TRUE(writer.add("x", ElementType::F32,
                           std::vector<int64_t>{count, features},
                           std::as_bytes(std::span(x))));
    EXPECT_TRUE(writer.add("labels", ElementType::F32,
                           std::vector<int64_t>{count, targets},
                           std::as_bytes(std::span(labels))));
    EXPECT_TRUE(writer.commit());
    rank->options.data = {folder / "data.npz"};
    auto opened = openData(rank->options, rank->plan());
    ASSERT_TRUE(opened) << opened.error().message;
    rank->data.emplace(std::move(*opened));
  }

  /// The messages since the last call.
  std::vector<RankMessage> messages() {
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof(buffer))) > 0;)
      text.append(buffer, size_t(got));
    std::vector<RankMessage> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      auto message = TaggedMessage::parse(line);
      EXPECT_TRUE(message) << line;
      auto read = rankMessageFrom(*message);
      EXPECT_TRUE(read) << line;
      all.push_back(*read);
    }
    return all;
  }

  TemporaryDirectory folder;

private:
  /// The connection is found in the environment, as in a rank's process.
  void connect() {
    setenv("POLYRANK_RANK", "0", 1);
    setenv("POLYRANK_REPORTS", std::to_string(ends[1]).c_str(), 1);
    setenv("POLYRANK_JOB", "-1", 1);
    setenv("POLYRANK_FILES", "-1,-1,-1,-1,-1,-1,-1,-1", 1);
    connection = RankConnection::fromEnvironment();
    for (const char *name : {"POLYRANK_RANK", "POLYRANK_REPORTS",
                             "POLYRANK_JOB", "POLYRANK_FILES"})
      unsetenv(name);
    ASSERT_TRUE(connection);
  }

  int ends[2] = {-1, -1};
  std::optional<RankConnection> connection;
  std::unique_ptr<LoadedRank> rank;
};

} // namespace polyrank::runtime::test
