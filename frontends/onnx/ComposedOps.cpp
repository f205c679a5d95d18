// Imports ops that are a few others: older norms, windows of signals, and
// selections and reversals along a dim.

#include <cmath>

#include "frontends/emit/Functions.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

using graph::Comparison;
using sharding::ReductionKind;

Imported scalarLike(NodeImporter &n, const Imported &x, double value) {
  return n.emit.scalar(x.getElementType(), value);
}

LogicalResult needFloats(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  if (!isa<FloatType>(n.operand(0).getElementType()))
    return n.fail("it is of integers; convert them to floats (x.float())");
  return success();
}

/// x + bias below -lambd, x - bias above lambd, and 0 between.
LogicalResult shrink(NodeImporter &n) {
  if (failed(needFloats(n)))
    return failure();
  const Imported &x = n.operand(0);
  double limit = n.getFloat("lambd", 0.5), bias = n.getFloat("bias", 0);
  auto spread = [&](double value) {
    return n.emit.broadcast(scalarLike(n, x, value), x.getShape(),
                            !x.isConstant());
  };
  auto where = [&](Comparison comparison, double at, double change,
                   const Imported &otherwise) {
    return n.emit.select(
        n.emit.binary<graph::CompareOp>(x, spread(at), comparison),
        n.emit.binary<graph::AddOp>(x, spread(change)), otherwise);
  };
  n.result(0, where(Comparison::LT, -limit, bias,
                    where(Comparison::GT, limit, -bias, spread(0))));
  return success();
}

/// x / norm(x) along a dim; 0 if all elements are 0.
LogicalResult lpNormalization(NodeImporter &n) {
  if (failed(needFloats(n)))
    return failure();
  const Imported &x = n.operand(0);
  auto axis = n.axis(n.getInt("axis", -1), x.getRank());
  int64_t p = n.getInt("p", 2);
  if (failed(axis))
    return failure();
  if (p != 1 && p != 2)
    return n.fail("p is " + Twine(p) + ", which is neither 1 nor 2");
  Imported norm = n.emit.reduce(ReductionKind::Sum,
                                p == 1 ? n.emit.unary<graph::AbsOp>(x)
                                       : n.emit.binary<graph::MulOp>(x, x),
                                {*axis});
  if (p == 2)
    norm = rootOf(n.emit, norm);
  auto spread = [&](double value) {
    return n.emit.broadcast(scalarLike(n, x, value), norm.getShape(),
                            !norm.isConstant());
  };
  norm = n.emit.select(
      n.emit.binary<graph::CompareOp>(norm, spread(0), Comparison::EQ),
      spread(1), norm);
  norm = n.emit.keepDims(norm, x.getShape(), {*axis});
  n.result(0, n.emit.binaryOver<graph::DivOp>(x, norm));
  return success();
}

/// (x - mean) / (deviation + 1e-9) over `axes`.
LogicalResult meanVarianceNormalization(NodeImporter &n) {
  if (failed(needFloats(n)))
    return failure();
  const Imported &x = n.operand(0);
  SmallVector<int64_t> given = {0, 2, 3};
  if (const Attribute *axes = n.attribute("axes"))
    given.assign(axes->ints.begin(), axes->ints.end());
  auto dims = n.axes(given, x.getRank());
  if (failed(dims))
    return failure();
  auto kept = [&](const Imported &reduced) {
    return n.emit.keepDims(reduced, x.getShape(), *dims);
  };
  Imported centred =
      n.emit.binaryOver<graph::SubOp>(x, kept(n.emit.mean(x, *dims)));
  Imported deviation =
      rootOf(n.emit,
             n.emit.mean(n.emit.binary<graph::MulOp>(centred, centred), *dims));
  deviation = n.emit.binaryOver<graph::AddOp>(deviation,
                                              scalarLike(n, deviation, 1e-9));
  n.result(0, n.emit.binaryOver<graph::DivOp>(centred, kept(deviation)));
  return success();
}

/// x / (bias + alpha / size * sum of the squares of the `size` surrounding
/// channels)^beta (Krizhevsky et al. 2012).
LogicalResult localResponseNormalization(NodeImporter &n) {
  if (failed(needFloats(n)))
    return failure();
  const Imported &x = n.operand(0);
  int64_t size = n.getInt("size", 0);
  if (x.getRank() < 2 || size < 1)
    return n.fail("LRN of " + toString(x.getShape()) + " over " + Twine(size) +
                  " channels");
  int64_t low = (size - 1) / 2;
  Imported windows = n.emit.unary<graph::UnfoldOp>(
      n.emit.binary<graph::MulOp>(x, x), int64_t(1), size, int64_t(1),
      int64_t(1), low, size - 1 - low);
  Imported sum = n.emit.reduce(ReductionKind::Sum, windows, {x.getRank()});
  auto with = [&](double value) { return scalarLike(n, x, value); };
  Imported base = n.emit.binaryOver<graph::AddOp>(
      n.emit.binaryOver<graph::MulOp>(
          sum, with(n.getFloat("alpha", 1e-4) / static_cast<double>(size))),
      with(n.getFloat("bias", 1)));
  n.result(0, n.emit.binary<graph::DivOp>(
                  x, n.emit.binaryOver<graph::PowOp>(
                         base, with(n.getFloat("beta", 0.75)))));
  return success();
}

