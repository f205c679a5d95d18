// Moves the batch of inputs and outputs to dim 0, or adds a row.

#include "compiler/driver/BatchFinder.h"

#include "dialects/graph/Parts.h"
#include "support/ModelDims.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;

namespace {

/// Marks a dim 0 that merges the batch with another dim.
constexpr int64_t inOneDim = -2;

/// The order of dims that moves dim `dim` to the front.
SmallVector<int64_t> inFront(int64_t rank, int64_t dim) {
  SmallVector<int64_t> order{dim};
  for (int64_t d = 0; d < rank; ++d)
    if (d != dim)
      order.push_back(d);
  return order;
}

RankedTensorType withShape(Value value, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape,
                               graph::getGlobalType(value).getElementType());
}

/// `shape` with a new dim 0 of one row.
SmallVector<int64_t> asRow(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> row{1};
  llvm::append_range(row, shape);
  return row;
}

/// The only dim after the first that has `size` elements; -1 if there is none,
/// -2 if there are several.
int64_t onlyDimOf(ArrayRef<int64_t> shape, int64_t size) {
  int64_t found = -1;
  for (int64_t d = 1, rank = shape.size(); d < rank; ++d)
    if (shape[d] == size)
      found = found == -1 ? d : -2;
  return found;
}

/// The text of the shape of the user's array for a tensor of `shape` with its
/// batch in `dim`.
std::string arrayOf(ArrayRef<int64_t> shape, int64_t dim) {
  SmallVector<int64_t> row(shape);
  row.erase(row.begin() + dim);
  return samplesText(row, dim);
}

} // namespace

std::optional<int64_t> Said::operator()(StringRef name, size_t rank) const {
  for (const sharding::ShardPattern &pattern : patterns) {
    if (pattern.isOutput || pattern.dims.size() != rank ||
        !pattern.matches(name))
      continue;
    bool isNone = true;
    for (auto [d, dim] : llvm::enumerate(pattern.dims)) {
      isNone &= !dim.open && dim.axes.empty();
      if (llvm::any_of(dim.axes, [&](const std::string &axis) {
            return llvm::is_contained(batchAxes, axis);
          }))
        return d;
    }
    if (isNone)
      return noBatch;
  }
  return std::nullopt;
}

SmallVector<BatchDim> Said::dimsOf(BlockArgument input, StringRef name) const {
  SmallVector<BatchDim> dims;
  for (int64_t size : graph::getShape(input))
    dims.push_back({size, false, ""});
  if (auto found = openDims.find(name); found != openDims.end())
    for (auto [dim, open] : llvm::zip_equal(dims, found->second)) {
      dim.isOpen = open.has_value();
      dim.name = open ? StringRef(*open) : StringRef();
    }
  return dims;
}

bool Said::mayBeSame(const BatchDim &one, const BatchDim &other) const {
  if (one.size != other.size)
    return false;
  if (one.name.empty() && other.name.empty())
    return true;
  if (one.name.empty() || other.name.empty())
    return one.isOpen && other.isOpen;
  return one.name == other.name ||
         llvm::none_of(openDims, [&](const auto &input) {
           return llvm::is_contained(input.second, one.name.str()) &&
                  llvm::is_contained(input.second, other.name.str());
         });
}

bool BatchFinder::isBatchAndAnother(ArrayRef<int64_t> shape) {
  auto isMerged = [&](Type type) {
    ArrayRef<int64_t> other = cast<RankedTensorType>(type).getShape();
    return other.size() > 1 && other[0] == batch && other[1] > 1 &&
           shape[0] == batch * other[1];
  };
  return batch > 1 && !shape.empty() &&
         (llvm::any_of(forward.getArgumentTypes(), isMerged) ||
          llvm::any_of(forward.getResultTypes(), isMerged));
}

SmallVector<int64_t> BatchFinder::findCandidates(BlockArgument input) {
  SmallVector<int64_t> named, open, all;
  for (auto [d, dim] : llvm::enumerate(
           said.dimsOf(input, roleOf(input).getName().getValue()))) {
    if (!said.mayBeSame(dim, batchDim))
      continue;
    if (!dim.name.empty() && dim.name == batchDim.name)
      named.push_back(d);
    if (dim.isOpen)
      open.push_back(d);
    all.push_back(d);
  }
  if (!named.empty())
    return named;
  bool isInFront = !all.empty() && all[0] == 0;
  return isInFront || open.empty() ? all : open;
}

