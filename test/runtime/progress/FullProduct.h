// The reference for runtime/progress: the communication of every rank,
// and whether it agrees and ends, by the definition (the product of all ranks).

#pragma once

#include "runtime/progress/RankPrograms.h"

#include <optional>

namespace polyrank::test {

/// One command as one rank runs it.
struct Communication {
  uint64_t id = 0;
  std::string kind;
  std::vector<int64_t> bytes;
  std::vector<int64_t> group; // all members, in the group's order
  std::string command;        // for messages
  progress::Command::Action action = progress::Command::Action::Run;
  int64_t started = 0; // for a wait: the command that started it
  int32_t queue = progress::Command::ownQueue;
  int32_t microbatch = 0;
  int64_t transfers = 1;
  int64_t channel = 0; // of the group

  /// Returns true if both belong to one sequence of operations.
  bool isOfGroup(const Communication &other) const {
    return group == other.group && channel == other.channel;
  }
  bool isWait() const { return action == progress::Command::Action::Wait; }
};

/// The commands of each rank, in order.
using RankSequences = std::vector<std::vector<Communication>>;

/// Expands the program of every rank.
RankSequences expand(const progress::RankPrograms &ranks);

/// The inverse: each rank is a class of its own.
progress::RankPrograms toPrograms(const RankSequences &ranks,
                                  progress::Limits limits = {});

/// Runs the product of all ranks. Returns what is wrong, or nothing.
std::optional<std::string>
findCommunicationError(const RankSequences &ranks,
                       const progress::Limits &limits = {});

} // namespace polyrank::test