/// first - second * cos(2 pi i / N) + third * cos(4 pi i / N).
template <double (*weightsOf)(int)>
LogicalResult window(NodeImporter &n) {
  auto size = n.integer(0, "size");
  if (failed(size))
    return failure();
  if (failed(n.fits({*size})))
    return failure();
  auto type = n.toResultType(typeOfNumber(n.getInt("output_datatype", 1)));
  if (!isa_and_nonnull<FloatType>(type))
    return n.fail("a window of elements that are no floats");
  graph::Tensor values(type, {*size});
  double period =
      static_cast<double>(n.getInt("periodic", 1) != 0 ? *size : *size - 1);
  for (int64_t i = 0; i < *size; ++i) {
    double angle = 2 * M_PI * static_cast<double>(i) / period;
    values.set(i, weightsOf(0) - weightsOf(1) * std::cos(angle) +
                      weightsOf(2) * std::cos(2 * angle));
  }
  n.result(0, Imported(std::move(values)));
  return success();
}

double hannWeight(int i) { return i < 2 ? 0.5 : 0; }
double hammingWeight(int i) {
  return i == 0 ? 25.0 / 46 : i == 1 ? 21.0 / 46 : 0;
}
double blackmanWeight(int i) { return i == 0 ? 0.42 : i == 1 ? 0.5 : 0.08; }

/// The slices along `axis`, or the elements, for which a known condition is
/// true.
LogicalResult compress(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  if (!n.operand(1).isConstant())
    return n.fail("the shape of its result depends on values, and all shapes "
                  "are known when a model is compiled; keep all elements and "
                  "weigh those that do not count by 0 (torch.where)");
  Imported x = n.operand(0);
  int64_t dim = 0;
  if (n.attribute("axis")) {
    auto axis = n.axis(n.getInt("axis", 0), x.getRank());
    if (failed(axis))
      return failure();
    dim = *axis;
  } else {
    x = n.emit.reshape(x, {countElements(x.getShape())});
  }
  const graph::Tensor &condition = *n.operand(1).constant;
  if (condition.size() > x.getShape()[dim])
    return n.fail("a condition of " + Twine(condition.size()) +
                  " elements for a dim of " + Twine(x.getShape()[dim]));
  SmallVector<int64_t> kept;
  for (int64_t i = 0; i < condition.size(); ++i)
    if (condition.at(i) != 0)
      kept.push_back(i);
  n.result(0, n.emit.binary<graph::GatherOp>(x, n.emit.integers(kept), dim));
  return success();
}

/// Reverses, in each sample, the first elements of the time dim, up to the
/// sample's length; the others stay.
LogicalResult reverseSequence(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  Imported x = n.operand(0);
  int64_t time = n.getInt("time_axis", 0), batch = n.getInt("batch_axis", 1);
  if (x.getRank() < 2 || time + batch != 1 || time < 0 || batch < 0)
    return n.fail("ReverseSequence of " + toString(x.getShape()) +
                  " with time along dim " + Twine(time) +
                  " and samples along " + Twine(batch));
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(x.getRank()));
  if (time == 0) {
    std::swap(order[0], order[1]);
    x = n.emit.transpose(x, order);
  }
  Shape places = {x.getShape()[0], x.getShape()[1]};
  Imported lengths = n.operand(1);
  if (lengths.getShape() != Shape{places[0]})
    return n.fail("lengths of " + toString(lengths.getShape()) + " for " +
                  Twine(places[0]) + " samples");
  lengths = n.emit.reshape(lengths, {places[0], 1});
  lengths = n.emit.broadcast(lengths, places, !lengths.isConstant());
  Imported place = n.emit.iota(places, 1, lengths.getElementType());
  Imported back = n.emit.binary<graph::SubOp>(
      n.emit.binary<graph::SubOp>(lengths, place),
      n.emit.broadcast(scalarLike(n, lengths, 1), places,
                       !lengths.isConstant()));
  Imported from = n.emit.select(
      n.emit.binary<graph::CompareOp>(place, lengths, Comparison::LT), back,
      place);
  x = n.emit.binary<graph::GatherOp>(x, from, int64_t(1), int64_t(1));
  n.result(0, time == 0 ? n.emit.transpose(x, order) : x);
  return success();
}

const OpRow rows[] = {
    {"", "Shrink", 9, shrink},
    {"", "LpNormalization", 1, lpNormalization},
    {"", "MeanVarianceNormalization", 9, meanVarianceNormalization},
    {"", "LRN", 1, localResponseNormalization},
    {"", "HannWindow", 17, window<hannWeight>},
    {"", "HammingWindow", 17, window<hammingWeight>},
    {"", "BlackmanWindow", 17, window<blackmanWeight>},
    {"", "Compress", 9, compress},
    {"", "ReverseSequence", 10, reverseSequence},
};

} // namespace

ArrayRef<OpRow> getComposedRows() { return rows; }

} // namespace polyrank::frontends::onnx
