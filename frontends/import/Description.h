// A description of a model file, as far as it needs no sizes for open dims.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::frontends {

/// An input or output. A dim is a number or a name that stands for one; both
/// are missing if the file says nothing.
struct DescribedValue {
  struct Dim {
    std::optional<int64_t> size;
    std::string name;
  };
  std::string name, dtype; // float32, as NumPy calls it; empty: no tensor
  bool isFloat = false;
  std::optional<std::vector<Dim>> dims;
};

struct DescribedParameter {
  std::string name, dtype;
  std::vector<int64_t> shape;
  int64_t elements = 0, bytes = 0;
  bool trainable = false;
  std::vector<std::string> aliases; // other names, if it is tied
};

/// How often an op occurs; a function of the model counts as the nodes of its
/// body.
struct DescribedOp {
  std::string name;             // with the domain, unless that is ONNX's own
  int64_t opset = 0, count = 0; // opset 0: the format has none
  bool isSupported = true;
  std::vector<std::string> nodes; // if it is unsupported: `node` in module
};

/// The ops by descending count.
std::vector<DescribedOp>
sortByCount(const std::map<std::string, DescribedOp> &ops);

struct ModelDescription {
  std::string producer;
  int64_t opset = 0; // 0: the format has none
  std::vector<DescribedValue> inputs, outputs;
  std::vector<DescribedParameter> parameters;
  std::vector<DescribedOp> ops; // the most frequent first
  int64_t numDropouts = 0;      // including those that are off
  int64_t numBatchNorms = 0;
  std::vector<std::string> warnings;    // about parameters that the export lost
  std::vector<std::string> suggestions; // parameters to freeze
};

} // namespace polyrank::frontends
