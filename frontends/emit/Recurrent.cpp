// Recurrent layers: the cells of LSTM, GRU and RNN over the steps of a
// sequence.

#include "frontends/emit/Recurrent.h"

#include "frontends/emit/Activations.h"
#include "frontends/emit/Products.h"
#include "frontends/emit/Scan.h"

using namespace mlir;

namespace polyrank::frontends {

//===-- steps ------------------------------------------------------------===//

/// Appends the slices of `x` along `dim`, cut by repeated halving.
static void cutInto(Emitter &emit, const Imported &x, int64_t dim,
                    std::vector<Imported> &parts) {
  Shape shape = x.getShape();
  if (int64_t size = shape[dim]; size > 1) {
    cutInto(emit, emit.slice(x, dim, 0, size / 2), dim, parts);
    return cutInto(emit, emit.slice(x, dim, size / 2, size), dim, parts);
  }
  shape.erase(shape.begin() + dim);
  parts.push_back(emit.reshape(x, shape));
}

std::vector<Imported> unstack(Emitter &emit, const Imported &x, int64_t dim) {
  std::vector<Imported> parts;
  if (x.getShape()[dim] > 0)
    cutInto(emit, x, dim, parts);
  return parts;
}

Imported stack(Emitter &emit, ArrayRef<Imported> parts, int64_t dim) {
  SmallVector<Imported> spread;
  for (const Imported &part : parts) {
    Shape shape = part.getShape();
    shape.insert(shape.begin() + dim, 1);
    spread.push_back(emit.reshape(part, shape));
  }
  return emit.concat(spread, dim);
}

Imported stepsWithin(Emitter &emit, const Imported &lengths, int64_t steps) {
  Shape shape = {steps, lengths.getShape()[0]};
  Imported each = emit.iota(shape, 0, lengths.getElementType());
  return emit.binary<graph::CompareOp>(
      each, emit.broadcast(lengths, shape, !lengths.isConstant()),
      graph::Comparison::LT);
}

LogicalResult checkSteps(Emitter &emit, int64_t steps) {
  return steps >= 1
             ? success()
             : emit.fail(Twine(steps) + " steps, and it needs at least one");
}

//===-- cells ------------------------------------------------------------===//

RecurrentCell recurrentCell(RecurrentCell::Kind kind) {
  RecurrentCell cell;
  cell.kind = kind;
  for (int64_t i = 0; i < cell.numGates(); ++i)
    cell.gates.push_back(i);
  cell.ofGates = [](Emitter &emit, const Imported &x) {
    return emit.unary<graph::SigmoidOp>(x);
  };
  cell.ofNew = cell.ofCell = [](Emitter &emit, const Imported &x) {
    return emit.unary<graph::TanhOp>(x);
  };
  return cell;
}

LogicalResult RecurrentLayer::check(int64_t inputWidth,
                                    const RecurrentState &state) {
  for (const Imported *matrix :
       {&weights.input, &weights.hidden, &weights.projection})
    if (*matrix && matrix->getRank() != 2)
      return emit.fail("a weight of " + toString(matrix->getShape()) +
                       ", which is no matrix");
  int64_t rows = weights.hidden.getShape()[0];
  if (rows % cell.numGates() != 0 || rows == 0)
    return emit.fail(Twine(rows) + " rows of a weight for " +
                     Twine(cell.numGates()) + " gates");
  int64_t passed = weights.projection ? weights.projection.getShape()[0]
                                      : width(); // the size of the state that
                                                 // goes to the next step
  auto expect = [&](const Imported &x, ArrayRef<int64_t> shape,
                    StringRef what) -> LogicalResult {
    if (!x || ArrayRef<int64_t>(x.getShape()) == shape)
      return success();
    return emit.fail("its " + what + " of " + toString(x.getShape()) +
                     " is not of " + toString(shape));
  };
  if (state.hidden.getRank() != 2)
    return emit.fail("its state of " + toString(state.hidden.getShape()) +
                     " has not two dims");
  int64_t batch = state.hidden.getShape()[0];
  return success(
      succeeded(expect(weights.input, {rows, inputWidth}, "input's weight")) &&
      succeeded(expect(weights.hidden, {rows, passed}, "state's weight")) &&
      succeeded(expect(weights.inputBias, rows, "input's bias")) &&
      succeeded(expect(weights.hiddenBias, rows, "state's bias")) &&
      succeeded(expect(weights.projection, {passed, width()}, "projection")) &&
      succeeded(expect(weights.peepholes, 3 * width(), "peepholes")) &&
      succeeded(expect(state.hidden, {batch, passed}, "state")) &&
      succeeded(expect(state.cell, {batch, width()}, "cell's state")));
}

Imported RecurrentLayer::product(const Imported &x, const Imported &matrix) {
  int64_t contracted = 1;
  Imported stored = withoutTranspose(matrix, contracted);
  return productOf(emit, x, stored, {}, {}, x.getRank() - 1, contracted);
}

Imported RecurrentLayer::clip(const Imported &x) {
  if (cell.clip == 0)
    return x;
  Type type = x.getElementType();
  Imported below = clipped(emit, x, emit.scalar(type, cell.clip),
                           /*isLower=*/false, /*passes=*/true);
  return clipped(emit, below, emit.scalar(type, -cell.clip), /*isLower=*/true,
                 /*passes=*/true);
}

Imported RecurrentLayer::gate(const Imported &all, size_t i) {
  int64_t start = cell.gates[i] * width();
  return emit.slice(all, 1, start, start + width());
}

Imported RecurrentLayer::ofInput(const Imported &x) {
  Imported bias = weights.inputBias;
  if (Imported more = weights.hiddenBias) {
    if (cell.kind == RecurrentCell::Kind::Gru && !cell.resetsState) {
      // The bias of the new gate is added where the reset gate multiplies.
      int64_t start = cell.gates[2] * width();
      Imported zero = emit.broadcast(emit.scalar(more.getElementType(), 0),
                                     width(), !more.isConstant());
      more = emit.concat({emit.slice(more, 0, 0, start), zero,
                          emit.slice(more, 0, start + width(), 3 * width())},
                         0);
    }
    bias = bias ? emit.binary<graph::AddOp>(bias, more) : more;
  }
  Imported result = product(x, weights.input);
  return bias ? emit.binaryOver<graph::AddOp>(result, bias) : result;
}

void RecurrentLayer::prepare(int64_t batch) {
  // Broadcast once for all steps, so that its gradient is summed over the batch
  // once.
  auto spread = [&](const Imported &x, int64_t block) {
    return emit.broadcast(
        emit.slice(x, 0, block * width(), (block + 1) * width()),
        {batch, width()}, !x.isConstant());
  };
  bool isGru = cell.kind == RecurrentCell::Kind::Gru;
  if (isGru && !cell.resetsState && weights.hiddenBias)
    newBias = spread(weights.hiddenBias, cell.gates[2]);
  if (isGru && cell.resetsState) {
    int64_t start = cell.gates[2] * width(), end = start + width();
    newMatrix = emit.slice(weights.hidden, 0, start, end);
    gatesMatrix = emit.concat({emit.slice(weights.hidden, 0, 0, start),
                               emit.slice(weights.hidden, 0, end, 3 * width())},
                              0);
  }
  peepholes.clear();
  if (weights.peepholes)
    for (int64_t i = 0; i < 3; ++i)
      peepholes.push_back(spread(weights.peepholes, i));
}

RecurrentState RecurrentLayer::afterLstm(const Imported &fromInput,
                                         const RecurrentState &before) {
  auto times = [&](const Imported &x, const Imported &y) {
    return emit.binary<graph::MulOp>(x, y);
  };
  auto add = [&](const Imported &x, const Imported &y) {
    return emit.binary<graph::AddOp>(x, y);
  };
  Imported gates = add(fromInput, product(before.hidden, weights.hidden));
  // A gate, with the contribution of the cell state through peephole `i`.
  auto opened = [&](size_t which, size_t i, const Imported &state) {
    Imported x = gate(gates, which);
    if (!peepholes.empty())
      x = add(x, times(peepholes[i], state));
    return cell.ofGates(emit, clip(x));
  };
  Imported input = opened(0, 0, before.cell);
  Imported forget =
      cell.couplesForget
          ? emit.binary<graph::SubOp>(
                emit.broadcast(emit.scalar(input.getElementType(), 1),
                               input.getShape(), !input.isConstant()),
                input)
          : opened(1, 2, before.cell);
  RecurrentState after;
  after.cell = add(times(forget, before.cell),
                   times(input, cell.ofNew(emit, clip(gate(gates, 2)))));
  after.hidden = times(opened(3, 1, after.cell), cell.ofCell(emit, after.cell));
  if (weights.projection)
    after.hidden = product(after.hidden, weights.projection);
  return after;
}

RecurrentState RecurrentLayer::afterGru(const Imported &fromInput,
                                        const RecurrentState &before) {
  auto times = [&](const Imported &x, const Imported &y) {
    return emit.binary<graph::MulOp>(x, y);
  };
  auto add = [&](const Imported &x, const Imported &y) {
    return emit.binary<graph::AddOp>(x, y);
  };
  Imported fromHidden =
      product(before.hidden, cell.resetsState ? gatesMatrix : weights.hidden);
  auto opened = [&](size_t which) {
    Imported mine;
    if (cell.resetsState) {
      // The product has no rows for the new gate.
      int64_t block = cell.gates[which] - (cell.gates[which] > cell.gates[2]);
      mine = emit.slice(fromHidden, 1, block * width(), (block + 1) * width());
    } else {
      mine = gate(fromHidden, which);
    }
    return cell.ofGates(emit, clip(add(gate(fromInput, which), mine)));
  };
  Imported reset = opened(0), update = opened(1), fromState;
  if (cell.resetsState) {
    fromState = product(times(reset, before.hidden), newMatrix);
  } else {
    fromState = gate(fromHidden, 2);
    if (newBias)
      fromState = add(fromState, newBias);
    fromState = times(reset, fromState);
  }
  Imported fresh = cell.ofNew(emit, clip(add(gate(fromInput, 2), fromState)));
  // (1 - update) * fresh + update * before
  return {add(times(emit.binary<graph::SubOp>(before.hidden, fresh), update),
              fresh),
          {}};
}

RecurrentState RecurrentLayer::after(const Imported &fromInput,
                                     const RecurrentState &before) {
  switch (cell.kind) {
  case RecurrentCell::Kind::Lstm:
    return afterLstm(fromInput, before);
  case RecurrentCell::Kind::Gru:
    return afterGru(fromInput, before);
  case RecurrentCell::Kind::Rnn:
    return {cell.ofNew(emit,
                       clip(emit.binary<graph::AddOp>(
                           fromInput, product(before.hidden, weights.hidden)))),
            {}};
  }
  llvm_unreachable("covered switch");
}

RecurrentState RecurrentLayer::step(const Imported &x,
                                    const RecurrentState &state) {
  prepare(x.getShape()[0]);
  return after(ofInput(x), state);
}

Imported RecurrentLayer::run(const Imported &x, int64_t time,
                             RecurrentState &state, const Imported &lengths,
                             bool isReversed) {
  // Steps come first, since one product with the input's matrix serves them
  // all.
  auto swapped = [&](const Imported &x) {
    return time == 0 ? x : emit.transpose(x, {1, 0, 2});
  };
  Imported gates = ofInput(swapped(x));
  int64_t count = gates.getShape()[0], batch = gates.getShape()[1];
  prepare(batch);
  auto choose = [&](const Imported &alive, const Imported &x,
                    const Imported &otherwise) {
    return emit.select(emit.broadcast(alive, x.getShape(), !alive.isConstant()),
                       x, otherwise);
  };
  std::vector<Imported> sequences = {gates}, carried = {state.hidden};
  Imported alive; // [T, B, 1]
  if (lengths) {
    alive = emit.reshape(stepsWithin(emit, lengths, count), {count, batch, 1});
    sequences.push_back(alive);
  }
  if (state.cell)
    carried.push_back(state.cell);
  auto iterate = [&](ArrayRef<Imported> elements,
                     ArrayRef<Imported> carried) -> std::optional<Scanned> {
    RecurrentState before = {carried[0], {}};
    if (carried.size() > 1)
      before.cell = carried[1];
    RecurrentState next = after(elements[0], before);
    if (lengths) {
      next.hidden = choose(elements[1], next.hidden, before.hidden);
      if (next.cell)
        next.cell = choose(elements[1], next.cell, before.cell);
    }
    Scanned given = {{next.hidden}, {next.hidden}};
    if (next.cell)
      given.carried.push_back(next.cell);
    return given;
  };
  Scanned steps = *scan(emit, sequences, carried, isReversed, iterate);
  state.hidden = steps.carried[0];
  if (state.cell)
    state.cell = steps.carried[1];
  Imported outputs = steps.stacks[0];
  if (lengths)
    outputs = choose(alive, outputs,
                     emit.broadcast(emit.scalar(outputs.getElementType(), 0),
                                    outputs.getShape(), true));
  return swapped(outputs);
}

} // namespace polyrank::frontends
