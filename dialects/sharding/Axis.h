// Sub-axes of a mesh and their algebra.

#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"

namespace polyrank::sharding {

class MeshAttr;

/// `size` consecutive coordinates of mesh axis number `axis`, after the `pre`
/// most major ones. With c the coordinate along the whole axis of size n, the
/// coordinate along the sub-axis is c / (n / (pre * size)) % size. The whole
/// axis is {axis, 1, n}.
struct AxisRef {
  int32_t axis = 0;
  int64_t pre = 1;
  int64_t size = 1;

  friend bool operator==(const AxisRef &, const AxisRef &) = default;
  friend auto operator<=>(const AxisRef &, const AxisRef &) = default;
  friend llvm::hash_code hash_value(const AxisRef &ref) {
    return llvm::hash_combine(ref.axis, ref.pre, ref.size);
  }
  /// Returns true if this is a part of an axis of size `axisSize`. The numbers
  /// need not be valid.
  bool liesIn(int64_t axisSize) const {
    return pre >= 1 && size >= 1 && axisSize % pre == 0 &&
           axisSize / pre % size == 0;
  }
  /// Returns true if the two share a coordinate digit.
  bool overlaps(const AxisRef &other) const {
    return axis == other.axis && pre < other.pre * other.size &&
           other.pre < pre * size;
  }
};

/// A value with this place lives on the devices where `axis` has this
/// coordinate.
struct Place {
  int32_t axis = 0;
  int64_t coordinate = 0;

  friend bool operator==(const Place &, const Place &) = default;
  friend auto operator<=>(const Place &, const Place &) = default;
  friend llvm::hash_code hash_value(const Place &place) {
    return llvm::hash_combine(place.axis, place.coordinate);
  }
};

/// `axes` in their order, without those of size 1 and with adjacent sub-axes
/// of one axis merged: `"x":(1)2, "x":(2)4` is `"x":(1)8`.
llvm::SmallVector<AxisRef> merged(MeshAttr mesh, llvm::ArrayRef<AxisRef> axes);
/// `axes` as a set: sorted in mesh order and merged.
llvm::SmallVector<AxisRef> normalized(MeshAttr mesh,
                                      llvm::ArrayRef<AxisRef> axes);
/// Product of the sizes: the number of blocks that `axes` divide a dim into.
int64_t product(llvm::ArrayRef<AxisRef> axes);
bool overlap(llvm::ArrayRef<AxisRef> left, llvm::ArrayRef<AxisRef> right);

/// Splits `axes` (major to minor) at the boundaries of `others`, so that each
/// resulting sub-axis either equals a part of `others`, split the same way, or
/// does not overlap any. On each of these sub-axes a value is wholly split,
/// partial or replicated. Returns nullopt if two cuts of one axis do not divide
/// each other, as 2 and 3 of an axis of 6.
std::optional<llvm::SmallVector<AxisRef>>
subAxes(llvm::ArrayRef<AxisRef> axes, llvm::ArrayRef<AxisRef> others);

} // namespace polyrank::sharding
