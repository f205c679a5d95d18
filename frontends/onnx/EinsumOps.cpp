// Imports Einsum.

#include "frontends/emit/Einsum.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

LogicalResult einsum(NodeImporter &n) {
  if (failed(n.need(std::max<size_t>(n.getNumOperands(), 1))))
    return failure();
  SmallVector<Imported> operands;
  for (size_t i = 0; i < n.getNumOperands(); ++i)
    operands.push_back(n.operand(i));
  auto result =
      frontends::einsum(n.emit, n.getString("equation", "").str(), operands);
  if (failed(result))
    return failure();
  n.result(0, *result);
  return success();
}

const OpRow rows[] = {{"", "Einsum", 12, einsum}};

} // namespace

ArrayRef<OpRow> getEinsumRows() { return rows; }

} // namespace polyrank::frontends::onnx
