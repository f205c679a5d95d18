// Emits maps in tiles: what lies along another variable than results do is read
// along it, and turned in shared memory.

#include "compiler/target/cuda/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::cuda;

KernelEmitter::Point KernelEmitter::placeInTile(Value ofVector, Value ofTiled) {
  Point point;
  mask = Value();
  auto place = [&](int v, Value first, Value number) {
    Value value = add(first, number);
    return sizeOf(v) % tileSide ? maskAbove(value, sizeOf(v)) : value;
  };
  point.variables = variables;
  point.variables[schedule.vector] =
      place(schedule.vector, variables[schedule.vector], ofVector);
  point.variables[schedule.tiled] =
      place(schedule.tiled, variables[schedule.tiled], ofTiled);
  point.mask = std::exchange(mask, Value());
  return point;
}

void KernelEmitter::emitTiles() {
  SmallVector<LoadOp> loads;
  for (LoadOp load : loops.getBlock().getOps<LoadOp>())
    if (schedule.isReadInTiles(load, dependences))
      loads.push_back(load);

  // The first values of the tile.
  SmallVector<int64_t> sizes;
  for (int v : schedule.items)
    sizes.push_back(v == schedule.tiled ? static_cast<int64_t>(llvm::divideCeil(
                                              sizeOf(v), tileSide))
                                        : sizeOf(v));
  sizes.push_back(llvm::divideCeil(vectorSize(), tileSide));
  SmallVector<Value> digits = digitsOf(block, sizes);
  for (auto [v, digit] : llvm::zip(schedule.items, digits))
    variables[v] = v == schedule.tiled ? multiply(digit, tileSide) : digit;
  variables[schedule.vector] = multiply(digits.back(), tileSide);

  // Each warp has some lines of the tile. Lines are one place longer than they
  // need be, so that threads that read across them read different banks.
  Value side = constant(tileSide), length = constant(tileSide + 1);
  Value along = arith::RemUIOp::create(b, thread, side),
        across = arith::DivUIOp::create(b, thread, side);
  int64_t warps = schedule.threads / tileSide;
  auto lineOf = [&](int64_t i) { return add(across, constant(i * warps)); };
  SmallVector<Value> tiles;
  for (LoadOp load : loads)
    tiles.push_back(
        addSlots(memoryType(load.getType()), tileSide * (tileSide + 1)));
  auto addressOf = [&](size_t i, Value ofVector, Value ofTiled) {
    return emitAddress(
        tiles[i], memoryType(loads[i].getType()),
        add(arith::MulIOp::create(b, ofVector, length), ofTiled));
  };
  // All is read before it is written to shared memory, and from there before
  // results are.
  SmallVector<Value> first = variables;
  SmallVector<SmallVector<Value>> read;
  for (int64_t i = 0; i < tileSide / warps; ++i) {
    variables = first;
    Point point = placeInTile(lineOf(i), along);
    variables = point.variables;
    mask = point.mask;
    inScope(point.scope, [&] {
      read.push_back(llvm::map_to_vector(
          loads, [&](LoadOp load) { return toMemory(get(load)[0]); }));
    });
  }
  for (auto [i, ofLine] : llvm::enumerate(read))
    for (auto [t, value] : llvm::enumerate(ofLine))
      LLVM::StoreOp::create(
          b, value, addressOf(t, lineOf(static_cast<int64_t>(i)), along));
  barrier();
  std::vector<Point> points;
  SmallVector<SmallVector<Lanes>> values;
  for (int64_t i = 0; i < tileSide / warps; ++i) {
    variables = first;
    Point &point = points.emplace_back(placeInTile(along, lineOf(i)));
    variables = point.variables;
    mask = point.mask;
    inScope(point.scope, [&] {
      for (auto [t, load] : llvm::enumerate(loads))
        point.scope[load] = {
            fromMemory(LLVM::LoadOp::create(b, memoryType(load.getType()),
                                            addressOf(t, along, lineOf(i))),
                       load.getType())};
      values.push_back(evaluate(fullStores));
    });
  }
  for (auto [point, ofPoint] : llvm::zip_equal(points, values)) {
    variables = point.variables;
    mask = Value();
    ifThen(point.mask, [&, ofPoint = ArrayRef<Lanes>(ofPoint)] {
      for (auto [op, value] : llvm::zip_equal(fullStores, ofPoint))
        store(op, value);
    });
  }
}
