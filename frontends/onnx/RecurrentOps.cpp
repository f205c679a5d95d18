// Imports LSTM, GRU and RNN.

#include "frontends/emit/Activations.h"
#include "frontends/emit/Recurrent.h"
#include "frontends/onnx/GateOrder.h"
#include "frontends/onnx/NodeImporter.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

using Kind = RecurrentCell::Kind;

/// The activations that a node names, with their numbers from the node's lists.
class Functions {
public:
  explicit Functions(NodeImporter &n) : n(n) {
    if (const Attribute *given = n.attribute("activation_alpha"))
      alphas = given->floats;
    if (const Attribute *given = n.attribute("activation_beta"))
      betas = given->floats;
  }

  /// Fails if there is no such function, or if a number is missing.
  FailureOr<ElementFn> take(StringRef name);

private:
  /// The next number of a list; `otherwise` at the end of the list.
  static std::optional<double> next(ArrayRef<float> &list,
                                    std::optional<double> otherwise) {
    if (list.empty())
      return otherwise;
    double value = list.front();
    list = list.drop_front();
    return value;
  }

  NodeImporter &n;
  ArrayRef<float> alphas, betas;
};

Imported scaled(Emitter &emit, const Imported &x, double factor) {
  return emit.binaryOver<graph::MulOp>(x,
                                       emit.scalar(x.getElementType(), factor));
}

Imported shifted(Emitter &emit, const Imported &x, double number) {
  return emit.binaryOver<graph::AddOp>(x,
                                       emit.scalar(x.getElementType(), number));
}

/// x where it is above `limit`, else `below`.
Imported above(Emitter &emit, const Imported &x, double limit,
               const Imported &below) {
  return emit.select(
      emit.binaryOver<graph::CompareOp>(
          x, emit.scalar(x.getElementType(), limit), graph::Comparison::GT),
      x, below);
}

FailureOr<ElementFn> Functions::take(StringRef name) {
  // Names are case-insensitive, as in onnxruntime.
  std::string lower = name.lower();
  struct Numbers {
    bool takesAlpha = false, takesBeta = false;
    std::optional<double> alpha, beta; // defaults at the end of the lists
  };
  auto numbers =
      llvm::StringSwitch<std::optional<Numbers>>(lower)
          .Cases({"relu", "tanh", "sigmoid", "softsign", "softplus"}, Numbers())
          .Cases({"affine", "scaledtanh"}, Numbers{true, true, {}, {}})
          .Case("leakyrelu", Numbers{true, false, 0.01, {}})
          .Case("thresholdedrelu", Numbers{true, false, 1.0, {}})
          .Case("elu", Numbers{true, false, 1.0, {}})
          .Case("hardsigmoid", Numbers{true, true, 0.2, 0.5})
          .Default(std::nullopt);
  if (!numbers)
    return n.fail("its activation `" + name + "` is none of ONNX's");
  std::optional<double> first, second;
  if (numbers->takesAlpha)
    first = next(alphas, numbers->alpha);
  if (numbers->takesBeta)
    second = next(betas, numbers->beta);
  if ((numbers->takesAlpha && !first) || (numbers->takesBeta && !second))
    return n.fail("its activation `" + name +
                  "` has no number in activation_alpha or activation_beta, and "
                  "ONNX has no other for it");
  double alpha = first.value_or(0), beta = second.value_or(0);
  ElementFn result =
      llvm::StringSwitch<ElementFn>(lower)
          .Case("relu",
                [](Emitter &emit, const Imported &x) {
                  return emit.unary<graph::ReluOp>(x);
                })
          .Case("tanh",
                [](Emitter &emit, const Imported &x) {
                  return emit.unary<graph::TanhOp>(x);
                })
          .Case("sigmoid",
                [](Emitter &emit, const Imported &x) {
                  return emit.unary<graph::SigmoidOp>(x);
                })
          .Case("softsign",
                [](Emitter &emit, const Imported &x) {
                  return emit.binary<graph::DivOp>(
                      x, shifted(emit, emit.unary<graph::AbsOp>(x), 1));
                })
          .Case("softplus",
                [](Emitter &emit, const Imported &x) {
                  return softplusOf(emit, x);
                })
          .Case("affine",
                [=](Emitter &emit, const Imported &x) {
                  return shifted(emit, scaled(emit, x, alpha), beta);
                })
          .Case("scaledtanh",
                [=](Emitter &emit, const Imported &x) {
                  return scaled(
                      emit, emit.unary<graph::TanhOp>(scaled(emit, x, beta)),
                      alpha);
                })
          .Case("leakyrelu",
                [=](Emitter &emit, const Imported &x) {
                  return above(emit, x, 0, scaled(emit, x, alpha));
                })
          .Case("thresholdedrelu",
                [=](Emitter &emit, const Imported &x) {
                  Imported zero =
                      emit.broadcast(emit.scalar(x.getElementType(), 0),
                                     x.getShape(), !x.isConstant());
                  return above(emit, x, alpha, zero);
                })
          .Case("elu",
                [=](Emitter &emit, const Imported &x) {
                  return above(emit, x, 0, exponential(emit, x, alpha));
                })
          .Case("hardsigmoid", [=](Emitter &emit, const Imported &x) {
            return hardSigmoidOf(emit, x, alpha, beta);
          });
  return result;
}

