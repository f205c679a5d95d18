// Samples a tensor at computed positions, with interpolation.

#include "frontends/emit/GridSample.h"

#include "frontends/emit/Arithmetic.h"

using namespace mlir;

namespace polyrank::frontends {
namespace {

/// The arithmetic of positions.
struct Positions : Arithmetic {
  /// Clamps x to bounds. There is no gradient beyond a bound, nor at the bound,
  /// as in PyTorch.
  Imported clamp(const Imported &x, double low, double high) {
    Imported above =
        emit.select(is(x, graph::Comparison::GT, low), x, number(low, x));
    return emit.select(is(above, graph::Comparison::LT, high), above,
                       number(high, above));
  }
  /// Reflects x at `low` and `high` until it is between them.
  Imported reflect(const Imported &x, double low, double high) {
    if (high <= low)
      return mul(x, 0);
    double span = high - low;
    Imported from = emit.unary<graph::AbsOp>(add(x, -low));
    Imported turns = floor(mul(from, 1 / span));
    Imported rest = sub(from, mul(turns, span));
    Imported half = mul(turns, 0.5);
    Imported isOdd = is(half, graph::Comparison::NE, floor(half));
    return add(emit.select(isOdd, sub(span, rest), rest), low);
  }
};

/// One spatial dim of the operand.
struct Dim {
  int64_t size;
  bool alignCorners;

