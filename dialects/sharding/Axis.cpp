// The algebra of sub-axes.

#include "dialects/sharding/Layout.h"

using namespace llvm;
using namespace polyrank::sharding;

SmallVector<AxisRef> polyrank::sharding::merged(MeshAttr mesh,
                                                ArrayRef<AxisRef> axes) {
  SmallVector<AxisRef> result;
  for (AxisRef ref : axes) {
    if (ref.size == 1)
      continue;
    AxisRef *last = result.empty() ? nullptr : &result.back();
    if (last && last->axis == ref.axis && last->pre * last->size == ref.pre)
      last->size *= ref.size;
    else
      result.push_back(ref);
  }
  return result;
}

SmallVector<AxisRef> polyrank::sharding::normalized(MeshAttr mesh,
                                                    ArrayRef<AxisRef> axes) {
  SmallVector<AxisRef> sorted(axes);
  llvm::sort(sorted);
  return merged(mesh, sorted);
}

int64_t polyrank::sharding::product(ArrayRef<AxisRef> axes) {
  int64_t result = 1;
  for (AxisRef ref : axes)
    result *= ref.size;
  return result;
}

bool polyrank::sharding::overlap(ArrayRef<AxisRef> left,
                                 ArrayRef<AxisRef> right) {
  return any_of(left, [&](AxisRef a) {
    return any_of(right, [&](AxisRef b) { return a.overlaps(b); });
  });
}

std::optional<SmallVector<AxisRef>>
polyrank::sharding::subAxes(ArrayRef<AxisRef> axes, ArrayRef<AxisRef> others) {
  SmallVector<AxisRef> result;
  for (AxisRef ref : axes) {
    SmallVector<int64_t> cuts = {ref.pre, ref.pre * ref.size};
    for (AxisRef other : others)
      for (int64_t cut : {other.pre, other.pre * other.size})
        if (other.axis == ref.axis && cut > ref.pre && cut < ref.pre * ref.size)
          cuts.push_back(cut);
    llvm::sort(cuts);
    cuts.erase(llvm::unique(cuts), cuts.end());
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      if (cuts[i + 1] % cuts[i] != 0)
        return std::nullopt;
      result.push_back({ref.axis, cuts[i], cuts[i + 1] / cuts[i]});
    }
  }
  return result;
}
