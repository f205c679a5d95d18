// Global values to one tensor per device, and back.

#include <random>

#include "compiler/evaluate/Evaluator.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;
using graph::forEachIndex;
using graph::getStrides;
using shard::AxisRef;
using shard::LayoutAttr;
using shard::ReductionKind;

/// What undefined integers hold: as an index, one that does harm.
constexpr int64_t poison = 1;

static bool livesOn(LayoutAttr layout, int64_t device) {
  return llvm::all_of(layout.getPlaces(), [&](shard::Place place) {
    shard::MeshAttr mesh = layout.getMesh();
    return mesh.getCoordinate(device, mesh.getAxis(place.axis)) ==
           place.coordinate;
  });
}

/// Where the block of `device` starts, halos included: may be negative.
static SmallVector<int64_t>
blockStart(LayoutAttr layout, ArrayRef<int64_t> shape, int64_t device) {
  SmallVector<int64_t> start;
  for (auto [dim, size] : llvm::zip_equal(layout.getDims(), shape)) {
    int64_t block = dim.getExtent(size) / dim.getNumBlocks();
    start.push_back(block *
                        layout.getMesh().getLinearIndex(device, dim.getAxes()) -
                    dim.getHaloLow());
  }
  return start;
}

/// Calls `body(local offset, global offset)` for each element of a block; the
/// global offset is -1 - dim where dim is the first one that is outside.
static void forEachElement(LayoutAttr layout, ArrayRef<int64_t> shape,
                           int64_t device,
                           function_ref<void(int64_t, int64_t)> body) {
  SmallVector<int64_t> start = blockStart(layout, shape, device);
  SmallVector<int64_t> strides = getStrides(shape);
  int64_t local = 0;
  forEachIndex(layout.getLocalShape(shape), [&](ArrayRef<int64_t> index) {
    int64_t global = 0;
    for (int64_t d = 0, rank = shape.size(); d < rank; ++d) {
      int64_t position = start[d] + index[d];
      if (position < 0 || position >= shape[d]) {
        global = -1 - d;
        break;
      }
      global += position * strides[d];
    }
    body(local++, global);
  });
}

static void setPadding(Tensor &tensor, int64_t i, shard::DimAttr dim,
                       bool isHalo) {
  if (isHalo)
    tensor.set(i, 0);
  else if (dim.getFill() != shard::Fill::Undefined)
    tensor.set(i, shard::fillValue(dim.getFill()));
  else if (tensor.isFloat())
    tensor.floats[i] = std::nan("");
  else
    tensor.integers[i] = poison;
}

Devices polyrank::evaluate::scatter(const Tensor &value, LayoutAttr layout,
                                    uint64_t seed) {
  shard::MeshAttr mesh = layout.getMesh();
  int64_t numDevices = mesh.getNumDevices();
  Devices devices(numDevices);

  // The parts of a partial value: one global tensor per index over the axes.
  int64_t numParts = shard::product(layout.getPartialAxes());
  SmallVector<Tensor> parts(numParts, value);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  for (int64_t i = 0, n = layout.isPartial() ? value.size() : 0; i < n; ++i) {
    int64_t owner = random() % numParts;
    double rest = value.at(i);
    for (int64_t p = 0; p < numParts; ++p) {
      if (p == owner)
        continue;
      double part =
          value.isFloat() ? normal(random) : static_cast<double>(random() % 16);
      bool isBool = value.elementType.isInteger(1);
      if (isBool && layout.getPartialKind() != ReductionKind::Sum) {
        // The other parts stay booleans: false or less, true or more.
        bool isMax = layout.getPartialKind() == ReductionKind::Max;
        bool free = (value.integers[i] != 0) == isMax;
        parts[p].integers[i] = free ? random() % 2 : !isMax;
        continue;
      }
      switch (layout.getPartialKind()) {
      case ReductionKind::Sum:
        parts[p].set(i, part);
        rest -= part;
        break;
      case ReductionKind::Max:
        parts[p].set(i, value.at(i) - std::fabs(part));
        break;
      case ReductionKind::Min:
        parts[p].set(i, value.at(i) + std::fabs(part));
        break;
      }
    }
    parts[owner].set(i, rest);
  }

  for (int64_t device = 0; device < numDevices; ++device) {
    if (!livesOn(layout, device))
      continue;
    const Tensor &part =
        parts[mesh.getLinearIndex(device, layout.getPartialAxes())];
    Tensor &local = devices[device];
    local = Tensor(value.elementType, layout.getLocalShape(value.shape));
    SmallVector<int64_t> start = blockStart(layout, value.shape, device);
    forEachElement(layout, value.shape, device, [&](int64_t to, int64_t from) {
      if (from >= 0) {
        local.copy(to, part, from);
        return;
      }
      shard::DimAttr dim = layout.getDim(-1 - from);
      setPadding(local, to, dim, dim.hasHalo() && !dim.getPadded());
    });
  }
  return devices;
}

