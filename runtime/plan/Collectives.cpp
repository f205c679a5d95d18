// The rules of collectives that are not in the table.

#include "runtime/plan/Collectives.h"

#include "support/Checked.h"

namespace polyrank::runtime {

uint64_t sentBytes(CollectiveKind kind, uint64_t members, uint64_t input,
                   uint64_t output) {
  if (members <= 1)
    return 0;
  switch (ruleOf(kind).resizing) {
  case Resizing::Gathers:
  case Resizing::Scatters:
  case Resizing::Widens:
  case Resizing::Narrows:
    return input > output ? input - output : output - input;
  case Resizing::Exchanges:
  case Resizing::None:
    break;
  }
  if (kind == CollectiveKind::Permute)
    return input;
  uint64_t bytes = kind == CollectiveKind::AllReduce ? 2 * input : input;
  uint64_t rest = bytes % members * (members - 1);
  return bytes / members * (members - 1) + (rest + members - 1) / members;
}

namespace {

template <typename Number>
struct Elements {
  Number input, output;
};

template <typename Number>
Elements<Number> countElements(CollectiveKind kind, const TransferShape &shape,
                               int64_t members, Number (*number)(int64_t)) {
  Number outer = number(shape.outer), inner = number(shape.inner);
  Number all =
      outer * number(shape.x) * number(shape.middle) * number(shape.y) * inner;
  Number wide = outer * (inner + number(shape.low) + number(shape.high));
  switch (ruleOf(kind).resizing) {
  case Resizing::Gathers:
    return {all, all * number(members)};
  case Resizing::Scatters:
    return {all * number(members), all};
  case Resizing::Widens:
    return {all, wide};
  case Resizing::Narrows:
    return {wide, all};
  case Resizing::None:
  case Resizing::Exchanges:
    break;
  }
  return {all, all};
}

} // namespace

TransferElements elementsOf(CollectiveKind kind, const TransferShape &shape,
                            int64_t members) {
  auto counted = countElements<int64_t>(kind, shape, members,
                                        [](int64_t value) { return value; });
  return {counted.input, counted.output};
}

std::string findFault(CollectiveKind kind, const TransferShape &shape,
                      int64_t members, int64_t elementBytes) {
  const CollectiveRule &rule = ruleOf(kind);
  for (int64_t extent :
       {shape.outer, shape.x, shape.middle, shape.y, shape.inner})
    if (extent < 1)
      return "an extent of " + std::to_string(extent);
  if (shape.low < 0 || shape.high < 0 ||
      (!rule.hasBorders() && (shape.low || shape.high)))
    return "borders of " + std::to_string(shape.low) + " and " +
           std::to_string(shape.high) + " elements";
  if (rule.resizing == Resizing::Exchanges) {
    int64_t split = shape.splitFirst ? shape.x : shape.y;
    if (split % members != 0)
      return "splits an extent of " + std::to_string(split) + " over " +
             std::to_string(members) + " ranks";
  } else if (shape.x != 1 || shape.middle != 1 || shape.y != 1) {
    return "x=" + std::to_string(shape.x) +
           " middle=" + std::to_string(shape.middle) +
           " y=" + std::to_string(shape.y) + " are for an all_to_all";
  }
  if (rule.resizing == Resizing::None && shape.outer != 1)
    return "outer=" + std::to_string(shape.outer) + " instead of 1";
  auto [input, output] =
      countElements<Checked>(kind, shape, members, Checked::of);
  // Bounds the bytes of all members together, so that offsets from the first
  // member fit, too.
  constexpr uint64_t most = uint64_t(1) << 62;
  Checked all = Checked::of(members) * Checked::of(elementBytes);
  if (!(input * all).fits(most) || !(output * all).fits(most))
    return "extents whose product is too large";
  return "";
}

std::string findFault(CollectiveKind kind, Reduction reduction) {
  bool exists = reduction >= Reduction::None && reduction <= Reduction::Min;
  if (!exists || ruleOf(kind).reduces != (reduction != Reduction::None))
    return std::string(nameOf(kind)) + " with reduction " +
           std::to_string(static_cast<int>(reduction));
  if (ruleOf(kind).hasBorders() && ruleOf(kind).reduces &&
      reduction != Reduction::Sum)
    return std::string("borders are summed, not reduced by ") +
           nameOf(reduction);
  return "";
}

std::string findFault(CollectiveKind kind, std::span<const int32_t> sources,
                      int64_t members) {
  if (kind != CollectiveKind::Permute)
    return sources.empty()
               ? ""
               : std::string("sources are for a permute, not for ") +
                     nameOf(kind);
  if (static_cast<int64_t>(sources.size()) != members)
    return "has sources for " + std::to_string(sources.size()) +
           " ranks in a group of " + std::to_string(members);
  for (int32_t source : sources)
    if (source < 0 || source >= members)
      return "takes from rank " + std::to_string(source) + " of a group of " +
             std::to_string(members);
  return "";
}

} // namespace polyrank::runtime
