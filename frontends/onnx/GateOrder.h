// The order in which ONNX has the gates of recurrent layers.

#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

namespace polyrank::frontends::onnx {

/// The row block of each of PyTorch's gates in ONNX's matrices and biases: for
/// an LSTM input, forget, cell and output, for a GRU reset, update and new, for
/// an RNN its only one. Empty for other ops.
inline llvm::ArrayRef<int64_t> gatesOf(llvm::StringRef type) {
  // ONNX's orders: input, output, forget, cell; update, reset, new.
  static constexpr int64_t lstm[] = {0, 2, 3, 1}, gru[] = {1, 0, 2},
                           rnn[] = {0};
  return llvm::StringSwitch<llvm::ArrayRef<int64_t>>(type)
      .Case("LSTM", lstm)
      .Case("GRU", gru)
      .Case("RNN", rnn)
      .Default({});
}

} // namespace polyrank::frontends::onnx
