// Recurrent layers: what the cells of LSTM, GRU and RNN compute, step by step.
//
// A sequence of T steps is a `graph.scan` of the cell's ops, so that a program
// is as large for a thousand steps as for two. What does not depend on the step
// before is computed once for all steps: the product of the input with its
// matrix (T * B rows), with all biases that can be added there, and what
// becomes of the outputs.

#pragma once

#include <functional>

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// The slices of `x` along `dim`, which they lack. They are cut from halves of
/// halves: the gradient of a slice is a tensor of the size that it was cut
/// from, so n slices of the whole would take n times its elements.
std::vector<Imported> unstack(Emitter &emit, const Imported &x, int64_t dim);
/// Tensors of one shape along a new dim.
Imported stack(Emitter &emit, llvm::ArrayRef<Imported> parts, int64_t dim);

/// Whether step t is one of sequence b, t < lengths[b]: [steps, B].
Imported stepsWithin(Emitter &emit, const Imported &lengths, int64_t steps);

/// A function of each element, such as the tanh.
using ElementFn = std::function<Imported(Emitter &, const Imported &)>;

/// Which cell it is, and what formats differ in. Its matrices have a block of
/// rows for each gate.
struct RecurrentCell {
  enum class Kind { Lstm, Gru, Rnn };
  Kind kind = Kind::Lstm;
  /// Which blocks the gates are: of an LSTM the input, forget, cell and output
  /// gate; of a GRU the reset, update and new gate.
  llvm::SmallVector<int64_t, 4> gates;
  /// Of the gates; of the cell gate or the new gate; of an LSTM's cell state.
  ElementFn ofGates, ofNew, ofCell;
  /// What the functions of gates are given is held to [-clip, clip]; 0: not.
  double clip = 0;
  /// LSTM: the forget gate is 1 - the input gate.
  bool couplesForget = false;
  /// GRU: the reset gate multiplies the state, and not its product with the
  /// matrix of the new gate.
  bool resetsState = false;

  int64_t numGates() const {
    return kind == Kind::Lstm ? 4 : kind == Kind::Gru ? 3 : 1;
  }
};

/// PyTorch's cells: gates in the order input, forget, cell, output, or reset,
/// update, new; `ofNew` of an RNN is the tanh.
RecurrentCell recurrentCell(RecurrentCell::Kind kind);

/// Of one layer in one direction, for inputs of I elements and G gates of H:
/// [G * H, I], [G * H, P], [G * H] and [G * H], and of LSTMs [P, H] and [3 * H]
/// (of the input, output and forget gate). Only the first two must be there;
/// without a projection P is H.
struct RecurrentWeights {
  Imported input, hidden, inputBias, hiddenBias, projection, peepholes;
};

/// What goes from step to step: [B, P], and of an LSTM [B, H].
struct RecurrentState {
  Imported hidden, cell;
};

class RecurrentLayer {
public:
  RecurrentLayer(Emitter &emit, RecurrentCell cell, RecurrentWeights weights)
      : emit(emit), cell(std::move(cell)), weights(std::move(weights)) {}

  /// Fails where the weights do not fit each other, inputs of `width` elements,
  /// or `state`. To be called first.
  llvm::LogicalResult check(int64_t width, const RecurrentState &state);

  /// What follows `state` for the input `x`, [B, I].
  RecurrentState step(const Imported &x, const RecurrentState &state);

  /// The hidden states of all steps of `x`, which has three dims: [T, B, I] or,
  /// with `time` of one, [B, T, I]. `state` becomes the last. With `lengths`,
  /// [B], sequence b ends after lengths[b] steps: its outputs from there on are
  /// 0, its last state is that of its last step, and in reverse it begins
  /// there. Empty: all T steps.
  Imported run(const Imported &x, int64_t time, RecurrentState &state,
               const Imported &lengths, bool isReversed);

private:
  int64_t width() const {
    return weights.hidden.getShape()[0] / cell.numGates();
  }
  Imported product(const Imported &x, const Imported &matrix);
  Imported clip(const Imported &x);
  /// Gate `i` of the cell's list, [B, H], of all gates [B, G * H].
  Imported gate(const Imported &all, size_t i);
  /// What the input adds to the gates.
  Imported ofInput(const Imported &x);
  /// Makes what each step uses and none changes, for a batch of that size.
  void prepare(int64_t batch);
  RecurrentState after(const Imported &fromInput, const RecurrentState &before);
  RecurrentState afterLstm(const Imported &fromInput,
                           const RecurrentState &before);
  RecurrentState afterGru(const Imported &fromInput,
                          const RecurrentState &before);

  Emitter &emit;
  const RecurrentCell cell;
  const RecurrentWeights weights;
  /// [B, H] each: the new gate's own bias of a GRU, and an LSTM's peepholes.
  Imported newBias;
  llvm::SmallVector<Imported, 3> peepholes;
  /// A GRU's matrix without and of the new gate, where the state is reset.
  Imported gatesMatrix, newMatrix;
};

/// Fails where there is no step.
llvm::LogicalResult checkSteps(Emitter &emit, int64_t steps);

} // namespace polyrank::frontends
