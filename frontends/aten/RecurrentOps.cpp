// Recurrent layers: LSTM, GRU, RNN and their cells.

#include "frontends/aten/Dropout.h"
#include "frontends/aten/PackedSequence.h"
#include "frontends/emit/Recurrent.h"

using namespace mlir;

namespace polyrank::frontends::aten {

namespace {

enum class Cell { Lstm, Gru, Tanh, Relu };

RecurrentCell cellOf(Cell cell) {
  using Kind = RecurrentCell::Kind;
  if (cell == Cell::Lstm || cell == Cell::Gru)
    return recurrentCell(cell == Cell::Lstm ? Kind::Lstm : Kind::Gru);
  RecurrentCell result = recurrentCell(Kind::Rnn);
  if (cell == Cell::Relu)
    result.ofNew = [](Emitter &emit, const Imported &x) {
      return emit.unary<graph::ReluOp>(x);
    };
  return result;
}

class Recurrence {
public:
  Recurrence(Call &c, Cell cell)
      : c(c), emit(c.emit), isLstm(cell == Cell::Lstm), cell(cellOf(cell)) {}

  LogicalResult run();
  /// Runs a packed sequence.
  LogicalResult runPacked();
  /// Runs one step of a cell.
  LogicalResult runStep();

private:
  FailureOr<std::vector<RecurrentWeights>> takeWeights(int64_t layers,
                                                       int64_t directions);
  /// Splits [layers * directions, B, H] into single states.
  FailureOr<std::vector<Imported>> takeStates(const Value &given,
                                              int64_t count);
  Imported together(ArrayRef<Imported> states);
  /// Runs all layers over `x`, whose steps are dim `time`; see
  /// RecurrentLayer::run. `hidden` and `cells` become the last states.
  FailureOr<Imported> runLayers(Imported x, int64_t time,
                                const Imported &lengths);

