// Import of GridSample: elements at positions that are computed.

#include "frontends/onnx/NodeImporter.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

/// The arithmetic of positions.
struct Positions {
  NodeImporter &n;

  Imported number(double value, const Imported &like) {
    return n.emit.broadcast(n.emit.scalar(like.getElementType(), value),
                            like.getShape(), !like.isConstant());
  }
  Imported add(const Imported &x, const Imported &y) {
    return n.emit.binary<graph::AddOp>(x, y);
  }
  Imported sub(const Imported &x, const Imported &y) {
    return n.emit.binary<graph::SubOp>(x, y);
  }
  Imported mul(const Imported &x, const Imported &y) {
    return n.emit.binary<graph::MulOp>(x, y);
  }
  Imported add(const Imported &x, double y) { return add(x, number(y, x)); }
  Imported mul(const Imported &x, double y) { return mul(x, number(y, x)); }
  Imported floor(const Imported &x) { return n.emit.unary<graph::FloorOp>(x); }
  Imported is(const Imported &x, graph::Comparison comparison, double y) {
    return n.emit.binary<graph::CompareOp>(x, number(y, x), comparison);
  }
  /// Where x is beyond a bound it is that bound, and has no gradient; nor has
  /// it at the bound, as in PyTorch.
  Imported clamp(const Imported &x, double low, double high) {
    Imported above =
        n.emit.select(is(x, graph::Comparison::GT, low), x, number(low, x));
    return n.emit.select(is(above, graph::Comparison::LT, high), above,
                         number(high, above));
  }
  /// x reflected at `low` and `high` until it is between them.
  Imported reflect(const Imported &x, double low, double high) {
    if (high <= low)
      return mul(x, 0);
    double span = high - low;
    Imported from = n.emit.unary<graph::AbsOp>(add(x, -low));
    Imported turns = floor(mul(from, 1 / span));
    Imported rest = sub(from, mul(turns, span));
    Imported half = mul(turns, 0.5);
    Imported isOdd = n.emit.binary<graph::CompareOp>(half, floor(half),
                                                     graph::Comparison::NE);
    Imported back = n.emit.binary<graph::SubOp>(number(span, rest), rest);
    return add(n.emit.select(isOdd, back, rest), low);
  }
};

enum class Padding { Zeros, Border, Reflection };

/// One spatial dim of the operand.
struct Dim {
  int64_t size;
  bool alignCorners;

  /// Between which positions are reflected.
  double getLow() const { return alignCorners ? 0 : -0.5; }
  double getHigh() const {
    return static_cast<double>(size) - (alignCorners ? 1 : 0.5);
  }
};

/// An element along one dim for every point, and how much of it is in the
/// result.
struct Tap {
  Imported index, weight;
};

/// `x` where `padding` puts positions that are outside of `dim`.
Imported place(Positions &p, Imported x, const Dim &dim, Padding padding) {
  if (padding == Padding::Zeros)
    return x;
  if (padding == Padding::Reflection)
    x = p.reflect(x, dim.getLow(), dim.getHigh());
  return p.clamp(x, 0, static_cast<double>(dim.size - 1));
}

/// The weight of an element at distance `t`, in [0, 1] or with `isOuter` in
/// [1, 2]: the cubic convolution of Keys (1981) with PyTorch's -0.75.
Imported cubicWeight(Positions &p, const Imported &t, bool isOuter) {
  constexpr double a = -0.75;
  if (!isOuter) // ((a + 2) t - (a + 3)) t t + 1
    return p.add(p.mul(p.mul(p.add(p.mul(t, a + 2), -(a + 3)), t), t), 1);
  // ((a t - 5 a) t + 8 a) t - 4 a
  return p.add(p.mul(p.add(p.mul(p.add(p.mul(t, a), -5 * a), t), 8 * a), t),
               -4 * a);
}

/// The elements along one dim of which an element at position `x` consists.
SmallVector<Tap> findTaps(Positions &p, Imported x, const Dim &dim,
                          StringRef mode, Padding padding) {
  Imported one = p.number(1, x);
  if (mode == "cubic" || mode == "bicubic") {
    // Each of the four is put in its place by itself.
    Imported first = p.floor(x), t = p.sub(x, first);
    SmallVector<Tap> taps;
    for (int offset : {-1, 0, 1, 2}) {
      Imported distance =
          offset <= 0 ? p.add(t, -offset) : p.sub(p.number(offset, t), t);
      taps.push_back({place(p, p.add(first, offset), dim, padding),
                      cubicWeight(p, distance, offset == -1 || offset == 2)});
    }
    return taps;
  }
  x = place(p, x, dim, padding);
  if (mode == "nearest") { // of two the even one
    Imported below = p.floor(x), rest = p.sub(x, below);
    Imported half = p.mul(below, 0.5);
    Imported isOdd = p.n.emit.binary<graph::CompareOp>(half, p.floor(half),
                                                       graph::Comparison::NE);
    Imported goesUp = p.n.emit.binary<graph::OrOp>(
        p.is(rest, graph::Comparison::GT, 0.5),
        p.n.emit.binary<graph::AndOp>(p.is(rest, graph::Comparison::EQ, 0.5),
                                      isOdd));
    return {{p.n.emit.select(goesUp, p.add(below, 1), below), one}};
  }
  Imported first = p.floor(x), t = p.sub(x, first);
  return {{first, p.sub(one, t)}, {p.add(first, 1), t}};
}

