// Splits global values into one tensor per device, and reassembles them.

#include <map>
#include <random>
#include <set>

#include "compiler/evaluate/Evaluator.h"
#include "dialects/graph/Blocks.h"
#include "dialects/graph/ElementTypes.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;
using graph::forEachIndex;
using graph::getStrides;
using sharding::AxisRef;
using sharding::LayoutAttr;
using sharding::ReductionKind;

static bool livesOn(LayoutAttr layout, int64_t device) {
  return llvm::all_of(layout.getPlaces(), [&](sharding::Place place) {
    sharding::MeshAttr mesh = layout.getMesh();
    return mesh.getCoordinate(device, mesh.getAxis(place.axis)) ==
           place.coordinate;
  });
}

/// Index of the first element of a device's block, borders included: may be
/// negative.
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

/// Global offset of an element that is beyond the padded extent of its tensor.
constexpr int64_t nowhere = std::numeric_limits<int64_t>::min();

/// Calls `body(local offset, global offset)` for each element of a block. In
/// padding the global offset is -1 - d, where d is the first dim whose padding
/// contains the element; in borders beyond the padding it is `nowhere`.
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
      if (position < 0 || position >= layout.getDim(d).getExtent(shape[d])) {
        global = nowhere;
        break;
      }
      if (position >= shape[d] && global >= 0)
        global = -1 - d;
      if (global >= 0)
        global += position * strides[d];
    }
    body(local++, global);
  });
}

static void setPadding(Tensor &tensor, int64_t i, sharding::Fill fill) {
  if (fill != sharding::Fill::Undefined)
    tensor.set(i, sharding::fillValue(fill));
  else
    tensor.setUndefined(i);
}

/// The number of a device's block: its index over the axes of all dims.
static int64_t blockOf(LayoutAttr layout, int64_t device) {
  SmallVector<AxisRef> axes;
  for (sharding::DimAttr dim : layout.getDims())
    llvm::append_range(axes, dim.getAxes());
  return layout.getMesh().getLinearIndex(device, axes);
}

LayoutAttr polyrank::evaluate::withoutBorders(LayoutAttr layout, int64_t d) {
  sharding::DimAttr dim = layout.getDim(d);
  return layout.withDim(d,
                        sharding::DimAttr::get(layout.getMesh(), dim.getAxes(),
                                               dim.getPadded(), dim.getFill()));
}

/// Fills the borders of blocks, which are summands of the neighbours' elements,
/// with random numbers, and subtracts them from the owners' elements.
static void spill(Devices &devices, LayoutAttr layout, ArrayRef<int64_t> shape,
                  uint64_t seed) {
  LayoutAttr plain = layout;
  for (int64_t d = 0; d < layout.getRank(); ++d)
    plain = withoutBorders(plain, d);
  std::vector<int64_t> owner(graph::numElements(shape), -1);
  for (int64_t device = 0, n = devices.size(); device < n; ++device)
    forEachElement(plain, shape, device, [&](int64_t, int64_t at) {
      if (at >= 0)
        owner[at] = blockOf(layout, device);
    });
  // Per part of a partial value and element: the sum that non-owners hold.
  std::map<std::pair<int64_t, int64_t>, double> given;
  std::set<std::pair<int64_t, int64_t>> counted;
  for (bool isOwner : {false, true})
    for (int64_t device = 0, n = devices.size(); device < n; ++device) {
      Tensor &local = devices[device];
      int64_t block = blockOf(layout, device);
      int64_t part =
          layout.getMesh().getLinearIndex(device, layout.getPartialAxes());
      bool isNew = isOwner || counted.insert({part, block}).second;
      if (!local.elementType)
        continue;
      forEachElement(layout, shape, device, [&](int64_t at, int64_t global) {
        if (global < 0 || isOwner != (owner[global] == block))
          return;
        if (isOwner) {
          local.set(at, local.at(at) - given[{part, global}]);
          return;
        }
        std::mt19937_64 random(seed + 7919 * part + 104729 * block + global);
        double value = static_cast<double>(random() % 16);
        local.set(at, value);
        if (isNew)
          given[{part, global}] += value;
      });
    }
}

/// Splits a partial value into its parts: one global tensor per index over the
/// partial axes.
static SmallVector<Tensor> splitParts(const Tensor &value, LayoutAttr layout,
                                      uint64_t seed) {
  int64_t numParts = sharding::product(layout.getPartialAxes());
  SmallVector<Tensor> parts(numParts, value);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  for (int64_t i = 0, n = layout.isPartial() ? value.size() : 0; i < n; ++i) {
    int64_t owner = random() % numParts;
    double rest = value.at(i);
    for (int64_t p = 0; p < numParts; ++p) {
      if (p == owner)
        continue;
      // Multiples of 1/16: a value with few bits is the exact sum of its parts.
      // The parts of a small value are small too, so that a root of the sum
      // exists.
      double small = std::fabs(value.at(i));
      double unit = small > 0 && small < 0x1p-20
                        ? std::ldexp(1, std::ilogb(small) - 4)
                        : 0x1p-4;
      double part = value.isFloat() ? std::round(16 * normal(random)) * unit
                                    : static_cast<double>(random() % 16);
      bool isBool = value.elementType.isInteger(1);
      if (isBool && layout.getPartialKind() != ReductionKind::Sum) {
        // The other parts stay booleans: at most the value for max, at least
        // for min.
        bool isMax = layout.getPartialKind() == ReductionKind::Max;
        bool free = (value.integers[i] != 0) == isMax;
        parts[p].integers[i] = free ? random() % 2 : !isMax;
        continue;
      }
      // The identity, as to_partial leaves it on devices that do not keep the
      // value.
      if (layout.getPartialKind() != ReductionKind::Sum && random() % 4 == 0) {
        parts[p].set(i, sharding::fillValue(
                            sharding::identityFill(layout.getPartialKind())));
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
  return parts;
}

/// Gives each device its block of its part.
static Devices spread(ArrayRef<Tensor> parts, LayoutAttr layout) {
  sharding::MeshAttr mesh = layout.getMesh();
  const Tensor &value = parts.front();
  int64_t numDevices = mesh.getNumDevices();
  Devices devices(numDevices);
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
      setPadding(local, to,
                 from == nowhere ? sharding::Fill::Undefined
                                 : layout.getDim(-1 - from).getFill());
    });
  }
  return devices;
}

