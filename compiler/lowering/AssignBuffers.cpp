// AssignBuffers: gives every value its place in the arena.

#include "compiler/lowering/BufferClasses.h"
#include "compiler/lowering/GemmLibrary.h"
#include "compiler/lowering/Passes.h"
#include "dialects/graph/Graph.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_ASSIGNBUFFERS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

static constexpr int64_t alignment = 64;

namespace {

/// Classes that lie at fixed distances: alone, or as the members of a bucket.
struct Unit {
  SmallVector<std::pair<int, int64_t>> members; // class, offset inside
  PackedBuffer packed;
  rank::Region region = rank::Region::Private;
};

class BufferAssigner {
public:
  BufferAssigner(func::FuncOp function, BufferClasses &classes, int64_t threads)
      : function(function), classes(classes), threads(threads) {}

  LogicalResult run();

  Packing shared, privately;
  int64_t lowerBound = 0, persistentSize = 0;

private:
  void tieBlock(Operation *terminator, ArrayRef<int> targets);
  void tieLoop();
  void tieResults();
  void tieAddends();
  void mergeInPlace();
  void collectUnits();
  LogicalResult addScratch();
  bool isPersistent(const Unit &unit) const;
  Packing packRegion(rank::Region region);
  void pack();
  void fillSharedGaps(int64_t target);
  void writeAttributes();
  rank::BufferAttr getBuffer(Value value);

  func::FuncOp function;
  BufferClasses &classes;
  int64_t threads;
  std::vector<Unit> units;
  /// Unit and offset of a class.
  DenseMap<int, std::pair<int, int64_t>> unitOf;
  DenseMap<Operation *, int> scratchUnit;
};

} // namespace

/// Operand i of the terminator shall lie in class targets[i] (-1: anywhere) at
/// the end of the block. It is computed there where nothing stands against it,
/// else copied there, after all reads. A value that stands in another one's
/// place is copied away first.
void BufferAssigner::tieBlock(Operation *terminator, ArrayRef<int> targets) {
  SmallVector<int> wanted(targets);
  for (auto [operand, target] :
       llvm::zip_equal(terminator->getOpOperands(), wanted)) {
    int current = classes.find(operand.get());
    if (current != target && llvm::is_contained(wanted, current))
      operand.set(classes.insertCopy(operand.get(), terminator, 0));
  }
  for (auto [i, operand] : llvm::enumerate(terminator->getOpOperands())) {
    if (wanted[i] < 0)
      continue;
    Place place = classes.getPlace(operand.get());
    if (place.buffer == wanted[i] && place.offset == 0 && place.stride == 0)
      continue;
    bool whole = place.offset == 0 && place.stride == 0 &&
                 classes.getSize(place.buffer) == classes.getSize(wanted[i]);
    if (!whole || classes.isPersistent(place.buffer) ||
        !classes.canMerge(wanted[i], place.buffer)) {
      operand.set(classes.insertCopy(operand.get(), terminator, 1));
      place = classes.getPlace(operand.get());
    }
    int merged = classes.merge(wanted[i], place.buffer);
    for (int &other : wanted)
      if (other == place.buffer)
        other = merged;
  }
}

/// Microbatch sums and carried values have one buffer throughout.
void BufferAssigner::tieLoop() {
  rank::MicrobatchesOp loop = classes.getMicrobatches();
  if (!loop)
    return;
  auto targets = [&] {
    return llvm::map_to_vector(loop.getResults(), [&](Value result) {
      return classes.find(result);
    });
  };
  tieBlock(loop.getRest().front().getTerminator(), targets());
  tieBlock(loop.getFirst().front().getTerminator(), targets());
}

/// The results that replace arguments take their buffers.
void BufferAssigner::tieResults() {
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<int> targets;
  for (BlockArgument argument : function.getArguments())
    if (function.getArgAttr(argument.getArgNumber(), "graph.symbol"))
      targets.push_back(classes.find(argument));
  auto replaces = [&](unsigned i) {
    return !function.getResultAttr(i, "graph.output");
  };
  SmallVector<int> wanted;
  auto next = targets.begin();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    wanted.push_back(replaces(i) && next != targets.end() ? *next++ : -1);
  tieBlock(terminator, wanted);
}

/// A product is added to what its buffer holds.
void BufferAssigner::tieAddends() {
  function.walk([&](rank::GemmOp gemm) {
    if (!gemm.getAddend())
      return;
    Place place = classes.getPlace(gemm.getAddend());
    int result = classes.find(gemm.getResult());
    bool whole = place.offset == 0 && place.stride == 0 &&
                 classes.getSize(place.buffer) == classes.getSize(result);
    if (place.buffer == result && whole)
      return;
    if (!whole || classes.isPersistent(place.buffer) ||
        !classes.canMerge(place.buffer, result)) {
      Value copy = classes.insertCopy(gemm.getAddend(), gemm, 1);
      gemm.getAddendMutable().assign(copy);
      place = classes.getPlace(copy);
    }
    classes.merge(result, place.buffer);
  });
}