/// x [N, C, D..] at the points of grid [N, P.., r]: [N, C, P..]. The last dim
/// of the grid has the coordinates of a point, the last dim's first, from -1
/// to 1.
LogicalResult gridSample(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  const Imported &x = n.operand(0), &grid = n.operand(1);
  Shape shape = x.getShape(), points = grid.getShape();
  int64_t rank = x.getRank() - 2;
  if (rank < 1 || grid.getRank() != rank + 2 || points.back() != rank ||
      points[0] != shape[0])
    return n.fail("a grid of " + toString(points) + " for " + toString(shape));
  StringRef mode = n.getString("mode", n.since < 20 ? "bilinear" : "linear");
  StringRef where = n.getString("padding_mode", "zeros");
  if (!llvm::is_contained({"linear", "bilinear", "nearest", "cubic", "bicubic"},
                          mode))
    return n.fail("its mode `" + mode + "`");
  auto padding = llvm::StringSwitch<std::optional<Padding>>(where)
                     .Case("zeros", Padding::Zeros)
                     .Case("border", Padding::Border)
                     .Case("reflection", Padding::Reflection)
                     .Default(std::nullopt);
  if (!padding)
    return n.fail("its padding_mode `" + where + "`");
  bool alignCorners = n.getInt("align_corners", 0) != 0;

  Positions p{n};
  int64_t count = 1, elements = 1;
  for (int64_t i = 0; i < rank; ++i) {
    count *= points[i + 1];
    elements *= shape[i + 2];
  }
  Shape flat = {points[0], count};
  struct Place {
    Imported index, weight, inside; // of the element among all of a channel
  };
  SmallVector<Place> places = {{}};
  Type integer = n.emit.getBuilder().getI64Type();
  for (int64_t i = 0; i < rank; ++i) {
    Dim dim{shape[i + 2], alignCorners};
    Imported coordinate = n.emit.reshape(
        n.emit.slice(grid, rank + 1, rank - 1 - i, rank - i), flat);
    auto size = static_cast<double>(dim.size);
    // [-1, 1] are the centres of the outermost elements, or their edges.
    Imported position =
        alignCorners ? p.mul(p.add(coordinate, 1), (size - 1) / 2)
                     : p.add(p.mul(p.add(coordinate, 1), size / 2), -0.5);
    SmallVector<Place> next;
    for (const Tap &tap : findTaps(p, position, dim, mode, *padding)) {
      // What is not a number is somewhere outside.
      Imported inside = n.emit.binary<graph::AndOp>(
          p.is(tap.index, graph::Comparison::GE, 0),
          p.is(tap.index, graph::Comparison::LE, size - 1));
      Imported index = n.emit.convert(p.clamp(tap.index, 0, size - 1), integer);
      for (const Place &place : places) {
        if (!place.index) {
          next.push_back({index, tap.weight, inside});
          continue;
        }
        Imported start = n.emit.binaryOver<graph::MulOp>(
            place.index, n.emit.scalar(integer, size));
        next.push_back({n.emit.binary<graph::AddOp>(start, index),
                        p.mul(place.weight, tap.weight),
                        n.emit.binary<graph::AndOp>(place.inside, inside)});
      }
    }
    places = std::move(next);
  }

  // Gathered per sample: [N, C, elements] -> [N, C, P].
  Imported source = n.emit.reshape(x, {shape[0], shape[1], elements});
  Shape spread = {shape[0], shape[1], count};
  Imported sum;
  for (const Place &place : places) {
    Imported gathered = n.emit.emit(
        {source, place.index}, [&](OpBuilder &b, ValueRange v) -> Operation * {
          return graph::GatherOp::create(b, n.emit.getLocation(), v[0], v[1],
                                         /*axis=*/2, /*batchDims=*/1);
        })[0];
    Imported weight =
        n.emit.select(place.inside, place.weight, p.number(0, place.weight));
    weight =
        n.emit.broadcast(n.emit.reshape(weight, {shape[0], 1, count}), spread,
                         !weight.isConstant() || !gathered.isConstant());
    Imported term = p.mul(gathered, weight);
    sum = sum ? p.add(sum, term) : term;
  }
  Shape result = {shape[0], shape[1]};
  result.append(points.begin() + 1, points.end() - 1);
  n.result(0, n.emit.reshape(sum, result));
  return success();
}

const OpRow rows[] = {
    {"", "GridSample", 16, gridSample},
    {"", "GridSample", 20, gridSample},
};

} // namespace

ArrayRef<OpRow> getGridRows() { return rows; }

} // namespace polyrank::frontends::onnx
