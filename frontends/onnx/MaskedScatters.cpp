// PyTorch's masked_scatter, as its exporters write it.

#include "frontends/onnx/MaskedScatters.h"

#include <cstring>

#include "frontends/emit/Masks.h"
#include "frontends/onnx/GraphImporter.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

class Finder {
public:
  explicit Finder(const Model &model) : model(model) {
    for (const StoredTensor &tensor : model.graph.initializers)
      stored[tensor.name] = &tensor;
    for (const Node &node : model.graph.nodes) {
      for (std::string_view output : node.outputs)
        producers.try_emplace(output, &node);
      forEachUse(node,
                 [&](std::string_view name) { users[name].push_back(&node); });
    }
    for (const ValueInfo &output : model.graph.outputs)
      users[output.name].push_back(nullptr);
  }

  MaskedScatters run() {
    for (const Node &node : model.graph.nodes)
      if (isOp(&node, "ScatterND", 3) && !hasText(node, "reduction"))
        match(node);
    // A node that something else uses is imported separately, and so are the
    // nodes that it uses.
    for (bool isChanged = true; isChanged;) {
      isChanged = false;
      for (auto at = found.parts.begin(); at != found.parts.end();) {
        bool isUsed = !areUsersParts(**at);
        at = isUsed ? found.parts.erase(at) : std::next(at);
        isChanged |= isUsed;
      }
    }
    return std::move(found);
  }

private:
  static bool isOp(const Node *node, std::string_view type, size_t operands) {
    return node && node->domain.empty() && node->type == type &&
           node->inputs.size() >= operands;
  }
  static const Attribute *attributeOf(const Node &node, std::string_view name) {
    for (const Attribute &each : node.attributes)
      if (each.name == name)
        return &each;
    return nullptr;
  }
  static bool hasText(const Node &node, std::string_view name) {
    const Attribute *found = attributeOf(node, name);
    return found && found->s != "none";
  }
  static int64_t integerOf(const Node &node, std::string_view name) {
    const Attribute *found = attributeOf(node, name);
    return found ? found->i : 0;
  }
  const Node *producerOf(const Node &node, size_t operand) const {
    return producers.lookup(node.inputs[operand]);
  }

  /// Returns true if it is the single integer `value`, in the form that
  /// exporters write.
  bool isNumber(std::string_view name, int64_t value) const {
    const StoredTensor *tensor = stored.lookup(name);
    if (const Node *node = producers.lookup(name); isOp(node, "Constant", 0)) {
      if (const Attribute *ints = attributeOf(*node, "value_ints"))
        return ints->ints == std::vector{value};
      const Attribute *given = attributeOf(*node, "value");
      tensor = given ? given->t.get() : nullptr;
    }
    std::vector<char> bytes;
    if (!tensor || tensor->type != ElementType::I64 || tensor->isAbsent ||
        tensor->numElements() != 1 || !model.load(*tensor, bytes))
      return false;
    int64_t is;
    std::memcpy(&is, bytes.data(), sizeof(is));
    return is == value;
  }

  /// Returns true if operand `i` of `node` is that integer, or is left out.
  bool isNumberOrAbsent(const Node &node, size_t i, int64_t value) const {
    return i >= node.inputs.size() || node.inputs[i].empty() ||
           isNumber(node.inputs[i], value);
  }

  void match(const Node &scatter) {
    const Node *places = producerOf(scatter, 1),
               *slice = producerOf(scatter, 2);
    if (!isOp(places, "Transpose", 1) || !isOp(slice, "Slice", 3))
      return;
    std::set<const Node *> parts{places, slice};
    const Attribute *order = attributeOf(*places, "perm");
    const Node *nonZero = producerOf(*places, 0),
               *count = producerOf(*slice, 2);
    if (isOp(count, "Unsqueeze", 1)) { // of a scalar, as in traces
      parts.insert(count);
      count = producerOf(*count, 0);
    }
    if ((order && order->ints != std::vector<int64_t>{1, 0}) ||
        !isOp(nonZero, "NonZero", 1) || !isOp(count, "Gather", 2) ||
        !isNumber(slice->inputs[1], 0) || !isNumberOrAbsent(*slice, 3, 0) ||
        !isNumberOrAbsent(*slice, 4, 1))
      return;
    const Node *shape = producerOf(*count, 0);
    if (!isOp(shape, "Shape", 1) || shape->inputs[0] != scatter.inputs[1] ||
        integerOf(*shape, "start") != 0 || attributeOf(*shape, "end") ||
        integerOf(*count, "axis") != 0 || !isNumber(count->inputs[1], 0))
      return;
    parts.insert({nonZero, count, shape});
    found.scatters[&scatter] = {nonZero, slice};
    found.parts.insert(parts.begin(), parts.end());
  }

  bool areUsersParts(const Node &node) const {
    return llvm::all_of(node.outputs, [&](std::string_view output) {
      auto all = users.find(output);
      return all == users.end() ||
             llvm::all_of(all->second, [&](const Node *user) {
               return user && (found.parts.contains(user) ||
                               found.scatters.contains(user));
             });
    });
  }

  const Model &model;
  llvm::StringMap<const StoredTensor *> stored;
  llvm::StringMap<const Node *> producers;
  llvm::StringMap<std::vector<const Node *>> users; // null: an output of the
                                                    // graph
  MaskedScatters found;
};

LogicalResult maskedScatter(NodeImporter &n) {
  if (failed(n.need(3)))
    return failure();
  const Imported &x = n.operand(0), &mask = n.operand(1),
                 &source = n.operand(2);
  if (mask.getShape() != x.getShape() || source.getRank() != 1)
    return n.fail("a mask of " + frontends::toString(mask.getShape()) +
                  " over " + frontends::toString(x.getShape()) +
                  ", and a source of " +
                  frontends::toString(source.getShape()));
  Type type = x.isConstant() && source.isConstant()
                  ? x.getElementType()
                  : toComputedType(x.getElementType());
  if (toComputedType(source.getElementType()) !=
      toComputedType(x.getElementType()))
    return n.fail("its updates have another type than what they go into");
  if (!mask.getElementType().isInteger(1))
    return n.fail("a mask that is not bool");
  auto result = scatterTrue(n.emit, n.emit.convert(x, type), mask,
                            n.emit.convert(source, type));
  if (failed(result))
    return failure();
  n.result(0, *result);
  return success();
}

} // namespace

MaskedScatters findMaskedScatters(const Model &model) {
  return Finder(model).run();
}

const OpRow &getMaskedScatterRow() {
  static const OpRow row{"", "ScatterND", 11, maskedScatter};
  return row;
}

} // namespace polyrank::frontends::onnx
