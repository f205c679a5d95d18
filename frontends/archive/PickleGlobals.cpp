// The globals that a pickle may name and call: PyTorch's functions that make
// tensors, and scripted classes.

#include "frontends/archive/PickleReader.h"

namespace polyrank::frontends::archive {

/// The element type of the class "FloatStorage", .. of torch.
static std::optional<ElementType> typeOfStorage(std::string_view className) {
  return findElementType(&ElementTypeRow::storage, className);
}

/// The type that torch calls "float32", ..
static std::optional<ElementType> typeNamed(std::string_view name) {
  auto type = findElementType(&ElementTypeRow::longName, name);
  return type && rowOf(*type).torch >= 0 ? type : std::nullopt;
}

using Kind = PickleValue::Kind;

/// Globals are values that only REDUCE and NEWOBJ use; all others are refused
/// here, before anything is done with them.
void PickleReader::global() {
  std::string_view module = line(), name = line();
  std::string text = std::string(module) + "." + std::string(name);
  constexpr std::string_view functions[] = {
      "collections.OrderedDict",
      "torch._utils._rebuild_parameter",
      "torch._utils._rebuild_tensor_v2",
      "torch._utils._rebuild_tensor_v3",
      "torch.Size",
      "torch.device",
      "torch.jit._pickle.build_boollist",
      "torch.jit._pickle.build_doublelist",
      "torch.jit._pickle.build_intlist",
      "torch.jit._pickle.build_tensorlist",
      "torch.jit._pickle.restore_type_tag",
      "torch.serialization._get_layout",
      "torch.storage.UntypedStorage"};
  bool isKnown =
      module == "__torch__" || module.starts_with("__torch__.") ||
      (module == "torch" && (typeOfStorage(name) || typeNamed(name)));
  for (std::string_view function : functions)
    isKnown |= text == function;
  if (!isKnown)
    throw Malformed{"names `" + text +
                    "`, which is none of the globals that PyTorch writes for "
                    "tensors and scripted classes; nothing of it was loaded"};
  push(Kind::Name, text);
}

static bool isClass(const PickleValue &value) {
  return value.is(Kind::Name) && value.text.starts_with("__torch__.");
}

void PickleReader::newObject() {
  const PickleValue *arguments = pop(), *type = pop();
  if (!isClass(*type))
    throw Malformed{"makes an object of " + describe(*type)};
  if (!arguments->is(Kind::Tuple) || !arguments->elements.empty())
    throw Malformed{"makes an object of `" + type->text + "` with arguments"};
  push(Kind::Object, type->text);
}

void PickleReader::build() {
  PickleValue *state = pop(), *object = top();
  // An attribute that Python sets on an OrderedDict (`_metadata` of a
  // state_dict) is not an entry of it.
  if (object->is(Kind::Dict) && state->is(Kind::Dict))
    return;
  if (!object->is(Kind::Object) || !object->elements.empty())
    throw Malformed{"sets the state of " + describe(*object)};
  addElements(*object, std::span(&state, 1));
}

void PickleReader::reduce() {
  PickleValue *arguments = pop(), *function = pop();
  if (!function->is(Kind::Name) || !arguments->is(Kind::Tuple))
    throw Malformed{"calls " + describe(*function)};
  std::string_view name = function->text;
  std::span<const PickleValue *const> given = arguments->elements;
  auto need = [&](bool holds) {
    if (!holds)
      throw Malformed{"calls `" + std::string(name) +
                      "` with arguments that it does not take"};
  };
  auto is = [&](size_t i, Kind kind) {
    return i < given.size() && given[i]->is(kind);
  };
  if (isClass(*function)) { // a member of an enumeration
    addElements(push(Kind::Object, name), given);
  } else if (name == "collections.OrderedDict") {
    need(given.empty());
    push(Kind::Dict);
  } else if (name == "torch._utils._rebuild_tensor_v2") {
    need(is(0, Kind::Storage));
    rebuildTensor(given, /*isUntyped=*/false);
  } else if (name == "torch._utils._rebuild_tensor_v3") {
    need(is(0, Kind::Storage));
    rebuildTensor(given, /*isUntyped=*/true);
  } else if (name == "torch._utils._rebuild_parameter") {
    need(given.size() == 3 && is(0, Kind::Tensor) && is(1, Kind::Bool));
    PickleValue &parameter = push(Kind::Tensor);
    chargeTensor(*given[0]->tensor);
    parameter.tensor = std::make_unique<PickledTensor>(*given[0]->tensor);
    parameter.tensor->requiresGrad = given[1]->integer != 0;
  } else if (name.starts_with("torch.jit._pickle.build_")) {
    need(given.size() == 1 && is(0, Kind::List));
    stack.push_back(const_cast<PickleValue *>(given[0]));
  } else if (name == "torch.jit._pickle.restore_type_tag") {
    need(given.size() == 2 && is(1, Kind::String));
    stack.push_back(const_cast<PickleValue *>(given[0]));
  } else if (name == "torch.Size") {
    need(given.size() == 1 && is(0, Kind::Tuple));
    stack.push_back(const_cast<PickleValue *>(given[0]));
  } else if (name == "torch.device") {
    need(!given.empty() && given.size() <= 2 && is(0, Kind::String));
    push(Kind::Name, "torch.device:" + given[0]->text);
  } else if (name == "torch.serialization._get_layout") {
    need(given.size() == 1 && is(0, Kind::String));
    push(Kind::Name, given[0]->text);
  } else {
    throw Malformed{"calls `" + std::string(name) + "`, which is no function"};
  }
}

/// The persistent id ('storage', class, key, device, elements).
void PickleReader::storage() {
  const PickleValue *id = pop();
  auto is = [&](size_t i, Kind kind) { return id->elements[i]->is(kind); };
  if (!id->is(Kind::Tuple) || id->elements.size() != 5 ||
      !is(0, Kind::String) || id->elements[0]->text != "storage" ||
      !is(1, Kind::Name) || !is(2, Kind::String) || !is(3, Kind::String) ||
      !is(4, Kind::Int))
    throw Malformed{"has a persistent id that is no storage"};
  std::string_view type = id->elements[1]->text;
  PickledStorage storage;
  if (type != "torch.storage.UntypedStorage") {
    storage.type = type.starts_with("torch.")
                       ? typeOfStorage(type.substr(strlen("torch.")))
                       : std::nullopt;
    if (!storage.type)
      throw Malformed{"has a storage of class `" + std::string(type) + "`"};
  }
  charge(sizeof(PickledStorage) + id->elements[2]->text.size());
  storage.key = id->elements[2]->text;
  storage.elements = id->elements[4]->integer;
  if (storage.elements < 0)
    throw Malformed{"has a storage of " + std::to_string(storage.elements) +
                    " elements"};
  push(Kind::Storage).storage =
      std::make_unique<PickledStorage>(std::move(storage));
}

PickleValue &
PickleReader::rebuildTensor(std::span<const PickleValue *const> arguments,
                            bool isUntyped) {
  // (storage, offset, sizes, strides, requires_grad, hooks[, dtype][, bits])
  auto fail = [] {
    return Malformed{"has a tensor whose description is not understood"};
  };
  size_t number = isUntyped ? 7 : 6;
  if (arguments.size() != number && arguments.size() != number + 1)
    throw fail();
  auto integers = [&](const PickleValue &value) {
    if (!value.is(Kind::Tuple))
      throw fail();
    charge(sizeof(int64_t) * value.elements.size());
    std::vector<int64_t> result;
    for (const PickleValue *element : value.elements) {
      if (!element->is(Kind::Int))
        throw fail();
      result.push_back(element->integer);
    }
    return result;
  };
  if (!arguments[1]->is(Kind::Int) || !arguments[4]->is(Kind::Bool) ||
      !arguments[5]->is(Kind::Dict))
    throw fail();
  if (!arguments[5]->elements.empty())
    throw Malformed{"has a tensor with hooks, which are Python code"};
  if (arguments.size() == number + 1 && (!arguments[number]->is(Kind::Dict) ||
                                         !arguments[number]->elements.empty()))
    throw Malformed{"has a tensor that is conjugated or negated when it is "
                    "read; save a copy of it (resolve_conj, resolve_neg)"};
  PickledTensor tensor;
  charge(sizeof(PickledTensor) + arguments[0]->storage->key.size());
  tensor.storage = *arguments[0]->storage;
  tensor.offset = arguments[1]->integer;
  tensor.sizes = integers(*arguments[2]);
  tensor.strides = integers(*arguments[3]);
  tensor.requiresGrad = arguments[4]->integer != 0;
  std::optional<ElementType> type = tensor.storage.type;
  if (isUntyped) {
    std::string_view name = arguments[6]->text;
    type = arguments[6]->is(Kind::Name) && name.starts_with("torch.")
               ? typeNamed(name.substr(strlen("torch.")))
               : std::nullopt;
  }
  if (!type)
    throw fail();
  tensor.type = *type;
  PickleValue &value = push(Kind::Tensor);
  value.tensor = std::make_unique<PickledTensor>(std::move(tensor));
  return value;
}

} // namespace polyrank::frontends::archive