/// Other results take the place of operands that end where they begin.
void BufferAssigner::mergeInPlace() {
  function.walk([&](Operation *op) {
    if (!isa<rank::LaunchOp, rank::AllReduceOp, rank::BroadcastOp>(op))
      return;
    for (OpResult result : op->getResults())
      for (OpOperand &operand : op->getOpOperands()) {
        Place place = classes.getPlace(operand.get());
        int target = classes.find(result);
        if (place.buffer == target)
          break;
        if (place.offset == 0 && place.stride == 0 &&
            !classes.isPersistent(place.buffer) &&
            llvm::alignTo(classes.getSize(place.buffer), alignment) ==
                llvm::alignTo(classes.getSize(target), alignment) &&
            allowsInPlace(op, operand.getOperandNumber(),
                          result.getResultNumber()) &&
            classes.canMerge(place.buffer, target)) {
          classes.merge(target, place.buffer);
          break;
        }
      }
  });
}

void BufferAssigner::collectUnits() {
  auto add = [&](ArrayRef<int> members) {
    Unit unit;
    int64_t end = 0;
    for (int member : members) {
      unitOf[member] = {static_cast<int>(units.size()), end};
      unit.members.push_back({member, end});
      end += llvm::alignTo(classes.getSize(member), alignment);
      llvm::append_range(unit.packed.lifetimes, classes.getLifetimes(member));
    }
    unit.packed.size = end;
    unit.packed.lifetimes = joinLifetimes(unit.packed.lifetimes);
    units.push_back(unit);
  };
  // Buckets.
  function.walk([&](Operation *op) {
    if (!rank::isCollective(op) || op->getNumOperands() == 1)
      return;
    for (auto values : {ValueRange(op->getOperands()),
                        ValueRange(op->getResults())}) {
      SmallVector<int> members;
      for (Value value : values)
        members.push_back(classes.find(value));
      bool free = llvm::all_of(members, [&](int member) {
        return !classes.isPersistent(member) && !unitOf.contains(member) &&
               llvm::count(members, member) == 1;
      });
      if (free)
        add(members);
    }
  });
  for (int buffer : classes.getClasses())
    if (!unitOf.contains(buffer))
      add(buffer);
  function.walk([&](Operation *op) {
    if (rank::isCollective(op))
      for (auto values : {ValueRange(op->getOperands()),
                          ValueRange(op->getResults())})
        for (Value value : values)
          units[unitOf.at(classes.find(value)).first].region =
              rank::Region::Shared;
  });
}

/// Memory that the library needs during a product.
LogicalResult BufferAssigner::addScratch() {
  LogicalResult result = success();
  function.walk([&](rank::GemmOp gemm) {
    FailureOr<int64_t> bytes = getGemmScratch(gemm, threads);
    if (failed(bytes))
      result = failure();
    if (failed(bytes) || *bytes == 0)
      return;
    int64_t position = classes.getPosition(gemm);
    Unit unit;
    unit.packed.size = *bytes;
    unit.packed.lifetimes = {{position, position}};
    scratchUnit[gemm] = units.size();
    units.push_back(unit);
  });
  return result;
}

bool BufferAssigner::isPersistent(const Unit &unit) const {
  return !unit.members.empty() &&
         classes.isPersistent(unit.members.front().first);
}

/// Persistent buffers first, one after another; the others behind them.
Packing BufferAssigner::packRegion(rank::Region region) {
  int64_t base = 0;
  std::vector<PackedBuffer> packed;
  SmallVector<int> indices;
  for (auto [i, unit] : llvm::enumerate(units)) {
    if (unit.region != region)
      continue;
    if (isPersistent(unit)) {
      unit.packed.offset = base;
      base += llvm::alignTo(unit.packed.size, alignment);
    } else {
      packed.push_back(unit.packed);
      indices.push_back(i);
    }
  }
  Packing packing = packBuffers(packed, alignment);
  for (auto [buffer, index] : llvm::zip_equal(packed, indices)) {
    units[index].packed = buffer;
    units[index].packed.offset += base;
  }
  packing.size += base;
  return packing;
}

/// Each region alone is as large as its own worst moment, and these need not be
/// the same: then private buffers lie in gaps of the shared region. As few as
/// possible, since its pages are small.
void BufferAssigner::pack() {
  shared = packRegion(rank::Region::Shared);
  privately = packRegion(rank::Region::Private);
  std::vector<PackedBuffer> all;
  int64_t persistentPrivate = 0;
  for (const Unit &unit : units) {
    if (!isPersistent(unit)) {
      all.push_back(unit.packed);
      continue;
    }
    int64_t size = llvm::alignTo(unit.packed.size, alignment);
    persistentSize += size;
    persistentPrivate += unit.region == rank::Region::Private ? size : 0;
  }
  lowerBound = persistentSize + largestLiveSum(all);
  constexpr double nearEnough = 1.005;
  auto target =
      static_cast<int64_t>(nearEnough * static_cast<double>(lowerBound)) -
      shared.size;
  if (privately.size <= target)
    return;
  fillSharedGaps(target - persistentPrivate);
  privately = packRegion(rank::Region::Private);
}

