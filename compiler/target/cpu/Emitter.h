// Turns the loops of a kernel into code.
//
// Loops are nested by *level*: 0 is the function, 1 the item, then the vector
// loop, tiles and reduced variables in the order of the schedule's kind. A node
// is emitted at the level of the deepest variable that it depends on, so that
// what an inner loop does not change stands outside of it. Nodes that do not
// depend on the vector variable are scalars.

#pragma once

#include "compiler/target/cpu/EmitLoops.h"
#include "compiler/target/cpu/Functions.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace polyrank::cpu {

/// How an element lies in memory: a boolean is a byte.
inline mlir::Type memoryType(mlir::Type type) {
  return type.isInteger(1) ? mlir::IntegerType::get(type.getContext(), 8)
                           : type;
}
inline unsigned alignmentOf(mlir::Type type) {
  return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
}

/// One kernel; EmitLoops.cpp has the loops, EmitNodes.cpp the values in them.
class Emitter {
public:
  Emitter(mlir::MLIRContext *context, const Loops &loops,
          const Schedule &schedule)
      : loops(loops), schedule(schedule),
        b(mlir::UnknownLoc::get(context), context), context(context),
        i64(b.getI64Type()), pointer(mlir::LLVM::LLVMPointerType::get(context)),
        passes(loops.passes()), dependences(loops.dependences()),
        computingPasses(getComputingPasses(loops, schedule.kept)) {
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
  /// `for variable = low to high step`, with values carried from one iteration
  /// to the next; opens a level.
  llvm::SmallVector<mlir::Value> emitLoop(mlir::Value low, mlir::Value high,
                                          int64_t step, int variable,
                                          mlir::ValueRange initial,
                                          Accumulate body);
  void emitStores(llvm::ArrayRef<const Store *> stores);
  mlir::Value foldLanes(sharding::ReductionKind kind, mlir::Value vector);

  // Levels.
  int depth() const { return static_cast<int>(open.size()); }
  void enterLevel(mlir::Operation *loop);
  void leaveLevel();
  /// Code of `level`: before the loop that is open there.
  void setInsertionPoint(int level);

  // Values.
  bool isVector(int node) const {
    return schedule.vectorVariable >= 0 &&
           dependences[node] >> schedule.vectorVariable & 1;
  }
  mlir::Value get(int node);
  mlir::Value getVector(int node);
  mlir::Value compute(int node);
  mlir::Value computeLoad(const Node &node, bool asVector);
  /// Where a vector of neighbours is read from, if it is read from one place:
  /// a load, or a part of a concatenation that all lanes share.
  mlir::Value computeAddress(int node);
  mlir::Value fromMemory(mlir::Value loaded, mlir::Type type);
  mlir::Value emitAffine(const Affine &affine, bool asVector);
  mlir::Value emitAddress(mlir::Value base, mlir::Type element,
                          mlir::Value offset);
  mlir::Value constant(int64_t value) { return makeInteger(b, i64, value); }
  mlir::VectorType vectorOf(mlir::Type element) const {
    return mlir::VectorType::get({schedule.lanes}, element);
  }
  mlir::Value broadcast(mlir::Value scalar) {
    return mlir::vector::BroadcastOp::create(b, vectorOf(scalar.getType()),
                                             scalar);
  }
  mlir::Value step();
  /// The lanes that a load or store may touch; null for all.
  mlir::Value lanesOf(int predicate);
  void store(mlir::Value value, unsigned buffer, const Affine &offset);

  const Loops &loops;
  const Schedule &schedule;
  mlir::ImplicitLocOpBuilder b;
  mlir::MLIRContext *context;
  mlir::Type i64;
  mlir::Type pointer;
  std::vector<int> passes;
  std::vector<uint64_t> dependences;
  /// Per node, the passes that compute it, as a bit set.
  std::vector<uint64_t> computingPasses;
  std::vector<int> levelOfVariable, levelOfNode;
  /// Values of the loop variables; of the vector variable that of lane 0.
  llvm::SmallVector<mlir::Value> variables;
  /// Per level but the last, the loop that is open in it.
  llvm::SmallVector<mlir::Operation *> open;
  /// Per level, what has been computed.
  std::vector<llvm::DenseMap<int, mlir::Value>> known, knownVectors;
  llvm::SmallVector<mlir::Value> buffers;
  /// Scratch rows of the kept nodes.
  llvm::DenseMap<int, mlir::Value> scratch;
  int pass = 0;
  /// The reductions of this pass.
  llvm::SmallVector<int> reductions;
  mlir::Value tailMask;
};

} // namespace polyrank::cpu
