// Systems of linear equations, inverses, determinants, exponentials of
// matrices.

#include "frontends/aten/Call.h"
#include "frontends/emit/Arithmetic.h"
#include "frontends/emit/Indices.h"
#include "frontends/emit/Products.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

using graph::Comparison;

//===-- triangular matrices ----------------------------------------------===//

/// A bound, since each row takes several ops of the graph.
constexpr int64_t mostRows = 1024;

/// Solves A x = b for a triangular A [.., n, n] and b [.., n, k], by halves:
/// for a lower A, the first half of x follows from the first rows, and its
/// contribution to the others is subtracted from b. Each element is computed as
/// in substitution, so that nothing is inverted.
struct TriangularSolver {
  Call &c;
  bool isUpper, isUnit; // isUnit: the diagonal is ones and is not read

  FailureOr<Imported> solve(const Imported &a, const Imported &b) {
    Arithmetic arithmetic{c.emit};
    int64_t rows = b.getRank() - 2, columns = b.getRank() - 1;
    int64_t size = b.getShape()[rows], half = size / 2;
    if (size == 1)
      return isUnit ? b : arithmetic.div(b, a);
    auto part = [&](const Imported &x, int64_t dim, bool isFirst) {
      return c.emit.slice(x, dim, isFirst ? 0 : half, isFirst ? half : size);
    };
    // The half that can be solved first, and the one that depends on it.
    bool first = !isUpper;
    auto known =
        solve(part(part(a, rows, first), columns, first), part(b, rows, first));
    if (failed(known))
      return failure();
    auto taken = matrixProduct(
        c.emit, part(part(a, rows, !first), columns, first), *known);
    if (failed(taken))
      return failure();
    auto rest = solve(part(part(a, rows, !first), columns, !first),
                      arithmetic.sub(part(b, rows, !first), *taken));
    if (failed(rest))
      return failure();
    return first ? c.emit.concat({*known, *rest}, rows)
                 : c.emit.concat({*rest, *known}, rows);
  }
};

LogicalResult solveTriangular(Call &c) {
  if (!isFloat(c.typeOf("self")) || !isFloat(c.typeOf("B")))
    return c.fail(c["self"].describe() + " and " + c["B"].describe());
  ElementType type = promoteTypes(c.typeOf("self"), c.typeOf("B"));
  Imported a = c.as(c["self"], type), b = c.as(c["B"], type);
  bool isUpper = c.flag("upper"), isLeft = c.flag("left");
  Shape matrix = a.getShape(), right = b.getShape();
  if (matrix.size() < 2 || right.size() < 2 ||
      matrix.back() != matrix[matrix.size() - 2] ||
      right[right.size() - (isLeft ? 2 : 1)] != matrix.back() || !matrix.back())
    return c.fail("a matrix of " + toString(matrix) + " for " +
                  toString(right));
  if (matrix.back() > mostRows)
    return c.fail("a triangular matrix of " + Twine(matrix.back()) +
                  " rows, of at most " + Twine(mostRows));
  auto transposed = [&](const Imported &x) {
    SmallVector<int64_t> order =
        llvm::to_vector(llvm::seq<int64_t>(x.getRank()));
    std::swap(order[order.size() - 2], order.back());
    return c.emit.transpose(x, order);
  };
  // x A = b is solved as A^T x^T = b^T.
  if (!isLeft) {
    a = transposed(a);
    b = transposed(b);
    isUpper = !isUpper;
  }
  // All other dims are broadcast.
  auto batch = broadcastShapes(ArrayRef(a.getShape()).drop_back(2),
                               ArrayRef(b.getShape()).drop_back(2));
  if (failed(batch))
    return c.fail("a matrix of " + toString(matrix) + " for " +
                  toString(right));
  auto spread = [&](const Imported &x) {
    Shape shape = *batch;
    Shape own = x.getShape();
    shape.append(own.end() - 2, own.end());
    return c.emit.broadcast(x, shape, !x.isConstant());
  };
  auto result = TriangularSolver{c, isUpper, c.flag("unitriangular")}.solve(
      spread(a), spread(b));
  if (failed(result))
    return failure();
  return c.give(isLeft ? *result : transposed(*result), type);
}

//===-- elimination ------------------------------------------------------===//

/// A bound, since each column takes several ops of the graph.
constexpr int64_t mostColumns = 128;

/// Gauss-Jordan elimination with row pivoting of A [.., n, n] and b [.., n, m].
/// The order of the rows depends on the elements, so it is computed at run
/// time; it has no gradient, as in PyTorch.
struct Elimination {
  Imported solution;    // [.., n, m]
  Imported determinant; // [..]

