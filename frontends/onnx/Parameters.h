// Tells the model's state (parameters and buffers) from its constants.

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "frontends/onnx/Expression.h"
#include "frontends/onnx/Model.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"

namespace polyrank::frontends::onnx {

/// A stored tensor of the model's state.
struct Parameter {
  const StoredTensor *tensor = nullptr;
  std::string name;
  std::vector<std::string> aliases; // other names in PyTorch's state_dict
  bool trainable = true;
  bool transposed = false; // for a matrix: the file holds its transpose

  /// The dims in the model.
  std::vector<int64_t> getDims() const {
    return transposed ? std::vector(tensor->dims.rbegin(), tensor->dims.rend())
                      : tensor->dims;
  }
};

/// A value of the graph that holds parameter number `index`, or its transpose.
struct ParameterUse {
  size_t index = 0;
  bool transposed = false;
};

/// A tensor that we create for a parameter that the file lacks; it owns its
/// name.
struct MadeTensor : StoredTensor {
  std::string ownName;
};

/// Parameter number `index` is a buffer that forward changes: its new value is
/// the graph's `value`.
struct BufferUpdate {
  size_t index = 0;
  std::string buffer, value;
};

struct NamedTensors;

struct ModelState {
  std::vector<Parameter> parameters;
  /// By name of value in the graph.
  llvm::StringMap<ParameterUse> values;
  /// Operands that refer to another parameter than the name of their value
  /// says.
  std::map<std::pair<const Node *, size_t>, ParameterUse> operands;
  /// Constants that are recomputed from parameters, by name of initializer.
  llvm::StringMap<Expression> folded;
  /// Operands that are such a constant, but of another parameter with equal
  /// elements.
  std::map<std::pair<const Node *, size_t>, Expression> foldedOperands;
  std::vector<std::string> warnings, notes;
  std::vector<BufferUpdate> updates;
  /// Names the buffers that forward reads and changes but whose new values the
  /// file lacks; empty if there are none. Training without these changes would
  /// train another model.
  std::string staleBuffers;
  /// Why training would leave nearly all of the file's floats unchanged; empty
  /// if it would not.
  std::string untrained;
  std::vector<std::unique_ptr<MadeTensor>> made;
  /// The number of matrix copies that are (or with `tie` would be) one
  /// parameter.
  size_t copies = 0;

  /// The index of the parameter that has the name, also as an alias.
  std::optional<size_t> find(llvm::StringRef name) const;
};

/// Finds the parameters and buffers:
///
/// - PyTorch's exporter gives the role of each initializer. Parameters and
///   persistent buffers are state; an integer buffer is a constant as well,
///   since shapes and masks are computed from it.
/// - In other files, a float tensor with at least one dim is a parameter if its
///   name was not made up by an exporter (OtherExporters.h); it trains unless
///   it is a running statistic of batch normalization.
/// - Two initializers with the same span are one parameter. So is a matrix that
///   reaches another name through `Identity`. But a vector, or a matrix of
///   equal elements, does so only because the exporter merged equal values (two
///   norms that are both initialised to ones), and is separated again.
/// - A name that nothing uses, and that can only be another name of a tied
///   parameter, is its alias, with a note.
/// - A parameter that a layer of PyTorch (an Embedding, a Linear) uses under
///   another module's name is tied: it gets that layer's name as an alias. In
///   files without class names, a layer is a node under a module's path that
///   looks up a weight or multiplies by its transpose.
///
/// It also reverts what the exporter's optimizer does:
///
/// - A matrix with a made-up name by which a linear layer multiplies is the
///   transposed weight of that layer. Its name is that of the parameter in the
///   record of the node, or else follows from the module of the node.
/// - Such a matrix that is a transposed copy of another parameter, by name or
///   by its elements, is the same parameter (with `tie`), with a note.
/// - Small parameters that happened to be equal were merged into one; the
///   records of the nodes tell which of them each node means.
/// - Zero biases that were removed are parameters again (LeftOutBiases.h).
/// - Weights of recurrent layers get PyTorch's order of gates back
///   (FoldedGates.h).
/// - Constants that were computed from parameters become expressions of them
///   again (FoldedConstants.h).
/// - One warning names the parameters that are lost.
///
/// ChangedBuffers.h describes the updates of buffers.
///
/// With `named`, all of these get the names of that file if their elements are,
/// or give, those of its tensors (NamedParameters.h).
///
/// Whatever `trainOnly` (`--train-only`) names in addition is a parameter too.
ModelState findState(const Model &model, bool tie = true,
                     const NamedTensors *named = nullptr,
                     llvm::ArrayRef<std::string> trainOnly = {});

} // namespace polyrank::frontends::onnx