FailureOr<int64_t> BatchFinder::findDim(BlockArgument input) {
  ArrayRef<int64_t> shape = graph::getShape(input);
  StringRef name = roleOf(input).getName().getValue();
  std::optional<int64_t> isSaid = said(name, shape.size());
  if (isSaid && *isSaid >= 0)
    return *isSaid;
  SmallVector<int64_t> candidates = findCandidates(input);
  if (!candidates.empty() && candidates[0] == 0)
    return 0;
  if (isSaid)
    return *isSaid;
  if (candidates.empty())
    return isBatchAndAnother(shape) ? inOneDim : noBatch;
  if (candidates.size() == 1 || isTried)
    return candidates[0];
  std::string none = llvm::join(SmallVector<StringRef>(shape.size(), "-"), ",");
  return emitError(module.getLoc())
         << "input '" << name << "' of " << shapeText(shape)
         << " has another dim 0 than the others, which have a batch of "
         << batch
         << ", and several other dims of that size; say which is the batch, as "
            "in --mesh data=1 --shard '"
         << name << "=[-,data" << none.substr(3)
         << "]', or, if all samples take the same, --shard '" << name << "=["
         << none << "]'";
}

LogicalResult BatchFinder::findInput(BlockArgument input) {
  graph::InputAttr role = roleOf(input);
  if (!role)
    return success();
  FailureOr<int64_t> dim = findDim(input);
  if (failed(dim))
    return failure();
  if (*dim == 0)
    return success();
  StringRef name = role.getName().getValue();
  SmallVector<int64_t> shape(graph::getShape(input));
  OpBuilder builder(forward.getContext());
  builder.setInsertionPointToStart(&forward.getBody().front());
  Operation *first;
  if (*dim == inOneDim) {
    SmallVector<int64_t> apart(shape);
    apart[0] /= batch;
    apart.insert(apart.begin(), batch);
    remark() << "input '" << name << "' of " << shapeText(shape)
             << " has the batch and another dim in one: it is taken as "
             << shapeText(apart) << ", and the data has an array of "
             << arrayOf(apart, 0)
             << "; if all samples take the same, say --shard '" << name << "=["
             << llvm::join(SmallVector<StringRef>(shape.size(), "-"), ",")
             << "]'";
    input.setType(withShape(input, apart));
    first = graph::ReshapeOp::create(builder, input.getLoc(), input,
                                     ArrayRef<int64_t>(shape));
    *dim = 0;
  } else if (*dim == noBatch) {
    remark() << "input '" << name << "' of " << shapeText(shape)
             << " has no batch, as the others have one of " << batch
             << ": all samples take the same, which the data has once, as an "
                "array of "
             << shapeText(shape);
    input.setType(withShape(input, asRow(shape)));
    first = graph::ReshapeOp::create(builder, input.getLoc(), input,
                                     ArrayRef<int64_t>(shape));
  } else {
    remark() << "input '" << name << "' of " << shapeText(shape)
             << " has the batch in dim " << *dim
             << ": the data has an array of " << arrayOf(shape, *dim);
    input.setType(withShape(
        input, llvm::map_to_vector(inFront(shape.size(), *dim),
                                   [&](int64_t d) { return shape[d]; })));
    first = graph::TransposeOp::create(
        builder, input.getLoc(), input,
        ArrayRef<int64_t>(modelOrder(shape.size(), *dim)));
  }
  input.replaceAllUsesExcept(first->getResult(0), first);
  boundary.setArgument(input.getArgNumber(), role.withBatchDim(*dim));
  return success();
}

