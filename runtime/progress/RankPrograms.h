// The communication of the ranks: one program for each class of ranks.

#pragma once

#include "runtime/progress/RankGroups.h"

namespace polyrank::progress {

/// What a collective or a transfer moves. It is stored once, however many
/// commands and microbatches use it.
struct Movement {
  uint64_t id = 0; // of the value
  /// Everything else on which members must agree, except sizes and group, as
  /// text: `all_reduce sum`. The group's first rank sends in a transfer.
  std::string kind;
  /// Bytes of each operand, then of each result.
  std::vector<int64_t> bytes;
  /// The place in the user's model, for messages.
  std::string place;
  /// The number of buffers that are moved at once: more than one in a bucket. 0
  /// if the movement has memory of its own and does not count against the
  /// limits of what can be in flight.
  int64_t transfers = 1;
};

/// One step of a program.
struct Command {
  enum class Action : uint8_t {
    Run,   // starts an operation and waits for it
    Start, // starts an operation
    Wait   // waits for the operation of command `started`
  };
  Action action = Action::Run;
  int32_t movement = 0; // of RankPrograms::movements
  int32_t group = 0;    // of RankPrograms::groups
  /// A queue runs one operation after another, in the order of starts, and
  /// begins one only when all members have reached it. With ownQueue each group
  /// has a queue of its own.
  int32_t queue = ownQueue;
  int32_t microbatch = 0; // members must agree on it
  int32_t started = 0;    // of a wait

  static constexpr int32_t ownQueue = -1;
};

using Program = std::vector<Command>;

/// The limits on what a rank can have in flight. A start beyond a limit first
/// waits for older operations (runtime/comm/Communicator.h), so it can be part
/// of a circular wait.
struct Limits {
  int64_t operationsOfAGroup = 16;
  /// A movement with more transfers counts as several operations.
  int64_t transfersOfAnOperation = 1024;
  int64_t transfers = 1 << 15; // of all groups together
};

/// The programs of all ranks of a mesh. The program of a rank depends on its
/// coordinates along `classAxes` alone: programs[programOf[i]] is that of the
/// ranks whose index over these axes, major to minor, is i.
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
