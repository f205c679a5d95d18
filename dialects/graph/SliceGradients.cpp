// The gradient of a value that is decomposed by many slices.

#include "dialects/graph/SliceGradients.h"

#include <map>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

namespace {

/// [low, high) of each dim.
struct Box {
  SmallVector<int64_t> low, high;
  bool operator==(const Box &other) const {
    return low == other.low && high == other.high;
  }
};

struct Placed {
  Box box;
  Value value;
};

class Joiner {
public:
  Joiner(OpBuilder &builder, Location location)
      : builder(builder), location(location) {}

  /// The sum of `parts`, each padded with zeros, over the elements of `whole`,
  /// which contains them.
  Value join(MutableArrayRef<Placed> parts, const Box &whole);

private:
  Value add(Value x, Value y) {
    return x ? graph::AddOp::create(builder, location, x, y).getResult() : y;
  }
  Value pad(const Placed &part, const Box &whole);
  Value joinAlong(size_t dim, MutableArrayRef<Placed> parts, const Box &whole);
  Value joinLayers(size_t dim, ArrayRef<Placed> parts, const Box &whole);

  OpBuilder &builder;
  Location location;
};

} // namespace

/// Sorts the parts by their begin. No two are equal.
static void sortAlong(size_t dim, MutableArrayRef<Placed> parts) {
  llvm::sort(parts, [&](const Placed &a, const Placed &b) {
    auto place = [&](const Box &box) {
      return std::tie(box.low[dim], box.low, box.high);
    };
    return place(a.box) < place(b.box);
  });
}

/// The number of groups, with no overlap along `dim` between groups, into which
/// the parts fall.
static size_t countGroups(size_t dim, MutableArrayRef<Placed> parts) {
  sortAlong(dim, parts);
  size_t groups = 0;
  int64_t end = -1;
  for (const Placed &part : parts) {
    groups += part.box.low[dim] >= end;
    end = std::max(end, part.box.high[dim]);
  }
  return groups;
}

/// The most parts that overlap in one place along `dim`.
static size_t countLayers(size_t dim, ArrayRef<Placed> parts) {
  SmallVector<std::pair<int64_t, int>> ends;
  for (const Placed &part : parts) {
    ends.emplace_back(part.box.low[dim], 1);
    ends.emplace_back(part.box.high[dim], -1);
  }
  llvm::sort(ends); // at one place ends come before begins
  int64_t now = 0, most = 0;
  for (auto [at, change] : ends)
    most = std::max(most, now += change);
  return most;
}

Value Joiner::pad(const Placed &part, const Box &whole) {
  SmallVector<int64_t> low, high, interior(part.box.low.size(), 0);
  for (size_t d = 0; d < interior.size(); ++d) {
    low.push_back(part.box.low[d] - whole.low[d]);
    high.push_back(whole.high[d] - part.box.high[d]);
  }
  if (part.box == whole)
    return part.value;
  return graph::PadOp::create(builder, location, part.value, low, high,
                              interior, 0.0);
}

/// Joins sorted `parts`. The zeros between two groups belong to the second.
Value Joiner::joinAlong(size_t dim, MutableArrayRef<Placed> parts,
                        const Box &whole) {
  SmallVector<Value> joined;
  int64_t start = whole.low[dim];
  for (size_t from = 0; from < parts.size();) {
    size_t to = from;
    int64_t end = parts[from].box.high[dim];
    while (++to < parts.size() && parts[to].box.low[dim] < end)
      end = std::max(end, parts[to].box.high[dim]);
    Box around = whole;
    around.low[dim] = start;
    around.high[dim] = to == parts.size() ? whole.high[dim] : end;
    joined.push_back(join(parts.slice(from, to - from), around));
    start = end;
    from = to;
  }
  return graph::ConcatOp::create(builder, location, joined, dim);
}

/// Puts each part into the first layer with room after its last part, so that
/// there are as many layers as parts that overlap in one place.
Value Joiner::joinLayers(size_t dim, ArrayRef<Placed> parts, const Box &whole) {
  SmallVector<SmallVector<Placed>> layers;
  for (const Placed &part : parts) {
    auto *layer = llvm::find_if(layers, [&](ArrayRef<Placed> layer) {
      return layer.back().box.high[dim] <= part.box.low[dim];
    });
    if (layer == layers.end())
      layer = &layers.emplace_back();
    layer->push_back(part);
  }
  Value sum;
  for (SmallVector<Placed> &layer : layers)
    sum = add(sum, join(layer, whole));
  return sum;
}

Value Joiner::join(MutableArrayRef<Placed> parts, const Box &whole) {
  if (parts.size() == 1)
    return pad(parts[0], whole);
  size_t rank = whole.low.size(), best = rank, most = 1;
  for (size_t d = 0; d < rank; ++d)
    if (size_t groups = countGroups(d, parts); groups > most) {
      best = d;
      most = groups;
    }
  if (best < rank) {
    sortAlong(best, parts);
    return joinAlong(best, parts, whole);
  }
  size_t fewest = parts.size();
  for (size_t d = 0; d < rank; ++d)
    if (size_t layers = countLayers(d, parts); layers < fewest) {
      best = d;
      fewest = layers;
    }
  if (best < rank) {
    sortAlong(best, parts);
    return joinLayers(best, parts, whole);
  }
  Value sum; // all of them overlap
  for (const Placed &part : parts)
    sum = add(sum, pad(part, whole));
  return sum;
}

/// Returns true if a slice takes a nonempty block.
static bool isBlock(graph::SliceOp op) {
  return llvm::all_of(op.getStrides(),
                      [](int64_t stride) { return stride == 1; }) &&
         op.getType().getNumElements() > 0;
}

SliceGradients::SliceGradients(ArrayRef<Operation *> ops) {
  llvm::MapVector<Value, unsigned> counts;
  for (Operation *op : ops)
    if (auto slice = dyn_cast<graph::SliceOp>(op); slice && isBlock(slice))
      ++counts[slice.getInput()];
  for (auto [value, count] : counts)
    if (count >= manySlices)
      parts[value];
}

bool SliceGradients::takes(graph::SliceOp op) const {
  return parts.contains(op.getInput()) && isBlock(op);
}

void SliceGradients::add(graph::SliceOp op, Value gradient) {
  parts[op.getInput()].push_back({op, gradient});
}

graph::SliceOp SliceGradients::getFirst(Value value) const {
  auto found = parts.find(value);
  return found == parts.end() || found->second.empty()
             ? graph::SliceOp()
             : found->second.back().op;
}

Value SliceGradients::join(OpBuilder &builder, Value value) {
  Location location = getFirst(value).getLoc();
  SmallVector<Placed> placed;
  std::map<std::pair<ArrayRef<int64_t>, ArrayRef<int64_t>>, size_t> known;
  for (Part &part : parts[value]) {
    ArrayRef<int64_t> low = part.op.getStarts(), high = part.op.getLimits();
    auto [same, isNew] = known.try_emplace({low, high}, placed.size());
    if (isNew) {
      placed.push_back(
          {{llvm::to_vector(low), llvm::to_vector(high)}, part.gradient});
      continue;
    }
    Value &sum = placed[same->second].value;
    sum = graph::AddOp::create(builder, location, sum, part.gradient);
  }
  parts[value].clear();
  Box whole;
  whole.high =
      llvm::to_vector(cast<RankedTensorType>(value.getType()).getShape());
  whole.low.assign(whole.high.size(), 0);
  return Joiner(builder, location).join(placed, whole);
}