void BatchFinder::findOutput(unsigned number, training::BatchFlow &flow) {
  auto role = boundary.getResult<graph::OutputAttr>(number);
  OpOperand &result =
      forward.getBody().front().getTerminator()->getOpOperand(number);
  SmallVector<int64_t> shape(graph::getShape(result.get()));
  bool isInFront = !shape.empty() && shape[0] == batch;
  // An output stays as it is if no dim but the first can be the batch.
  if (!role || shape.empty() || llvm::is_contained(shape, 0) ||
      (isInFront && onlyDimOf(shape, batch) == -1))
    return;
  StringRef name = role.getName().getValue();
  std::string written = shapeText(shape);
  OpBuilder builder(forward.getBody().front().getTerminator());
  Location location = result.get().getLoc();
  auto reshape = [&](ArrayRef<int64_t> to) {
    result.set(graph::ReshapeOp::create(builder, location, result.get(), to));
  };
  std::optional<int64_t> dim = flow.findDim(result.get());
  if (dim && shape[*dim] != batch) {
    // The stride says which part of the dim lies within a sample.
    int64_t inner = flow.get(result.get()).stride;
    for (int64_t size : ArrayRef(shape).drop_front(*dim + 1))
      inner /= size;
    int64_t outer = shape[*dim] / (batch * inner);
    shape[*dim] = batch;
    if (inner > 1)
      shape.insert(shape.begin() + *dim + 1, inner);
    if (outer > 1)
      shape.insert(shape.begin() + (*dim)++, outer);
    reshape(shape);
    remark() << "output '" << name << "' of " << written
             << " has the batch and another dim in one: it is taken as "
             << shapeText(shape) << ", and written as " << arrayOf(shape, *dim);
  }
  if (!dim && !isInFront) {
    auto kind = flow.kindOf(result.get());
    using Kind = training::SampleFlow::Kind;
    int64_t only = onlyDimOf(shape, batch);
    if ((kind == Kind::Unknown || kind == Kind::Pairs) && only > 0)
      dim = only;
  }
  if (!dim && !isInFront) {
    remark() << "output '" << name << "' of " << written
             << " has no batch: each batch makes one of it";
    reshape(asRow(shape));
    dim = noBatch;
  } else if (dim.value_or(0) > 0) {
    if (written == shapeText(shape))
      remark() << "output '" << name << "' of " << written
               << " has the batch in dim " << *dim << ": it is written as "
               << arrayOf(shape, *dim);
    result.set(graph::TransposeOp::create(
        builder, location, result.get(),
        ArrayRef<int64_t>(inFront(shape.size(), *dim))));
  } else {
    return;
  }
  boundary.setResult(
      number, graph::OutputAttr::get(role.getName(), role.getMean(), *dim));
}

LogicalResult BatchFinder::run() {
  for (BlockArgument input : forward.getArguments())
    if (failed(findInput(input)))
      return failure();
  training::BatchFlow flow(forward);
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    findOutput(i, flow);
  Block &body = forward.getBody().front();
  forward.setType(FunctionType::get(
      forward.getContext(), body.getArgumentTypes(),
      ValueRange(body.getTerminator()->getOperands()).getTypes()));
  return success();
}

std::array<int64_t, 3> BatchFinder::rate() {
  int64_t batched = 0, outputs = 0, inputs = 0;
  auto isInFront = [&](Value value) {
    ArrayRef<int64_t> shape = graph::getShape(value);
    return !shape.empty() && shape[0] == batch;
  };
  for (BlockArgument input : forward.getArguments())
    if (graph::InputAttr role = roleOf(input)) {
      SmallVector<int64_t> candidates = findCandidates(input);
      inputs += !candidates.empty() && candidates[0] == 0;
      SmallVector<BatchDim> dims =
          said.dimsOf(input, role.getName().getValue());
      inputs += llvm::any_of(candidates,
                             [&](int64_t dim) { return dims[dim].isOpen; });
    }
  isTried = true;
  for (BlockArgument input : forward.getArguments())
    (void)findInput(input);
  training::BatchFlow flow(forward);
  for (auto [i, value] : llvm::enumerate(
           forward.getBody().front().getTerminator()->getOperands()))
    if (boundary.getResult<graph::OutputAttr>(i)) {
      batched += flow.findDim(value).has_value();
      outputs += isInFront(value);
    }
  return {batched, outputs, inputs};
}
