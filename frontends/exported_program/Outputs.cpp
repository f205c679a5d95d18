// The names of a program's outputs.

#include "frontends/exported_program/Outputs.h"

#include "llvm/Support/JSON.h"

using namespace llvm;

namespace polyrank::frontends::exported_program {

static constexpr int maxDepth = 32;

/// The keys of a dict or dataclass; empty if the context of the node has none.
static std::vector<std::string> keysOf(const json::Object &node) {
  std::vector<std::string> keys;
  auto collect = [&](const json::Value &value) {
    if (const json::Array *array = value.getAsArray())
      for (const json::Value &each : *array)
        if (auto text = each.getAsString())
          keys.push_back(text->str());
  };
  const json::Value *context = node.get("context");
  if (!context)
    return keys;
  auto text = context->getAsString();
  if (!text) {
    collect(*context);
    return keys;
  }
  if (auto inner = json::parse(*text))
    collect(*inner);
  else
    consumeError(inner.takeError());
  return keys;
}

/// Appends a name for each leaf below `node`; returns false if it is not a
/// valid tree.
static bool visit(const json::Object &node, const std::string &prefix,
                  int depth, std::vector<std::string> &names) {
  const json::Array *children = node.getArray("children_spec");
  const json::Value *type = node.get("type");
  if (!children || !type || depth > maxDepth)
    return false;
  if (type->getAsNull()) { // a leaf
    names.push_back(prefix);
    return true;
  }
  std::vector<std::string> keys = keysOf(node);
  bool isNamed = keys.size() == children->size();
  for (const auto &[i, child] : enumerate(*children)) {
    const json::Object *object = child.getAsObject();
    if (!object)
      return false;
    std::string name;
    if (isNamed)
      name = prefix.empty() ? keys[i] : prefix + "." + keys[i];
    else
      name = (prefix.empty() ? "output" : prefix) + "_" + std::to_string(i);
    if (!visit(*object, name, depth + 1, names))
      return false;
  }
  return true;
}

std::vector<std::string> nameOutputs(StringRef tree, size_t count) {
  // The text is "[1, {..}]": the version, and the tree.
  std::vector<std::string> names;
  auto parsed = json::parse(tree);
  bool isTree = false;
  if (parsed) {
    const json::Array *array = parsed->getAsArray();
    const json::Object *root =
        array && array->size() == 2 ? (*array)[1].getAsObject() : nullptr;
    isTree = root && visit(*root, "", 0, names);
  } else {
    consumeError(parsed.takeError());
  }
  if (!isTree || names.size() != count) {
    names.clear();
    for (size_t i = 0; i < count; ++i)
      names.push_back("output_" + std::to_string(i));
  }
  if (count == 1 && (names[0].empty() || names[0] == "output_0"))
    names[0] = "output";
  return names;
}

} // namespace polyrank::frontends::exported_program
