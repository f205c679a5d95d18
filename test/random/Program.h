// Random typed programs: @forward of a model that nobody wrote.

#pragma once

#include "compiler/evaluate/Joint.h"
#include "dialects/graph/Parts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/random/Random.h"

namespace polyrank::test {

/// A model, and how its step is built.
struct Program {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// `build-step`: train or forward, the optimizer, the number of microbatches.
  std::string mode, optimizer;
  int64_t microbatches = 1;
};

/// The program of this seed: parameters (some frozen, some used twice), running
/// statistics, inputs with a batch dim, random ops among which is `focus` (an
/// index into `opTable`), and a loss or outputs.
Program drawProgram(mlir::MLIRContext &context, uint64_t seed);

/// The arguments of a function of `module`, or of those that its ranks run
/// together, drawn by name: the same for every function that takes them, be it
/// whole, as views or with microbatches. Floats are multiples of 1/2, so that
/// their sums are exact in any order.
llvm::SmallVector<graph::Tensor>
drawArguments(const evaluate::JointFunction &joint, uint64_t seed);
/// A stored tensor as drawArguments draws it.
graph::Tensor drawStored(graph::ParameterOp parameter, uint64_t seed);

/// Builds a program op by op. Values carry how large they can be, and whether
/// they are *exact*: multiples of a power of two with few bits, the same in
/// every order of sums. Ops that jump (comparisons, maxima with their
/// gradients, rounding) are put on exact values only, since elsewhere the last
/// bit decides, and layouts differ in the last bit.
class ProgramBuilder {
public:
  ProgramBuilder(mlir::MLIRContext &context, Random &random, bool isTraining);

  struct Known {
    double bound = 0;
    /// After the binary point; -1: not exact.
    int bits = -1;
  };

  bool isTraining() const { return training; }
  Known known(mlir::Value value) const { return facts.lookup(value); }
  bool isExact(mlir::Value value) const { return known(value).bits >= 0; }
  double bound(mlir::Value value) const { return known(value).bound; }
  static llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
    return graph::getShape(value);
  }

  /// Enters a value into the pool; false where it is too large to go on with.
  bool put(mlir::Value value, double bound, int bits = -1);

  /// A float of some shape: from the pool, or a new input.
  mlir::Value pickFloat(int64_t minRank = 0, int64_t maxRank = 4);
  /// The same, exact.
  mlir::Value pickExact(int64_t minRank = 0, int64_t maxRank = 4);
  mlir::Value pickInteger(int64_t minRank = 0, int64_t maxRank = 3);
  mlir::Value pickBool(llvm::ArrayRef<int64_t> shape);
  /// A float of this shape: from the pool, a parameter or a constant.
  mlir::Value floatOf(llvm::ArrayRef<int64_t> shape, bool exact = false);
  mlir::Value integersOf(llvm::ArrayRef<int64_t> shape);
  /// Not larger than `limit`: itself, or its tanh.
  mlir::Value bounded(mlir::Value value, double limit);
  /// In [1/2, 1025].
  mlir::Value positive(mlir::Value value);

  llvm::SmallVector<int64_t> drawShape(int64_t rank);
  /// Whether a tensor of this shape is small enough.
  static bool fits(llvm::ArrayRef<int64_t> shape);
  mlir::Value addParameter(llvm::ArrayRef<int64_t> shape, bool trainable);
  mlir::Value addInput(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  /// Labels below `classes`, or `ignored`.
  mlir::Value addLabels(llvm::ArrayRef<int64_t> shape, int64_t classes,
                        int64_t ignored);
  /// The scalar of that role.
  mlir::Value getCounter(graph::RandomCounter counter);
  mlir::Value addConstant(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  /// A parameter of `value`'s shape that follows it: running statistics.
  void addState(mlir::Value value);

  Program finish();

  Random &random;
  mlir::OpBuilder builder;
  graph::Parts parts;
  /// Of every input.
  int64_t batch;

private:
  mlir::Value addArgument(mlir::Type type, llvm::StringRef name,
                          mlir::Attribute role);
  /// What nobody uses yet, as floats.
  llvm::SmallVector<mlir::Value> leaves();

  bool training;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  llvm::SmallVector<mlir::Value> pool;
  llvm::DenseMap<mlir::Value, Known> facts;
  /// Next values of running statistics, with the argument's number.
  llvm::SmallVector<std::pair<unsigned, mlir::Value>> updates;
  int64_t numParameters = 0, numInputs = 0;
};

/// How the generator comes to an op: every graph op has an entry.
struct OpEntry {
  const char *op;
  /// Builds one, with what it needs; false where this draw leads nowhere. Null
  /// where passes make the op: autodiff, or the step.
  bool (*build)(ProgramBuilder &);
  /// A pass behind propagation makes it: no program has it whose layouts are
  /// drawn.
  bool isOfLayouts = false;
};
llvm::ArrayRef<OpEntry> opTable();

} // namespace polyrank::test
