// Nodes that cannot be imported.

#include "frontends/onnx/Failures.h"

#include "frontends/onnx/NodeImporter.h"
#include "frontends/onnx/Origin.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace polyrank::frontends;
using namespace polyrank::frontends::onnx;

FailureOr<Opsets> onnx::toOpsets(Location location,
                                 const std::vector<OpsetImport> &imports) {
  Opsets result;
  for (const OpsetImport &each : imports) {
    std::string_view domain = each.domain == "ai.onnx" ? "" : each.domain;
    if (domain.empty() && each.version > newestOpset)
      return emitError(location)
             << "opset " << each.version << " is not supported, only up to "
             << newestOpset << "; export with opset_version=20";
    result[domain] = each.version;
  }
  return result;
}

static std::string opName(const Node &node) {
  return node.domain.empty()
             ? std::string(node.type)
             : std::string(node.domain) + "." + std::string(node.type);
}

static std::string describe(const Node &node) {
  std::string scope = originOf(node).scope;
  std::string text = "`" + std::string(node.name) + "`";
  if (node.name.empty() && !node.outputs.empty())
    text = "the one of `" + std::string(node.outputs[0]) + "`";
  return scope.empty() ? text : text + " in " + scope;
}

/// Advice for the model instead of an op, appended to "is not supported".
static StringRef wayOut(const Node &node) {
  if (node.domain == "com.microsoft.nchwc")
    return ": it is of one processor's vectors; optimize the model with "
           "ORT_ENABLE_EXTENDED, not ORT_ENABLE_ALL";
  constexpr StringRef dynamic =
      ": the shape of its result depends on values, and all shapes are known "
      "when a model is compiled; keep all elements and weigh those that do "
      "not count by 0 (torch.where), or do it before the data is given";
  constexpr StringRef quantized =
      ": its weights are integers of few bits, which have no gradient; export "
      "the model as it was before it was quantized";
  return llvm::StringSwitch<StringRef>(node.type)
      .Case("Unique", dynamic)
      .Cases({"MatMulNBits", "MatMulBnb4", "QAttention", "QMoE"}, quantized)
      .Cases({"PackedAttention", "PackedMultiHeadAttention", "RemovePadding",
              "RestorePadding"},
             ": how many tokens it packs depends on values; optimize the model "
             "without packing (no convert_to_packing_mode)")
      .Cases({"NhwcConv", "NhwcFusedConv", "NhwcMaxPool"},
             ": its channels come last, as one device has them; optimize the "
             "model for onnxruntime's CPU")
      .Case("Det", "; compute it before the data is given")
      .Cases({"DFT", "STFT"}, "; compute it before the data is given, or "
                              "multiply with the matrix of the transform")
      .Default("");
}

static std::string explainUnsupported(const Node &node, const Opsets &opsets) {
  auto opset = opsets.find(node.domain);
  if (opset == opsets.end())
    return ": the model names no opset of its domain, `" +
           std::string(node.domain) + "`";
  std::string text = " (opset " + std::to_string(opset->second) +
                     ") is not supported" + wayOut(node).str();
  if (int64_t oldest = oldestVersion(node.domain, node.type);
      oldest > opset->second)
    text += ", only from opset " + std::to_string(oldest) +
            " on; export with opset_version=20";
  return text;
}

void onnx::Failures::add(const Node &node, const std::string &reason) {
  ++numNodes;
  failures.add(opName(node) + ": " + reason, describe(node));
}

void onnx::Failures::addUnsupported(const Node &node, const Opsets &opsets) {
  ++numNodes;
  failures.addUnsupported(opName(node) + explainUnsupported(node, opsets),
                          describe(node));
}
