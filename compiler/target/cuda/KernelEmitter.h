// Turns the loops of a kernel into the code of one thread.
//
// A value of the loops is computed once for each lane of the thread's vector,
// or once if all lanes have the same. It is kept in the scope in which it was
// computed: that of the whole thread, of an item's vector, or of one iteration
// of a loop over vectors. LLVM moves what does not change out of loops, and
// joins loads and stores of adjacent lanes.

#pragma once

#include "compiler/target/cuda/KernelSchedule.h"
#include "compiler/target/math/Vectors.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::cuda {

/// One value for each lane, or one for all of them.
using Lanes = llvm::SmallVector<mlir::Value, 4>;

/// The type of an element in memory: a boolean is a byte, and a float of 16
/// bits is its bits.
mlir::Type memoryType(mlir::Type type);

/// Emits one kernel. EmitKernel.cpp has the thread's place in the grid and
/// maps, EmitTiles.cpp maps in tiles, EmitPasses.cpp rows and columns,
/// EmitScatter.cpp scatters, EmitValues.cpp the values.
class KernelEmitter {
public:
  /// `alignments` are those of the buffers of the arguments, then of the
  /// results, in bytes.
  KernelEmitter(LoopsOp loops, const KernelSchedule &schedule,
                llvm::ArrayRef<int64_t> alignments);

  mlir::OwningOpRef<mlir::ModuleOp> emit(llvm::StringRef name);

  /// The bytes of shared memory of a block.
  int64_t getSharedBytes() const { return sharedBytes; }

private:
  using Body = llvm::function_ref<void()>;
  using Scope = llvm::DenseMap<mlir::Value, Lanes>;
  /// Where a vector is: the loop variables, and whether it exists (null: yes).
  struct Point {
    llvm::SmallVector<mlir::Value> variables;
    mlir::Value mask;
    Scope scope;
  };
  /// For each reduction of a pass, an accumulator for each lane.
  using Accumulators = llvm::SmallVector<Lanes>;

  // Maps.
  void emitMap();
  void emitVector(mlir::Value number);
  /// Places a vector of a map: its items, and the first value of its vector
  /// variable.
  void placeInMap(mlir::Value number);

  // Tiles.
  void emitTiles();
  /// A value of the tile: its number among those of the tiled variable, and
  /// among those inside.
  struct TilePlace {
    mlir::Value ofTiled, ofInside;
    Point point;
  };
  void placeTile();
  TilePlace placeInTile(mlir::Value number, bool tiledFirst);

  // Rows and columns.
  mlir::Value maskAbove(mlir::Value number, int64_t count);
  void placeRow();
  void placeColumn();
  void emitPasses();
  /// Computes what depends on no reduced variable and on no later reduction.
  void emitItemValues(int pass);
  /// Makes the reduced variables those of vector `number` of the item.
  void placeShared(mlir::Value number);
  void placeKept();
  Accumulators accumulateKept();
  Accumulators accumulateInLoop();
  Accumulators accumulateIfItemExists();
  /// Adds the vector at which the variables are.
  Accumulators accumulate(const Accumulators &carried);
  Accumulators loopOver(
      mlir::Value low, mlir::Value high, int64_t step,
      const Accumulators &initial,
      llvm::function_ref<Accumulators(mlir::Value, const Accumulators &)> body);
  static llvm::SmallVector<mlir::Value>
  flatten(const Accumulators &accumulators);
  static Accumulators unflatten(mlir::ValueRange values,
                                const Accumulators &like);
  Accumulators identities();
  Accumulators combine(const Accumulators &x, const Accumulators &y);
  /// Adds up the accumulators of all threads that share an item.
  void emitTotals(const Accumulators &accumulators);
  mlir::Value foldLanes(kernel::ReduceOp op, Lanes lanes);
  mlir::Value foldWarp(kernel::ReduceOp op, mlir::Value value);
  void foldWarps(llvm::SmallVectorImpl<mlir::Value> &totals);
  /// The value of the thread whose number differs in the bits of `distance`.
  mlir::Value shuffle(mlir::Value value, int64_t distance);
  mlir::Value addSlots(mlir::Type element, int64_t count);

