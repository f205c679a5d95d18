// Builds graph ops, or computes them at once where all operands are known.

#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>

#include "frontends/emit/Known.h"
#include "llvm/ADT/MapVector.h"

namespace polyrank::frontends {

/// One per function. Ops are made at `location` with the attribute
/// `graph.scope`; set both before each node.
class Emitter {
public:
  /// `foldingBudget`: see ImportOptions.
  Emitter(mlir::OpBuilder builder, mlir::Location location,
          int64_t foldingBudget)
      : builder(builder), location(location), foldingBudget(foldingBudget) {}

  mlir::Location getLocation() const { return location; }
  void setOrigin(mlir::Location newLocation, llvm::StringRef newScope);
  mlir::OpBuilder &getBuilder() { return builder; }

  using BuildFn = llvm::function_ref<mlir::Operation *(mlir::OpBuilder &,
                                                       mlir::ValueRange)>;
  /// The results of the op that `build` makes from `operands`: evaluated at
  /// once where all of them are constants, by the op's own `evaluate`, unless
  /// a result is too large to hold; of elementwise ops, where operands repeat,
  /// only the slices. What is evaluated is rounded to the results' element
  /// types. An op that its verifier rejects is an error of the node, see
  /// `takeError`.
  llvm::SmallVector<Imported> emit(llvm::ArrayRef<Imported> operands,
                                   BuildFn build, bool isElementwise = false);
  template <typename Op>
  static constexpr bool isElementwise =
      Op::template hasTrait<graph::Elementwise>();

  template <typename Op, typename... Args>
  Imported unary(const Imported &x, Args &&...args) {
    return emit(
        {x},
        [&](mlir::OpBuilder &b, mlir::ValueRange v) -> mlir::Operation * {
          return Op::create(b, location, v[0], args...);
        },
        isElementwise<Op>)[0];
  }
  /// Operands of one shape; see `broadcast`.
  template <typename Op, typename... Args>
  Imported binary(const Imported &x, const Imported &y, Args &&...args) {
    return emit(
        {x, y},
        [&](mlir::OpBuilder &b, mlir::ValueRange v) -> mlir::Operation * {
          return Op::create(b, location, v[0], v[1], args...);
        },
        isElementwise<Op>)[0];
  }
  /// `y` is repeated over the shape of `x`.
  template <typename Op, typename... Args>
  Imported binaryOver(const Imported &x, const Imported &y, Args &&...args) {
    return binary<Op>(x, broadcast(y, x.getShape(), !x.isConstant()), args...);
  }

  /// Zero with probability `rate`, else x / (1 - rate). Each call has random
  /// numbers of its own.
  Imported dropout(const Imported &x, double rate);
  /// Random numbers in [0, 1).
  Imported uniform(llvm::ArrayRef<int64_t> shape);
  /// Gives the scalars seed, step and microbatch, from which a model draws its
  /// random numbers: arguments of the function, made when first asked for.
  std::function<std::array<mlir::Value, 3>()> getRandomness;

  /// Says why what is being imported cannot be: an error of the node, see
  /// `takeError`. The first reason stays.
  llvm::LogicalResult fail(const llvm::Twine &reason) {
    if (error.empty())
      error = reason.str();
    return llvm::failure();
  }
  /// Fails where `shape` has negative dims or too many elements.
  llvm::LogicalResult fits(llvm::ArrayRef<int64_t> shape);
  /// What verifiers and `fail` said since the last call.
  std::string takeError() { return std::exchange(error, {}); }

  /// A constant becomes an op, its floats float32; where slices along a dim
  /// repeat, a smaller constant and a broadcast.
  mlir::Value materialize(const Imported &x);