/// Moves private buffers into the shared region, which does not grow, until no
/// more than `target` bytes of the others are live at once or none fits.
void BufferAssigner::fillSharedGaps(int64_t target) {
  int64_t begin = 0;
  for (const Unit &unit : units)
    if (unit.region == rank::Region::Shared && isPersistent(unit))
      begin += llvm::alignTo(unit.packed.size, alignment);
  auto offsetFor = [&](const Unit &unit) -> std::optional<int64_t> {
    SmallVector<const PackedBuffer *> others;
    for (const Unit &other : units)
      if (other.region == rank::Region::Shared && !isPersistent(other) &&
          other.packed.overlaps(unit.packed))
        others.push_back(&other.packed);
    llvm::sort(others, [](auto *x, auto *y) { return x->offset < y->offset; });
    int64_t at = begin;
    for (const PackedBuffer *other : others) {
      if (other->offset - at >= unit.packed.size)
        break;
      at = std::max(at, other->offset + other->size);
    }
    if (at + unit.packed.size > shared.size)
      return std::nullopt;
    return at;
  };
  while (true) {
    std::vector<PackedBuffer> left;
    for (const Unit &unit : units)
      if (unit.region == rank::Region::Private && !isPersistent(unit))
        left.push_back(unit.packed);
    auto [position, live] = worstMoment(left);
    if (live <= target)
      return;
    Unit *largest = nullptr;
    int64_t place = 0;
    for (Unit &unit : units) {
      PackedBuffer moment;
      moment.lifetimes = {{position, position}};
      if (unit.region != rank::Region::Private || isPersistent(unit) ||
          !unit.packed.overlaps(moment) ||
          (largest && unit.packed.size <= largest->packed.size))
        continue;
      if (auto offset = offsetFor(unit)) {
        largest = &unit;
        place = *offset;
      }
    }
    if (!largest)
      return;
    largest->region = rank::Region::Shared;
    largest->packed.offset = place;
  }
}

rank::BufferAttr BufferAssigner::getBuffer(Value value) {
  Place place = classes.getPlace(value);
  auto [unit, offset] = unitOf.at(place.buffer);
  return rank::BufferAttr::get(
      function.getContext(), units[unit].region,
      units[unit].packed.offset + offset + place.offset, place.size,
      place.stride);
}

void BufferAssigner::writeAttributes() {
  Builder builder(function.getContext());
  auto list = [&](ValueRange values) {
    return builder.getArrayAttr(llvm::map_to_vector(
        values, [&](Value value) -> Attribute { return getBuffer(value); }));
  };
  for (BlockArgument argument : function.getArguments())
    function.setArgAttr(argument.getArgNumber(), rank::bufferAttrName,
                        getBuffer(argument));
  function.walk([&](Operation *op) {
    if (op->getNumResults() > 0)
      op->setAttr(rank::buffersAttrName, list(op->getResults()));
    if (auto loop = dyn_cast<rank::MicrobatchesOp>(op)) {
      // The index: a list of all of them, one per microbatch.
      loop->setAttr("rank.first_buffers",
                    list(loop.getFirst().front().getArguments()));
      loop->setAttr("rank.rest_buffers",
                    list(loop.getRest().front().getArguments()));
    }
    auto scratch = scratchUnit.find(op);
    if (scratch != scratchUnit.end())
      op->setAttr("rank.scratch",
                  rank::BufferAttr::get(function.getContext(),
                                        units[scratch->second].region,
                                        units[scratch->second].packed.offset,
                                        units[scratch->second].packed.size, 0));
  });
  auto number = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
  function->setAttr(
      rank::arenaAttrName,
      builder.getDictionaryAttr(
          {builder.getNamedAttr("shared", number(shared.size)),
           builder.getNamedAttr("private", number(privately.size)),
           builder.getNamedAttr("persistent", number(persistentSize)),
           builder.getNamedAttr("lower_bound", number(lowerBound))}));
}

LogicalResult BufferAssigner::run() {
  tieLoop();
  tieResults();
  tieAddends();
  mergeInPlace();
  collectUnits();
  if (failed(addScratch()))
    return failure();
  pack();
  writeAttributes();
  return success();
}

namespace {
struct AssignBuffersPass
    : lowering::impl::AssignBuffersBase<AssignBuffersPass> {
  using AssignBuffersBase::AssignBuffersBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      FailureOr<BufferClasses> classes = BufferClasses::build(function);
      if (failed(classes))
        return signalPassFailure();
      BufferAssigner assigner(function, *classes, threads);
      if (failed(assigner.run()))
        return signalPassFailure();
      if (!report)
        continue;
      int64_t size = assigner.shared.size + assigner.privately.size;
      function.emitRemark()
          << "arena of " << size << " bytes (" << assigner.shared.size
          << " shared, " << assigner.privately.size << " private); at least "
          << assigner.lowerBound << " are live at once, gap "
          << size - assigner.lowerBound;
    }
  }
};
} // namespace
