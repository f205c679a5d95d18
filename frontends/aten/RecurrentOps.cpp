// Recurrent layers: LSTM, GRU, RNN, step by step.

#include "frontends/aten/Dropout.h"
#include "frontends/emit/Products.h"

#include <cmath>

using namespace mlir;

namespace polyrank::frontends::aten {

namespace {

enum class Cell { Lstm, Gru, Tanh, Relu };

/// Of one layer in one direction. Matrices are [gates * H, I], [gates * H, H]
/// and [P, H]; biases [gates * H], or empty.
struct Weights {
  Imported input, hidden, inputBias, hiddenBias, projection;
};

/// What goes from step to step: [B, H], and the cell's state of an LSTM.
struct State {
  Imported hidden, cell;
};

/// Every step is ops of its own, so a long sequence is a large program.
constexpr int64_t maxSteps = 4096;

class Recurrence {
public:
  Recurrence(Call &c, Cell cell) : c(c), emit(c.emit), cell(cell) {}

  LogicalResult run();
  /// One step of a cell.
  LogicalResult runStep();

private:
  int64_t numGates() const {
    return cell == Cell::Lstm ? 4 : cell == Cell::Gru ? 3 : 1;
  }
  Imported product(const Imported &x, const Imported &weight) {
    int64_t contracted = 1;
    Imported matrix = withoutTranspose(weight, contracted);
    return productOf(emit, x, matrix, {}, {}, x.getRank() - 1, contracted);
  }
  Imported plus(const Imported &x, const Imported &bias) {
    return bias ? emit.binaryOver<graph::AddOp>(x, bias) : x;
  }
  Imported sigmoid(const Imported &x) {
    return emit.unary<graph::SigmoidOp>(x);
  }
  Imported tanh(const Imported &x) { return emit.unary<graph::TanhOp>(x); }
  Imported times(const Imported &x, const Imported &y) {
    return emit.binary<graph::MulOp>(x, y);
  }
  Imported add(const Imported &x, const Imported &y) {
    return emit.binary<graph::AddOp>(x, y);
  }
  /// Part `i` of the gates, [B, H].
  Imported gate(const Imported &gates, int64_t i) {
    int64_t size = gates.getShape()[1] / numGates();
    return emit.slice(gates, 1, i * size, (i + 1) * size);
  }
  /// [B, ..] of all steps at step `t`.
  Imported at(const Imported &x, int64_t t) {
    Shape shape = x.getShape();
    shape.erase(shape.begin() + time);
    return emit.reshape(emit.slice(x, time, t, t + 1), shape);
  }

  FailureOr<std::vector<Weights>> takeWeights(int64_t count);
  /// [layers * directions, B, H] as one state each.
  FailureOr<std::vector<Imported>> takeStates(const Value &given,
                                              int64_t count);
  /// `fromInput`: what the input adds to the gates, its bias included.
  State step(const Weights &weights, const Imported &fromInput,
             const State &before);
  Imported direction(const Weights &weights, const Imported &x, State &state,
                     bool isReversed);
  Imported together(ArrayRef<Imported> states);