  static Elimination run(Emitter &emit, Imported a, Imported b) {
    Arithmetic m{emit};
    Elimination result;
    int64_t rank = a.getRank(), rows = rank - 2, columns = rank - 1;
    int64_t size = a.getShape()[rows];
    Shape batch(ArrayRef<int64_t>(a.getShape()).drop_back(2)), one = batch;
    one.append({1, 1});
    Imported x = emit.concat({a, b}, columns);
    Shape whole = x.getShape(), places = batch;
    int64_t width = whole.back();
    places.push_back(size);
    Type integer = emit.getBuilder().getI64Type();
    Imported place = emit.iota(places, rank - 2, integer);
    auto row = [&](const Imported &y, int64_t i) {
      return emit.slice(y, rows, i, i + 1);
    };
    auto column = [&](const Imported &y, int64_t i) {
      return emit.slice(y, columns, i, i + 1);
    };
    for (int64_t k = 0; k < size; ++k) {
      // The row, at or below k, with the largest element in column k.
      Imported magnitude =
          emit.reshape(emit.unary<graph::AbsOp>(column(x, k)), places);
      Imported isLeft = m.is(place, Comparison::GE, static_cast<double>(k));
      Imported pivot =
          argExtremum(emit, m.where(isLeft, magnitude, -1), rank - 2,
                      /*largest=*/true);
      Shape apart = batch;
      apart.push_back(1);
      pivot = emit.broadcast(emit.reshape(pivot, apart), places, true);
      // It is swapped with row k.
      Imported isK = m.is(place, Comparison::EQ, static_cast<double>(k)),
               isPivot = m.is(place, Comparison::EQ, pivot);
      Imported from = emit.select(
          isK, pivot,
          emit.select(isPivot, m.number(static_cast<double>(k), place), place));
      Shape spread = places;
      spread.push_back(1);
      x = *gatherAlong(emit, x,
                       emit.broadcast(emit.reshape(from, spread), whole, true),
                       rows);
      Imported value = column(row(x, k), k), scaled = m.div(row(x, k), value);
      Imported factor = emit.reshape(value, batch);
      Imported isMoved =
          m.is(emit.reshape(emit.slice(pivot, rank - 2, 0, 1), batch),
               Comparison::NE, static_cast<double>(k));
      factor = emit.select(isMoved, m.neg(factor), factor);
      result.determinant =
          result.determinant ? m.mul(result.determinant, factor) : factor;
      // Eliminates column k from all other rows.
      Imported rest = m.sub(x, m.mul(column(x, k), scaled));
      Imported isPivotRow =
          emit.broadcast(emit.reshape(isK, spread), whole, true);
      x = emit.select(isPivotRow, emit.broadcast(scaled, whole, true), rest);
    }
    result.solution = emit.slice(x, columns, size, width);
    return result;
  }
};

/// The argument `name` as square matrices of floats with at least one row.
FailureOr<Imported> squareOf(Call &c, StringRef name) {
  Imported a = c.read(name);
  Shape shape = a.getShape();
  if (!isFloat(c.typeOf(name)) || shape.size() < 2 ||
      shape.back() != shape[shape.size() - 2] || !shape.back())
    return c.fail(c[name].describe() + " as square matrices of floats");
  if (shape.back() > mostColumns)
    return c.fail("matrices of " + Twine(shape.back()) + " rows, of at most " +
                  Twine(mostColumns));
  return a;
}

Imported identityLike(Emitter &emit, const Imported &a) {
  Shape shape = a.getShape();
  int64_t rank = a.getRank();
  Type integer = emit.getBuilder().getI64Type();
  return emit.convert(emit.binary<graph::CompareOp>(
                          emit.iota(shape, rank - 2, integer),
                          emit.iota(shape, rank - 1, integer), Comparison::EQ),
                      a.getElementType());
}

/// A x = B; if B has one dim less than A (or has one dim), it holds vectors.
LogicalResult solve(Call &c) {
  auto a = squareOf(c, "A");
  if (failed(a))
    return failure();
  if (c.has("left") && !c.flag("left"))
    return c.fail("left=False; transpose both sides");
  Imported b = c.as(c["B"], c.typeOf("A"));
  Shape left = a->getShape(), right = b.getShape();
  bool isVector =
      right.size() == 1 ||
      (right.size() + 1 == left.size() &&
       ArrayRef<int64_t>(right) == ArrayRef<int64_t>(left).drop_back());
  if (isVector) {
    right.push_back(1);
    b = c.emit.reshape(b, right);
  }
  if (right.size() < 2 || right[right.size() - 2] != left.back())
    return c.fail("matrices of " + toString(left) + " for " +
                  c["B"].describe());
  auto batch = broadcastShapes(ArrayRef(left).drop_back(2),
                               ArrayRef(right).drop_back(2));
  if (failed(batch))
    return c.fail("matrices of " + toString(left) + " for " +
                  c["B"].describe());
  auto spread = [&](const Imported &x) {
    Shape shape = *batch, own = x.getShape();
    shape.append(own.end() - 2, own.end());
    return c.emit.broadcast(x, shape, true);
  };
  Imported result = Elimination::run(c.emit, spread(*a), spread(b)).solution;
  if (isVector) {
    Shape shape = result.getShape();
    shape.pop_back();
    result = c.emit.reshape(result, shape);
  }
  return c.give(result, c.typeOf("A"));
}

