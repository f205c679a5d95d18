// What a communicator has and promises: it states this itself, and targets
// state it to the compiler, which writes what one lacks as what it has.

#pragma once

#include "runtime/plan/Collectives.h"

#include <array>
#include <string_view>

namespace polyrank::runtime {

struct CommunicatorProperties {
  /// Its name, for messages.
  std::string_view name;
  /// The kinds of collectives that it has, by CollectiveKind.
  std::array<bool, numCollectiveKinds> kinds = {};
  /// True if a member's part of the larger buffer may be cut into rows that are
  /// not neighbours there (outer > 1; for AllToAll several blocks in each).
  bool hasStrides = false;
  /// True if sums are taken in the order of the group: all ranks get equal
  /// bits, independent of timing. Otherwise they are equal to rounding.
  bool sumsInRankOrder = false;
  /// True if f16 and bf16 are summed in f32 and rounded once.
  bool sumsNarrowInF32 = false;
  /// True if it can emulate slow links.
  bool emulatesLinks = false;

  constexpr bool has(CollectiveKind kind) const {
    return kinds[static_cast<size_t>(kind)];
  }
};

enum class Lack { Nothing, Kind, Strides };
/// What the communicator lacks to move one operand of a collective over a group
/// of `members`.
Lack findLack(const CommunicatorProperties &communicator, CollectiveKind kind,
              const TransferShape &shape, int64_t members);

/// All that this project knows: the communicators whose ranks reach each
/// other's memory.
constexpr CommunicatorProperties fullProperties(std::string_view name) {
  CommunicatorProperties all;
  all.name = name;
  all.kinds.fill(true);
  all.hasStrides = all.sumsInRankOrder = all.sumsNarrowInF32 =
      all.emulatesLinks = true;
  return all;
}

/// The communicator of ranks of one machine.
inline constexpr CommunicatorProperties shmProperties = fullProperties("shm");

} // namespace polyrank::runtime
