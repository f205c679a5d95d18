// Selects the parameters of an ONNX file that are not trained, and makes
// suggestions from the file.

#include "frontends/onnx/Freeze.h"

#include <cmath>
#include <cstring>

#include "frontends/emit/Emitter.h"
#include "frontends/import/Freeze.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
using polyrank::groupNames;

namespace polyrank::frontends::onnx {

std::string freeze(ModelState &state, ArrayRef<std::string> patterns,
                   ArrayRef<std::string> only) {
  std::vector<Freezable> parameters;
  for (Parameter &parameter : state.parameters)
    parameters.push_back(
        {parameter.name, parameter.aliases, isFloat(parameter.tensor->type),
         parameter.tensor->numElements(), parameter.trainable});
  return frontends::freeze(parameters, patterns, only, state.notes);
}

//===-- candidates -------------------------------------------------------===//

namespace {

bool isTrained(const Parameter &parameter) {
  return parameter.trainable && isFloat(parameter.tensor->type);
}

/// Reads row `row` of a float32 matrix.
bool readRow(const Model &model, const StoredTensor &tensor, int64_t row,
             std::vector<float> &into) {
  std::vector<char> bytes;
  size_t width = static_cast<size_t>(tensor.dims[1]) * sizeof(float);
  uint64_t offset = static_cast<uint64_t>(row) * width;
  bytes.resize(width);
  if (tensor.external) {
    if (!model.externals[*tensor.external].read(tensor.span->offset + offset,
                                                bytes))
      return false;
  } else {
    if (offset + width > tensor.bytes.size())
      return false;
    std::memcpy(bytes.data(), tensor.bytes.data() + offset, width);
  }
  into.resize(static_cast<size_t>(tensor.dims[1]));
  std::memcpy(into.data(), bytes.data(), width);
  return true;
}

bool isMatrix(const StoredTensor &tensor) {
  return tensor.type == ElementType::F32 && !tensor.isAbsent &&
         tensor.dims.size() == 2 && tensor.dims[0] > 0 && tensor.dims[1] > 0;
}

/// Returns true if the rows are sines and cosines of growing angles: the
/// squares of each pair sum to 1, the first row is sin(0) and cos(0), and the
/// second row begins with the sine of 1. The two are halves of a row or
/// interleaved.
bool isSinusoidal(const Model &model, const StoredTensor &tensor) {
  if (!isMatrix(tensor) || tensor.dims[0] < 3 || tensor.dims[1] < 4 ||
      tensor.dims[1] % 2 != 0)
    return false;
  size_t half = static_cast<size_t>(tensor.dims[1]) / 2;
  auto holds = [&](int64_t row, bool interleaved) {
    std::vector<float> x;
    if (!readRow(model, tensor, row, x))
      return false;
    for (size_t i = 0; i < half; ++i) {
      float sine = interleaved ? x[2 * i] : x[i];
      float cosine = interleaved ? x[2 * i + 1] : x[half + i];
      if (std::fabs(sine * sine + cosine * cosine - 1) > 1e-3F ||
          (row == 0 && std::fabs(cosine - 1) > 1e-3F))
        return false;
    }
    return true;
  };
  for (bool interleaved : {false, true}) {
    int64_t middle = tensor.dims[0] / 2, last = tensor.dims[0] - 1;
    std::vector<float> second;
    if (holds(0, interleaved) && holds(1, interleaved) &&
        holds(middle, interleaved) && holds(last, interleaved) &&
        readRow(model, tensor, 1, second) &&
        std::fabs(second[0] - std::sin(1.0F)) < 1e-3F)
      return true;
  }
  return false;
}

/// Finds a row of zeros among nonzero rows, as nn.Embedding(padding_idx) makes
/// it: the first, the last, or one of the few after the first.
std::optional<int64_t> findZeroRow(const Model &model,
                                   const StoredTensor &tensor) {
  if (!isMatrix(tensor) || tensor.dims[0] < 3)
    return std::nullopt;
  std::optional<int64_t> found;
  std::vector<float> x;
  auto isZero = [](float value) { return value == 0; };
  auto look = [&](int64_t row) {
    if (!readRow(model, tensor, row, x) || !all_of(x, isZero))
      return true;
    if (found)
      return false;
    found = row;
    return true;
  };
  for (int64_t row = 0; row < std::min<int64_t>(tensor.dims[0] - 1, 8); ++row)
    if (!look(row))
      return std::nullopt;
  return look(tensor.dims[0] - 1) ? found : std::nullopt;
}

/// Returns true for names that modules give to float buffers.
bool isBufferName(StringRef name) {
  StringRef leaf = name.contains('.') ? name.rsplit('.').second : name;
  return leaf.starts_with("running_") || leaf.ends_with("inv_freq") ||
         leaf == "pe" || leaf.contains("sin_cached") ||
         leaf.contains("cos_cached") || leaf.contains("freqs_c") ||
         leaf.contains("anchor") || leaf == "mask" || leaf.ends_with("_mask") ||
         leaf == "pixel_mean" || leaf == "pixel_std" ||
         leaf.contains("sinusoid") || leaf.contains("buffer");
}

} // namespace

std::vector<std::string> suggestFreezing(const Model &model,
                                         const ModelState &state) {
  std::vector<std::string> sinusoids, bases, buffers, padded;
  StringSet<> embeddings; // tables of embeddings
  forEachNode(model.graph, [&](const Node &node) {
    if (node.type == "Gather" && !node.inputs.empty())
      if (auto use = state.values.find(StringRef(node.inputs[0]));
          use != state.values.end())
        embeddings.insert(state.parameters[use->second.index].name);
  });
  std::set<std::string> adapted;
  for (const Parameter &parameter : state.parameters)
    if (size_t at = parameter.name.find(".lora_A"); at != std::string::npos)
      adapted.insert(parameter.name.substr(0, at));
  bool hasRoles = ExportRecord(model).hasRoles();
  bool othersAdapted = false;
  for (const Parameter &parameter : state.parameters) {
    if (!isTrained(parameter))
      continue;
    StringRef name(parameter.name);
    if (!hasRoles && isBufferName(name))
      buffers.push_back(parameter.name);
    else if (isSinusoidal(model, *parameter.tensor))
      sinusoids.push_back(parameter.name);
    if (!adapted.empty() && !name.contains("lora_")) {
      bases.push_back(parameter.name);
      othersAdapted = true;
    }
    if (!hasRoles && embeddings.contains(name))
      if (auto row = findZeroRow(model, *parameter.tensor))
        padded.push_back("row " + std::to_string(*row) + " of `" +
                         parameter.name + "`");
  }
  std::vector<std::string> notes;
  auto options = [](ArrayRef<std::string> names) {
    // One pattern for each name, or for each group of layers.
    std::vector<std::string> patterns;
    for (const std::string &name : names) {
      std::string pattern;
      SmallVector<StringRef> parts;
      StringRef(name).split(parts, '.');
      for (StringRef part : parts)
        pattern += (pattern.empty() ? "" : ".") +
                   (all_of(part, isDigit) ? std::string("*") : part.str());
      if (!is_contained(patterns, pattern))
        patterns.push_back(pattern);
    }
    std::string text;
    for (const std::string &pattern : patterns)
      text += (text.empty() ? "--freeze '" : " --freeze '") + pattern + "'";
    return text;
  };
  if (!sinusoids.empty())
    notes.push_back(groupNames(sinusoids) +
                    (sinusoids.size() == 1 ? " is a table" : " are tables") +
                    " of sinusoids, and trained as the file says no more of "
                    "it; if the model keeps it fixed: " +
                    options(sinusoids));
  if (othersAdapted)
    notes.push_back("low-rank matrices (lora_A, lora_B) stand beside " +
                    std::to_string(bases.size()) +
                    (bases.size() == 1 ? " parameter" : " parameters") +
                    " that are trained as well, since the file does not say "
                    "what the model keeps fixed: --train-only '*lora_*'");
  if (!buffers.empty())
    notes.push_back(
        groupNames(buffers) +
        (buffers.size() == 1 ? " has the name of a buffer"
                             : " have the names of buffers") +
        ", which the file does not tell from parameters, and would be "
        "trained: " +
        options(buffers) +
        ", or export with dynamo=True, optimize=False, which tells them apart");
  if (!padded.empty())
    notes.push_back(
        join(padded, ", ") +
        (padded.size() == 1 ? " is zero: if it is" : " are zero: if they are") +
        " padding, it has no gradient in PyTorch, but is trained here, since "
        "the file does not say so; export with dynamo=True, optimize=False, "
        "which does");
  return notes;
}

} // namespace polyrank::frontends::onnx
