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
  std::vector<std::string> aliases; // further names in PyTorch's state_dict
  bool trainable = true;
  bool transposed = false; // a matrix: the file holds its transpose

  /// As the model has them.
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

/// A tensor of a parameter that the file lacks; it has its name itself.
struct MadeTensor : StoredTensor {
  std::string ownName;
};

/// Parameter number `index` is a buffer that forward changes: it becomes the
/// graph's `value`.
struct BufferUpdate {
  size_t index = 0;
  std::string buffer, value;
};

struct NamedTensors;

struct ModelState {
  std::vector<Parameter> parameters;
  /// By the names of values in the graph.
  llvm::StringMap<ParameterUse> values;
  /// Operands that are another parameter than their value's name says.
  std::map<std::pair<const Node *, size_t>, ParameterUse> operands;
  /// Constants that are computed from parameters again, by initializers' names.
  llvm::StringMap<Expression> folded;
  /// Operands that are such a constant of another parameter, whose elements
  /// were equal.
  std::map<std::pair<const Node *, size_t>, Expression> foldedOperands;
  std::vector<std::string> warnings, notes;
  std::vector<BufferUpdate> updates;
  /// Names the buffers that forward reads and changes, and whose new values the
  /// file does not have; empty where there is none. A model that trains without
  /// these changes is another one.
  std::string staleBuffers;
  /// Why training would leave nearly all of the file's floats as they are;
  /// empty where it does not.
  std::string untrained;
  std::vector<std::unique_ptr<MadeTensor>> made;
  /// Copies of a matrix that are, or with `tie` would be, one parameter.
  size_t copies = 0;

  /// The number of the parameter that has the name, or has it as an alias.
  std::optional<size_t> find(llvm::StringRef name) const;
};

/// - PyTorch's exporter says of each initializer what it is. Parameters and
///   persistent buffers are state; a buffer of integers is a constant as well,
///   since shapes and masks are computed from it.
/// - Elsewhere a float tensor of at least one dim is a parameter if its name is
///   not one that an exporter made up (OtherExporters.h); it trains, unless it
///   is a running statistic of batch normalization.
/// - Two initializers with one span are one parameter. So is a matrix that
///   reaches another name through `Identity`; but a vector, or a matrix of
///   equal elements, does so only because the exporter merged equal values (two
///   norms that are both initialised to ones), and is taken apart again.
/// - A name that nothing uses, and that can only be a further one of a tied
///   parameter, is its alias, with a note.
/// - A parameter that a layer of PyTorch (an Embedding, a Linear) uses under
///   another module's name is tied: it gets that layer's name as an alias. In
///   files that do not name classes such a layer is what looks up a weight, or
///   multiplies with its transpose, under a module's path.
///
/// And of what the exporter's optimizer does to them:
///
/// - A matrix under a made-up name that a linear layer multiplies with is that
///   layer's weight, transposed. Its name is that of the parameter which the
///   record of the node names, or else that of the node's module.
/// - Such a matrix that is a transposed copy of another parameter, by name or
///   by its elements, is the same parameter (with `tie`), with a note.
/// - Small parameters that happened to be equal have been merged into one; the
///   records of the nodes tell which of them each node means.
/// - Biases of zeros that have been left out are parameters again
///   (LeftOutBiases.h).
/// - Weights of recurrent layers are put back into PyTorch's order of gates
///   (FoldedGates.h).
/// - Constants that were computed from parameters become expressions of them
///   again (FoldedConstants.h).
/// - The parameters that are gone are named in one warning.
///
/// What becomes of buffers is said in ChangedBuffers.h.
///
/// With `named` all of these have the names of that file where their elements
/// are, or give, those of its tensors (NamedParameters.h).
///
/// What `trainOnly` (`--train-only`) names beside all of these is a parameter
/// too.
ModelState findState(const Model &model, bool tie = true,
                     const NamedTensors *named = nullptr,
                     llvm::ArrayRef<std::string> trainOnly = {});

} // namespace polyrank::frontends::onnx
