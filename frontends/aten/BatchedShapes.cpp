// Rules, inside a region of torch.vmap, for operators whose shapes and dims
// need more than a shift of each.

#include "frontends/aten/BatchedCall.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace polyrank::frontends::aten {

/// A reduction without dims is over all visible dims, merged into one.
Value BatchedCall::reduce() {
  const Value &dim = (*this)["dim"];
  bool isWhole = dim.isNone() || (dim.isList() && dim.getList().empty());
  if (!isWhole)
    return broadcast();
  Value x = op("reshape", {arguments[0], Value::ints({-1})});
  std::string of = name.drop_front(StringRef("aten::").size()).str();
  if (of == "max" || of == "min")
    of = "a" + of;
  else if (of == "_is_all_true" || of == "_is_any_true")
    of = of == "_is_all_true" ? "all" : "any";
  Keywords others = {{"dim", Value(-1)}};
  bool keepsDims = has("keepdim") && (*this)["keepdim"].getBool();
  for (auto [parameter, argument] :
       llvm::drop_begin(llvm::zip_equal(schema.parameters, arguments)))
    if (parameter.name != "dim" && parameter.name != "keepdim")
      others.emplace_back(parameter.name, argument);
  if (of != "count_nonzero")
    others.emplace_back("keepdim", Value(false));
  Value result = op(of, {x}, others);
  if (result.isTuple() && (of == "median" || of == "nanmedian")) {
    Value value = result.getTuple()[0]; // the value without its index
    result = value;
  }
  if (!keepsDims)
    return result;
  return op("reshape", {result, Value::ints(SmallVector<int64_t>(rank, 1))});
}

Value BatchedCall::chooseExtremum() {
  return llvm::any_of(
             schema.parameters,
             [](const auto &parameter) { return parameter.name == "other"; })
             ? broadcast()
             : reduce();
}

/// With only a condition, `where` returns the indices at which it is true;
/// their number depends on the sample.
Value BatchedCall::chooseWhere() {
  return schema.parameters.size() == 1 ? refuse() : broadcast();
}

/// The hidden dims come before the shape. If the shape has more dims than the
/// tensor, the additional ones come in between.
Value BatchedCall::withShape() {
  StringRef parameter = has("size") ? "size" : "shape";
  Value &self = arguments[0];
  auto given = llvm::map_to_vector((*this)[parameter].getElements(),
                                   [](const Value &x) { return x.getInt(); });
  bool expands = name == "aten::expand" || name == "aten::broadcast_to";
  self = align(self, expands ? std::max<int64_t>(rank, given.size()) : rank,
               /*isWhole=*/false);
  set(parameter, Value::ints(withHidden(given)));
  return wrap(callHeld());
}

/// Only the shape of `other` matters.
Value BatchedCall::withShapeOf() {
  StringRef of = name.drop_front(StringRef("aten::").size());
  of.consume_back("_as");
  return op(of, {arguments[0], Value::ints(shapeOf(arguments[1]))});
}

Value BatchedCall::flatten() {
  bool isWhole = name == "aten::ravel" || rank == 0;
  return isWhole ? op("reshape", {arguments[0], Value::ints({-1})})
                 : broadcast();
}

Value BatchedCall::squeeze() {
  if (has("dim"))
    return broadcast();
  Shape shape = shapeOf(arguments[0]);
  llvm::erase(shape, 1);
  return op("view", {arguments[0], Value::ints(shape)});
}

Value BatchedCall::permute() {
  if (!shiftDims(rank))
    return Value::unknown();
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(numHidden()));
  for (const Value &each : (*this)["dims"].getElements())
    order.push_back(each.getInt());
  set("dims", Value::ints(order));
  arguments[0] = heldTensor(arguments[0]);
  return wrap(callHeld());
}

Value BatchedCall::reverseDims() {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(rank));
  std::reverse(order.begin(), order.end());
  return op("permute", {arguments[0], Value::ints(order)});
}

Value BatchedCall::transposeMatrix() {
  if (rank > 2)
    return fail("the transpose of " + std::to_string(rank) + " dims");
  return rank < 2 ? op("alias", {arguments[0]})
                  : op("transpose", {arguments[0], Value(0), Value(1)});
}

/// Broadcasts all tensors to their common visible shape.
Value BatchedCall::broadcastTensors() {
  Shape shape;
  List results;
  const List &tensors = arguments[0].getElements();
  for (const Value &each : tensors) {
    auto common = broadcastShapes(shape, shapeOf(each));
    if (failed(common))
      return fail("shapes that do not broadcast");
    shape = *common;
  }
  for (const Value &each : tensors)
    results.push_back(op("expand", {each, Value::ints(shape)}));
  return Value::list(std::move(results));
}

/// Without dims, the elements are flattened.
Value BatchedCall::roll() {
  if (!(*this)["dims"].getElements().empty())
    return broadcast();
  Value row = op("reshape", {arguments[0], Value::ints({-1})});
  return op("reshape", {op("roll", {row, (*this)["shifts"], Value::ints({0})}),
                        Value::ints(shapeOf(arguments[0]))});
}

Value BatchedCall::repeat() {
  SmallVector<int64_t> counts(numHidden(), 1);
  const List &given =
      (*this)[has("repeats") ? "repeats" : "dims"].getElements();
  auto more = static_cast<int64_t>(given.size());
  if (name == "aten::tile")
    counts.append(std::max<int64_t>(0, rank - more), 1);
  for (const Value &each : given)
    counts.push_back(each.getInt());
  return wrap(op("repeat", {align(arguments[0], more, /*isWhole=*/false),
                            Value::ints(counts)}));
}

Value BatchedCall::repeatInterleave() {
  if (!isFirstOnly())
    return fail("repeats that differ from sample to sample");
  if (has("dim"))
    return broadcast();
  arguments[0] = op("reshape", {arguments[0], Value::ints({-1})});
  return op("repeat_interleave", {arguments[0], arguments[1], Value(0)});
}

/// Properties of a tensor as the function sees it.
Value BatchedCall::property() {
  Shape shape = shapeOf(arguments[0]);
  if (name == "aten::dim")
    return Value(rank);
  if (name.ends_with("numel"))
    return Value(countElements(shape));
  if (!name.ends_with("size")) { // a property of its type
    arguments[0] = heldTensor(arguments[0]);
    return callHeld();
  }
  if (!has("dim"))
    return Value::ints(shape);
  int64_t dim = (*this)["dim"].getInt();
  if (dim < -rank || dim >= rank)
    return fail("the size of a dim that it does not have");
  return Value(shape[dim < 0 ? dim + rank : dim]);
}

} // namespace polyrank::frontends::aten
