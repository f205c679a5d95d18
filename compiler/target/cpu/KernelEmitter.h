// Turns the loops of a kernel into code.
//
// Loops are nested by *level*: 0 is the function, 1 the item, then the vector
// loop, tiles and reduced variables in the order of the schedule's kind. A
// value is emitted at the level of the deepest variable that it depends on, so
// that values that an inner loop does not change are computed outside of it.
// Values that do not depend on the vector variable are scalars.

#pragma once

#include "compiler/target/Accesses.h"
#include "compiler/target/cpu/EmitLoops.h"
#include "compiler/target/math/Vectors.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace polyrank::cpu {

/// The type of an element in memory: a boolean is a byte. A float of 16 bits is
/// its bits, since masked loads and stores of it are widened and rounded again
/// where the machine has none.
inline mlir::Type memoryType(mlir::Type type) {
  if (type.isInteger(1))
    return mlir::IntegerType::get(type.getContext(), 8);
  if (mlir::isa<mlir::FloatType>(type) && type.getIntOrFloatBitWidth() == 16)
    return mlir::IntegerType::get(type.getContext(), 16);
  return type;
}
inline unsigned alignmentOf(mlir::Type type) {
  return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
}

/// Emits one kernel; EmitLoops.cpp has the loops, EmitValues.cpp the values in
/// them.
class KernelEmitter {
public:
  KernelEmitter(LoopsOp loops, const KernelSchedule &schedule)
      : loops(loops), schedule(schedule), context(loops.getContext()),
        b(mlir::UnknownLoc::get(context), context), i64(b.getI64Type()),
        pointer(mlir::LLVM::LLVMPointerType::get(context)), dependences(loops),
        computingPasses(
            target::getComputingPasses(loops, dependences, schedule.kept)) {
    assignLevels();
  }

  mlir::OwningOpRef<mlir::ModuleOp> emit(llvm::StringRef name);

private:
  using Body = llvm::function_ref<void()>;
  using Accumulate =
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)>;

  // Structure.
  void assignLevels();
  void emitItem(mlir::Value item);
  void emitMap();
  void emitPasses();
  void emitScatter(mlir::Value row);
  void emitVectorLoop(mlir::Value low, mlir::Value high, bool hasRest,
                      Body body);
  llvm::SmallVector<mlir::Value> emitVectorReduction(mlir::ValueRange initial,
                                                     Accumulate body);
  llvm::SmallVector<mlir::Value> emitIdentities();
  llvm::SmallVector<mlir::Value> emitParts(mlir::ValueRange initial,
                                           Accumulate body);
  llvm::SmallVector<mlir::Value>
  emitReducedLoops(size_t next, mlir::ValueRange initial, Accumulate body);
  /// Emits `for variable = low to high step`, with values carried from one
  /// iteration to the next; opens a level.
  llvm::SmallVector<mlir::Value> emitLoop(mlir::Value low, mlir::Value high,
                                          int64_t step, int variable,
                                          mlir::ValueRange initial,
                                          Accumulate body);
  void emitStores(llvm::ArrayRef<kernel::StoreOp> stores);
  mlir::Value foldLanes(sharding::ReductionKind kind, mlir::Value vector);

  // Levels.
  int depth() const { return static_cast<int>(open.size()); }
  void enterLevel(mlir::Operation *loop);
  void leaveLevel();
  /// Sets the insertion point for code of `level`: before the loop that is open
  /// there.
  void setInsertionPoint(int level);

  // Values.
  bool isVector(mlir::Value value) const {
    return schedule.vectorVariable >= 0 &&
           dependences.dependsOn(value, schedule.vectorVariable);
  }
  mlir::Value get(mlir::Value value);
  mlir::Value getVector(mlir::Value value);
  mlir::Value compute(mlir::Operation *op);
  /// Emits an op of `arith` or `math`, on vectors if `asVector`.
  mlir::Value computeScalar(mlir::Operation *op, bool asVector);
  mlir::Value computeLoad(kernel::LoadOp load, bool asVector);
  /// The address of a vector of adjacent elements, if all lanes read from one
  /// place: a load, or a part of a concatenation that all lanes share.
  mlir::Value computeAddress(mlir::Operation *op);
  mlir::Value fromMemory(mlir::Value loaded, mlir::Type type);
  mlir::Value toMemory(mlir::Value value);
  mlir::Value emitAffine(const Affine &affine, bool asVector);
  int64_t sizeOf(int variable) { return loops.getVariables()[variable].size; }
  mlir::Value emitAddress(mlir::Value base, mlir::Type element,
                          mlir::Value offset);
  mlir::Value constant(int64_t value) {
    return target::makeInteger(b, i64, value);
  }
  mlir::VectorType vectorOf(mlir::Type element) const {
    return mlir::VectorType::get({schedule.lanes}, element);
  }
  mlir::Value broadcast(mlir::Value scalar) {
    mlir::Type type = scalar.getType();
    bool asBits = mlir::isa<mlir::FloatType>(type) && memoryType(type) != type;
    if (asBits)
      scalar = toMemory(scalar);
    mlir::Value wide = mlir::vector::BroadcastOp::create(
        b, vectorOf(scalar.getType()), scalar);
    return asBits ? fromMemory(wide, type) : wide;
  }
  mlir::Value step();
  /// The lanes that a load or store may touch; null for all.
  mlir::Value lanesOf(mlir::Value predicate);
  void store(mlir::Value value, unsigned buffer, const Affine &offset);

  LoopsOp loops;
  const KernelSchedule &schedule;
  mlir::MLIRContext *context;
  mlir::ImplicitLocOpBuilder b;
  mlir::Type i64;
  mlir::Type pointer;
  Dependences dependences;
  /// Per value, the passes that compute it, as a bit set.
  llvm::DenseMap<mlir::Value, uint64_t> computingPasses;
  std::vector<int> levelOfVariable;
  llvm::DenseMap<mlir::Value, int> levels;
  /// Values of the loop variables; for the vector variable, that of lane 0.
  llvm::SmallVector<mlir::Value> variables;
  /// For each level but the last, the loop that is open in it.
  llvm::SmallVector<mlir::Operation *> open;
  /// For each level, what has been computed.
  std::vector<llvm::DenseMap<mlir::Value, mlir::Value>> known, knownVectors;
  llvm::SmallVector<mlir::Value> buffers;
  /// The scratch rows of the kept values.
  llvm::DenseMap<mlir::Value, mlir::Value> scratch;
  int pass = 0;
  /// The reductions of this pass.
  llvm::SmallVector<kernel::ReduceOp> reductions;
  mlir::Value tailMask;
};

} // namespace polyrank::cpu
