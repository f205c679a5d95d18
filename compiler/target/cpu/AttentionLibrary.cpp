// The tiles in which attention is computed, and how much scratch it needs.

#include "compiler/target/cpu/AttentionLibrary.h"

#include "compiler/target/cpu/Cpu.h"
#include "compiler/target/cpu/GemmLibrary.h"
#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Graph.h"
#include "runtime/device/cpu/Attention.h"
#include "runtime/plan/plan_generated.h"
#include "support/EnumNames.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;

static_assert(
    runtime::numMaskedScores == graph::getMaxEnumValForMasked() + 1 &&
    agreeOn<runtime::MaskedScores, graph::Masked, runtime::numMaskedScores>);
static_assert(
    runtime::numTileProducts == getMaxEnumValForTileProducts() + 1 &&
    agreeOn<runtime::TileProducts, TileProducts, runtime::numTileProducts>);

/// oneDNN's sgemm packs its operands in up to this many bytes for each thread.
static constexpr uint64_t sgemmPacks = uint64_t(15) << 20;
/// The sizes of a tile, whose scores fit in a core's second cache together with
/// the rows that it multiplies.
static constexpr int64_t mostQueries = 128, mostKeys = 512;
/// Narrow elements come with copies and with sums in scratch, so that their
/// tiles have fewer keys: at first this number, then half as many as long as
/// scratch is larger than its bound.
static constexpr int64_t mostKeysOfNarrow = 256, leastKeys = 32;
static constexpr uint64_t mostScratch = uint64_t(2) << 20;
/// From this many pairs of query and key in a head on, the call is faster: with
/// fewer, a tile's products are too small for the library. Parts write and read
/// all scores, which counts for more where rows are narrow. Of bf16, at 128 x
/// 128 pairs and heads of 64 the call takes as long as the products of the
/// parts alone, without their softmax.
static constexpr int64_t manyPairs = 128 * 128, manyPairsOfNarrow = 64 * 64;
static constexpr int64_t narrow = 32;

static runtime::RowStrides stridesOf(ArrayRef<int64_t> access) {
  return {access[0], access[1], access[2]};
}

/// The strides of a dense tensor; those of dims of size 1 are 0.
static runtime::ScoreStrides scoreStridesOf(Value value) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
  runtime::ScoreStrides strides;
  for (auto [to, size, stride] :
       llvm::zip_equal(strides, shape, graph::getStrides(shape)))
    to = size == 1 ? 0 : stride;
  return strides;
}

/// The type of query, key, value and result, which checkAttention has accepted.
static ElementType elementOf(Value query) {
  return graph::toElementType(getElementTypeOrSelf(query))
      .value_or(ElementType::UNDEFINED);
}

/// The products that the call has unless its `call` names others.
static runtime::TileProducts productsFor(Operation *call, ElementType type) {
  using runtime::TileProducts;
  if (type == ElementType::F32)
    return TileProducts::Float32;
  return type == ElementType::BF16 && mayUseNarrowInstructions(call) &&
                 runtime::hasTileProducts(TileProducts::BFloat16)
             ? TileProducts::BFloat16
             : TileProducts::Widened;
}