/// One node: a layer in one or both directions.
class Recurrence {
public:
  Recurrence(NodeImporter &n, Kind kind) : n(n), emit(n.emit) {
    cell.kind = kind;
    llvm::append_range(cell.gates, gatesOf(n.node.type));
  }

  LogicalResult run();

private:
  bool isLstm() const { return cell.kind == Kind::Lstm; }
  LogicalResult takeAttributes();
  /// Takes the functions of one direction.
  LogicalResult takeFunctions(Functions &functions, size_t direction);
  /// The number of steps of each sequence; empty if all have the full length.
  FailureOr<Imported> takeLengths(int64_t steps, int64_t batch);
  /// Splits operand `i`, [directions, rows, ..], into one part for each
  /// direction; empty if it is left out.
  FailureOr<std::vector<Imported>> takeParts(size_t i, int64_t rank,
                                             StringRef what);
  /// The initial states by direction; zeros if operand `i` is left out.
  FailureOr<std::vector<Imported>> takeStates(size_t i, int64_t batch,
                                              int64_t width);

  NodeImporter &n;
  Emitter &emit;
  RecurrentCell cell;
  bool isReversed = false, isBatchFirst = false;
  int64_t directions = 1;
  std::vector<std::string_view> activations;
};

LogicalResult Recurrence::takeAttributes() {
  StringRef direction = n.getString("direction", "forward");
  if (direction == "bidirectional")
    directions = 2;
  else if (direction == "reverse")
    isReversed = true;
  else if (direction != "forward")
    return n.fail("its direction `" + direction +
                  "` is none of forward, reverse and bidirectional");
  int64_t layout = n.getInt("layout", 0);
  if (layout != 0 && layout != 1)
    return n.fail("its layout " + Twine(layout) + " is neither 0 nor 1");
  isBatchFirst = layout == 1;
  cell.clip = n.getFloat("clip", 0);
  if (!(cell.clip >= 0))
    return n.fail("its clip is negative");
  cell.couplesForget = n.getInt("input_forget", 0) != 0;
  cell.resetsState =
      cell.kind == Kind::Gru && n.getInt("linear_before_reset", 0) == 0;
  if (const Attribute *given = n.attribute("activations"))
    activations.assign(given->strings.begin(), given->strings.end());
  size_t each = isLstm() ? 3 : cell.kind == Kind::Gru ? 2 : 1;
  if (!activations.empty() && activations.size() != each * directions)
    return n.fail(Twine(activations.size()) + " activations for " +
                  Twine(directions) + " directions of " + Twine(each));
  return success();
}

LogicalResult Recurrence::takeFunctions(Functions &functions,
                                        size_t direction) {
  SmallVector<ElementFn *, 3> places;
  SmallVector<StringRef, 3> names;
  if (cell.kind != Kind::Rnn) {
    places = {&cell.ofGates, &cell.ofNew};
    names = {"Sigmoid", "Tanh"};
    if (isLstm()) {
      places.push_back(&cell.ofCell);
      names.push_back("Tanh");
    }
  } else {
    places = {&cell.ofNew};
    names = {"Tanh"};
  }
  for (auto [i, place] : llvm::enumerate(places)) {
    StringRef name = names[i];
    if (!activations.empty())
      name = activations[direction * places.size() + i];
    auto found = functions.take(name);
    if (failed(found))
      return failure();
    *place = *found;
  }
  return success();
}

FailureOr<std::vector<Imported>> Recurrence::takeParts(size_t i, int64_t rank,
                                                       StringRef what) {
  if (!n.has(i))
    return std::vector<Imported>();
  const Imported &x = n.operand(i);
  if (x.getRank() != rank || x.getShape()[0] != directions)
    return n.fail("its " + what + " of " + toString(x.getShape()) +
                  " has not " + Twine(rank) + " dims, the first of " +
                  Twine(directions));
  return unstack(emit, x, 0);
}

FailureOr<std::vector<Imported>> Recurrence::takeStates(size_t i, int64_t batch,
                                                        int64_t width) {
  if (!n.has(i)) {
    Imported zero = emit.broadcast(
        emit.scalar(n.operand(0).getElementType(), 0), {batch, width}, false);
    return std::vector<Imported>(directions, zero);
  }
  const Imported &x = n.operand(i);
  Shape expected = {directions, batch, width};
  if (isBatchFirst)
    std::swap(expected[0], expected[1]);
  if (x.getShape() != expected)
    return n.fail(
        "its first state of " + toString(x.getShape()) + " is not of " +
        toString(expected) +
        (n.isOf("aten.lstm.")
             ? "; ONNX has no LSTM with a projection (proj_size), and PyTorch "
               "writes its weights cut off: export it with torch.export.save"
             : ""));
  return unstack(emit, x, isBatchFirst ? 1 : 0);
}

