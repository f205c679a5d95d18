// The kinds of collectives, and their rules, which the compiler, the plan's
// verifier, reports and communicators share. A new kind is added here first.

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

/// How the shape of a member's output differs from its input's, in a group of g
/// members.
enum class Resizing : int8_t {
  None,      // the same size
  Gathers,   // g times larger
  Scatters,  // g times smaller
  Exchanges, // one dim g times smaller, another g times larger
  Widens,    // adds borders
  Narrows    // removes borders
};

/// How the output may alias the input. Otherwise they are disjoint.
enum class InPlace : int8_t {
  Never,
  Same,  // they have the same address
  Block, // the output is the member's block of the input
  Whole  // the input is the member's block of the output
};

struct CollectiveRule {
  /// The name in the dialects and in messages.
  const char *name;
  Resizing resizing;
  /// Valid if the blocks are contiguous: see inPlaceOf.
  InPlace inPlace;
  /// The kind takes the sum, maximum or minimum over the members.
  bool reduces;
  /// The number of communication rounds in the usual algorithm.
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
/// Returns the rule of a valid kind.
constexpr const CollectiveRule &ruleOf(CollectiveKind kind) {
  return collectiveRules[static_cast<int>(kind)];
}
/// Returns how the output of a kind may alias its input, whose blocks have
/// `outer` rows each: blocks of several rows are not contiguous.
constexpr InPlace inPlaceOf(CollectiveKind kind, int64_t outer) {
  InPlace way = ruleOf(kind).inPlace;
  bool needsOneRow = way == InPlace::Block || way == InPlace::Whole;
  return needsOneRow && outer != 1 ? InPlace::Never : way;
}
/// Returns true if an output aliases its input as `way` allows. A location is
/// any type that says where bytes lie; `blockOf(whole)` returns the location of
/// the member's block of what lies at `whole`, or none.
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

/// Returns the bytes that one member sends, for an input and an output of the
/// given bytes. If the larger one has n bytes this is 2 n (g-1)/g for an
/// all_reduce, n (g-1)/g if blocks are scattered, gathered, exchanged or
/// broadcast, n for a permute, and for a halo the borders of a member with
/// neighbours on both sides. Rounded up. (Thakur, Rabenseifner, Gropp,
/// Optimization of Collective Communication Operations in MPICH, 2005.)
uint64_t sentBytes(CollectiveKind kind, uint64_t members, uint64_t input,
                   uint64_t output);

/// The extents of one member of a (bucketed) collective, in elements; plan.fbs,
/// Transfer, defines their meaning for each kind.
struct TransferShape {
  int64_t outer = 1, x = 1, middle = 1, y = 1, inner = 1;
  bool splitFirst = false;
  int64_t low = 0, high = 0;
};

/// The number of elements of the input and of the output.
struct TransferElements {
  int64_t input = 0, output = 0;
};
/// Requires a shape in which findFault finds no fault.
TransferElements elementsOf(CollectiveKind kind, const TransferShape &shape,
                            int64_t members);

/// The most bytes of a small collective: those of the outputs of all members
/// and, if the group is on several machines, of their inputs.
inline constexpr int64_t smallBytes = 1 << 14;
/// Returns true for a small collective, which communicators do in another way
/// than a large one. It depends only on extents, so it is the same for all
/// members.
template <typename Transfers>
bool isSmallCollective(CollectiveKind kind, int64_t elementBytes,
                       const Transfers &transfers, int64_t members,
                       bool crossesMachines) {
  int64_t each = smallBytes / elementBytes / members, inputs = 0, outputs = 0;
  for (const TransferShape &shape : transfers) {
    TransferElements elements = elementsOf(kind, shape, members);
    outputs += elements.output;
    inputs += elements.input;
    if (outputs > each || (crossesMachines && inputs > each))
      return false;
  }
  return true;
}

/// Returns what is wrong with a shape, for a group of `members` and elements of
/// `elementBytes` bytes: an extent that is not positive, one that the kind does
/// not have, a dim that it cannot split, invalid borders, more than 2^62 bytes
/// over all members. Empty if the shape is valid.
std::string findFault(CollectiveKind kind, const TransferShape &shape,
                      int64_t members, int64_t elementBytes);
/// Returns what is wrong with the combination of kind and reduction.
std::string findFault(CollectiveKind kind, Reduction reduction);
/// Returns what is wrong with `sources`, the member that each member reads
/// from: a permute has one for each, the other kinds have none.
std::string findFault(CollectiveKind kind, std::span<const int32_t> sources,
                      int64_t members);

} // namespace polyrank::runtime
