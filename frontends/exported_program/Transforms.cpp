// The calls with which an exported program begins and ends a function
// transform.

#include "frontends/exported_program/Transforms.h"

#include "frontends/aten/Batched.h"

using namespace mlir;

namespace polyrank::frontends::exported_program {

using aten::Value;

/// The deepest nesting of torch.vmap.
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

/// Returns true if a call draws random numbers, which may differ for each
/// sample.
static bool draws(const aten::Context &context, StringRef name,
                  const aten::Keywords &keywords) {
  constexpr StringRef always[] = {"rand",        "randn",      "rand_like",
                                  "randn_like",  "randint",    "randperm",
                                  "bernoulli",   "normal",     "uniform",
                                  "multinomial", "exponential"};
  constexpr StringRef dropouts[] = {"dropout", "alpha_dropout",
                                    "feature_dropout",
                                    "scaled_dot_product_attention"};
  name.consume_front("aten::");
  name.consume_back("_");
  if (llvm::is_contained(always, name))
    return true;
  if (!llvm::is_contained(dropouts, name))
    return false;
  if (context.options.dropout)
    return *context.options.dropout > 0;
  bool isOn = true;
  double rate = 0;
  for (const auto &[key, value] : keywords) {
    if (key == "train" && value.isBool())
      isOn = value.getBool();
    else if ((key == "p" || key == "dropout_p") && value.isNumber())
      rate = value.getNumber();
  }
  return isOn && rate > 0;
}

bool Transforms::refusesToDraw(StringRef name, const aten::Keywords &keywords) {
  if (depth == 0 || !draws(context, name, keywords))
    return false;
  context.failures.add(
      name.str() + " in torch.vmap: random numbers; draw them outside of the "
                   "function that is mapped, or export after model.eval()",
      context.place);
  return true;
}

} // namespace polyrank::frontends::exported_program
