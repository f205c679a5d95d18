// The attributes of tensors, and where gradients pass.

#include "dialects/graph/NamePattern.h"
#include "frontends/aten/Nested.h"
#include "frontends/torchscript/Interpreter.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace polyrank::frontends::torchscript {

using Kind = Expression::Kind;

/// Returns true if the value depends on something that trains, other than
/// through `detach`.
bool Interpreter::requiresGrad(const Value &tensor) {
  Imported read = tensor.getTensor()->read(context.emit);
  if (!read.value || !isa<FloatType>(read.getElementType()))
    return false;
  llvm::DenseSet<mlir::Value> seen = {read.value};
  SmallVector<mlir::Value> next = {read.value};
  while (!next.empty()) {
    mlir::Value value = next.pop_back_val();
    if (trained.contains(value))
      return true;
    Operation *op = value.getDefiningOp();
    if (!op || isa<graph::DetachOp>(op))
      continue;
    for (mlir::Value operand : op->getOperands())
      if (seen.insert(operand).second)
        next.push_back(operand);
  }
  return false;
}

std::optional<Value> Interpreter::tensorAttribute(StringRef name,
                                                  const Value &value) {
  if (!name.consume_front("prim::"))
    return std::nullopt;
  const aten::Tensor &tensor = *value.getTensor();
  if (name == "dtype")
    return Value(static_cast<int64_t>(rowOf(tensor.getType()).torch));
  if (name == "device")
    return Value(std::string("cpu"));
  if (name == "layout") // strided
    return Value(0);
  if (name == "requires_grad")
    return Value(requiresGrad(value));
  if (name == "shape")
    return Value::ints(tensor.getShape());
  if (name == "ndim")
    return Value(tensor.getRank());
  if (name == "itemsize")
    return Value(static_cast<int64_t>(bytesOf(tensor.getType())));
  if (name == "is_cpu")
    return Value(true);
  constexpr StringRef others[] = {
      "is_cuda",    "is_xpu",  "is_sparse",    "is_sparse_csr", "is_mkldnn",
      "is_vulkan",  "is_ipu",  "is_quantized", "is_ort",        "is_mps",
      "is_meta",    "is_mtia", "is_maia",      "is_nested",     "is_hpu",
      "is_complex", "is_xla"};
  if (llvm::is_contained(others, name))
    return Value(false);
  return std::nullopt;
}

std::optional<Value> Interpreter::detach(const Value &value, const Frame &frame,
                                         uint32_t offset, int nesting) {
  if (value.isTensor())
    return aten::call(context, "aten::detach", std::nullopt, {value});
  if (!value.isTuple() && !value.isList())
    return value;
  if (nesting == aten::maxNesting)
    return stop(frame, offset,
                "tensors lie in lists that are nested more than " +
                    Twine(aten::maxNesting) + " deep");
  aten::List elements;
  for (const Value &element : value.getElements()) {
    if (!countStep(frame, offset))
      return std::nullopt;
    auto detached = detach(element, frame, offset, nesting + 1);
    if (!detached)
      return std::nullopt;
    elements.push_back(std::move(*detached));
  }
  return value.isList() ? Value::list(std::move(elements))
                        : Value::tuple(std::move(elements));
}

std::optional<Value> Interpreter::leave(StringRef path, Value value,
                                        const Frame &frame, uint32_t offset) {
  bool isMeant = false;
  for (auto [pattern, is] : llvm::zip_equal(detachPatterns, isDetached))
    if (graph::matchesName(pattern, path))
      isMeant = is = true;
  return isMeant ? detach(value, frame, offset) : std::optional(value);
}

} // namespace polyrank::frontends::torchscript