  // Scatters.
  void emitScatter();
  /// Adds update `number` and all later ones at `wanted` to its row.
  void emitUpdates(mlir::Value number, mlir::Value lane, mlir::Value wanted);
  /// Returns true if one of the updates before `number` has its index.
  mlir::Value hasEarlier(mlir::Value number, mlir::Value lane,
                         mlir::Value wanted);
  /// Returns a word with a bit for each of the 32 updates from `first` on that
  /// come before `end` and have the index `wanted`.
  mlir::Value findSame(mlir::Value first, mlir::Value lane, mlir::Value end,
                       mlir::Value wanted);
  Lanes addFound(mlir::Value first, mlir::Value found, const Lanes &sums);
  /// The index of an update, as an i64; anything if it does not exist.
  mlir::Value indexOfUpdate(mlir::Value number, mlir::Value exists);
  Lanes update(mlir::Value number);

  // Control flow.
  void inScope(Scope &scope, Body body);
  void ifThen(mlir::Value condition, Body body);
  void barrier();

  // Values.
  bool dependsOnReduced(mlir::Value value) const;
  Lanes get(mlir::Value value);
  Lanes compute(mlir::Operation *op);
  Lanes computeLoad(kernel::LoadOp load);
  Lanes computeScalars(mlir::Operation *op);
  /// The addresses of the lanes from the first one's, `step` elements apart.
  Lanes addressesFrom(mlir::Value first, mlir::Type element, int64_t step,
                      size_t count);
  void emitStores(llvm::ArrayRef<kernel::StoreOp> stores);
  llvm::SmallVector<Lanes> evaluate(llvm::ArrayRef<kernel::StoreOp> stores);
  void store(kernel::StoreOp op, const Lanes &values);
  mlir::Value fromMemory(mlir::Value loaded, mlir::Type type);
  mlir::Value toMemory(mlir::Value value);
  /// The value of an expression for lane 0.
  mlir::Value emitAffine(const Affine &affine);
  mlir::Value emitAddress(mlir::Value base, mlir::Type element,
                          mlir::Value offset);
  int64_t coefficientOf(const Affine &affine) const {
    return schedule.vector < 0 ? 0 : affine.coefficients[schedule.vector];
  }
  /// The alignment of a vector's first element, in bytes.
  int64_t alignmentOf(unsigned buffer, mlir::Type element, const Affine &offset,
                      llvm::ArrayRef<int64_t> strides);
  int64_t sizeOf(int variable) { return loops.getVariables()[variable].size; }
  int64_t vectorSize() { return sizeOf(schedule.vector); }

  // Numbers of the index type.
  mlir::Value constant(int64_t value) {
    return target::makeInteger(b, index, value);
  }
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value multiply(mlir::Value x, int64_t factor);
  mlir::Value isLess(mlir::Value x, mlir::Value y);
  mlir::Value both(mlir::Value x, mlir::Value y);
  /// Splits a number into digits of these sizes, the last one fastest.
  llvm::SmallVector<mlir::Value> digitsOf(mlir::Value number,
                                          llvm::ArrayRef<int64_t> sizes);
  void placeItems(mlir::Value number);
  mlir::Value readRegister(llvm::StringRef name);
  mlir::Value call(mlir::Type result, llvm::StringRef intrinsic,
                   mlir::ValueRange arguments);

  LoopsOp loops;
  const KernelSchedule &schedule;
  mlir::MLIRContext *context;
  mlir::ImplicitLocOpBuilder b;
  mlir::Type index; // i32 where all places and sizes fit
  mlir::Type pointer, sharedPointer;
  llvm::SmallVector<int64_t> alignments;
  Dependences dependences;
  int64_t lanes; // of a vector, or 1 in the rest of a map's variable
  std::string name;
  mlir::Block *moduleBody = nullptr;
  llvm::SmallVector<mlir::Value> buffers;
  /// The place in the grid.
  mlir::Value block, thread;
  /// The number of this thread, or warp, among those that share an item.
  mlir::Value sharer;
  llvm::SmallVector<mlir::Value> variables;
  /// The first values of the block's tile.
  llvm::SmallVector<mlir::Value> tileStart;
  /// False for a vector that does not exist; null if it does.
  mlir::Value mask;
  llvm::SmallVector<Scope *> scopes;
  std::vector<Point> kept;
  int pass = 0;
  llvm::SmallVector<kernel::ReduceOp> reductions; // of this pass
  llvm::SmallVector<kernel::StoreOp> fullStores, itemStores;
  int numSlots = 0;
  int64_t sharedBytes = 0;
};

} // namespace polyrank::cuda