template <typename Op>
static runtime::AttentionShape shapeOf(Op op, ArrayRef<int64_t> result) {
  runtime::AttentionShape shape;
  shape.batch = op.getBatchSize(), shape.heads = op.getHeads();
  shape.groups = op.getGroups(), shape.queries = op.getQueries();
  shape.keys = op.getKeys(), shape.width = op.getWidth();
  shape.valueWidth = op.getValueWidth();
  shape.query = stridesOf(op.getQueryAccess().drop_front());
  shape.key = stridesOf(op.getKeyAccess().drop_front());
  shape.value = stridesOf(op.getValueAccess().drop_front());
  shape.result = stridesOf(result);
  if (op.getBias())
    shape.bias = scoreStridesOf(op.getBias());
  if (op.getMask())
    shape.mask = scoreStridesOf(op.getMask());
  graph::AttentionForm form = op.getForm();
  shape.scale = static_cast<float>(form.scale);
  shape.causal = form.causal;
  shape.window = form.window.value_or(0);
  shape.rules = {static_cast<float>(form.softcap.value_or(0)),
                 static_cast<runtime::MaskedScores>(form.masked),
                 static_cast<float>(form.fill)};
  if (form.rate) {
    SmallVector<int64_t> whole(form.globalShape);
    if (whole.empty())
      whole = {shape.batch, shape.heads, shape.queries, shape.keys};
    runtime::ScoreStrides strides;
    llvm::copy(graph::getStrides(whole), strides.begin());
    shape.dropout = {*form.rate, static_cast<uint64_t>(form.rngId), strides};
  }
  shape.type = elementOf(op.getQ());
  if (auto call = dyn_cast_or_null<AttentionAttr>(op.getCallAttr())) {
    shape.blockQueries = call.getQueries();
    shape.blockKeys = call.getKeys();
    shape.products = runtime::TileProducts(call.getProducts());
    return shape;
  }
  shape.products = productsFor(op, shape.type);
  bool isNarrow = shape.products != runtime::TileProducts::Float32;
  shape.blockQueries = std::min(mostQueries, shape.queries);
  shape.blockKeys =
      std::min(isNarrow ? mostKeysOfNarrow : mostKeys, shape.keys);
  return shape;
}

static runtime::AttentionShape shapeOf(rank::AttentionOp op) {
  return shapeOf(op, op.getResultAccess());
}
static runtime::AttentionGradShape shapeOf(rank::AttentionGradOp op) {
  runtime::AttentionGradShape shape{
      shapeOf(op, op.getResultAccess().drop_front()),
      stridesOf(op.getGradientAccess().drop_front()),
      stridesOf(op.getQueryGradientAccess()),
      stridesOf(op.getKeyGradientAccess()),
      stridesOf(op.getValueGradientAccess()),
      {}};
  if (op.getBiasGradient())
    shape.biasGradient = scoreStridesOf(op.getBiasGradient());
  return shape;
}

static runtime::AttentionShape forwardOf(rank::LibraryCallOp call) {
  if (auto op = dyn_cast<rank::AttentionOp>(*call))
    return shapeOf(op);
  return shapeOf(cast<rank::AttentionGradOp>(*call)).forward;
}

static Value queryOf(rank::LibraryCallOp call) {
  if (auto op = dyn_cast<rank::AttentionOp>(*call))
    return op.getQ();
  return cast<rank::AttentionGradOp>(*call).getQ();
}

bool cpu::isAttention(rank::LibraryCallOp call) {
  return isa<rank::AttentionOp, rank::AttentionGradOp>(*call);
}

Result<void> cpu::checkAttention(rank::LibraryCallOp call) {
  // The other rows have the type of the queries, and sums their own.
  Type element = getElementTypeOrSelf(queryOf(call));
  if (element.isF32() || element.isBF16() || element.isF16())
    return {};
  std::string text;
  llvm::raw_string_ostream(text)
      << "is of '" << element << "', for which this device has no library "
      << "call; convert the operands to f32";
  return Error{text};
}

bool cpu::isFasterThanParts(rank::LibraryCallOp call) {
  runtime::AttentionShape shape = forwardOf(call);
  bool isNarrow = std::max(shape.width, shape.valueWidth) <= narrow;
  return shape.queries * shape.keys >=
         (isNarrow ? manyPairsOfNarrow : manyPairs);
}

/// The scratch of a thread if tiles have this shape's sizes.
static uint64_t scratchOf(rank::LibraryCallOp call,
                          const runtime::AttentionShape &tiles,
                          int64_t threads) {
  auto grad = dyn_cast<rank::AttentionGradOp>(*call);
  if (!grad)
    return runtime::attentionScratchBytes(tiles, threads);
  runtime::AttentionGradShape whole = shapeOf(grad);
  whole.forward = tiles;
  return runtime::attentionScratchBytes(whole, threads);
}

