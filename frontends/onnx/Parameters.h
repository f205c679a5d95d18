// Tells the model's state (parameters and buffers) from its constants.

#pragma once

#include <set>
#include <vector>

#include "frontends/onnx/Model.h"
#include "llvm/ADT/StringMap.h"

namespace polyrank::frontends::onnx {

/// A stored tensor of the model's state.
struct Parameter {
  const Tensor *tensor = nullptr;
  std::string name;
  std::vector<std::string> aliases; // further names in PyTorch's state_dict
  bool trainable = true;
};

struct ModelState {
  std::vector<Parameter> parameters;
  /// Names of values in the graph -> index of the parameter they hold.
  llvm::StringMap<size_t> values;
  std::vector<std::string> warnings;
};

/// - PyTorch's exporter says of each initializer what it is. Parameters and
///   persistent buffers are state; a buffer of integers is a constant as well,
///   since shapes and masks are computed from it.
/// - Elsewhere a float tensor of at least one dim is a parameter if its name is
///   not one that an exporter made up.
/// - Two initializers with one span are one parameter. So is a matrix that
///   reaches another name through `Identity`; but a vector, or a matrix of
///   equal elements, does so only because the exporter merged equal values (two
///   norms that are both initialised to ones), and is taken apart again.
/// - A parameter that a layer of PyTorch (an Embedding, a Linear) uses under
///   another module's name is tied: it gets that layer's name as an alias.
ModelState findState(const Model &model);

} // namespace polyrank::frontends::onnx
