// Emits maps in tiles: what lies along another variable than results do is read
// along it, and turned in shared memory.

#include "compiler/target/cuda/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::cuda;

/// `number` counts the values of a tile: those of the tiled variable first, or
/// those inside of it.
KernelEmitter::TilePlace KernelEmitter::placeInTile(Value number,
                                                    bool tiledFirst) {
  int64_t inside = schedule.numInside(loops);
  Value divisor = constant(tiledFirst ? tileSide : inside);
  Value fast = arith::RemUIOp::create(b, number, divisor),
        slow = arith::DivUIOp::create(b, number, divisor);
  TilePlace place;
  place.ofTiled = tiledFirst ? fast : slow;
  place.ofInside = tiledFirst ? slow : fast;
  mask = Value();
  auto value = [&](int v, Value offset) {
    Value sum = add(tileStart[v], offset);
    return sizeOf(v) % tileSide ? maskAbove(sum, sizeOf(v)) : sum;
  };
  Point &point = place.point;
  point.variables = tileStart;
  point.variables[schedule.tiled] = value(schedule.tiled, place.ofTiled);
  if (schedule.inside.empty()) {
    point.variables[schedule.vector] = value(schedule.vector, place.ofInside);
  } else {
    SmallVector<int64_t> sizes;
    for (int v : schedule.inside)
      sizes.push_back(sizeOf(v));
    sizes.push_back(vectorSize());
    SmallVector<Value> digits = digitsOf(place.ofInside, sizes);
    for (auto [v, digit] : llvm::zip(schedule.inside, digits))
      point.variables[v] = digit;
    point.variables[schedule.vector] = digits.back();
  }
  point.mask = std::exchange(mask, Value());
  return place;
}

/// Makes `tileStart` the first values of the block's tile.
void KernelEmitter::placeTile() {
  SmallVector<int> outside;
  SmallVector<int64_t> sizes;
  for (int v : schedule.items)
    if (!llvm::is_contained(schedule.inside, v)) {
      outside.push_back(v);
      sizes.push_back(
          v == schedule.tiled
              ? static_cast<int64_t>(llvm::divideCeil(sizeOf(v), tileSide))
              : sizeOf(v));
    }
  sizes.push_back(schedule.numTilesOfVector(loops));
  SmallVector<Value> digits = digitsOf(block, sizes);
  tileStart = variables;
  for (auto [v, digit] : llvm::zip(outside, digits))
    tileStart[v] = v == schedule.tiled ? multiply(digit, tileSide) : digit;
  tileStart[schedule.vector] = multiply(digits.back(), tileSide);
}

void KernelEmitter::emitTiles() {
  SmallVector<LoadOp> loads;
  for (LoadOp load : loops.getBlock().getOps<LoadOp>())
    if (schedule.isReadInTiles(load, dependences))
      loads.push_back(load);
  placeTile();
  // Lines of the tiled variable are one place longer than they need be, so that
  // threads that read across them read different banks.
  constexpr int64_t length = tileSide + 1;
  int64_t inside = schedule.numInside(loops);
  SmallVector<Value> tiles;
  for (LoadOp load : loads)
    tiles.push_back(addSlots(memoryType(load.getType()), inside * length));
  auto addressOf = [&](size_t tile, const TilePlace &place) {
    return emitAddress(tiles[tile], memoryType(loads[tile].getType()),
                       add(multiply(place.ofInside, length), place.ofTiled));
  };
  int64_t rounds = tileSide * inside / schedule.threads;
  auto numberOf = [&](int64_t i) {
    return i ? add(thread, constant(i * schedule.threads)) : thread;
  };

  // All is read before it is written to shared memory, and from there before
  // results are.
  std::vector<TilePlace> places;
  SmallVector<SmallVector<Value>> read;
  for (int64_t i = 0; i < rounds; ++i) {
    TilePlace &place =
        places.emplace_back(placeInTile(numberOf(i), /*tiledFirst=*/true));
    variables = place.point.variables;
    mask = place.point.mask;
    inScope(place.point.scope, [&] {
      read.push_back(llvm::map_to_vector(
          loads, [&](LoadOp load) { return toMemory(get(load)[0]); }));
    });
  }
  for (auto [place, ofPlace] : llvm::zip_equal(places, read))
    for (auto [t, value] : llvm::enumerate(ofPlace))
      LLVM::StoreOp::create(b, value, addressOf(t, place));
  barrier();
  places.clear();
  SmallVector<SmallVector<Lanes>> values;
  for (int64_t i = 0; i < rounds; ++i) {
    TilePlace &place =
        places.emplace_back(placeInTile(numberOf(i), /*tiledFirst=*/false));
    variables = place.point.variables;
    mask = place.point.mask;
    inScope(place.point.scope, [&] {
      for (auto [t, load] : llvm::enumerate(loads))
        place.point.scope[load] = {
            fromMemory(LLVM::LoadOp::create(b, memoryType(load.getType()),
                                            addressOf(t, place)),
                       load.getType())};
      values.push_back(evaluate(fullStores));
    });
  }
  for (auto [place, ofPlace] : llvm::zip_equal(places, values)) {
    variables = place.point.variables;
    mask = Value();
    ifThen(place.point.mask, [&, ofPlace = ArrayRef<Lanes>(ofPlace)] {
      for (auto [op, value] : llvm::zip_equal(fullStores, ofPlace))
        store(op, value);
    });
  }
}
