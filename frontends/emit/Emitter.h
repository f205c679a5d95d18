// Builds graph ops, or evaluates them at once if all operands are known.

#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>

#include "frontends/emit/Known.h"
#include "llvm/ADT/MapVector.h"

namespace polyrank::frontends {

/// There is one per function. Ops are created at `location` with the attribute
/// `graph.scope`; set both (`setOrigin`) before each node.
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
  /// Returns the results of the op that `build` creates from `operands`. If all
  /// operands are constants, the op is evaluated at once by its own `evaluate`,
  /// unless a result is too large to hold; for elementwise ops whose operands
  /// repeat, only the distinct slices are evaluated. Evaluated results are
  /// rounded to their element types. If the op's verifier rejects it, that is
  /// an error of the node, see `takeError`.
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
  /// Both operands have the same shape; see `broadcast`.
  template <typename Op, typename... Args>
  Imported binary(const Imported &x, const Imported &y, Args &&...args) {
    return emit(
        {x, y},
        [&](mlir::OpBuilder &b, mlir::ValueRange v) -> mlir::Operation * {
          return Op::create(b, location, v[0], v[1], args...);
        },
        isElementwise<Op>)[0];
  }
  /// Like `binary`, after `y` is broadcast to the shape of `x`.
  template <typename Op, typename... Args>
  Imported binaryOver(const Imported &x, const Imported &y, Args &&...args) {
    return binary<Op>(x, broadcast(y, x.getShape(), !x.isConstant()), args...);
  }

  /// Zero with probability `rate`, else x / (1 - rate). Each call draws its own
  /// random numbers.
  Imported dropout(const Imported &x, double rate);
  /// Uniform random numbers in [0, 1).
  Imported uniform(llvm::ArrayRef<int64_t> shape);
  /// Returns the scalars seed, step and microbatch, from which a model draws
  /// its random numbers. They are arguments of the function, created at the
  /// first call.
  std::function<std::array<mlir::Value, 3>()> getRandomness;

  /// Records why the current node cannot be imported, see `takeError`. The
  /// first reason is kept.
  llvm::LogicalResult fail(const llvm::Twine &reason) {
    if (error.empty())
      error = reason.str();
    return llvm::failure();
  }
  /// Fails if `shape` has negative dims or too many elements.
  llvm::LogicalResult fits(llvm::ArrayRef<int64_t> shape);
  /// Returns and clears the first error of a verifier or of `fail` since the
  /// last call.
  std::string takeError() { return std::exchange(error, {}); }

  /// Turns a constant into an op, with floats as float32. If slices along a dim
  /// repeat, it is a smaller constant and a broadcast.
  mlir::Value materialize(const Imported &x);

  /// The scalar `value`.
  Imported scalar(mlir::Type elementType, double value);
  Imported integers(llvm::ArrayRef<int64_t> values);
  /// Broadcasts `x` to `shape` by NumPy's rules. With `asValue` a constant
  /// becomes an op of its own small shape first, for use with an operand that
  /// is a value. A shape that does not fit is an error of the node, see
  /// `takeError`.
  Imported broadcast(const Imported &x, llvm::ArrayRef<int64_t> shape,
                     bool asValue);
  /// Broadcasts all of `operands` to their common shape; fails if there is
  /// none.
  mlir::FailureOr<llvm::SmallVector<Imported>>
  broadcastAll(llvm::ArrayRef<Imported> operands);
  Imported reshape(const Imported &x, llvm::ArrayRef<int64_t> shape);
  Imported transpose(const Imported &x, llvm::ArrayRef<int64_t> permutation);
  Imported convert(const Imported &x, mlir::Type elementType);
  /// The range [start, limit) of one dim, with a positive stride.
  Imported slice(const Imported &x, int64_t dim, int64_t start, int64_t limit,
                 int64_t stride = 1);
  Imported concat(llvm::ArrayRef<Imported> parts, int64_t dim);
  Imported reduce(sharding::ReductionKind kind, const Imported &x,
                  llvm::ArrayRef<int64_t> dims, bool first = false);
  Imported mean(const Imported &x, llvm::ArrayRef<int64_t> dims);
  /// Reshapes the result of a reduction over `dims` of `shape` so that these
  /// dims are kept with size 1.
  Imported keepDims(const Imported &reduced, llvm::ArrayRef<int64_t> shape,
                    llvm::ArrayRef<int64_t> dims);
  Imported select(const Imported &condition, const Imported &onTrue,
                  const Imported &onFalse);
  Imported iota(llvm::ArrayRef<int64_t> shape, int64_t dim,
                mlir::Type elementType);

  /// Makes `value` the new value of `parameter`, an argument of the function,
  /// after a step.
  void update(mlir::Value parameter, mlir::Value value) {
    updates[parameter] = value;
  }
  /// The latest value of `parameter` within the step.
  mlir::Value getUpdated(mlir::Value parameter) const {
    auto found = updates.find(parameter);
    return found == updates.end() ? parameter : found->second;
  }
  const llvm::MapVector<mlir::Value, mlir::Value> &getUpdates() const {
    return updates;
  }

  /// Requires `indices` to be in [0, limit), or equal to `ignored` if given. If
  /// they come from an input, other values in the data are an error.
  void limitIndices(const Imported &indices, int64_t limit,
                    std::optional<int64_t> ignored = std::nullopt);
  /// While the body of a scan is built, `element` stands for an element of
  /// `sequence`; limits on indices in `element` apply to `sequence`.
  void addElement(mlir::Value element, mlir::Value sequence) {
    sequences[element] = sequence;
  }
  void removeElement(mlir::Value element) { sequences.erase(element); }
  struct IndexRange {
    int64_t limit;
    std::optional<int64_t> ignored;
  };
  /// The range of each argument that is used as indices: the intersection if
  /// several uses limit it.
  const llvm::MapVector<mlir::Value, IndexRange> &getIndexRanges() const {
    return indexRanges;
  }

private:
  bool verify(mlir::Operation *op);
  /// Returns true if `op` may be evaluated now: its tensors are small enough
  /// and the folding budget is not used up.
  bool mayFold(mlir::Operation *op);
  /// Evaluates the op that `build` creates; nullopt if its results are too
  /// large.
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
  llvm::DenseMap<mlir::Value, mlir::Value> sequences; // by element
  mlir::Block scratch; // holds an op during its evaluation
  /// A constant without the dims along which it repeats, and the dims that are
  /// left.
  struct Compressed {
    mlir::DenseElementsAttr elements;
    llvm::SmallVector<int64_t> dims;
  };
  const Compressed &compress(const Imported &x);
  /// Materializes the constant `x` as an op, broadcast to `shape`.
  mlir::Value materialize(const Imported &x, llvm::ArrayRef<int64_t> shape);

  /// The constants used so far, by address; `kept` keeps them alive, so that
  /// addresses stay unique.
  std::map<const void *, Compressed> compressed;
  std::vector<Known> kept;
};

} // namespace polyrank::frontends
