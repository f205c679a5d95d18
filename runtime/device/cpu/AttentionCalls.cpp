// Attention and its gradient as calls of a plan.

#include "runtime/device/cpu/AttentionCalls.h"

#include "runtime/device/cpu/Attention.h"
#include "runtime/device/cpu/HostPlace.h"
#include "runtime/device/cpu/OneDnn.h"
#include "runtime/plan/Enums.h"

namespace polyrank::runtime {
namespace {

static_assert(mirrorsAll<MaskedScores, plan::MaskedScores, numMaskedScores>);
static_assert(mirrorsAll<TileProducts, plan::TileProducts, numTileProducts>);

RowStrides stridesOf(const plan::RowStrides &strides) {
  return {strides.batch(), strides.head(), strides.row()};
}
ScoreStrides stridesOf(const plan::ScoreStrides &strides) {
  return {strides.batch(), strides.head(), strides.query(), strides.key()};
}

AttentionShape shapeOf(const plan::CpuAttention &call) {
  AttentionShape shape;
  shape.batch = call.batch(), shape.heads = call.heads();
  shape.groups = call.groups(), shape.queries = call.queries();
  shape.keys = call.keys(), shape.width = call.width();
  shape.valueWidth = call.value_width();
  shape.query = stridesOf(*call.query());
  shape.key = stridesOf(*call.key());
  shape.value = stridesOf(*call.value());
  shape.result = stridesOf(*call.result());
  if (call.bias())
    shape.bias = stridesOf(*call.bias());
  if (call.mask())
    shape.mask = stridesOf(*call.mask());
  shape.scale = call.scale();
  shape.causal = call.causal(), shape.window = call.window();
  shape.rules = {call.softcap(), static_cast<MaskedScores>(call.masked()),
                 call.fill()};
  if (const plan::AttentionDropout *dropout = call.dropout())
    shape.dropout = {dropout->rate(), dropout->id(),
                     stridesOf(*dropout->strides())};
  shape.blockQueries = call.block_queries();
  shape.blockKeys = call.block_keys();
  shape.type = static_cast<polyrank::ElementType>(call.type());
  shape.products = static_cast<TileProducts>(call.products());
  return shape;
}

AttentionGradShape gradShapeOf(const plan::CpuAttention &call) {
  const plan::CpuAttentionGrad &grad = *call.grad();
  AttentionGradShape shape{shapeOf(call),
                           stridesOf(*grad.result_gradient()),
                           stridesOf(*grad.query_gradient()),
                           stridesOf(*grad.key_gradient()),
                           stridesOf(*grad.value_gradient()),
                           {}};
  if (grad.bias_gradient())
    shape.biasGradient = stridesOf(*grad.bias_gradient());
  return shape;
}

/// The buffers of a call, in the order in which the schema names them.
class Places {
public:
  Places(const plan::Call &call, const ArenaView &arena) {
    for (const plan::BufferRef *buffer : *call.reads())
      reads.push_back(placeOf(*buffer, arena));
    for (const plan::BufferRef *buffer : *call.writes())
      writes.push_back(placeOf(*buffer, arena));
    scratch = placeOf(*call.scratch(), arena);
  }

  std::vector<HostPlace> reads, writes;
  HostPlace scratch;
};

/// The buffers of one invocation, one after the other.
class Buffers {
public:
  Buffers(const std::vector<HostPlace> &places, Invocation invocation)
      : next(places.begin()), invocation(invocation) {}
  template <typename T>
  T *take() {
    return reinterpret_cast<T *>((next++)->at(invocation));
  }

private:
  std::vector<HostPlace>::const_iterator next;
  Invocation invocation;
};

/// Forward or gradient, by the type of their shapes and operands.
template <typename Shape>
class AttentionOperation : public Operation {
public:
  AttentionOperation(const plan::Call &call, const ArenaView &arena,
                     Shape shape, int threads)
      : places(call, arena), shape(std::move(shape)), threads(threads) {
    const plan::AttentionDropout *dropout =
        call.body_as_CpuAttention()->dropout();
    hasOffsets = dropout && dropout->offsets();
  }

  Result<void> run(Invocation invocation) override {
    Buffers reads(places.reads, invocation), writes(places.writes, invocation);
    void *scratch = places.scratch.at(invocation);
    if constexpr (std::is_same_v<Shape, AttentionShape>) {
      AttentionOperands operands{};
      operands.query = reads.take<void>();
      operands.key = reads.take<void>();
      operands.value = reads.take<void>();
      takeOptions(shape, reads, operands);
      operands.result = writes.take<void>();
      operands.lse = writes.take<float>();
      operands.scratch = scratch;
      return runAttention(shape, operands, threads);
    } else {
      AttentionGradOperands operands{};
      operands.resultGradient = reads.take<void>();
      operands.query = reads.take<void>();
      operands.key = reads.take<void>();
      operands.value = reads.take<void>();
      operands.result = reads.take<void>();
      operands.lse = reads.take<float>();
      takeOptions(shape.forward, reads, operands);
      operands.queryGradient = writes.take<void>();
      operands.keyGradient = writes.take<void>();
      operands.valueGradient = writes.take<void>();
      if (shape.biasGradient)
        operands.biasGradient = writes.take<float>();
      operands.scratch = scratch;
      return runAttentionGrad(shape, operands, threads);
    }
  }

private:
  template <typename Operands>
  void takeOptions(const AttentionShape &forward, Buffers &reads,
                   Operands &operands) const {
    if (forward.bias)
      operands.bias = reads.take<float>();
    if (forward.mask)
      operands.mask = reads.take<uint8_t>();
    if (!forward.dropout)
      return;
    operands.counters.seed = reads.take<int64_t>();
    operands.counters.step = reads.take<int64_t>();
    operands.counters.microbatch = reads.take<int64_t>();
    if (hasOffsets)
      for (const int64_t *&offset : operands.counters.offsets)
        offset = reads.take<int64_t>();
  }

  Places places;
  Shape shape;
  int threads;
  bool hasOffsets;
};

template <typename Shape>
Device::Prepared prepare(const plan::Call &call, const ArenaView &arena,
                         Shape shape, const AttentionShape &forward,
                         int threads) {
  if (!hasTileProducts(forward.products))
    return Error{"attention of " + describe(forward) +
                     ": the plan multiplies " + nameOf(forward.products) +
                     ", and this machine has no such products; compile again "
                     "on this machine",
                 Error::Fault::Rank};
  uint64_t needed = attentionScratchBytes(shape, threads);
  uint64_t given = call.scratch() ? call.scratch()->size() : 0;
  if (needed > given)
    return Error{"attention of " + describe(forward) + ": " +
                 std::to_string(threads) + " threads need " +
                 std::to_string(needed) + " bytes of scratch, the plan gives " +
                 std::to_string(given) + ": compile again"};
  return std::unique_ptr<Operation>(
      new AttentionOperation<Shape>(call, arena, std::move(shape), threads));
}

} // namespace

Device::Prepared prepareAttention(const plan::Call &call,
                                  const ArenaView &arena, int threads) {
  if (Result<void> loaded = loadOneDnn(); !loaded)
    return loaded.error();
  const plan::CpuAttention &body = *call.body_as_CpuAttention();
  AttentionShape forward = shapeOf(body);
  if (body.grad())
    return prepare(call, arena, gradShapeOf(body), forward, threads);
  return prepare(call, arena, forward, forward, threads);
}

} // namespace polyrank::runtime
