// The kernel dialect: kernels as loops over elements.

#pragma once

#include "dialects/graph/Tensor.h"
#include "dialects/kernel/Affine.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace polyrank::kernel {

struct Variable {
  int64_t size = 1;
  bool isReduced = false;
  bool operator==(const Variable &other) const = default;
};

class StoreOp;
class ScatterAddOp;

// The functions that MLIR needs for the properties of ops.
/// @{
mlir::Attribute convertToAttribute(mlir::MLIRContext *context,
                                   const Affine &affine);
llvm::LogicalResult
convertFromAttribute(Affine &affine, mlir::Attribute attribute,
                     llvm::function_ref<mlir::InFlightDiagnostic()> emitError);
mlir::Attribute
convertToAttribute(mlir::MLIRContext *context,
                   const llvm::SmallVector<Variable> &variables);
llvm::LogicalResult
convertFromAttribute(llvm::SmallVector<Variable> &variables,
                     mlir::Attribute attribute,
                     llvm::function_ref<mlir::InFlightDiagnostic()> emitError);
void writeToMlirBytecode(mlir::DialectBytecodeWriter &writer,
                         const Affine &affine);
llvm::LogicalResult readFromMlirBytecode(mlir::DialectBytecodeReader &reader,
                                         Affine &affine);
void writeToMlirBytecode(mlir::DialectBytecodeWriter &writer,
                         const llvm::SmallVector<Variable> &variables);
llvm::LogicalResult
readFromMlirBytecode(mlir::DialectBytecodeReader &reader,
                     llvm::SmallVector<Variable> &variables);
llvm::hash_code hashAffine(const Affine &affine);
llvm::hash_code hashVariables(llvm::ArrayRef<Variable> variables);
/// @}

} // namespace polyrank::kernel

#include "dialects/kernel/KernelDialect.h.inc"

#define GET_OP_CLASSES
#include "dialects/kernel/KernelOps.h.inc"

namespace polyrank::kernel {

/// What the values of loops depend on; computed once.
class Dependences {
public:
  explicit Dependences(LoopsOp loops);

  /// The variables that the value depends on, as a bit set.
  uint64_t variables(mlir::Value value) const { return of(value).variables; }
  bool dependsOn(mlir::Value value, size_t variable) const {
    return variables(value) >> variable & 1;
  }
  /// The length of the longest chain of reductions that must have ended before
  /// the value is known.
  int passes(mlir::Value value) const { return of(value).passes; }
  /// How often the loops over reduced variables run: once per reduction of the
  /// longest chain, and once more if a full result needs the last reduction.
  /// Full results are written in the last pass, so that all reads come before.
  int numPasses() const { return count; }

private:
  struct Entry {
    uint64_t variables = 0;
    int passes = 0;
  };
  /// A value from outside, such as the tensor of a load, depends on nothing.
  Entry of(mlir::Value value) const { return entries.lookup(value); }

  llvm::DenseMap<mlir::Value, Entry> entries;
  int count = 0;
};

/// The expression of loop variables that an op has itself; null if it has none.
Affine *getExpression(mlir::Operation *op);

/// The work that one thread of a target does by itself, in order. Other threads
/// run at any time.
enum class ThreadWork {
  /// All points of the reduced variables, for each of its points of the
  /// parallel
  /// ones: a row of a softmax.
  Row,
  /// Only some points of the reduced variables: several threads share a row.
  PartOfRow,
};

/// Returns true if `result` may take the buffer of `argument`: before a thread
/// writes bytes of the result, it has read all that it reads of the same bytes
/// of the argument, and no other thread reads these bytes.
bool mayAlias(LoopsOp loops, unsigned result, unsigned argument,
              ThreadWork work);

} // namespace polyrank::kernel