LogicalResult inverseOf(Call &c, StringRef name) {
  auto a = squareOf(c, name);
  return failed(a)
             ? failure()
             : c.give(Elimination::run(c.emit, *a, identityLike(c.emit, *a))
                          .solution,
                      c.typeOf(name));
}
LogicalResult inverse(Call &c) { return inverseOf(c, "A"); }
LogicalResult inverseSelf(Call &c) { return inverseOf(c, "self"); }

LogicalResult determinantOf(Call &c, StringRef name) {
  auto a = squareOf(c, name);
  if (failed(a))
    return failure();
  Imported none = c.emit.slice(*a, a->getRank() - 1, 0, 1);
  return c.give(Elimination::run(c.emit, *a, none).determinant, c.typeOf(name));
}
LogicalResult determinant(Call &c) { return determinantOf(c, "A"); }
LogicalResult determinantSelf(Call &c) { return determinantOf(c, "self"); }

//===-- exponentials -----------------------------------------------------===//

/// exp(A) = exp(A / 2^s)^(2^s). s is chosen per matrix so that the norm of A /
/// 2^s is at most 1; then twelve terms of the Taylor series have an error below
/// 2e-10. Norms up to 2^16 are supported in this way.
LogicalResult matrixExp(Call &c) {
  auto given = squareOf(c, "self");
  if (failed(given))
    return failure();
  constexpr int terms = 12, mostSquares = 16;
  Emitter &emit = c.emit;
  Arithmetic m{emit};
  Imported a = *given;
  int64_t rank = a.getRank();
  Shape shape = a.getShape(), batch(ArrayRef<int64_t>(shape).drop_back(2)),
        one = batch;
  one.append({1, 1});
  // The largest column sum; the number of halvings has no gradient.
  Imported sums = m.sum(emit.unary<graph::AbsOp>(a), {rank - 2});
  Imported norm = emit.reduce(sharding::ReductionKind::Max, sums, {rank - 2});
  if (!norm.isConstant())
    norm = emit.unary<graph::DetachOp>(norm);
  norm = emit.reshape(norm, one);
  Imported scale = m.number(1, norm);
  for (int i = 0; i < mostSquares; ++i)
    scale = m.mul(scale, m.where(m.is(m.mul(norm, scale), Comparison::GT, 1),
                                 m.number(0.5, norm), 1));
  Imported x = m.mul(a, scale), identity = identityLike(emit, a);
  // Horner's scheme: I + x (I + x/2 (I + x/3 (..))).
  Imported result = m.add(identity, m.mul(x, 1.0 / terms));
  for (int i = terms - 1; i >= 1; --i) {
    auto product = matrixProduct(emit, m.mul(x, 1.0 / i), result);
    if (failed(product))
      return failure();
    result = m.add(identity, *product);
  }
  // Squares until the scale is 1.
  for (int i = 0; i < mostSquares; ++i) {
    auto square = matrixProduct(emit, result, result);
    if (failed(square))
      return failure();
    Imported isHalved = m.is(scale, Comparison::LT, 1);
    result =
        emit.select(emit.broadcast(isHalved, shape, true), *square, result);
    scale = m.where(isHalved, m.mul(scale, 2), 1);
  }
  return c.give(result, c.typeOf("self"));
}

const OperatorRow rows[] = {
    {"linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", solve},
    {"linalg_inv(Tensor A) -> Tensor", inverse},
    {"inverse(Tensor self) -> Tensor", inverseSelf},
    {"linalg_det(Tensor A) -> Tensor", determinant},
    {"det(Tensor self) -> Tensor", determinantSelf},
    {"linalg_matrix_exp(Tensor self) -> Tensor", matrixExp},
    {"matrix_exp(Tensor self) -> Tensor", matrixExp},
    {"linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool "
     "left=True, bool unitriangular=False) -> Tensor",
     solveTriangular},
};

} // namespace

ArrayRef<OperatorRow> getSolveRows() { return rows; }

} // namespace polyrank::frontends::aten
