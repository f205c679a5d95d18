// Imports products that onnxruntime's optimizer fuses with a transpose and a
// factor, or with an activation, according to their schemas in the domain
// com.microsoft.

#include "frontends/emit/Products.h"
#include "frontends/onnx/FusedOps.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

/// `x`, with its last two dims swapped if `attribute` is set; before that, with
/// its first dim moved after the batch dims if `batchAttribute` is set.
Imported turned(NodeImporter &n, const Imported &x, StringRef attribute,
                StringRef batchAttribute) {
  int64_t rank = x.getRank();
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(rank));
  if (rank < 2)
    return x;
  if (n.getInt(batchAttribute, 0) != 0)
    std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (n.getInt(attribute, 0) != 0)
    std::swap(order[rank - 2], order[rank - 1]);
  return llvm::is_sorted(order) ? x : n.emit.transpose(x, order);
}

/// alpha * A' B'.
LogicalResult fusedMatMul(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  auto product =
      matrixProduct(n.emit, turned(n, n.operand(0), "transA", "transBatchA"),
                    turned(n, n.operand(1), "transB", "transBatchB"));
  if (failed(product))
    return failure();
  double alpha = n.getFloat("alpha", 1);
  n.result(
      0, alpha == 1
             ? *product
             : n.emit.binaryOver<graph::MulOp>(
                   *product, n.emit.scalar(product->getElementType(), alpha)));
  return success();
}

/// The result of ONNX's op `type` with the attributes of `node`, in opset
/// `version`.
FailureOr<Imported> imported(NodeImporter &n, const Node &node, StringRef type,
                             int64_t version, ArrayRef<Imported> operands) {
  const OpRow *row = findRow("", type, version);
  if (!row)
    return n.fail("an activation `" + type + "`");
  NodeImporter inner(n.emit, n.options, n.model, node, row->since, operands);
  if (failed(row->import(inner))) {
    if (!inner.getReason().empty())
      return n.fail(inner.getReason());
    return failure();
  }
  return inner.getResults()[0];
}

/// ONNX's op `type`, plus `addend` if it is not empty, followed by the
/// activation that an attribute names. The numbers of the activation are
/// separate attributes, or in a list.
LogicalResult withActivation(NodeImporter &n, StringRef type,
                             ArrayRef<Imported> operands,
                             const Imported &addend, ArrayRef<double> numbers) {
  constexpr int64_t version = 13;
  auto result = imported(n, n.node, type, version, operands);
  if (failed(result))
    return failure();
  if (addend) {
    if (addend.getShape() != result->getShape())
      return n.fail(toString(addend.getShape()) + " is added to " +
                    toString(result->getShape()));
    result = n.emit.binaryOver<graph::AddOp>(*result, addend);
  }
  StringRef activation = n.getString("activation", "");
  if (activation.empty()) {
    n.result(0, *result);
    return success();
  }
  // Before version 11 Clip has its limits as attributes.
  bool isClip = activation == "Clip";
  constexpr StringRef known[] = {
      "Clip",    "Elu",      "HardSigmoid", "LeakyRelu",       "Relu", "Selu",
      "Sigmoid", "Softplus", "Softsign",    "ThresholdedRelu", "Tanh"};
  if (!llvm::is_contained(known, activation))
    return n.fail("an activation `" + activation + "`");
  Node node = n.node;
  node.type = activation;
  node.domain = {};
  node.attributes.clear();
  constexpr std::string_view limits[] = {"min", "max"},
                             factors[] = {"alpha", "beta"};
  for (size_t i = 0; i < std::min<size_t>(2, numbers.size()); ++i) {
    Attribute number;
    number.name = isClip                           ? limits[i]
                  : activation == "Selu" && i == 1 ? std::string_view("gamma")
                                                   : factors[i];
    number.type = Attribute::Type::Float;
    number.f = static_cast<float>(numbers[i]);
    node.attributes.push_back(number);
  }
  auto activated =
      imported(n, node, activation, isClip ? 6 : version, {*result});
  if (failed(activated))
    return failure();
  n.result(0, *activated);
  return success();
}

SmallVector<Imported> operandsOf(NodeImporter &n, size_t count) {
  SmallVector<Imported> operands;
  for (size_t i = 0; i < count; ++i)
    operands.push_back(n.has(i) ? n.operand(i) : Imported());
  return operands;
}

LogicalResult fusedGemm(NodeImporter &n) {
  SmallVector<double> numbers;
  for (StringRef name : {"activation_alpha", "activation_beta"})
    if (n.attribute(name))
      numbers.push_back(n.getFloat(name, 0));
  return withActivation(n, "Gemm", operandsOf(n, 3), Imported(), numbers);
}

LogicalResult fusedConv(NodeImporter &n) {
  SmallVector<double> numbers;
  if (const Attribute *given = n.attribute("activation_params"))
    numbers.assign(given->floats.begin(), given->floats.end());
  Imported addend = n.has(3) ? n.operand(3) : Imported();
  return withActivation(n, "Conv", operandsOf(n, 3), addend, numbers);
}

constexpr StringRef domain = "com.microsoft";
const OpRow rows[] = {
    {domain, "FusedMatMul", 1, fusedMatMul},
    {domain, "FusedGemm", 1, fusedGemm},
    {domain, "FusedConv", 1, fusedConv},
};

} // namespace

ArrayRef<OpRow> getFusedProductRows() { return rows; }

} // namespace polyrank::frontends::onnx
