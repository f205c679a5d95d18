// The calls with which an exported program begins and ends a transform.

#include "frontends/exported_program/Transforms.h"

#include "frontends/aten/Batched.h"

using namespace mlir;

namespace polyrank::frontends::exported_program {

using aten::Value;

/// No function is mapped so many times over, one inside of the other.
static constexpr int64_t maxDepth = 64;

Value Transforms::run(StringRef name, ArrayRef<Value> arguments) {
  if (llvm::any_of(arguments, [](const Value &x) { return x.hasUnknown(); }))
    return Value::unknown();
  auto takes = [&](size_t count) {
    return arguments.size() == count &&
           llvm::all_of(arguments.drop_front(),
                        [](const Value &x) { return x.isInt(); });
  };
  if (name == "lazy_load_decompositions")
    return {};
  if (name == "_vmap_increment_nesting" && depth < maxDepth) {
    ++depth;
    return {};
  }
  if (name == "_vmap_decrement_nesting" && depth > 0) {
    --depth;
    return {};
  }
  if (name == "_add_batch_dim" && takes(3))
    return aten::addBatchDim(context, arguments[0], arguments[1].getInt(),
                             arguments[2].getInt());
  if (name == "_remove_batch_dim" && takes(4))
    return aten::removeBatchDim(context, arguments[0], arguments[1].getInt(),
                                arguments[2].getInt(), arguments[3].getInt());
  context.failures.addUnsupported(
      "torch._functorch.predispatch." + name.str() +
          " of a function that is transformed (torch.func) is not supported" +
          aten::explainRegion().str(),
      context.place);
  return Value::unknown();
}

bool Transforms::refusesToDraw(StringRef name, const aten::Keywords &keywords) {
  if (depth == 0 || !aten::drawsNumbers(name))
    return false;
  for (const auto &[key, value] : keywords)
    if (key == "train" && value.isBool() && !value.getBool() &&
        context.options.dropout.value_or(0) == 0)
      return false; // of a dropout that is off
  context.failures.add(
      name.str() + " in torch.vmap: random numbers; draw them outside of the "
                   "function that is mapped, or export after model.eval()",
      context.place);
  return true;
}

} // namespace polyrank::frontends::exported_program
