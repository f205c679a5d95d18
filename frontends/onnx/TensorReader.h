// Reads tensors: their elements in the message, or their place in an external
// file.

#pragma once

#include <map>

#include "frontends/onnx/Model.h"
#include "frontends/onnx/Wire.h"

namespace polyrank::frontends::onnx {

class TensorReader {
public:
  /// `model` is the model that is being read, or null for a lone tensor; `file`
  /// is the buffer from which offsets of spans count.
  TensorReader(Model *model, std::string_view file, Weights weights,
               EntityCount &entities)
      : model(model), file(file), weights(weights), entities(entities) {}

  StoredTensor read(pbf_reader in);

private:
  void finish(StoredTensor &tensor, std::string_view raw, bool hasRaw,
              bool isExternal, const Metadata &externalData,
              const std::vector<uint64_t> &varints);
  void placeExternal(StoredTensor &tensor, const std::string &name,
                     const Metadata &data, uint64_t length);
  std::string folder() const;
  bool isThere(std::string_view location) const;
  size_t openExternal(const std::string &name, std::string_view location);

  Model *model;
  std::string_view file;
  Weights weights;
  EntityCount &entities;
  std::map<std::string_view, size_t> externalIndex;
};

} // namespace polyrank::frontends::onnx