  /// The positions at which `Reflection` mirrors.
  double getLow() const { return alignCorners ? 0 : -0.5; }
  double getHigh() const {
    return static_cast<double>(size) - (alignCorners ? 1 : 0.5);
  }
};

/// An element along one dim for every point, and its weight in the result.
struct Tap {
  Imported index, weight;
};

/// Moves positions `x` outside of `dim` to where `padding` puts them.
Imported place(Positions &p, Imported x, const Dim &dim, GridPadding padding) {
  if (padding == GridPadding::Zeros)
    return x;
  if (padding == GridPadding::Reflection)
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

/// The elements along one dim that are combined for position `x`.
SmallVector<Tap> findTaps(Positions &p, Imported x, const Dim &dim,
                          GridMode mode, GridPadding padding) {
  Imported one = p.number(1, x);
  if (mode == GridMode::Cubic) {
    // Each of the four elements is padded separately.
    Imported first = p.floor(x), t = p.sub(x, first);
    SmallVector<Tap> taps;
    for (int offset : {-1, 0, 1, 2}) {
      Imported distance = offset <= 0 ? p.add(t, -offset) : p.sub(offset, t);
      taps.push_back({place(p, p.add(first, offset), dim, padding),
                      cubicWeight(p, distance, offset == -1 || offset == 2)});
    }
    return taps;
  }
  x = place(p, x, dim, padding);
  if (mode == GridMode::Nearest) { // a tie goes to the even one
    Imported below = p.floor(x), rest = p.sub(x, below);
    Imported half = p.mul(below, 0.5);
    Imported isOdd = p.is(half, graph::Comparison::NE, p.floor(half));
    Imported goesUp = p.emit.binary<graph::OrOp>(
        p.is(rest, graph::Comparison::GT, 0.5),
        p.both(p.is(rest, graph::Comparison::EQ, 0.5), isOdd));
    return {{p.emit.select(goesUp, p.add(below, 1), below), one}};
  }
  Imported first = p.floor(x), t = p.sub(x, first);
  return {{first, p.sub(one, t)}, {p.add(first, 1), t}};
}

} // namespace

FailureOr<Imported> gridSample(Emitter &emit, const Imported &x,
                               const Imported &grid, const GridSample &how) {
  Shape shape = x.getShape(), points = grid.getShape();
  int64_t rank = x.getRank() - 2;
  if (rank < 1 || grid.getRank() != rank + 2 || points.back() != rank ||
      points[0] != shape[0])
    return emit.fail("a grid of " + toString(points) + " for " +
                     toString(shape));
  Positions p{{emit}};
  int64_t count = 1, elements = 1;
  for (int64_t i = 0; i < rank; ++i) {
    count *= points[i + 1];
    elements *= shape[i + 2];
  }
  Shape flat = {points[0], count};
  struct Place {
    Imported index, weight, inside; // index: of the element among all of a
                                    // channel
  };
  SmallVector<Place> places = {{}};
  Type integer = emit.getBuilder().getI64Type();
  for (int64_t i = 0; i < rank; ++i) {
    Dim dim{shape[i + 2], how.alignCorners};
    Imported coordinate =
        emit.reshape(emit.slice(grid, rank + 1, rank - 1 - i, rank - i), flat);
    auto size = static_cast<double>(dim.size);
    // -1 and 1 are the centres of the outermost elements, or their edges.
    Imported position =
        how.alignCorners ? p.mul(p.add(coordinate, 1), (size - 1) / 2)
                         : p.add(p.mul(p.add(coordinate, 1), size / 2), -0.5);
    SmallVector<Place> next;
    for (const Tap &tap : findTaps(p, position, dim, how.mode, how.padding)) {
      // NaN counts as a position outside.
      Imported inside =
          p.both(p.is(tap.index, graph::Comparison::GE, 0),
                 p.is(tap.index, graph::Comparison::LE, size - 1));
      Imported index = emit.convert(p.clamp(tap.index, 0, size - 1), integer);
      for (const Place &place : places) {
        if (!place.index) {
          next.push_back({index, tap.weight, inside});
          continue;
        }
        Imported start = emit.binaryOver<graph::MulOp>(
            place.index, emit.scalar(integer, size));
        next.push_back({emit.binary<graph::AddOp>(start, index),
                        p.mul(place.weight, tap.weight),
                        p.both(place.inside, inside)});
      }
    }
    places = std::move(next);
  }

  // One gather per sample: [N, C, elements] -> [N, C, P].
  Imported source = emit.reshape(x, {shape[0], shape[1], elements});
  Shape spread = {shape[0], shape[1], count};
  Imported sum;
  for (const Place &place : places) {
    Imported gathered = emit.emit(
        {source, place.index}, [&](OpBuilder &b, ValueRange v) -> Operation * {
          return graph::GatherOp::create(b, emit.getLocation(), v[0], v[1],
                                         /*axis=*/2, /*batchDims=*/1);
        })[0];
    Imported weight =
        emit.select(place.inside, place.weight, p.number(0, place.weight));
    weight = emit.broadcast(emit.reshape(weight, {shape[0], 1, count}), spread,
                            !weight.isConstant() || !gathered.isConstant());
    Imported term = p.mul(gathered, weight);
    sum = sum ? p.add(sum, term) : term;
  }
  Shape result = {shape[0], shape[1]};
  result.append(points.begin() + 1, points.end() - 1);
  return emit.reshape(sum, result);
}

Imported affineGrid(Emitter &emit, const Imported &theta,
                    ArrayRef<int64_t> spatial, bool alignCorners) {
  Arithmetic a{emit};
  auto rank = static_cast<int64_t>(spatial.size());
  Type type = theta.getElementType();
  // [P.., r + 1]: the coordinates of the points, that of the last dim first,
  // and 1.
  Shape points(spatial);
  points.push_back(1);
  SmallVector<Imported> parts;
  for (int64_t dim = rank - 1; dim >= 0; --dim) {
    auto size = static_cast<double>(spatial[dim]);
    Imported place = emit.iota(points, dim, type);
    if (alignCorners)
      parts.push_back(size > 1 ? a.add(a.mul(place, 2 / (size - 1)), -1)
                               : a.mul(place, 0));
    else
      parts.push_back(a.add(a.mul(place, 2 / size), 1 / size - 1));
  }
  parts.push_back(emit.broadcast(emit.scalar(type, 1), points, false));
  Imported base = emit.concat(parts, rank);
  int64_t count = countElements(spatial), samples = theta.getShape()[0];
  base = emit.reshape(base, {1, count, 1, rank + 1});
  // [N, P, r]: each coordinate is a row of theta times the point.
  Imported rows = emit.reshape(theta, {samples, 1, rank, rank + 1});
  Shape result = {samples};
  result.append(spatial.begin(), spatial.end());
  result.push_back(rank);
  return emit.reshape(a.sum(a.mul(rows, base), {3}), result);
}

} // namespace polyrank::frontends