  Call &c;
  Emitter &emit;
  const Cell cell;
  int64_t time = 0; // the dim of x
  bool isBatched = true;
};

FailureOr<std::vector<Weights>> Recurrence::takeWeights(int64_t count) {
  auto params = c.tensors("params");
  bool hasBias = c.flag("has_biases");
  size_t each = hasBias ? 4 : 2;
  bool hasProjection =
      cell == Cell::Lstm && params.size() == size_t(count) * (each + 1);
  if (params.size() != size_t(count) * (each + hasProjection))
    return c.fail(Twine(params.size()) + " weights for " + Twine(count) +
                  " layers and directions");
  std::vector<Weights> result;
  for (size_t next = 0; next < params.size();) {
    auto take = [&] { return c.as(Value(params[next++]), ScalarType::Float); };
    Weights weights;
    weights.input = take();
    weights.hidden = take();
    if (hasBias) {
      weights.inputBias = take();
      weights.hiddenBias = take();
    }
    if (hasProjection)
      weights.projection = take();
    for (const Imported *matrix : {&weights.input, &weights.hidden})
      if (matrix->getRank() != 2 || matrix->getShape()[0] % numGates() != 0)
        return c.fail("a weight of " + toString(matrix->getShape()));
    result.push_back(std::move(weights));
  }
  return result;
}

FailureOr<std::vector<Imported>> Recurrence::takeStates(const Value &given,
                                                        int64_t count) {
  Imported all = c.as(given, ScalarType::Float);
  Shape shape = all.getShape();
  if (!isBatched && shape.size() == 2) {
    shape.insert(shape.begin() + 1, 1);
    all = emit.reshape(all, shape);
  }
  if (shape.size() != 3 || shape[0] != count)
    return c.fail("a state of " + toString(shape) + " for " + Twine(count) +
                  " layers and directions");
  std::vector<Imported> result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(
        emit.reshape(emit.slice(all, 0, i, i + 1), {shape[1], shape[2]}));
  return result;
}

State Recurrence::step(const Weights &weights, const Imported &fromInput,
                       const State &before) {
  Imported fromHidden =
      plus(product(before.hidden, weights.hidden), weights.hiddenBias);
  State after;
  switch (cell) {
  case Cell::Lstm: { // input, forget, cell, output
    Imported gates = add(fromInput, fromHidden);
    after.cell = add(times(sigmoid(gate(gates, 1)), before.cell),
                     times(sigmoid(gate(gates, 0)), tanh(gate(gates, 2))));
    after.hidden = times(sigmoid(gate(gates, 3)), tanh(after.cell));
    if (weights.projection)
      after.hidden = product(after.hidden, weights.projection);
    return after;
  }
  case Cell::Gru: { // reset, update, new
    Imported reset = sigmoid(add(gate(fromInput, 0), gate(fromHidden, 0))),
             update = sigmoid(add(gate(fromInput, 1), gate(fromHidden, 1))),
             fresh = tanh(
                 add(gate(fromInput, 2), times(reset, gate(fromHidden, 2))));
    after.hidden = add(
        times(emit.binary<graph::SubOp>(before.hidden, fresh), update), fresh);
    return after;
  }
  case Cell::Tanh:
    after.hidden = tanh(add(fromInput, fromHidden));
    return after;
  case Cell::Relu:
    after.hidden = emit.unary<graph::ReluOp>(add(fromInput, fromHidden));
    return after;
  }
  llvm_unreachable("covered switch");
}

/// The hidden states of all steps, as `x` has its own; `state` becomes the
/// last.
Imported Recurrence::direction(const Weights &weights, const Imported &x,
                               State &state, bool isReversed) {
  // What does not depend on the step before is one product.
  Imported fromInput = plus(product(x, weights.input), weights.inputBias);
  int64_t count = x.getShape()[time];
  std::vector<Imported> steps(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t t = isReversed ? count - 1 - i : i;
    state = step(weights, at(fromInput, t), state);
    Shape shape = state.hidden.getShape();
    shape.insert(shape.begin() + time, 1);
    steps[t] = emit.reshape(state.hidden, shape);
  }
  return emit.concat(steps, time);
}

Imported Recurrence::together(ArrayRef<Imported> states) {
  std::vector<Imported> parts;
  for (const Imported &state : states) {
    Shape shape = state.getShape();
    shape.insert(shape.begin(), 1);
    parts.push_back(emit.reshape(state, shape));
  }
  Imported all = emit.concat(parts, 0);
  Shape shape = all.getShape();
  return isBatched ? all : emit.reshape(all, {shape[0], shape[2]});
}

LogicalResult Recurrence::runStep() {
  ScalarType type = c.typeOf("input");
  Imported x = c.read("input");
  Weights weights{
      c.read("w_ih"), c.read("w_hh"), c.read("b_ih"), c.read("b_hh"), {}};
  State state;
  if (cell == Cell::Lstm) {
    auto given = c.tensors("hx");
    if (given.size() != 2)
      return c.fail("a state of " + Twine(given.size()) +
                    " tensors instead of two");
    state = {given[0]->read(emit), given[1]->read(emit)};
  } else {
    state.hidden = c.read("hx");
  }
  if (!isFloat(type) || x.getRank() != 2 || state.hidden.getRank() != 2 ||
      state.hidden.getShape()[0] != x.getShape()[0] ||
      (state.cell && state.cell.getShape() != state.hidden.getShape()))
    return c.fail("an input of " + c["input"].describe() + " and a state of " +
                  toString(state.hidden.getShape()));
  int64_t width = state.hidden.getShape()[1], rows = numGates() * width;
  if (weights.input.getShape() != Shape{rows, x.getShape()[1]} ||
      weights.hidden.getShape() != Shape{rows, width})
    return c.fail("weights of " + toString(weights.input.getShape()) + " and " +
                  toString(weights.hidden.getShape()) + " for an input of " +
                  toString(x.getShape()) + " and a state of " + Twine(width));
  for (const Imported *bias : {&weights.inputBias, &weights.hiddenBias})
    if (*bias && bias->getShape() != Shape{rows})
      return c.fail("a bias of " + toString(bias->getShape()) + " for " +
                    Twine(rows) + " rows");
  state =
      step(weights, plus(product(x, weights.input), weights.inputBias), state);
  if (failed(c.give(state.hidden, type)))
    return failure();
  return cell == Cell::Lstm ? c.give(state.cell, type) : success();
}

LogicalResult Recurrence::run() {
  ScalarType type = c.typeOf("input");
  if (!isFloat(type))
    return c.fail("an input of " + nameOf(type));
  Imported x = c.as(c["input"], ScalarType::Float);
  isBatched = x.getRank() == 3;
  if (x.getRank() == 2)
    x = emit.reshape(x, {x.getShape()[0], 1, x.getShape()[1]});
  if (x.getRank() != 3)
    return c.fail("an input of " + toString(x.getShape()));
  time = isBatched && c.flag("batch_first") ? 1 : 0;
  int64_t layers = c.integer("num_layers"),
          directions = c.flag("bidirectional") ? 2 : 1,
          length = x.getShape()[time];
  if (length < 1 || layers < 1 || layers > maxSteps ||
      length > maxSteps / (layers * directions))
    return c.fail(Twine(layers * directions) + " layers and directions of " +
                  Twine(length) + " steps; all steps are unrolled, at most " +
                  Twine(maxSteps));
  auto weights = takeWeights(layers * directions);
  if (failed(weights))
    return failure();
  // An LSTM's states are a list of two tensors.
  std::vector<Value> given = {c["hx"]};
  if (cell == Cell::Lstm) {
    given = c["hx"].getList();
    if (given.size() != 2 || !given[0].isTensor() || !given[1].isTensor())
      return c.fail("its state is not two tensors");
  }
  auto hidden = takeStates(given[0], layers * directions);
  if (failed(hidden))
    return failure();
  std::vector<Imported> cells(hidden->size());
  if (cell == Cell::Lstm) {
    auto taken = takeStates(given[1], layers * directions);
    if (failed(taken))
      return failure();
    cells = std::move(*taken);
  }
  double rate = 0;
  if (layers > 1 && c.number("dropout") > 0) {
    auto found = dropoutRate(c, c.number("dropout"), c.flag("train"));
    if (failed(found))
      return failure();
    rate = *found;
  }
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Imported> outputs;
    for (int64_t d = 0; d < directions; ++d) {
      size_t number = layer * directions + d;
      const Weights &own = (*weights)[number];
      if (own.input.getShape()[1] != x.getShape()[2])
        return c.fail("an input of " + toString(x.getShape()) +
                      " with a weight of " + toString(own.input.getShape()));
      State state = {(*hidden)[number], cells[number]};
      outputs.push_back(direction(own, x, state, d == 1));
      (*hidden)[number] = state.hidden;
      cells[number] = state.cell;
    }
    x = emit.concat(outputs, 2);
    if (rate > 0 && layer + 1 < layers)
      x = emit.dropout(x, rate);
  }
  Shape shape = x.getShape();
  if (!isBatched)
    x = emit.reshape(x, {shape[0], shape[2]});
  if (failed(c.give(x, type)) || failed(c.give(together(*hidden), type)))
    return failure();
  return cell == Cell::Lstm ? c.give(together(cells), type) : success();
}

template <Cell cell>
LogicalResult recurrent(Call &c) {
  return Recurrence(c, cell).run();
}

template <Cell cell>
LogicalResult oneStep(Call &c) {
  return Recurrence(c, cell).runStep();
}

const OperatorRow rows[] = {
    {"lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, "
     "int num_layers, float dropout, bool train, bool bidirectional, bool "
     "batch_first) -> (Tensor, Tensor, Tensor)",
     recurrent<Cell::Lstm>},
    {"gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int "
     "num_layers, float dropout, bool train, bool bidirectional, bool "
     "batch_first) -> (Tensor, Tensor)",
     recurrent<Cell::Gru>},
    {"rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool "
     "has_biases, int num_layers, float dropout, bool train, bool "
     "bidirectional, bool batch_first) -> (Tensor, Tensor)",
     recurrent<Cell::Tanh>},
    {"rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool "
     "has_biases, int num_layers, float dropout, bool train, bool "
     "bidirectional, bool batch_first) -> (Tensor, Tensor)",
     recurrent<Cell::Relu>},
    {"lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? "
     "b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)",
     oneStep<Cell::Lstm>},
    {"gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? "
     "b_ih=None, Tensor? b_hh=None) -> Tensor",
     oneStep<Cell::Gru>},
    {"rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, "
     "Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor",
     oneStep<Cell::Tanh>},
    {"rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, "
     "Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor",
     oneStep<Cell::Relu>},
};

} // namespace

ArrayRef<OperatorRow> getRecurrentRows() { return rows; }

} // namespace polyrank::frontends::aten
