// What each machine of a job says about itself before a rank starts.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace polyrank::runtime::net {

/// The version of the protocol between machines.
inline constexpr uint32_t netProtocol = 4;

/// What must be alike on all machines, and what is said for reports.
struct NodeStatement {
  uint32_t protocol = netProtocol;
  std::string version;  // of the program; support/Version.h
  uint64_t plan = 0;    // hash of the plan
  std::string cpu;      // the features that change results, joined by ','
  std::string settings; // options that decide what ranks compute: "steps=100"
  std::string data;     // fingerprint of the data; empty: it may differ
  /// The checkpoint from which the ranks begin; empty: machine 0 says it.
  std::string resumed;
  uint32_t ranks = 0;     // that this machine starts
  uint64_t memory = 0;    // bytes that its ranks may use; said, not compared
  uint64_t openFiles = 0; // limit of open files of a process; said as well

  bool operator==(const NodeStatement &) const = default;
};

/// Fails if the statements of two machines disagree. The error names both
/// machines, what differs, both values, and the way out.
Result<void> checkAgreement(int machine, const NodeStatement &statement,
                            int other, const NodeStatement &others,
                            bool allowMixedCpus);

} // namespace polyrank::runtime::net
