// Random typed programs: the @forward of a random model.

#pragma once

#include "compiler/evaluate/Joint.h"
#include "dialects/graph/Parts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/random/Random.h"

namespace polyrank::test {

/// A model, and the options by which its step is built.
struct Program {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// Options of `build-step`: train or forward, the optimizer, the number of
  /// microbatches.
  std::string mode, optimizer;
  int64_t microbatches = 1;
};

/// How large the tensors of a program are.
struct Sizes {
  /// The sizes of dims, each as often as it is drawn.
  llvm::ArrayRef<int64_t> dims;
  llvm::ArrayRef<int64_t> batches;
  /// The elements of the largest tensor.
  int64_t mostElements;
  /// Values with a larger bound are not used, so that results can be compared.
  double largest;
};
extern const Sizes smallSizes;

/// Returns the program of this seed: parameters (some frozen, some used twice),
/// running statistics, inputs with a batch dim, random ops among which is
/// `focus` (an index into `opTable`), and a loss or outputs. Of some programs
/// some ops compute with bf16 or f16. If `ops` are given, no others are drawn.
Program drawProgram(mlir::MLIRContext &context, uint64_t seed,
                    const Sizes &sizes = smallSizes,
                    llvm::ArrayRef<llvm::StringRef> ops = {});

/// Draws the arguments of a function of `module`, or of those that its ranks
/// run together, by name: they are the same for every function that takes them,
/// whole, as views or with microbatches. Floats are multiples of 1/2, so that
/// their sums are exact in any order.
llvm::SmallVector<graph::Tensor>
drawArguments(const evaluate::JointFunction &joint, uint64_t seed);
/// Draws a stored tensor like drawArguments.
graph::Tensor drawStored(graph::ParameterOp parameter, uint64_t seed);

/// Builds a program op by op. Values carry how large they can be, and whether
/// they are *exact*: multiples of a power of two with few bits, the same in
/// every order of sums. Discontinuous ops (comparisons, maxima with their
/// gradients, rounding) take only exact values, since elsewhere the last bit
/// decides, and layouts differ in the last bit.
class ProgramBuilder {
public:
  ProgramBuilder(mlir::MLIRContext &context, Random &random, bool isTraining,
                 const Sizes &sizes);

  struct Known {
    double bound = 0;
    /// The number of bits after the binary point; -1: not exact.
    int bits = -1;
  };

  bool isTraining() const { return training; }
  Known known(mlir::Value value) const { return facts.lookup(value); }
  bool isExact(mlir::Value value) const { return known(value).bits >= 0; }
  double bound(mlir::Value value) const { return known(value).bound; }
  static llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
    return graph::getShape(value);
  }

  /// Adds a value to the pool. Returns false if it is too large to be used.
  bool put(mlir::Value value, double bound, int bits = -1);

  /// Returns a float tensor of some shape: from the pool, or a new input.
  mlir::Value pickFloat(int64_t minRank = 0, int64_t maxRank = 4);
  /// The same with exact values.
  mlir::Value pickExact(int64_t minRank = 0, int64_t maxRank = 4);
  mlir::Value pickInteger(int64_t minRank = 0, int64_t maxRank = 3);
  mlir::Value pickBool(llvm::ArrayRef<int64_t> shape);
  /// Returns a float tensor of this shape: from the pool, a parameter or a
  /// constant.
  mlir::Value floatOf(llvm::ArrayRef<int64_t> shape, bool exact = false);
  mlir::Value integersOf(llvm::ArrayRef<int64_t> shape);
  /// Returns the value if it is at most `limit`, else its tanh.
  mlir::Value bounded(mlir::Value value, double limit);
  /// Returns a value in [1/2, 1025] computed from `value`.
  mlir::Value positive(mlir::Value value);

  llvm::SmallVector<int64_t> drawShape(int64_t rank);
  /// Returns true if a tensor of this shape is small enough.
  bool fits(llvm::ArrayRef<int64_t> shape) const;
  mlir::Value addParameter(llvm::ArrayRef<int64_t> shape, bool trainable);
  mlir::Value addInput(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  /// Adds an input of labels below `classes`, or `ignored`.
  mlir::Value addLabels(llvm::ArrayRef<int64_t> shape, int64_t classes,
                        int64_t ignored);
  /// Returns the scalar argument of that role.
  mlir::Value getCounter(graph::RandomCounter counter);
  mlir::Value addConstant(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  /// Adds a parameter of `value`'s shape that tracks it: running statistics.
  void addState(mlir::Value value);

  Program finish();

  Random &random;
  mlir::OpBuilder builder;
  graph::Parts parts;
  /// The batch size of every input.
  int64_t batch;

private:
  mlir::Value addArgument(mlir::Type type, llvm::StringRef name,
                          mlir::Attribute role);
  /// The values without users, as floats.
  llvm::SmallVector<mlir::Value> leaves();

  const Sizes &sizes;
  bool training;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  llvm::SmallVector<mlir::Value> pool;
  llvm::DenseMap<mlir::Value, Known> facts;
  /// Next values of running statistics, with the argument's number.
  llvm::SmallVector<std::pair<unsigned, mlir::Value>> updates;
  int64_t numParameters = 0, numInputs = 0;
};

/// How the generator creates an op: every graph op has an entry.
struct OpEntry {
  const char *op;
  /// Builds the op with its operands. Returns false if this draw fails. Null if
  /// only passes create the op: autodiff, or the step.
  bool (*build)(ProgramBuilder &);
  /// A pass after propagation creates the op: programs with drawn layouts do
  /// not have it.
  bool isOfLayouts = false;
};
llvm::ArrayRef<OpEntry> opTable();

} // namespace polyrank::test
