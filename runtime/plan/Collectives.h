// What the kinds of collectives are, and the rules about them that the
// compiler, the plan's verifier, reports and transports share. A new kind
// begins here.

#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace polyrank::runtime {

/// The values are those of plan::CollectiveKind and plan::Reduction.
enum class CollectiveKind : int8_t {
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  Permute,
  Broadcast,
  Halo,
  HaloAdd
};
inline constexpr int numCollectiveKinds = 8;
enum class Reduction : int8_t { None, Sum, Max, Min };
inline constexpr int numReductions = 4;

/// How a member's output differs from its input, in a group of g members.
enum class Resizing : int8_t {
  None,      // the same elements or others, as many
  Gathers,   // g times larger
  Scatters,  // g times smaller
  Exchanges, // one dim g times smaller, another g times larger
  Widens,    // by borders
  Narrows    // by borders
};

/// Where the output may lie on the input. Apart from that they are disjoint.
enum class InPlace : int8_t {
  Never,
  Same,  // in the same place
  Block, // it is the member's block of the input
  Whole  // the input is the member's block of it
};

struct CollectiveRule {
  /// As the dialects and messages call it.
  const char *name;
  Resizing resizing;
  /// If the blocks lie one behind the other: see inPlaceOf.
  InPlace inPlace;
  /// Sums, or takes the largest or smallest of, what members have.
  bool reduces;
  /// How often members wait for each other in the usual algorithm.
  int8_t rounds;

  constexpr bool hasBorders() const {
    return resizing == Resizing::Widens || resizing == Resizing::Narrows;
  }
};

inline constexpr CollectiveRule collectiveRules[numCollectiveKinds] = {
    {"all_reduce", Resizing::None, InPlace::Same, true, 2},
    {"reduce_scatter", Resizing::Scatters, InPlace::Block, true, 1},
    {"all_gather", Resizing::Gathers, InPlace::Whole, false, 1},
    {"all_to_all", Resizing::Exchanges, InPlace::Never, false, 1},
    {"permute", Resizing::None, InPlace::Never, false, 1},
    {"broadcast", Resizing::None, InPlace::Same, false, 1},
    {"halo", Resizing::Widens, InPlace::Never, false, 1},
    {"halo_add", Resizing::Narrows, InPlace::Never, true, 1},
};
/// Of a kind that exists.
constexpr const CollectiveRule &ruleOf(CollectiveKind kind) {
  return collectiveRules[static_cast<int>(kind)];
}
/// Where the output of a kind may lie on its input, whose blocks are `outer`
/// rows each: blocks of several rows do not lie one behind the other.
constexpr InPlace inPlaceOf(CollectiveKind kind, int64_t outer) {
  InPlace way = ruleOf(kind).inPlace;
  bool needsOneRow = way == InPlace::Block || way == InPlace::Whole;
  return needsOneRow && outer != 1 ? InPlace::Never : way;
}
/// Whether an output lies on its input in that way. A location is whatever says
/// where bytes lie, and `blockOf(whole)` is where the member's block of what
/// lies at `whole` does: a location, or none.
template <typename Location, typename BlockOf>
constexpr bool isInPlace(InPlace way, const Location &input,
                         const Location &output, BlockOf blockOf) {
  switch (way) {
  case InPlace::Never:
    return false;
  case InPlace::Same:
    return output == input;
  case InPlace::Block:
    return output == blockOf(input);
  case InPlace::Whole:
    return input == blockOf(output);
  }
  return false;
}
constexpr const char *nameOf(CollectiveKind kind) {
  int number = static_cast<int>(kind);
  return number >= 0 && number < numCollectiveKinds ? ruleOf(kind).name
                                                    : "unknown";
}
constexpr const char *nameOf(Reduction reduction) {
  switch (reduction) {
  case Reduction::None:
    return "none";
  case Reduction::Sum:
    return "sum";
  case Reduction::Max:
    return "max";
  case Reduction::Min:
    return "min";
  }
  return "unknown";
}

/// What one member sends, in bytes, with an input and an output of so many: of
/// n bytes in the larger one 2 n (g-1)/g in an all_reduce, n (g-1)/g where
/// blocks are scattered, gathered, exchanged or broadcast, n in a permute, and
/// the borders of a member with neighbours on both sides. Rounded up. (Thakur,
/// Rabenseifner, Gropp, Optimization of Collective Communication Operations in
/// MPICH, 2005.)
uint64_t sentBytes(CollectiveKind kind, uint64_t members, uint64_t input,
                   uint64_t output);

/// The extents of one member of a (bucketed) collective, in elements; what they
/// mean for each kind is written at plan.fbs, Transfer.
struct TransferShape {
  int64_t outer = 1, x = 1, middle = 1, y = 1, inner = 1;
  bool splitFirst = false;
  int64_t low = 0, high = 0;
};

/// Elements of the input and of the output.
struct TransferElements {
  int64_t input = 0, output = 0;
};
/// Of a shape that findFault has nothing against.
TransferElements elementsOf(CollectiveKind kind, const TransferShape &shape,
                            int64_t members);

/// What is wrong with a shape, for a group of `members` and elements of so many
/// bytes: an extent that is not positive, one that the kind does not have, a
/// dim that it cannot split, borders without sense, more than 2^62 bytes of all
/// members. Empty where nothing is.
std::string findFault(CollectiveKind kind, const TransferShape &shape,
                      int64_t members, int64_t elementBytes);
/// What is wrong with kind and reduction together, by themselves.
std::string findFault(CollectiveKind kind, Reduction reduction);
/// What is wrong with the members that members take from: of a permute one for
/// each, of another kind none.
std::string findFault(CollectiveKind kind, std::span<const int32_t> sources,
                      int64_t members);

} // namespace polyrank::runtime