static bool sameBits(const Tensor &left, int64_t i, const Tensor &right,
                     int64_t j) {
  if (!left.isFloat())
    return left.integers[i] == right.integers[j];
  double a = left.floats[i], b = right.floats[j];
  return a == b || (a != a && b != b);
}

FailureOr<Tensor> polyrank::evaluate::assemble(const Devices &devices,
                                               RankedTensorType type,
                                               std::string &reason) {
  LayoutAttr layout = shard::getLayout(type);
  shard::MeshAttr mesh = layout.getMesh();
  SmallVector<int64_t> localShape = layout.getLocalShape(type.getShape());
  int64_t numParts = shard::product(layout.getPartialAxes());
  SmallVector<Tensor> parts(numParts,
                            Tensor(type.getElementType(), type.getShape()));
  SmallVector<std::vector<char>> seen(
      numParts, std::vector<char>(parts[0].size(), false));
  for (auto [device, local] : llvm::enumerate(devices)) {
    if (!livesOn(layout, device))
      continue;
    if (local.shape != localShape) {
      reason = "device " + std::to_string(device) +
               " holds a block of another shape than the layout says";
      return failure();
    }
    int64_t number = mesh.getLinearIndex(device, layout.getPartialAxes());
    Tensor &part = parts[number];
    const Tensor &block = local;
    bool replicasAgree = true, fillsHold = true;
    forEachElement(layout, type.getShape(), device,
                   [&](int64_t from, int64_t to) {
                     if (to < 0) {
                       shard::Fill fill = layout.getDim(-1 - to).getFill();
                       fillsHold &= fill == shard::Fill::Undefined ||
                                    block.at(from) == shard::fillValue(fill);
                       return;
                     }
                     if (seen[number][to])
                       replicasAgree &= sameBits(part, to, block, from);
                     part.copy(to, block, from);
                     seen[number][to] = true;
                   });
    if (!replicasAgree || !fillsHold) {
      reason = "device " + std::to_string(device) +
               (replicasAgree ? " holds padding that is not its fill"
                              : " holds another replica than its peers");
      return failure();
    }
  }
  Tensor result = parts[0];
  for (const Tensor &part : llvm::drop_begin(parts))
    for (int64_t i = 0, n = result.size(); i < n; ++i) {
      double a = result.at(i), b = part.at(i);
      switch (layout.getPartialKind()) {
      case ReductionKind::Sum:
        result.set(i, a + b);
        break;
      case ReductionKind::Max:
        result.set(i, graph::maximum(a, b));
        break;
      case ReductionKind::Min:
        result.set(i, graph::minimum(a, b));
        break;
      }
    }
  return result;
}

bool polyrank::evaluate::agree(const Tensor &left, const Tensor &right,
                               std::string &reason, double tolerance) {
  if (left.shape != right.shape) {
    reason = "the shapes differ";
    return false;
  }
  for (int64_t i = 0, n = left.size(); i < n; ++i) {
    double a = left.at(i), b = right.at(i);
    bool equal =
        a == b || (a != a && b != b) ||
        (left.isFloat() && std::fabs(a - b) <= tolerance * (1 + std::fabs(b)));
    if (!equal) {
      // All digits: values that print alike may differ.
      reason.clear();
      llvm::raw_string_ostream(reason)
          << "element " << i << " is " << llvm::format("%.17g", a)
          << " where the global value is " << llvm::format("%.17g", b);
      return false;
    }
  }
  return true;
}
