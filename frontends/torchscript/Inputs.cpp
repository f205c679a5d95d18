// The inputs and outputs of a TorchScript model's `forward`.

#include "frontends/torchscript/Inputs.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace polyrank::frontends::torchscript {

using archive::PickleValue;

namespace {

/// Which values a type accepts: a tensor, a tensor or None, or others.
enum class Takes { Tensor, TensorOrNone, Other };

Takes takes(const Expression *type) {
  if (!type || type->isName("Tensor"))
    return Takes::Tensor;
  if (type->is(Expression::Kind::Subscript) &&
      type->operands[0]->isName("Optional") &&
      type->operands[1]->isName("Tensor"))
    return Takes::TensorOrNone;
  return Takes::Other;
}

/// The type as in the code: "List[Tensor]".
std::string textOf(const Expression &type) {
  if (!type.is(Expression::Kind::Subscript))
    return type.is(Expression::Kind::Tuple) ? "()" : type.dotted();
  std::string inner;
  SmallVector<const Expression *> parts = {type.operands[1]};
  if (type.operands[1]->is(Expression::Kind::Tuple))
    parts.assign(type.operands[1]->operands.begin(),
                 type.operands[1]->operands.end());
  for (const Expression *part : parts)
    inner += (inner.empty() ? "" : ", ") + textOf(*part);
  return textOf(*type.operands[0]) + "[" + inner + "]";
}

} // namespace

Result<std::vector<ForwardArgument>>
findArguments(const Archive &archive, const Function &forward,
              const ImportOptions &options) {
  const PickleValue *traced = archive.getTracedInputs();
  std::vector<ForwardArgument> result;
  auto fail = [&](const std::string &name, const Twine &what) {
    return Error{(archive.path() + ": input `" + name + "` " + what).str()};
  };
  for (auto [i, argument] :
       llvm::enumerate(ArrayRef(forward.arguments).drop_front())) {
    ForwardArgument found;
    found.name = argument.name;
    auto given = options.inputs.find(argument.name);
    bool isGiven = given != options.inputs.end(),
         isKnown = options.known.contains(argument.name);
    Takes kind = takes(argument.type);
    if (kind == Takes::Other) {
      if (isGiven)
        return fail(argument.name, "is no tensor but " +
                                       Twine(textOf(*argument.type)) +
                                       "; --input gives sizes of tensors");
      if (!argument.defaultValue)
        return fail(argument.name,
                    "is " + Twine(textOf(*argument.type)) +
                        " and has no default; inputs are tensors. Export a "
                        "module whose forward takes tensors and calls this "
                        "model");
      result.push_back(std::move(found));
      continue;
    }
    const PickleValue *example =
        traced && traced->is(PickleValue::Kind::List) &&
                i < traced->elements.size() &&
                traced->elements[i]->is(PickleValue::Kind::Tensor)
            ? traced->elements[i]
            : nullptr;
    found.isInput = isGiven || isKnown || example || !argument.defaultValue;
    if (!found.isInput) {
      result.push_back(std::move(found));
      continue;
    }
    std::optional<ElementType> type;
    if (example) {
      type = example->tensor->type;
      if (!aten::isSupported(*type))
        return fail(argument.name, "is " + Twine(longNameOf(*type)) +
                                       ", which is not supported");
      found.traced = example->tensor->sizes;
    } else if (isGiven) {
      type = aten::supportedType(given->second.dtype);
      if (!type)
        return fail(argument.name,
                    "is `" + Twine(given->second.dtype) +
                        "` by --input, which is no element type that is "
                        "supported");
    } else if (!isKnown) {
      return fail(argument.name,
                  "has neither sizes nor an element type in the file, since "
                  "torch.jit.script keeps none; give them with --input " +
                      Twine(argument.name) + "=float32[D0,D1,..]");
    }
    found.type = type.value_or(ElementType::F32);
    result.push_back(std::move(found));
  }
  return result;
}

std::vector<DeclaredInput> declareInputs(MLIRContext *context,
                                         ArrayRef<ForwardArgument> found,
                                         const ImportOptions &options) {
  std::vector<DeclaredInput> result;
  for (const ForwardArgument &argument : found) {
    if (!argument.isInput)
      continue;
    DeclaredInput input;
    input.name = argument.name;
    input.dtype = longNameOf(argument.type);
    input.elementType = computedType(context, argument.type);
    input.held = heldType(context, argument.type);
    if (argument.traced) {
      bool isGiven = options.inputs.contains(argument.name);
      input.dims.emplace();
      // The code is valid for other sizes as well.
      for (int64_t size : *argument.traced)
        input.dims->push_back(
            {isGiven ? std::nullopt : std::optional(size), ""});
    }
    result.push_back(std::move(input));
  }
  return result;
}

Result<std::vector<std::pair<std::string, aten::Value>>>
nameOutputs(const aten::Value &result) {
  std::vector<std::pair<std::string, aten::Value>> outputs;
  auto add = [&](const std::string &name,
                 const aten::Value &value) -> Result<void> {
    if (!value.isTensor() && !value.isNumber())
      return Error{"output `" + name + "` is " + value.describe() +
                   "; the outputs of a model are tensors"};
    outputs.emplace_back(name, value);
    return {};
  };
  if (result.isDict()) {
    for (const auto &[key, value] : result.getDict())
      if (auto added = add(key.isString() ? key.getString() : "output", value);
          !added)
        return added.error();
  } else if (result.isTuple() || result.isList()) {
    const aten::List &elements = result.getElements();
    for (auto [i, element] : llvm::enumerate(elements)) {
      // Elements that a call left out are no outputs.
      if (element.isNone())
        continue;
      std::string name =
          elements.size() == 1 ? "output" : "output_" + std::to_string(i);
      if (auto added = add(name, element); !added)
        return added.error();
    }
  } else if (auto added = add("output", result); !added) {
    return added.error();
  }
  if (outputs.empty())
    return Error{"`forward` returns nothing"};
  return outputs;
}

} // namespace polyrank::frontends::torchscript