  /// The scalar `value`.
  Imported scalar(mlir::Type elementType, double value);
  Imported integers(llvm::ArrayRef<int64_t> values);
  /// `x` under NumPy's rules in `shape`. With `asValue` a constant becomes an
  /// op on its own small shape, for use with an operand that is a value. A
  /// shape that does not go there is an error of the node, see `takeError`.
  Imported broadcast(const Imported &x, llvm::ArrayRef<int64_t> shape,
                     bool asValue);
  /// All of `operands` in their common shape; fails where there is none.
  mlir::FailureOr<llvm::SmallVector<Imported>>
  broadcastAll(llvm::ArrayRef<Imported> operands);
  Imported reshape(const Imported &x, llvm::ArrayRef<int64_t> shape);
  Imported transpose(const Imported &x, llvm::ArrayRef<int64_t> permutation);
  Imported convert(const Imported &x, mlir::Type elementType);
  /// [start, limit) of one dim with a positive stride.
  Imported slice(const Imported &x, int64_t dim, int64_t start, int64_t limit,
                 int64_t stride = 1);
  Imported concat(llvm::ArrayRef<Imported> parts, int64_t dim);
  Imported reduce(sharding::ReductionKind kind, const Imported &x,
                  llvm::ArrayRef<int64_t> dims, bool first = false);
  Imported mean(const Imported &x, llvm::ArrayRef<int64_t> dims);
  /// What was reduced over `dims` of `shape`, with these dims as 1.
  Imported keepDims(const Imported &reduced, llvm::ArrayRef<int64_t> shape,
                    llvm::ArrayRef<int64_t> dims);
  Imported select(const Imported &condition, const Imported &onTrue,
                  const Imported &onFalse);
  Imported iota(llvm::ArrayRef<int64_t> shape, int64_t dim,
                mlir::Type elementType);

  /// `parameter`, an argument of the function, becomes `value` in a step.
  void update(mlir::Value parameter, mlir::Value value) {
    updates[parameter] = value;
  }
  /// What `parameter` has become so far.
  mlir::Value getUpdated(mlir::Value parameter) const {
    auto found = updates.find(parameter);
    return found == updates.end() ? parameter : found->second;
  }
  const llvm::MapVector<mlir::Value, mlir::Value> &getUpdates() const {
    return updates;
  }

  /// `indices` must be in [0, limit), or be `ignored` where that is given: of
  /// what an input gives, so that other values are an error of the data.
  void limitIndices(const Imported &indices, int64_t limit,
                    std::optional<int64_t> ignored = std::nullopt);
  /// While the body of a scan is built: `element` is one of `sequence`, whose
  /// indices its own are.
  void addElement(mlir::Value element, mlir::Value sequence) {
    sequences[element] = sequence;
  }
  void removeElement(mlir::Value element) { sequences.erase(element); }
  struct IndexRange {
    int64_t limit;
    std::optional<int64_t> ignored;
  };
  /// By argument; where several uses limit one, what all of them allow.
  const llvm::MapVector<mlir::Value, IndexRange> &getIndexRanges() const {
    return indexRanges;
  }

private:
  bool verify(mlir::Operation *op);
  /// Whether `op` may be evaluated now: its tensors are small enough, and the
  /// import has not computed too much already.
  bool mayFold(mlir::Operation *op);
  /// Evaluates the op that `build` makes, if its results can be held.
  std::optional<std::vector<graph::Tensor>>
  evaluate(llvm::ArrayRef<Known> operands, BuildFn build);

  mlir::OpBuilder builder;
  mlir::Location location;
  int64_t foldingBudget;
  mlir::StringAttr scope;
  std::string error;
  int64_t numRandom = 0; // ops that draw random numbers
  llvm::MapVector<mlir::Value, mlir::Value> updates;
  llvm::MapVector<mlir::Value, IndexRange> indexRanges;
  llvm::DenseMap<mlir::Value, mlir::Value> sequences; // by their elements
  mlir::Block scratch; // holds an op while it is evaluated
  /// A constant without the dims along which it repeats, and the others.
  struct Compressed {
    mlir::DenseElementsAttr elements;
    llvm::SmallVector<int64_t> dims;
  };
  const Compressed &compress(const Imported &x);
  /// Constant `x` as an op, repeated to `shape`.
  mlir::Value materialize(const Imported &x, llvm::ArrayRef<int64_t> shape);

  /// Constants that have been used; they are kept so that addresses stay
  /// unique.
  std::map<const void *, Compressed> compressed;
  std::vector<Known> kept;
};

} // namespace polyrank::frontends
