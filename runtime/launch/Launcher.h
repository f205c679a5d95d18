// Starts the ranks of a job on this machine and watches over them.

#pragma once

#include "runtime/Result.h"
#include "runtime/comm/shm/ShmJob.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

struct LaunchOptions {
  int ranks = 1, threads = 1;
  /// The command line of the launcher, which the ranks get too.
  std::vector<std::string> arguments;
  /// Open files that the ranks get, the plan among them, so that all read the
  /// same one.
  std::vector<int> descriptors;
  /// "rank 3 (data=1,tensor=1)".
  std::function<std::string(int rank)> nameOf;
  /// What a rank reports besides errors and its end.
  std::function<void(int rank, const nlohmann::json &report)> onReport;
  /// Called at least every 100 ms.
  std::function<void()> onTick;
};

/// Runs this program again, once per rank, and returns when all have ended.
/// The ranks die with the launcher. When one fails, or the launcher gets
/// SIGINT, SIGTERM or SIGHUP, all are ended within a second; the error names
/// the rank that was first. Call it from a process with one thread.
Result<void> launchRanks(const LaunchOptions &options, const shm::Job &job);

/// A rank's end of the connection to its launcher.
class RankConnection {
public:
  /// Nothing where this process was not started by `launchRanks`.
  static std::optional<RankConnection> fromEnvironment();

  int rank() const { return number; }
  /// The launcher's LaunchOptions::descriptors.
  const std::vector<int> &descriptors() const { return files; }
  const std::string &job() const { return shared; }
  /// Different for each job of this machine.
  const std::string &jobName() const { return name; }

  void report(const nlohmann::json &report) const;
  /// Says why the rank ends, and returns its exit status.
  int fail(const Error &error) const;
  int finish() const;

private:
  int number = -1, pipe = -1;
  std::vector<int> files;
  std::string shared, name;
};

} // namespace polyrank::runtime
