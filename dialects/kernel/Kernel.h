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

// What MLIR asks of the properties of ops.
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

/// What the values of loops depend on, computed once.
class Dependences {
public:
  explicit Dependences(LoopsOp loops);

  /// The variables that the value depends on, as a bit set.
  uint64_t variables(mlir::Value value) const { return of(value).variables; }
  bool dependsOn(mlir::Value value, size_t variable) const {
    return variables(value) >> variable & 1;
  }
  /// Reductions, one after another, that must have ended before it is known.
  int passes(mlir::Value value) const { return of(value).passes; }
  /// How often the loops over reduced variables run: once per reduction that
  /// needs another one, and once more where a full result needs the last. Full
  /// results are written in the last pass, so that all reads come before.
  int numPasses() const { return count; }

private:
  struct Entry {
    uint64_t variables = 0;
    int passes = 0;
  };
  /// What comes from outside, as the tensor of a load, depends on nothing.
  Entry of(mlir::Value value) const { return entries.lookup(value); }

  llvm::DenseMap<mlir::Value, Entry> entries;
  int count = 0;
};

/// The expression of the loop variables that an op itself has; null for none.
Affine *getExpression(mlir::Operation *op);

/// Whether each iteration has read all that it reads of `argument`, and no
/// other iteration reads that, before it writes the same bytes of `result`.
bool mayAlias(LoopsOp loops, unsigned result, unsigned argument);

} // namespace polyrank::kernel
