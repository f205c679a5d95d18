// Estimates ops by their FLOPs, bytes and collectives.

#include "compiler/cost/OpTime.h"

#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cost;

bool polyrank::cost::isFree(Operation *op) {
  return op->getNumOperands() == 0 ||
         !isa<graph::GraphOp, sharding::MovementOp>(op) ||
         isa<graph::ReshapeOp, graph::BroadcastOp, graph::DetachOp>(op);
}

/// The element type in which an op computes: that of its first float, or else
/// of its first operand.
static Type getComputedType(Operation *op) {
  auto elementType = [](Value value) {
    return graph::getGlobalType(value).getElementType();
  };
  for (Value operand : op->getOperands())
    if (Type type = elementType(operand); isa<FloatType>(type))
      return type;
  return elementType(op->getOperand(0));
}

/// The number of devices among which the op's FLOPs are divided.
static int64_t countShares(Operation *op) {
  SmallVector<sharding::AxisRef> used;
  int64_t shares = 1;
  auto use = [&](ArrayRef<sharding::AxisRef> axes) {
    for (sharding::AxisRef axis : axes)
      if (llvm::none_of(used, [&](const sharding::AxisRef &other) {
            return other.overlaps(axis);
          })) {
        used.push_back(axis);
        shares *= axis.size;
      }
  };
  auto useType = [&](Type type) {
    if (sharding::LayoutAttr layout = sharding::getLayout(type)) {
      for (sharding::DimAttr dim : layout.getDims())
        use(dim.getAxes());
    }
  };
  for (Type type : op->getOperandTypes())
    useType(type);
  for (Type type : op->getResultTypes())
    useType(type);
  return shares;
}

/// The bytes of one device's blocks of the op's operands and results, as a
/// share of the bytes of the whole tensors.
static double getLocalShare(Operation *op) {
  int64_t local = 0, whole = 0;
  auto add = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return;
    local += getLocalBytes(tensor);
    whole += getLocalBytes(
        RankedTensorType::get(tensor.getShape(), tensor.getElementType()));
  };
  llvm::for_each(op->getOperandTypes(), add);
  llvm::for_each(op->getResultTypes(), add);
  return whole ? static_cast<double>(local) / static_cast<double>(whole) : 1;
}

/// The product of one device: its columns are the last dim of the result, its
/// depth follows from the FLOPs, and all other dims of the result are rows.
static Product getProduct(Operation *op, double flops) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  ArrayRef<int64_t> shape = sharding::getLocalType(type).getShape();
  Product product;
  for (int64_t size : shape.empty() ? shape : shape.drop_back())
    product.rows *= size;
  product.columns = shape.empty() ? 1 : shape.back();
  double elements =
      static_cast<double>(product.rows) * static_cast<double>(product.columns);
  product.depth =
      std::max<int64_t>(1, static_cast<int64_t>(flops / (2 * elements)));
  return product;
}

double polyrank::cost::getOpTime(Operation *op, const Machine &machine,
                                 const CostModel *model) {
  if (isFree(op))
    return 0;
  if (auto movement = dyn_cast<sharding::MovementOp>(op)) {
    auto kind = movement.getCollectiveKind();
    if (!kind)
      return 0; // a part of the value, which its readers find
    return static_cast<double>(model->getPicoseconds(
        *kind, movement.getMovement().axes, CostModel::getBytes(movement)));
  }
  graph::Cost cost = cast<graph::GraphOp>(op).getCost();
  int64_t read = isa<graph::GatherOp>(op) ? cost.bytesWritten : cost.bytesRead;
  double bytes =
      static_cast<double>(read + cost.bytesWritten) * getLocalShare(op);
  double flops =
      static_cast<double>(cost.flops) / static_cast<double>(countShares(op));
  CommandWork work{flops, bytes};
  if (graph::isProduct(op))
    work.product = getProduct(op, flops);
  return machine.getCommandTime(work, getComputedType(op));
}
