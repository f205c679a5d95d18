// Imports losses that a model computes itself.

#include "frontends/emit/Losses.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

LabelLoss getLoss(NodeImporter &n) {
  LabelLoss loss;
  loss.scores = n.operand(0);
  if (n.has(2))
    loss.weights = n.operand(2);
  if (n.attribute("ignore_index"))
    loss.ignored = n.getInt("ignore_index", 0);
  loss.reduction = n.getString("reduction", "mean");
  return loss;
}

/// Operand 0 holds logits. Result 1 is their log-softmax.
LogicalResult softmaxCrossEntropy(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  LabelLoss loss = getLoss(n);
  // PyTorch's exporter drops the label smoothing.
  if (n.isOf("aten.cross_entropy_loss"))
    loss.smoothing = n.argument(5, "label_smoothing", 0);
  Imported logProbabilities;
  auto result = crossEntropy(n.emit, loss, n.operand(1),
                             n.wants(1) ? &logProbabilities : nullptr);
  if (failed(result))
    return failure();
  n.result(0, *result);
  n.result(1, logProbabilities);
  return success();
}

LogicalResult negativeLogLikelihoodLoss(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  auto result = negativeLogLikelihood(n.emit, getLoss(n), n.operand(1));
  if (failed(result))
    return failure();
  n.result(0, *result);
  return success();
}

const OpRow rows[] = {
    {"", "SoftmaxCrossEntropyLoss", 12, softmaxCrossEntropy},
    {"", "NegativeLogLikelihoodLoss", 12, negativeLogLikelihoodLoss},
};

} // namespace

ArrayRef<OpRow> getLossRows() { return rows; }

} // namespace polyrank::frontends::onnx