Devices polyrank::evaluate::moveBorders(const Devices &devices,
                                        LayoutAttr layout, int64_t d) {
  sharding::DimAttr dim = layout.getDim(d);
  sharding::MeshAttr mesh = layout.getMesh();
  Devices result(devices.size());
  for (int64_t device = 0, n = devices.size(); device < n; ++device) {
    SmallVector<Tensor> blocks;
    for (int64_t peer : mesh.getGroup(device, dim.getAxes()))
      blocks.push_back(devices[peer]);
    int64_t me = mesh.getLinearIndex(device, dim.getAxes());
    if (blocks[me].elementType)
      result[device] = (dim.getSpills() ? graph::addOverlaps : graph::widen)(
          blocks, me, d, dim.getHaloLow(), dim.getHaloHigh());
  }
  return result;
}

static bool sameBits(const Tensor &left, int64_t i, const Tensor &right,
                     int64_t j) {
  if (!left.isFloat())
    return left.integers[i] == right.integers[j];
  double a = left.floats[i], b = right.floats[j];
  return a == b || (a != a && b != b);
}

Devices polyrank::evaluate::scatter(const Tensor &value, LayoutAttr layout,
                                    uint64_t seed) {
  Devices devices = spread(splitParts(value, layout, seed), layout);
  if (llvm::any_of(layout.getDims(),
                   [](sharding::DimAttr dim) { return dim.getSpills(); }))
    spill(devices, layout, value.shape, seed);
  return devices;
}

/// The inverse of `spread`.
static FailureOr<SmallVector<Tensor>>
collect(const Devices &devices, RankedTensorType type, std::string &reason) {
  LayoutAttr layout = sharding::getLayout(type);
  sharding::MeshAttr mesh = layout.getMesh();
  SmallVector<int64_t> localShape = layout.getLocalShape(type.getShape());
  for (auto [d, dim] : llvm::enumerate(layout.getDims()))
    if (dim.getSpills()) {
      for (auto [device, local] : llvm::enumerate(devices))
        if (livesOn(layout, device) && local.shape != localShape) {
          reason = "device " + std::to_string(device) +
                   " holds a block of another shape than the layout says";
          return failure();
        }
      return collect(moveBorders(devices, layout, d),
                     sharding::withLayout(type, withoutBorders(layout, d)),
                     reason);
    }
  int64_t numParts = sharding::product(layout.getPartialAxes());
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
                     if (to == nowhere)
                       return;
                     if (to < 0) {
                       sharding::Fill fill = layout.getDim(-1 - to).getFill();
                       Tensor filled(type.getElementType(), {});
                       filled.set(0, sharding::fillValue(fill));
                       fillsHold &= fill == sharding::Fill::Undefined ||
                                    block.at(from) == filled.at(0);
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
  return parts;
}

FailureOr<Devices> polyrank::evaluate::changeBlocks(const Devices &devices,
                                                    RankedTensorType type,
                                                    LayoutAttr to,
                                                    std::string &reason) {
  FailureOr<SmallVector<Tensor>> parts = collect(devices, type, reason);
  if (failed(parts))
    return failure();
  return spread(*parts, to);
}

FailureOr<Tensor> polyrank::evaluate::assemble(const Devices &devices,
                                               RankedTensorType type,
                                               std::string &reason) {
  LayoutAttr layout = sharding::getLayout(type);
  FailureOr<SmallVector<Tensor>> parts = collect(devices, type, reason);
  if (failed(parts))
    return failure();
  Tensor result = parts->front();
  for (const Tensor &part : llvm::drop_begin(*parts))
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

/// The number of values in each sum that the op forms; 1 if it forms none.
static int64_t getSumLength(Operation *op) {
  auto count = [](Value value, ArrayRef<int64_t> dims) {
    int64_t product = 1;
    for (int64_t dim : dims)
      product *= cast<RankedTensorType>(value.getType()).getDimSize(dim);
    return product;
  };
  return TypeSwitch<Operation *, int64_t>(op)
      .Case([&](graph::ReduceOp reduce) {
        return count(reduce.getInput(), reduce.getDims());
      })
      .Case([&](graph::MatmulOp product) {
        return count(product.getLhs(), product.getLhsContract());
      })
      .Default([](Operation *) { return int64_t(1); });
}

double polyrank::evaluate::getRoundingTolerance(Operation *program,
                                                Rounding rounding) {
  if (rounding == Rounding::Exact)
    return roundingTolerance;
  double unit = 0;
  program->walk([&](Operation *op) {
    int64_t length = getSumLength(op);
    for (Type type : op->getResultTypes())
      if (auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
          element && graph::toElementType(element))
        unit = std::max(unit, graph::getTolerance(element, length));
  });
  return std::max(roundingTolerance, 8 * 2 * unit);
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
      // Prints all digits: values that differ may look alike with fewer.
      reason.clear();
      llvm::raw_string_ostream(reason)
          << "element " << i << " is " << llvm::format("%.17g", a)
          << " where the global value is " << llvm::format("%.17g", b);
      return false;
    }
  }
  return true;
}
