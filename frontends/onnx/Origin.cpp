// The place of a node in the user's model: its module and source line.

#include "frontends/onnx/Origin.h"

#include "frontends/import/Source.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace polyrank::frontends::onnx {

SmallVector<StringRef> parseList(StringRef text) {
  SmallVector<StringRef> items;
  while (true) {
    size_t open = text.find_first_of("'\"");
    if (open == StringRef::npos)
      return items;
    size_t close = text.find(text[open], open + 1);
    if (close == StringRef::npos)
      return items;
    items.push_back(text.slice(open + 1, close));
    text = text.drop_front(close + 1);
  }
}

Origin originOf(const Node &node) {
  // The last entry of both lists is the operator itself.
  auto last = [&](std::string_view key) -> std::string {
    SmallVector<StringRef> items = parseList(find(node.metadata, key));
    return items.size() < 2 ? "" : items[items.size() - 2].str();
  };
  Origin origin;
  if (!find(node.metadata, "pkg.torch.onnx.name_scopes").empty()) {
    origin.scope = last("pkg.torch.onnx.name_scopes");
    origin.moduleClass = last("pkg.torch.onnx.class_hierarchy");
    return origin;
  }
  StringRef path(node.name);
  if (path.consume_front("/")) {
    SmallVector<StringRef> parts;
    path.split(parts, '/');
    origin.scope = llvm::join(ArrayRef(parts).drop_back(), ".");
  }
  return origin;
}

Location locationOf(MLIRContext *context, const Node &node,
                    const Origin &origin) {
  std::string name(node.name.empty() ? node.type : node.name);
  if (!origin.scope.empty() && !StringRef(name).starts_with("/"))
    name = origin.scope + "/" + name;
  return NameLoc::get(
      StringAttr::get(context, name),
      sourceOf(context, find(node.metadata, "pkg.torch.onnx.stack_trace")));
}

} // namespace polyrank::frontends::onnx
