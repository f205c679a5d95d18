// The function that one device runs: its arguments and results.

#include "compiler/lowering/Localizer.h"

#include "dialects/graph/Boundary.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

std::optional<int64_t> Localizer::getCoordinate(Value value) const {
  if (place)
    if (sharding::LayoutAttr layout = sharding::getLayout(value))
      for (sharding::Place at : layout.getPlaces())
        if (at.axis == place->axis)
          return at.coordinate;
  return std::nullopt;
}

/// Drops layout constraints, which are no longer needed. The other attributes
/// stay, with the global type added, and the global number if functions differ
/// in their numbering.
DictionaryAttr Localizer::boundaryAttributes(DictionaryAttr attributes,
                                             Type type, unsigned number) {
  NamedAttrList kept;
  if (attributes)
    for (NamedAttribute attribute : attributes)
      if (!attribute.getName().getValue().starts_with("sharding."))
        kept.append(attribute);
  kept.set(rank::globalAttrName, TypeAttr::get(type));
  if (place)
    kept.set(rank::numberAttrName, builder.getI64IntegerAttr(number));
  return kept.getDictionary(builder.getContext());
}

/// Creates the function with the arguments that live here, and no results yet.
void Localizer::createFunction() {
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (BlockArgument argument : global.getArguments())
    if (isHere(argument)) {
      unsigned number = argument.getArgNumber();
      numbers.push_back(number);
      types.push_back(localType(argument.getType()));
      attributes.push_back(boundaryAttributes(global.getArgAttrDict(number),
                                              argument.getType(), number));
    }
  std::string name = global.getName().str();
  if (place)
    name += "_" + std::to_string(place->coordinate);
  local = func::FuncOp::create(builder, global.getLoc(), name,
                               builder.getFunctionType(types, {}));
  for (NamedAttribute attribute : global->getDiscardableAttrs())
    local->setDiscardableAttr(attribute.getName(), attribute.getValue());
  if (place)
    local->setDiscardableAttr(
        rank::placeAttrName,
        builder.getDictionaryAttr(builder.getNamedAttr(
            mesh.getAxisNames()[place->axis],
            builder.getI64IntegerAttr(place->coordinate))));
  local.setVisibility(global.getVisibility());
  local.setAllArgAttrs(attributes);
  Block *entry = local.addEntryBlock();
  for (auto [number, localArgument] :
       llvm::zip_equal(numbers, entry->getArguments())) {
    localArgument.setLoc(global.getArgument(number).getLoc());
    mapping.map(global.getArgument(number), localArgument);
  }
}

/// Adds the results that live here. A result that replaces an argument names it
/// by its number in this function.
LogicalResult Localizer::localizeReturn(func::ReturnOp op) {
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attributes;
  graph::Boundary boundary(global);
  for (auto [number, value] : llvm::enumerate(op.getOperands())) {
    if (!isHere(value))
      continue;
    results.push_back(mapping.lookup(value));
    NamedAttrList kept(boundaryAttributes(global.getResultAttrDict(number),
                                          value.getType(), number));
    if (auto replaced = boundary.getReplaced(number)) {
      unsigned argument = llvm::find(numbers, *replaced) - numbers.begin();
      for (NamedAttribute attribute : graph::Boundary::asDictionary(
               graph::NextAttr::get(builder.getContext(), argument)))
        kept.set(attribute.getName(), attribute.getValue());
    }
    attributes.push_back(kept.getDictionary(builder.getContext()));
  }
  func::ReturnOp::create(builder, op.getLoc(), results);
  local.setType(builder.getFunctionType(local.getArgumentTypes(),
                                        ValueRange(results).getTypes()));
  local.setAllResultAttrs(attributes);
  return success();
}

static void eraseDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (auto microbatches = dyn_cast<graph::MicrobatchesOp>(op))
      eraseDead(microbatches.getBody().front());
    bool isUnused = isa<graph::SeedOp>(op) && op.use_empty();
    if (isUnused || isOpTriviallyDead(&op))
      op.erase();
  }
}

/// Erases values that live everywhere where nothing needs them.
void Localizer::finishBoundary() {
  eraseDead(local.getBody().front());
  for (auto op : llvm::make_early_inc_range(
           local.getBody().front().getOps<graph::MicrobatchesOp>())) {
    llvm::BitVector unread(op.getOf().size());
    for (auto [i, slice] : llvm::enumerate(op.getSlices()))
      if (slice.use_empty())
        unread.set(i);
    for (int i = unread.find_last(); i >= 0; i = unread.find_prev(i)) {
      op.getBody().front().eraseArgument(op.getSlices()[i].getArgNumber());
      op.getOfMutable().erase(i);
    }
  }
  eraseDead(local.getBody().front());
}

void Localizer::addRead(DenseSet<unsigned> &read) {
  for (auto [number, argument] : llvm::zip_equal(numbers, local.getArguments()))
    if (!argument.use_empty())
      read.insert(number);
}

void Localizer::eraseUnread(const DenseSet<unsigned> &read) {
  graph::Boundary boundary(local);
  for (unsigned i = local.getNumArguments(); i-- > 0;)
    if (local.getArgument(i).use_empty() && read.contains(numbers[i]))
      boundary.eraseArgument(i);
}

LogicalResult Localizer::run() {
  if (failed(checkPartitioned()))
    return failure();
  createFunction();
  builder.setInsertionPointToEnd(&local.getBody().front());
  if (failed(localizeBlock(global.getBody().front())))
    return failure();
  if (place)
    finishBoundary();
  return success();
}
