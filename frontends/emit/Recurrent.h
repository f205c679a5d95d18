// Recurrent layers: the cells of LSTM, GRU and RNN over the steps of a
// sequence.
//
// A sequence of T steps is a `graph.scan` of the cell's ops, so that a program
// for a thousand steps is no larger than for two. What does not depend on the
// previous step is computed once for all steps: the product of the input with
// its matrix (T * B rows), with all biases that can be added there, and
// whatever consumes the outputs.

#pragma once

#include <functional>

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// The slices of `x` along `dim`, without that dim. They are cut by repeated
/// halving: the gradient of a slice is a tensor of the size that it was cut
/// from, so n slices of the whole tensor would take n times its memory.
std::vector<Imported> unstack(Emitter &emit, const Imported &x, int64_t dim);
/// Joins tensors of the same shape along a new dim.
Imported stack(Emitter &emit, llvm::ArrayRef<Imported> parts, int64_t dim);

/// A mask [steps, B]: true if step t belongs to sequence b, t < lengths[b].
Imported stepsWithin(Emitter &emit, const Imported &lengths, int64_t steps);

/// An elementwise function, such as tanh.
using ElementFn = std::function<Imported(Emitter &, const Imported &)>;

/// The kind of cell, and the details in which formats differ. Its matrices have
/// a block of rows for each gate.
struct RecurrentCell {
  enum class Kind { Lstm, Gru, Rnn };
  Kind kind = Kind::Lstm;
  /// The block of each gate: of an LSTM the input, forget, cell and output
  /// gate; of a GRU the reset, update and new gate.
  llvm::SmallVector<int64_t, 4> gates;
  /// The activations of the gates, of the cell gate or new gate, and of an
  /// LSTM's cell state.
  ElementFn ofGates, ofNew, ofCell;
  /// The inputs of the activations are clamped to [-clip, clip]; 0: they are
  /// not.
  double clip = 0;
  /// LSTM: the forget gate is 1 - the input gate.
  bool couplesForget = false;
  /// GRU: the reset gate multiplies the state instead of the state's product
  /// with the matrix of the new gate.
  bool resetsState = false;

  int64_t numGates() const {
    return kind == Kind::Lstm ? 4 : kind == Kind::Gru ? 3 : 1;
  }
};

/// PyTorch's cells: gates in the order input, forget, cell, output, or reset,
/// update, new; `ofNew` of an RNN is tanh.
RecurrentCell recurrentCell(RecurrentCell::Kind kind);

/// The weights of one layer in one direction, for inputs of I elements and G
/// gates of H: [G * H, I], [G * H, P], [G * H] and [G * H], and for LSTMs [P,
/// H] and [3 * H] (of the input, output and forget gate). All but the first two
/// are optional; without a projection P is H.
struct RecurrentWeights {
  Imported input, hidden, inputBias, hiddenBias, projection, peepholes;
};

/// What is carried from step to step: [B, P], and for an LSTM [B, H].
struct RecurrentState {
  Imported hidden, cell;
};

class RecurrentLayer {
public:
  RecurrentLayer(Emitter &emit, RecurrentCell cell, RecurrentWeights weights)
      : emit(emit), cell(std::move(cell)), weights(std::move(weights)) {}

  /// Fails if the weights do not fit each other, inputs of `width` elements or
  /// `state`. Must be called first.
  llvm::LogicalResult check(int64_t width, const RecurrentState &state);

  /// Returns the state after `state` for the input `x`, [B, I].
  RecurrentState step(const Imported &x, const RecurrentState &state);

  /// Returns the hidden states of all steps of `x`: [T, B, I] if `time` is 0,
  /// [B, T, I] if it is 1. `state` becomes the last state. With `lengths`, [B],
  /// sequence b ends after lengths[b] steps: its later outputs are 0, its last
  /// state is that of its last step, and in reverse it starts there. Empty: all
  /// T steps.
  Imported run(const Imported &x, int64_t time, RecurrentState &state,
               const Imported &lengths, bool isReversed);

private:
  int64_t width() const {
    return weights.hidden.getShape()[0] / cell.numGates();
  }
  Imported product(const Imported &x, const Imported &matrix);
  Imported clip(const Imported &x);
  /// Gate `i` of the cell's list, [B, H], out of all gates [B, G * H].
  Imported gate(const Imported &all, size_t i);
  /// The contribution of the input to the gates.
  Imported ofInput(const Imported &x);
  /// Creates the values that all steps share, for a batch of that size.
  void prepare(int64_t batch);
  RecurrentState after(const Imported &fromInput, const RecurrentState &before);
  RecurrentState afterLstm(const Imported &fromInput,
                           const RecurrentState &before);
  RecurrentState afterGru(const Imported &fromInput,
                          const RecurrentState &before);

  Emitter &emit;
  const RecurrentCell cell;
  const RecurrentWeights weights;
  /// [B, H] each: a GRU's separate bias of the new gate, and the peepholes of
  /// an LSTM.
  Imported newBias;
  llvm::SmallVector<Imported, 3> peepholes;
  /// With `resetsState`: a GRU's matrix without the new gate, and that of the
  /// new gate.
  Imported gatesMatrix, newMatrix;
};

/// Fails if there is no step.
llvm::LogicalResult checkSteps(Emitter &emit, int64_t steps);

} // namespace polyrank::frontends
