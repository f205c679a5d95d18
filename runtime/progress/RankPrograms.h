// What ranks say to each other: one program for each class of ranks.

#pragma once

#include "runtime/progress/RankGroups.h"

namespace polyrank::progress {

/// What a collective or a transfer moves: said once, however many commands and
/// microbatches move it.
struct Movement {
  uint64_t id = 0; // of the value
  /// All else on which members must agree but sizes and group, as text:
  /// `all_reduce sum`. In a transfer the group's first rank sends.
  std::string kind;
  /// Of each operand and of each result.
  std::vector<int64_t> bytes;
  /// In the user's model, for messages.
  std::string place;
  /// Buffers that are moved at once: more than one in a bucket. With none it
  /// has room of its own and takes nothing of what can be in flight.
  int64_t transfers = 1;
};

/// One step of a program.
struct Command {
  enum class Action : uint8_t {
    Run,   // starts something and waits for it
    Start, // says that it may begin
    Wait   // until what command number `started` started has ended
  };
  Action action = Action::Run;
  int32_t movement = 0; // of RankPrograms::movements
  int32_t group = 0;    // of RankPrograms::groups
  /// A queue does one thing after another, in the order of starts, and begins
  /// one only when all members have come to it. ownQueue: one for each group.
  int32_t queue = ownQueue;
  int32_t microbatch = 0; // members must agree on it
  int32_t started = 0;    // of a wait

  static constexpr int32_t ownQueue = -1;
};

using Program = std::vector<Command>;

/// How much a rank can have in flight. A start that is beyond a limit first
/// waits for older ones (runtime/comm/Transport.h), so it can take part in a
/// circle.
struct Limits {
  int64_t operationsOfAGroup = 16;
  /// A movement of more counts as several operations.
  int64_t transfersOfAnOperation = 1024;
  int64_t transfers = 1 << 15; // of all groups together
};

/// The programs of all ranks of a mesh. Which one a rank runs depends on its
/// coordinates along `classAxes` alone: programs[programOf[i]] is that of those
/// whose index over them, major to minor, is i.
struct RankPrograms {
  Mesh mesh;
  std::vector<Group> groups;
  std::vector<Movement> movements;
  std::vector<Program> programs;
  std::vector<int32_t> classAxes = {}; // in ascending order
  std::vector<int32_t> programOf = {0};
  Limits limits = {};
};

} // namespace polyrank::progress