  Call &c;
  Emitter &emit;
  const bool isLstm;
  const RecurrentCell cell;
  bool isBatched = true;
  std::vector<Imported> hidden, cells; // by layer and direction
};

FailureOr<std::vector<RecurrentWeights>>
Recurrence::takeWeights(int64_t layers, int64_t directions) {
  auto params = c.tensors("params");
  auto given = static_cast<int64_t>(params.size());
  bool hasBias = c.flag("has_biases"),
       isPossible = layers >= 1 && layers <= given;
  int64_t each = hasBias ? 4 : 2, count = isPossible ? layers * directions : 0;
  bool hasProjection = isLstm && given == count * (each + 1);
  if (!isPossible || given != count * (each + hasProjection))
    return c.fail(Twine(given) + " weights for " + Twine(layers) +
                  " layers and " + Twine(directions) + " directions");
  std::vector<RecurrentWeights> result;
  for (size_t next = 0; next < params.size();) {
    auto take = [&] { return c.as(Value(params[next++]), ElementType::F32); };
    RecurrentWeights weights;
    weights.input = take();
    weights.hidden = take();
    if (hasBias) {
      weights.inputBias = take();
      weights.hiddenBias = take();
    }
    if (hasProjection)
      weights.projection = take();
    result.push_back(std::move(weights));
  }
  return result;
}

FailureOr<std::vector<Imported>> Recurrence::takeStates(const Value &given,
                                                        int64_t count) {
  Imported all = c.as(given, ElementType::F32);
  Shape shape = all.getShape();
  if (!isBatched && shape.size() == 2) {
    shape.insert(shape.begin() + 1, 1);
    all = emit.reshape(all, shape);
  }
  if (shape.size() != 3 || shape[0] != count)
    return c.fail("a state of " + toString(shape) + " for " + Twine(count) +
                  " layers and directions");
  return unstack(emit, all, 0);
}

Imported Recurrence::together(ArrayRef<Imported> states) {
  Imported all = stack(emit, states, 0);
  Shape shape = all.getShape();
  return isBatched ? all : emit.reshape(all, {shape[0], shape[2]});
}

LogicalResult Recurrence::runStep() {
  ElementType type = c.typeOf("input");
  if (!isFloat(type))
    return c.fail("an input of " + longNameOf(type));
  Imported x = c.as(c["input"], ElementType::F32);
  // A single sequence without a batch.
  bool isSingle = x.getRank() == 1;
  auto spread = [&](const Imported &state) {
    Shape shape = state.getShape();
    if (isSingle && shape.size() == 1)
      shape.insert(shape.begin(), 1);
    return emit.reshape(state, shape);
  };
  x = spread(x);
  RecurrentState state;
  if (isLstm) {
    auto given = c.tensors("hx");
    if (given.size() != 2)
      return c.fail("a state of " + Twine(given.size()) +
                    " tensors instead of two");
    state = {spread(given[0]->read(emit)), spread(given[1]->read(emit))};
  } else {
    state.hidden = spread(c.read("hx"));
  }
  if (x.getRank() != 2 || state.hidden.getRank() != 2 ||
      state.hidden.getShape()[0] != x.getShape()[0])
    return c.fail("an input of " + c["input"].describe() + " and a state of " +
                  toString(state.hidden.getShape()));
  RecurrentLayer layer(
      emit, cell,
      {c.read("w_ih"), c.read("w_hh"), c.read("b_ih"), c.read("b_hh"), {}, {}});
  if (failed(layer.check(x.getShape()[1], state)))
    return failure();
  state = layer.step(x, state);
  auto give = [&](const Imported &x) {
    return c.give(isSingle ? emit.reshape(x, {x.getShape()[1]}) : x, type);
  };
  if (failed(give(state.hidden)))
    return failure();
  return isLstm ? give(state.cell) : success();
}

FailureOr<Imported> Recurrence::runLayers(Imported x, int64_t time,
                                          const Imported &lengths) {
  int64_t layers = c.integer("num_layers"),
          directions = c.flag("bidirectional") ? 2 : 1;
  if (failed(checkSteps(emit, x.getShape()[time])))
    return failure();
  auto weights = takeWeights(layers, directions);
  if (failed(weights))
    return failure();
  // The state of an LSTM is a list of two tensors.
  std::vector<Value> given = {c["hx"]};
  if (isLstm) {
    given = c["hx"].getList();
    if (given.size() != 2 || !given[0].isTensor() || !given[1].isTensor())
      return c.fail("its state is not two tensors");
  }
  auto first = takeStates(given[0], layers * directions);
  if (failed(first))
    return failure();
  hidden = std::move(*first);
  cells.resize(hidden.size());
  if (isLstm) {
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
  for (int64_t i = 0; i < layers; ++i) {
    std::vector<Imported> outputs;
    for (int64_t d = 0; d < directions; ++d) {
      size_t number = i * directions + d;
      RecurrentLayer layer(emit, cell, (*weights)[number]);
      RecurrentState state = {hidden[number], cells[number]};
      if (failed(layer.check(x.getShape()[2], state)))
        return failure();
      if (state.hidden.getShape()[0] != x.getShape()[1 - time])
        return c.fail("a state of " + toString(state.hidden.getShape()) +
                      " for an input of " + toString(x.getShape()));
      outputs.push_back(
          layer.run(x, time, state, lengths, /*isReversed=*/d == 1));
      hidden[number] = state.hidden;
      cells[number] = state.cell;
    }
    x = emit.concat(outputs, 2);
    if (rate > 0 && i + 1 < layers)
      x = emit.dropout(x, rate);
  }
  return x;
}

LogicalResult Recurrence::run() {
  ElementType type = c.typeOf("input");
  if (!isFloat(type))
    return c.fail("an input of " + longNameOf(type));
  Imported x = c.as(c["input"], ElementType::F32);
  isBatched = x.getRank() == 3;
  if (x.getRank() == 2)
    x = emit.reshape(x, {x.getShape()[0], 1, x.getShape()[1]});
  if (x.getRank() != 3)
    return c.fail("an input of " + toString(x.getShape()));
  auto steps = runLayers(x, isBatched && c.flag("batch_first") ? 1 : 0, {});
  if (failed(steps))
    return failure();
  Shape shape = steps->getShape();
  if (!isBatched)
    *steps = emit.reshape(*steps, {shape[0], shape[2]});
  if (failed(c.give(*steps, type)) || failed(c.give(together(hidden), type)))
    return failure();
  return isLstm ? c.give(together(cells), type) : success();
}

LogicalResult Recurrence::runPacked() {
  auto packed = packedOf(c, "data", "batch_sizes");
  if (!packed)
    return failure();
  if (!isFloat(packed->type) || packed->steps.getRank() != 3)
    return c.fail("packed sequences of " + longNameOf(packed->type) +
                  toString(packed->steps.getShape()));
  auto steps = runLayers(packed->steps, 0, packed->lengths);
  if (failed(steps))
    return failure();
  auto result = std::make_shared<PackedSequence>(*packed);
  result->steps = *steps;
  if (failed(c.give(Value(std::shared_ptr<Object>(result)))) ||
      failed(c.give(together(hidden), packed->type)))
    return failure();
  return isLstm ? c.give(together(cells), packed->type) : success();
}

template <Cell cell>
LogicalResult packed(Call &c) {
  return Recurrence(c, cell).runPacked();
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
    {"lstm.data(PackedSequence data, PackedSequence batch_sizes, Tensor[] hx, "
     "Tensor[] params, bool has_biases, int num_layers, float dropout, bool "
     "train, bool bidirectional) -> (PackedSequence, Tensor, Tensor)",
     packed<Cell::Lstm>},
    {"gru.data(PackedSequence data, PackedSequence batch_sizes, Tensor hx, "
     "Tensor[] params, bool has_biases, int num_layers, float dropout, bool "
     "train, bool bidirectional) -> (PackedSequence, Tensor)",
     packed<Cell::Gru>},
    {"rnn_tanh.data(PackedSequence data, PackedSequence batch_sizes, Tensor "
     "hx, "
     "Tensor[] params, bool has_biases, int num_layers, float dropout, bool "
     "train, bool bidirectional) -> (PackedSequence, Tensor)",
     packed<Cell::Tanh>},
    {"rnn_relu.data(PackedSequence data, PackedSequence batch_sizes, Tensor "
     "hx, "
     "Tensor[] params, bool has_biases, int num_layers, float dropout, bool "
     "train, bool bidirectional) -> (PackedSequence, Tensor)",
     packed<Cell::Relu>},
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
