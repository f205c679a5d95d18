// Indexing inside a region of torch.vmap.

#include "frontends/aten/BatchedCall.h"
#include "frontends/aten/Indexing.h"
#include "frontends/emit/Indices.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace polyrank::frontends::aten {

namespace {

/// The origin of a dim of the result: the hidden dim of a level, a dim of the
/// indices, or a dim of the table that is taken whole.
enum class LabelKind { Level, Index, Table };
using Label = std::pair<LabelKind, int64_t>;
using Labels = SmallVector<Label>;

/// Transposes `x` from the labels `from` to the order `to`.
Imported inOrder(Emitter &emit, const Imported &x, ArrayRef<Label> from,
                 ArrayRef<Label> to) {
  Shape order;
  for (const Label &label : to)
    order.push_back(llvm::find(from, label) - from.begin());
  return emit.transpose(x, order);
}

} // namespace

/// self[indices], as in index.Tensor. Levels that both the table and the
/// indices have are batch dims of one gather; levels of the table alone are
/// dims that are taken whole, and levels of the indices alone are dims of the
/// indices:
///
/// ```
/// table   [shared.., onlyTable.., dims that are seen]
/// indices [shared.., onlyIndex.., dims that are seen]
/// result  [shared.., whole dims before, onlyIndex.., of indices, whole after]
/// ```
Value BatchedCall::pickAt(const Value &self, const List &indices) {
  SmallVector<int64_t> ofTable, ofIndices, shared, onlyTable, onlyIndex;
  if (auto batched = asBatched(self))
    ofTable.assign(batched->levels.begin(), batched->levels.end());
  int64_t indexRank = 0;
  for (const Value &each : indices) {
    if (each.isNone())
      continue;
    indexRank = std::max(indexRank, rankOf(each));
    auto batched = asBatched(each);
    if (!batched)
      continue;
    if (ElementType type = batched->tensor->getType();
        type == ElementType::BOOL || type == ElementType::U8)
      return fail("a mask as an index");
    llvm::append_range(ofIndices, batched->levels);
  }
  for (int64_t level : levels) {
    bool inTable = llvm::is_contained(ofTable, level),
         inIndices = llvm::is_contained(ofIndices, level);
    if (inTable)
      (inIndices ? shared : onlyTable).push_back(level);
    else if (inIndices)
      onlyIndex.push_back(level);
  }
  auto numShared = static_cast<int64_t>(shared.size()),
       numOnlyTable = static_cast<int64_t>(onlyTable.size());

  // The table, and its shape after the batch dims.
  Imported table = heldTensor(self)->read(context.emit);
  Shape order, batch, rest;
  for (int64_t level : llvm::concat<int64_t>(shared, onlyTable))
    order.push_back(llvm::find(ofTable, level) - ofTable.begin());
  for (int64_t dim = order.size(); dim < table.getRank(); ++dim)
    order.push_back(dim);
  table = context.emit.transpose(table, order);
  Shape shape = table.getShape();
  batch.assign(shape.begin(), shape.begin() + numShared);
  rest.assign(shape.begin() + numShared, shape.end());

  // The indices.
  std::vector<TensorRef> places(onlyTable.size());
  for (const Value &each : indices) {
    if (!asBatched(each)) {
      places.push_back(heldTensor(each));
      continue;
    }
    TensorRef x = align(each, indexRank, /*isWhole=*/false).getTensor();
    Shape indexOrder, sizesInOrder;
    for (int64_t level : llvm::concat<int64_t>(shared, onlyIndex))
      indexOrder.push_back(llvm::find(levels, level) - levels.begin());
    for (int64_t level : onlyTable)
      indexOrder.push_back(llvm::find(levels, level) - levels.begin());
    for (int64_t dim = numHidden(); dim < x->getRank(); ++dim)
      indexOrder.push_back(dim);
    Value moved =
        Tensor::viewOf(context.emit, x, {View::Kind::Transpose, indexOrder});
    sizesInOrder = moved.getTensor()->getShape();
    auto from = sizesInOrder.begin() + numShared + onlyIndex.size();
    sizesInOrder.erase(from, from + numOnlyTable);
    places.push_back(viewed(moved, sizesInOrder).getTensor());
  }
  Call c(context, schema, arguments);
  auto found = findPlaces(c, rest, places);
  if (failed(found))
    return fail(context.emit.takeError());
  if (found->dims.empty())
    return self;

  // A single gather; its result has its dims in an order of its own.
  for (int64_t &dim : found->order)
    dim += numShared;
  Shape tableOrder = llvm::to_vector(llvm::seq<int64_t>(numShared)),
        merged = batch;
  llvm::append_range(tableOrder, found->order);
  llvm::append_range(merged, found->merged);
  table =
      context.emit.reshape(context.emit.transpose(table, tableOrder), merged);
  int64_t at = found->at + numShared;
  Imported picked;
  if (auto start = numShared == 0 ? startOfRun(found->index) : std::nullopt) {
    // Indices that run through the dims (like those of a mask) are a slice,
    // which keeps the sharding of the table.
    Shape spread = found->index.getShape();
    merged.erase(merged.begin() + at);
    merged.insert(merged.begin() + at, spread.begin(), spread.end());
    picked = context.emit.reshape(
        context.emit.slice(table, at, *start, *start + countElements(spread)),
        merged);
  } else {
    picked = context.emit.binary<graph::GatherOp>(table, found->index, at,
                                                  numShared);
  }
  Labels whole, given, result;
  for (auto dim : llvm::seq<int64_t>(rest.size()))
    if (!llvm::is_contained(found->dims, dim))
      whole.push_back(dim < numOnlyTable
                          ? Label(LabelKind::Level, onlyTable[dim])
                          : Label(LabelKind::Table, dim));
  for (int64_t level : onlyIndex)
    given.push_back({LabelKind::Level, level});
  for (auto dim : llvm::seq(indexRank))
    given.push_back({LabelKind::Index, dim});
  Labels has;
  for (int64_t level : shared)
    has.push_back({LabelKind::Level, level});
  has.append(whole.begin(), whole.begin() + found->at);
  llvm::append_range(has, given);
  has.append(whole.begin() + found->at, whole.end());
  SmallVector<int64_t> levelsOfResult;
  for (int64_t level : levels)
    if (llvm::is_contained(ofTable, level) ||
        llvm::is_contained(ofIndices, level)) {
      levelsOfResult.push_back(level);
      result.push_back({LabelKind::Level, level});
    }
  for (const Label &label : has)
    if (label.first != LabelKind::Level)
      result.push_back(label);
  if (failed(c.give(inOrder(context.emit, picked, has, result),
                    heldTensor(self)->getType())))
    return fail(context.emit.takeError());
  if (std::string why = context.emit.takeError(); !why.empty())
    return fail(why);
  return Batched::of(c.getResults()[0].getTensor(), levelsOfResult);
}

Value BatchedCall::index() {
  return pickAt(arguments[0], (*this)["indices"].getElements());
}

Value BatchedCall::indexSelect() {
  Value index = (*this)["index"];
  if (!asBatched(index))
    return broadcast();
  int64_t dim = (*this)["dim"].getInt(), dims = rankOf(arguments[0]);
  if (dims == 0 || dim < -dims || dim >= dims)
    return fail("a dim that a tensor of " + std::to_string(dims) +
                " dims does not have");
  List indices(dim < 0 ? dim + dims : dim);
  indices.push_back(rankOf(index) == 0 ? op("unsqueeze", {index, Value(0)})
                                       : index);
  return pickAt(arguments[0], indices);
}

Value BatchedCall::embedding() {
  if (!isBatched("weight")) {
    set("indices", heldTensor((*this)["indices"]));
    return wrap(callHeld());
  }
  if ((*this)["padding_idx"].getInt() >= 0 && context.options.training)
    return fail("a padding_idx with a table that differs from sample to "
                "sample");
  return pickAt((*this)["weight"], {(*this)["indices"]});
}

} // namespace polyrank::frontends::aten
