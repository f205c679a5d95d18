// What ranks say to each other, rank by rank, and whether it agrees and ends by
// the definition: the product of all ranks. What compiler/communication is
// compared with.

#pragma once

#include "compiler/communication/RankPrograms.h"

#include <optional>

namespace polyrank::test {

/// One command as one rank runs it.
struct Communication {
  uint64_t id = 0;
  std::string kind;
  std::vector<int64_t> bytes;
  std::vector<int64_t> group; // all members, in the group's order
  std::string command;        // for messages
  communication::Command::Action action = communication::Command::Action::Run;
  int64_t started = 0; // of a wait: the command that started it
  int32_t queue = communication::Command::ownQueue;
  int32_t microbatch = 0;
  int64_t transfers = 1;
  int64_t channel = 0; // of the group

  /// Whether both are of one sequence of operations.
  bool isOfGroup(const Communication &other) const {
    return group == other.group && channel == other.channel;
  }
  bool isWait() const { return action == communication::Command::Action::Wait; }
};

/// What each rank runs, in order.
using RankSequences = std::vector<std::vector<Communication>>;

/// Every rank's program by itself.
RankSequences expand(const communication::RankPrograms &ranks);

/// The other way: each rank is a class of its own.
communication::RankPrograms toPrograms(const RankSequences &ranks,
                                       communication::Limits limits = {});

/// Runs the product of all ranks. Returns what is wrong or nothing.
std::optional<std::string>
findCommunicationError(const RankSequences &ranks,
                       const communication::Limits &limits = {});

} // namespace polyrank::test