FailureOr<Imported> Recurrence::takeLengths(int64_t steps, int64_t batch) {
  if (!n.has(4))
    return Imported();
  const Imported &lengths = n.operand(4);
  if (lengths.getShape() != Shape{batch} ||
      !isa<IntegerType>(lengths.getElementType()))
    return n.fail("its sequence_lens of " + toString(lengths.getShape()) +
                  " are not one integer for each of " + Twine(batch) +
                  " sequences");
  if (!lengths.isConstant())
    return lengths;
  bool isWhole = true;
  for (int64_t length : lengths.constant->integers) {
    if (length < 0 || length > steps)
      return n.fail("its sequence_lens have " + Twine(length) +
                    " for sequences of " + Twine(steps) + " steps");
    isWhole &= length == steps;
  }
  return isWhole ? Imported() : lengths;
}

LogicalResult Recurrence::run() {
  if (failed(n.need(3)) || failed(takeAttributes()))
    return failure();
  const Imported &x = n.operand(0);
  if (x.getRank() != 3 || !isa<FloatType>(x.getElementType()))
    return n.fail("its input of " + toString(x.getShape()) +
                  " is not of three dims and floats");
  int64_t time = isBatchFirst ? 1 : 0, batch = x.getShape()[1 - time],
          steps = x.getShape()[time];
  if (failed(checkSteps(emit, steps)))
    return failure();
  std::vector<Imported> parts[4]; // of W, R, B and P
  constexpr struct {
    size_t operand;
    int64_t rank;
    const char *name;
  } taken[] = {{1, 3, "W"}, {2, 3, "R"}, {3, 2, "B"}, {7, 2, "P"}};
  for (auto [into, from] : llvm::zip_equal(parts, taken)) {
    if (from.operand == 7 && !isLstm())
      continue;
    auto found = takeParts(from.operand, from.rank, from.name);
    if (failed(found))
      return failure();
    into = std::move(*found);
  }
  auto &[inputs, hiddens, biases, peepholes] = parts;
  int64_t width = hiddens.front().getShape()[1];
  if (int64_t given = n.getInt("hidden_size", width); given != width)
    return n.fail("its hidden_size " + Twine(given) + ", and R of " +
                  toString(n.operand(2).getShape()));
  auto lengths = takeLengths(steps, batch);
  auto states = takeStates(5, batch, width),
       cells = isLstm() ? takeStates(6, batch, width)
                        : std::vector<Imported>(directions);
  if (failed(lengths) || failed(states) || failed(cells))
    return failure();
  Functions functions(n);
  std::vector<Imported> outputs;
  for (int64_t d = 0; d < directions; ++d) {
    RecurrentWeights weights{inputs[d], hiddens[d], {}, {}, {}, {}};
    if (!biases.empty()) {
      const Imported &both = biases[d];
      int64_t size = both.getShape()[0];
      weights.inputBias = emit.slice(both, 0, 0, size / 2);
      weights.hiddenBias = emit.slice(both, 0, size / 2, size);
    }
    if (!peepholes.empty())
      weights.peepholes = peepholes[d];
    RecurrentState state = {(*states)[d], (*cells)[d]};
    if (failed(takeFunctions(functions, d)))
      return failure();
    RecurrentLayer layer(emit, cell, std::move(weights));
    if (failed(layer.check(x.getShape()[2], state)))
      return failure();
    outputs.push_back(
        layer.run(x, time, state, *lengths, isReversed || d == 1));
    (*states)[d] = state.hidden;
    (*cells)[d] = state.cell;
  }
  // The output is [T, D, B, H], or [B, T, D, H].
  if (n.wants(0))
    n.result(0, stack(emit, outputs, isBatchFirst ? 2 : 1));
  int64_t at = isBatchFirst ? 1 : 0;
  if (n.wants(1))
    n.result(1, stack(emit, *states, at));
  if (isLstm() && n.wants(2))
    n.result(2, stack(emit, *cells, at));
  return success();
}

template <Kind kind>
LogicalResult recurrent(NodeImporter &n) {
  return Recurrence(n, kind).run();
}

const OpRow rows[] = {
    {"", "LSTM", 7, recurrent<Kind::Lstm>},
    {"", "GRU", 7, recurrent<Kind::Gru>},
    {"", "RNN", 7, recurrent<Kind::Rnn>},
};

} // namespace

ArrayRef<OpRow> getRecurrentRows() { return rows; }

} // namespace polyrank::frontends::onnx
