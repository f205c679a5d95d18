// The object graph of a TorchScript file.

#include "frontends/torchscript/ModelState.h"

#include "llvm/ADT/STLExtras.h"

namespace polyrank::frontends::torchscript {

using archive::PickleValue;
using Kind = PickleValue::Kind;

/// The memory of each, without its texts and elements but with its places in
/// tables: a tensor's entry and holder, a container or object, an attribute.
static constexpr uint64_t entryBytes = 2 * (sizeof(aten::StateEntry) + 128),
                          objectBytes = 256, attributeBytes = 192;

bool ModelState::charge(uint64_t bytes, const std::string &path) {
  Budget &budget = archive.getBudget();
  if (budget.take(bytes))
    return true;
  fail(archive.path() + ": " + (path.empty() ? "the model" : "`" + path + "`") +
       " " + budget.describe());
  return false;
}

Value ModelState::convertTensor(const archive::PickledTensor &tensor,
                                const std::string &path, aten::Role role,
                                Archive::Folder folder, Holder holder) {
  auto stored = archive.locate(tensor, folder, path);
  if (!stored) {
    fail(stored.error().message);
    return {};
  }
  if (std::string why = aten::explainType(*stored, role); !why.empty()) {
    fail(archive.path() + ": tensor `" + path + "` " + why);
    return {};
  }
  if (entries.size() == maxEntries) {
    fail(archive.path() + ": holds more than " + std::to_string(maxEntries) +
         " tensors");
    return {};
  }
  if (!charge(entryBytes + path.size() + holder.attribute.size(), path))
    return {};
  entries.push_back({path, std::move(*stored), role});
  holders.push_back(std::move(holder));
  return {}; // see setTensors
}

Value ModelState::convertObject(const PickleValue &pickled,
                                const std::string &path) {
  auto found = archive.findClass(pickled.text);
  if (!found) {
    fail(found.error().message);
    return {};
  }
  if (!found->definition) {
    fail(archive.path() + ": " +
         (path.empty() ? "the model" : "`" + path + "`") + " is of class `" +
         pickled.text +
         "`, which the file does not define; classes written in C++ (of "
         "quantization, of an extension) are not supported");
    return {};
  }
  const Class &definition = *found->definition;
  if (definition.base == "Enum") {
    auto member = std::make_shared<EnumMember>();
    member->className = pickled.text;
    Value value{std::shared_ptr<aten::Object>(member)};
    if (!charge(objectBytes + pickled.text.size(), path))
      return {};
    converted[&pickled] = value;
    if (pickled.elements.size() == 1)
      member->value = convert(*pickled.elements[0], path, aten::Role::Constant,
                              Archive::Folder::Data, {});
    return value;
  }
  auto instance = std::make_shared<Instance>();
  instance->className = pickled.text;
  instance->type = *found;
  instance->path = instance->isModule() ? path : "";
  Value value{std::shared_ptr<aten::Object>(instance)};
  if (!charge(objectBytes + pickled.text.size() + path.size(), path))
    return {};
  converted[&pickled] = value;
  size_t first = entries.size();
  if (pickled.elements.empty())
    return value;
  const PickleValue &state = *pickled.elements[0];
  if (!state.is(Kind::Dict)) {
    fail(archive.path() + ": the state of `" + path + "` is " +
         describe(state) + "; classes with __getstate__ are not supported");
    return value;
  }
  for (size_t i = 0; i + 1 < state.elements.size(); i += 2) {
    const PickleValue &key = *state.elements[i];
    if (!key.is(Kind::String)) {
      fail(archive.path() + ": an attribute of `" + path + "` is named by " +
           describe(key));
      return value;
    }
    aten::Role role = llvm::is_contained(definition.parameters, key.text)
                          ? aten::Role::Parameter
                      : llvm::is_contained(definition.buffers, key.text)
                          ? aten::Role::Buffer
                          : aten::Role::Constant;
    Holder holder;
    holder.module = instance.get();
    holder.attribute = key.text;
    std::string below = path.empty() ? key.text : path + "." + key.text;
    if (!charge(attributeBytes + below.size() + 2 * key.text.size(), path))
      return value;
    instance->attributes[key.text] = convert(
        *state.elements[i + 1], below, role, Archive::Folder::Data, holder);
  }
  inside[instance.get()] = {first, entries.size()};
  return value;
}

void ModelState::addAliases(const Instance &module, const std::string &path) {
  auto found = inside.find(&module);
  if (module.path.empty() || !module.isModule() || found == inside.end())
    return;
  auto [first, last] = found->second;
  for (size_t i = first; i < last; ++i) {
    llvm::StringRef name(entries[i].name);
    if (!name.consume_front(module.path + "."))
      continue;
    if (entries.size() == maxEntries) {
      fail(archive.path() + ": holds one module too many times");
      return;
    }
    if (!charge(entryBytes + path.size() + name.size() +
                    holders[i].attribute.size(),
                path))
      return;
    aten::StateEntry alias = entries[i];
    alias.name = path + "." + name.str();
    Holder same = holders[i];
    entries.push_back(std::move(alias));
    holders.push_back(std::move(same));
  }
}

Value ModelState::convert(const PickleValue &pickled, const std::string &path,
                          aten::Role role, Archive::Folder folder,
                          Holder holder) {
  if (!problem.empty())
    return {};
  switch (pickled.kind) {
  case Kind::None:
    return {};
  case Kind::Bool:
    return Value(pickled.integer != 0);
  case Kind::Int:
    return Value(pickled.integer);
  case Kind::Float:
    return Value(pickled.number);
  case Kind::String: // the pickle may refer to it many times
    return charge(pickled.text.size(), path) ? Value(pickled.text) : Value();
  case Kind::Name:
    if (llvm::StringRef device(pickled.text);
        device.consume_front("torch.device:"))
      return Value(device.str());
    break;
  case Kind::Tensor:
    return convertTensor(*pickled.tensor, path, role, folder,
                         std::move(holder));
  case Kind::Object:
    if (auto known = converted.find(&pickled); known != converted.end()) {
      // A module in two places: its tensors have names for both.
      if (auto instance = as<Instance>(known->second))
        addAliases(*instance, path);
      return known->second;
    }
    return convertObject(pickled, path);
  case Kind::List:
  case Kind::Tuple: {
    if (auto known = converted.find(&pickled); known != converted.end())
      return known->second;
    // The path of each element exists for a moment.
    if (!charge(objectBytes + (sizeof(Value) + path.size() / 16) *
                                  pickled.elements.size(),
                path))
      return {};
    // The container is created first; the tensors in it are set afterwards.
    Value value = pickled.is(Kind::List)
                      ? Value::list(aten::List(pickled.elements.size()))
                      : Value::tuple(aten::List(pickled.elements.size()));
    converted[&pickled] = value;
    for (auto [i, element] : llvm::enumerate(pickled.elements)) {
      Holder inside;
      inside.list = value;
      inside.index = i;
      Value made = convert(*element, path + "." + std::to_string(i),
                           aten::Role::Constant, folder, inside);
      const_cast<aten::List &>(value.getElements())[i] = std::move(made);
    }
    return value;
  }
  case Kind::Dict: {
    if (auto known = converted.find(&pickled); known != converted.end())
      return known->second;
    if (!charge(objectBytes + 2 * sizeof(Value) * pickled.elements.size(),
                path))
      return {};
    aten::Dict dict;
    for (size_t i = 0; i + 1 < pickled.elements.size(); i += 2) {
      if (pickled.elements[i + 1]->is(Kind::Tensor))
        break;
      Value key = convert(*pickled.elements[i], path, role, folder, {});
      Value value =
          convert(*pickled.elements[i + 1], path, role, folder, holder);
      if (!problem.empty())
        return {};
      dict.emplace_back(std::move(key), std::move(value));
    }
    if (2 * dict.size() == pickled.elements.size())
      return converted[&pickled] = Value::dict(std::move(dict));
    fail(archive.path() + ": `" + path +
         "` is a dict of tensors; register them as buffers of the module");
    return {};
  }
  case Kind::Storage:
    break;
  }
  fail(archive.path() + ": `" + path + "` is " + describe(pickled) +
       ", which is not supported");
  return {};
}

void ModelState::findShared() {
  std::map<archive::StoredTensor::Key, size_t> states;
  std::map<uint64_t, size_t> storages; // by begin offset
  for (auto [i, entry] : llvm::enumerate(entries))
    if (entry.role != aten::Role::Constant) {
      states.try_emplace(entry.tensor.key(), i);
      storages.try_emplace(entry.tensor.storageBegin, i);
    }
  for (auto [i, entry] : llvm::enumerate(entries)) {
    same.push_back(i);
    if (entry.role != aten::Role::Constant)
      continue;
    if (auto found = states.find(entry.tensor.key()); found != states.end())
      same.back() = found->second;
    else if (auto storage = storages.find(entry.tensor.storageBegin);
             storage != storages.end() && entry.tensor.storageLength > 0)
      fail(archive.path() + ": the tensor `" + entry.name + "` is a part of `" +
           entries[storage->second].name +
           "`, which a step may change; compute it in forward instead");
  }
}

Result<void> ModelState::find() {
  Value module = convert(archive.getModule(), "", aten::Role::Constant,
                         Archive::Folder::Data, {});
  root = as<Instance>(module);
  constants.resize(archive.getConstants().size());
  for (auto [i, constant] : llvm::enumerate(archive.getConstants())) {
    Holder holder;
    holder.isConstant = true;
    holder.index = i;
    constants[i] =
        convert(*constant, "CONSTANTS.c" + std::to_string(i),
                aten::Role::Constant, Archive::Folder::Constants, holder);
  }
  findShared();
  if (!problem.empty())
    return Error{problem};
  return {};
}

void ModelState::setTensors(llvm::ArrayRef<Value> values) {
  for (auto [i, holder] : llvm::enumerate(holders)) {
    const Value &value = values[same[i]];
    if (holder.isConstant)
      constants[holder.index] = value;
    else if (holder.module)
      holder.module->attributes[holder.attribute] = value;
    else
      const_cast<aten::List &>(holder.list.getElements())[holder.index] = value;
  }
}

const Value *ModelState::getCurrent(size_t i) const {
  const Holder &holder = holders[i];
  if (!holder.module)
    return nullptr;
  auto found = holder.module->attributes.find(holder.attribute);
  return found == holder.module->attributes.end() ? nullptr : &found->second;
}

} // namespace polyrank::frontends::torchscript
