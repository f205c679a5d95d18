// Calls of attention for hand-built plans.

#pragma once

#include "runtime/plan/PlanMesh.h"
#include "test/runtime/PlanParts.h"

namespace polyrank::runtime::test {

/// Which buffers a call of attention has.
struct AttentionOptions {
  bool isGrad = false, hasBias = false, hasMask = false, hasDropout = false,
       hasOffsets = false, hasBiasGradient = false;
  plan::ElementType type = plan::ElementType::F32;
  plan::TileProducts products = plan::TileProducts::Float32;
};

/// Attention of 2 samples, 4 heads with 2 heads of keys, 3 queries and 5 keys
/// of width 8, values of width 6. Query, key and value are parts of one
/// projection [batch, sequence, heads, width] each; bias is [4, 3, 5], mask [2,
/// 5].
inline CpuAttentionT attentionOf(AttentionOptions options) {
  CpuAttentionT result;
  result.batch = 2, result.heads = 4, result.groups = 2;
  result.queries = 3, result.keys = 5;
  result.width = 8, result.value_width = 6;
  result.query = std::make_unique<plan::RowStrides>(3 * 32, 8, 32);
  result.key = std::make_unique<plan::RowStrides>(5 * 16, 8, 16);
  result.value = std::make_unique<plan::RowStrides>(5 * 12, 6, 12);
  result.result = std::make_unique<plan::RowStrides>(3 * 24, 6, 24);
  result.scale = 0.5;
  result.causal = true;
  result.block_queries = 16, result.block_keys = 32;
  result.type = options.type, result.products = options.products;
  if (options.hasBias)
    result.bias = std::make_unique<plan::ScoreStrides>(0, 15, 5, 1);
  if (options.hasMask)
    result.mask = std::make_unique<plan::ScoreStrides>(5, 0, 0, 1);
  if (options.hasDropout) {
    result.dropout = std::make_unique<AttentionDropoutT>();
    result.dropout->rate = 0.25, result.dropout->id = 3;
    result.dropout->strides =
        std::make_unique<plan::ScoreStrides>(60, 15, 5, 1);
    result.dropout->offsets = options.hasOffsets;
  }
  if (options.isGrad) {
    result.grad = std::make_unique<CpuAttentionGradT>();
    result.grad->result_gradient =
        std::make_unique<plan::RowStrides>(*result.result);
    result.grad->query_gradient =
        std::make_unique<plan::RowStrides>(*result.query);
    result.grad->key_gradient = std::make_unique<plan::RowStrides>(*result.key);
    result.grad->value_gradient =
        std::make_unique<plan::RowStrides>(*result.value);
    if (options.hasBiasGradient)
      result.grad->bias_gradient =
          std::make_unique<plan::ScoreStrides>(*result.bias);
  }
  return result;
}

/// The same with its buffers, each as large as it has to be.
inline CallT attentionCall(Arena &arena, AttentionOptions options) {
  CallT call;
  call.kind = options.isGrad ? CallKind::attention_grad : CallKind::attention;
  auto take = [&](std::vector<BufferRef> &to, uint64_t bytes) {
    to.push_back(arena.take(Region::Private, bytes));
  };
  uint64_t element = elementSize(options.type);
  uint64_t query = element * 192, key = element * 160, value = element * 120,
           result = element * 144;
  constexpr uint64_t lse = 4 * 24, bias = 4 * 60;
  if (options.isGrad)
    take(call.reads, result);
  for (uint64_t bytes : {query, key, value})
    take(call.reads, bytes);
  for (uint64_t bytes : {result, lse})
    take(options.isGrad ? call.reads : call.writes, bytes);
  if (options.hasBias)
    take(call.reads, bias);
  if (options.hasMask)
    take(call.reads, 10);
  for (int i = 0; i < (options.hasDropout ? options.hasOffsets ? 7 : 3 : 0);
       ++i)
    take(call.reads, 8);
  if (options.isGrad)
    for (uint64_t bytes : {query, key, value})
      take(call.writes, bytes);
  if (options.hasBiasGradient)
    take(call.writes, bias);
  call.scratch = copyOf(arena.take(Region::Private, 1 << 15));
  call.text = "attention 2x4x3x5";
  call.body.Set(attentionOf(options));
  return call;
}

/// Ends the first segment of a plan with attention and its gradient, with all
/// options, of each type.
inline void addAttention(PlanT &plan) {
  ProgramT &program = *plan.programs[0];
  Arena arena;
  arena.unshared = (program.private_size + 63) / 64 * 64;
  using plan::ElementType, plan::TileProducts;
  for (auto [type, products] :
       {std::pair(ElementType::F32, TileProducts::Float32),
        {ElementType::BF16, TileProducts::BFloat16},
        {ElementType::F16, TileProducts::Widened}})
    for (bool isGrad : {false, true})
      program.segments[0]->commands.push_back(
          command(attentionCall(arena, {isGrad, true, true, true, true, isGrad,
                                        type, products}),
                  "attn"));
  program.private_size = arena.unshared;
}

} // namespace polyrank::runtime::test
