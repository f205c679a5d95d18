// Runs a function as the ranks of a job, one process each, over the transport
// under test.

#pragma once

#include "runtime/comm/Transport.h"

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace polyrank::runtime::test {

struct JobShape {
  int ranks = 2;
  uint64_t sharedSize = 1 << 20;
  int threadsPerRank = 1;
};

struct RankOutcome {
  std::string text;   // what the rank's function returned
  int signal = 0;     // that ended the process
  double seconds = 0; // from the start of the job to the end of this rank
};

/// Returns an empty text where all went as it should.
using RankMain = std::function<std::string(Transport &transport)>;

/// A transport that the conformance suite is run on.
struct TransportUnderTest {
  std::string name;
  /// Forks the ranks and returns when all have ended; a rank that runs for
  /// more than 20 s is killed, and its text says so. Where `abortMessage` is
  /// given, the launcher aborts the job with it after 50 ms.
  std::vector<RankOutcome> (*run)(const JobShape &shape, const RankMain &main,
                                  const std::string &abortMessage);
  /// Whether ranks have threads that work before they wait.
  bool hasCommThreads = false;

  friend void PrintTo(const TransportUnderTest &transport, std::ostream *out) {
    *out << transport.name;
  }
};

std::vector<RankOutcome> runOverShm(const JobShape &shape, const RankMain &main,
                                    const std::string &abortMessage);
/// Each rank with two communication threads; they are many more than cores.
std::vector<RankOutcome> runWithCommThreads(const JobShape &shape,
                                            const RankMain &main,
                                            const std::string &abortMessage);

} // namespace polyrank::runtime::test