void cpu::chooseAttentionCall(rank::LibraryCallOp call) {
  runtime::AttentionShape shape = forwardOf(call);
  if (shape.products != runtime::TileProducts::Float32)
    while (shape.blockKeys > leastKeys &&
           scratchOf(call, shape, 1) > mostScratch)
      shape.blockKeys = std::max(leastKeys, shape.blockKeys / 2);
  call.setCallAttr(AttentionAttr::get(call->getContext(), shape.blockQueries,
                                      shape.blockKeys,
                                      TileProducts(shape.products)));
}

int64_t cpu::getAttentionScratch(rank::LibraryCallOp call, int64_t threads) {
  return scratchOf(call, forwardOf(call), threads);
}

static std::unique_ptr<runtime::plan::RowStrides>
written(const runtime::RowStrides &strides) {
  return std::make_unique<runtime::plan::RowStrides>(strides.batch,
                                                     strides.head, strides.row);
}
static std::unique_ptr<runtime::plan::ScoreStrides>
written(const std::optional<runtime::ScoreStrides> &strides) {
  if (!strides)
    return nullptr;
  auto [batch, head, query, key] = *strides;
  return std::make_unique<runtime::plan::ScoreStrides>(batch, head, query, key);
}

LogicalResult cpu::writeAttention(rank::LibraryCallOp call,
                                  runtime::plan::CallT &result) {
  namespace plan = runtime::plan;
  if (!isa_and_present<AttentionAttr>(call.getCallAttr()))
    return call.emitOpError("has no call: choose-calls comes first");
  runtime::AttentionShape shape = forwardOf(call);
  plan::CpuAttentionT body;
  body.batch = shape.batch, body.heads = shape.heads;
  body.groups = shape.groups, body.queries = shape.queries;
  body.keys = shape.keys, body.width = shape.width;
  body.value_width = shape.valueWidth;
  body.query = written(shape.query), body.key = written(shape.key);
  body.value = written(shape.value), body.result = written(shape.result);
  body.bias = written(shape.bias), body.mask = written(shape.mask);
  body.scale = shape.scale, body.softcap = shape.rules.softcap;
  body.causal = shape.causal, body.window = shape.window;
  body.masked = plan::MaskedScores(shape.rules.masked);
  body.fill = shape.rules.fill;
  if (shape.dropout) {
    body.dropout = std::make_unique<plan::AttentionDropoutT>();
    body.dropout->rate = shape.dropout->rate;
    body.dropout->id = shape.dropout->id;
    body.dropout->strides = written(std::optional(shape.dropout->strides));
  }
  body.block_queries = shape.blockQueries;
  body.block_keys = shape.blockKeys;
  body.type = plan::ElementType(shape.type);
  body.products = plan::TileProducts(shape.products);
  if (auto op = dyn_cast<rank::AttentionOp>(*call)) {
    if (body.dropout)
      body.dropout->offsets = op.getGlobalShape().has_value();
  } else {
    auto grad = cast<rank::AttentionGradOp>(*call);
    if (body.dropout)
      body.dropout->offsets = grad.getGlobalShape().has_value();
    runtime::AttentionGradShape whole = shapeOf(grad);
    body.grad = std::make_unique<plan::CpuAttentionGradT>();
    body.grad->result_gradient = written(whole.resultGradient);
    body.grad->query_gradient = written(whole.queryGradient);
    body.grad->key_gradient = written(whole.keyGradient);
    body.grad->value_gradient = written(whole.valueGradient);
    body.grad->bias_gradient = written(whole.biasGradient);
  }
  result.text += " in tiles of " + std::to_string(shape.blockQueries) + "x" +
                 std::to_string(shape.blockKeys);
  if (shape.products != runtime::TileProducts::Float32) {
    result.text += ' ';
    result.text += nameOf(shape.products);
  }
  if (shape.products != runtime::TileProducts::BFloat16)
    result.library_bytes = sgemmPacks;
  result.body.Set(std::move(body));
  return success();
}
