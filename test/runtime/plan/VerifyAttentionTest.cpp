// What the plan verifier refuses in calls of attention; the message has the
// place and both values.

#include "test/runtime/AttentionPlan.h"
#include "test/runtime/plan/Lies.h"

#include <cmath>

namespace polyrank::runtime::test {
namespace {

constexpr AttentionOptions all{false, true, true, true, true, false};
constexpr AttentionOptions allOfGrad{true, true, true, true, true, true};

/// The same of bf16.
AttentionOptions narrow(AttentionOptions options) {
  options.type = ElementType::BF16;
  options.products = TileProducts::BFloat16;
  return options;
}

/// A valid plan whose first segment ends with a call of attention.
PlanT planWith(AttentionOptions options) {
  PlanT plan = goodPlan();
  Arena arena;
  arena.unshared = 4096;
  programOf(plan).segments[firstSegment]->commands.push_back(
      command(attentionCall(arena, options), "attn"));
  programOf(plan).private_size = arena.unshared;
  return plan;
}
CallT &attentionCallOf(PlanT &plan) {
  return *programOf(plan)
              .segments[firstSegment]
              ->commands.back()
              ->body.AsCall();
}
CpuAttentionT &bodyOf(PlanT &plan) {
  return *attentionCallOf(plan).body.AsCpuAttention();
}
CpuAttentionGradT &gradOf(PlanT &plan) { return *bodyOf(plan).grad; }
void shrink(BufferRef &buffer, uint64_t bytes) {
  buffer = ofSize(buffer, buffer.size() - bytes);
}

const Lie forwardLies[] = {
    {"batch", [](PlanT &p) { bodyOf(p).batch = 0; }, "batch=0"},
    {"heads", [](PlanT &p) { bodyOf(p).heads = 0; }, "heads=0"},
    {"groups", [](PlanT &p) { bodyOf(p).groups = 0; }, "groups=0"},
    {"queries", [](PlanT &p) { bodyOf(p).queries = -1; }, "queries=-1"},
    {"keys", [](PlanT &p) { bodyOf(p).keys = 0; }, "keys=0"},
    {"width", [](PlanT &p) { bodyOf(p).width = 0; }, "width=0"},
    {"valueWidth", [](PlanT &p) { bodyOf(p).value_width = 0; },
     "value_width=0"},
    {"headsOfGroups", [](PlanT &p) { bodyOf(p).groups = 3; },
     "4 heads of queries are no multiple of 3 heads of keys"},
    {"blockOfNoQueries", [](PlanT &p) { bodyOf(p).block_queries = 0; },
     "tiles of 0 queries, they have 1 to 4096"},
    {"blockOfManyQueries", [](PlanT &p) { bodyOf(p).block_queries = 4097; },
     "tiles of 4097 queries"},
    {"blockOfNoKeys", [](PlanT &p) { bodyOf(p).block_keys = 0; },
     "tiles of 0 keys"},
    {"blockOfManyKeys", [](PlanT &p) { bodyOf(p).block_keys = 4097; },
     "tiles of 4097 keys"},
    {"windowNegative", [](PlanT &p) { bodyOf(p).window = -1; },
     "a window of -1 keys, which is negative"},
    {"windowWithoutCausal",
     [](PlanT &p) { bodyOf(p).window = 3, bodyOf(p).causal = false; },
     "a window of 3 keys, which needs causal attention"},
    {"softcapNegative", [](PlanT &p) { bodyOf(p).softcap = -1; },
     "a softcap of -1"},
    {"softcapInfinite", [](PlanT &p) { bodyOf(p).softcap = INFINITY; },
     "a softcap of inf"},
    {"scale", [](PlanT &p) { bodyOf(p).scale = NAN; }, "a scale of nan"},
    {"masked", [](PlanT &p) { bodyOf(p).masked = MaskedScores(3); },
     "hidden keys of kind 3 do not exist"},
    {"fill", [](PlanT &p) { bodyOf(p).fill = NAN; },
     "hidden keys count what is not a number"},
    {"noStrides", [](PlanT &p) { bodyOf(p).value = nullptr; },
     "value: has no strides"},
    {"shortRows", [](PlanT &p) { *bodyOf(p).query = RowStrides(96, 8, 7); },
     "query: rows of 8 elements are 7 elements apart"},
    {"shortRowsOfValues",
     [](PlanT &p) { *bodyOf(p).value = RowStrides(60, 6, 5); },
     "value: rows of 6 elements are 5 elements apart"},
    {"resultsOfHeadsOverlap",
     [](PlanT &p) { *bodyOf(p).result = RowStrides(72, 5, 24); },
     "result: 4 of its parts are 5 elements apart"},
    {"resultsOfRowsOverlap",
     [](PlanT &p) { *bodyOf(p).result = RowStrides(72, 6, 23); },
     "result: 3 of its parts are 23 elements apart"},
    {"resultsOfSamplesOverlap",
     [](PlanT &p) { *bodyOf(p).result = RowStrides(0, 6, 24); },
     "result: 2 of its parts are 0 elements apart"},
    {"biasKeys", [](PlanT &p) { *bodyOf(p).bias = ScoreStrides(0, 15, 5, 2); },
     "bias: keys are 2 elements apart, not 0 or 1"},
    {"maskKeys", [](PlanT &p) { *bodyOf(p).mask = ScoreStrides(5, 0, 0, 2); },
     "mask: keys are 2 elements apart, not 0 or 1"},
    {"rateNegative", [](PlanT &p) { bodyOf(p).dropout->rate = -0.5; },
     "a dropout rate of -0.5"},
    {"rateOfAll", [](PlanT &p) { bodyOf(p).dropout->rate = 1; },
     "a dropout rate of 1"},
    {"dropoutWithoutStrides",
     [](PlanT &p) { bodyOf(p).dropout->strides = nullptr; },
     "dropout: has no strides"},
    {"queryBuffer", [](PlanT &p) { shrink(attentionCallOf(p).reads[0], 4); },
     ", query: 2 x 4 x 3 x 8 elements with strides 96, 8, 32, 1 need 768 "
     "bytes, its buffer has 764"},
    {"keyBuffer", [](PlanT &p) { shrink(attentionCallOf(p).reads[1], 4); },
     ", key: 2 x 2 x 5 x 8 elements with strides 80, 8, 16, 1 need 640"},
    {"valueBuffer", [](PlanT &p) { shrink(attentionCallOf(p).reads[2], 4); },
     ", value: 2 x 2 x 5 x 6 elements with strides 60, 6, 12, 1 need 480"},
    {"biasBuffer", [](PlanT &p) { shrink(attentionCallOf(p).reads[3], 4); },
     ", bias: 2 x 4 x 3 x 5 elements with strides 0, 15, 5, 1 need 240"},
    {"maskBuffer", [](PlanT &p) { shrink(attentionCallOf(p).reads[4], 1); },
     ", mask: 2 x 4 x 3 x 5 elements with strides 5, 0, 0, 1 need 10 bytes"},
    {"seedBuffer", [](PlanT &p) { shrink(attentionCallOf(p).reads[5], 4); },
     ", seed: 1 x 1 x 1 numbers need 8 bytes, its buffer has 4"},
    {"stepBuffer", [](PlanT &p) { move(attentionCallOf(p).reads[6], 4); },
     ", step: offset 4"},
    {"microbatchBuffer",
     [](PlanT &p) { shrink(attentionCallOf(p).reads[7], 4); },
     ", microbatch: 1 x 1 x 1 numbers need 8 bytes"},
    {"offsetBuffer", [](PlanT &p) { shrink(attentionCallOf(p).reads[11], 4); },
     ", keys' offset: 1 x 1 x 1 numbers need 8 bytes"},
    {"resultBuffer", [](PlanT &p) { shrink(attentionCallOf(p).writes[0], 4); },
     ", result: 2 x 4 x 3 x 6 elements with strides 72, 6, 24, 1 need 576"},
    {"lseBuffer", [](PlanT &p) { shrink(attentionCallOf(p).writes[1], 4); },
     ", lse: 2 x 4 x 3 numbers need 96 bytes, its buffer has 92"},
    {"negativeStride",
     [](PlanT &p) { *bodyOf(p).key = RowStrides(-80, 8, 16); }, ", key: "},
    {"hugeStride",
     [](PlanT &p) {
       *bodyOf(p).key = RowStrides(INT64_MAX, INT64_MAX, INT64_MAX);
     },
     ", key: "},
    {"manyQueries",
     [](PlanT &p) {
       bodyOf(p).queries = INT64_MAX;
       *bodyOf(p).result = RowStrides(INT64_MAX, INT64_MAX / 4, 6);
     },
     "result: "},
    {"manyQueriesInPlace",
     [](PlanT &p) {
       bodyOf(p).batch = 1, bodyOf(p).heads = bodyOf(p).groups = 1;
       bodyOf(p).queries = int64_t(1) << 40;
     },
     ", query: 1 x 1 x 1099511627776 x 8 elements"},
    {"withoutOffsets", [](PlanT &p) { bodyOf(p).dropout->offsets = false; },
     "reads 12 buffers instead of 8"},
    {"withoutDropout", [](PlanT &p) { bodyOf(p).dropout = nullptr; },
     "reads 12 buffers instead of 5"},
    {"withoutBias", [](PlanT &p) { bodyOf(p).bias = nullptr; },
     "reads 12 buffers instead of 11"},
    {"withoutMask", [](PlanT &p) { bodyOf(p).mask = nullptr; },
     "reads 12 buffers instead of 11"},
    {"withoutLse", [](PlanT &p) { attentionCallOf(p).writes.pop_back(); },
     "writes 1 buffers instead of 2"},
    {"resultOverQuery",
     [](PlanT &p) {
       move(attentionCallOf(p).writes[0], attentionCallOf(p).reads[0].offset());
     },
     "overlap"},
    {"lseOverResult",
     [](PlanT &p) {
       move(attentionCallOf(p).writes[1],
            attentionCallOf(p).writes[0].offset());
     },
     "overlap"},
    {"scratchOverMask",
     [](PlanT &p) {
       move(attentionCallOf(p).scratch, attentionCallOf(p).reads[4].offset());
     },
     "overlap"},
};

const Lie narrowLies[] = {
    {"type", [](PlanT &p) { bodyOf(p).type = ElementType::I32; },
     "elements of type i32; attention has f32, bf16 and f16"},
    {"doubles", [](PlanT &p) { bodyOf(p).type = ElementType::F64; },
     "elements of type f64"},
    {"unknownType", [](PlanT &p) { bodyOf(p).type = ElementType(99); },
     "elements of type 99"},
    {"unknownProducts", [](PlanT &p) { bodyOf(p).products = TileProducts(3); },
     "tile products of kind 3 do not exist"},
    {"negativeProducts",
     [](PlanT &p) { bodyOf(p).products = TileProducts(-1); },
     "tile products of kind -1 do not exist"},
    {"productsOfFloats",
     [](PlanT &p) { bodyOf(p).products = TileProducts::Float32; },
     "tile products of kind Float32 do not multiply bf16"},
    {"productsOfHalves", [](PlanT &p) { bodyOf(p).type = ElementType::F16; },
     "tile products of kind BFloat16 do not multiply f16"},
    {"floatsOfNarrowProducts",
     [](PlanT &p) { bodyOf(p).type = ElementType::F32; },
     "tile products of kind BFloat16 do not multiply f32"},
    {"floatsThatAreWidened",
     [](PlanT &p) {
       bodyOf(p).type = ElementType::F32;
       bodyOf(p).products = TileProducts::Widened;
     },
     "tile products of kind Widened do not multiply f32"},
    {"resultGradientBuffer",
     [](PlanT &p) { shrink(attentionCallOf(p).reads[0], 2); },
     ", result's gradient: 2 x 4 x 3 x 6 elements with strides 72, 6, 24, 1 "
     "need 288 bytes, its buffer has 286"},
    {"queryBuffer", [](PlanT &p) { shrink(attentionCallOf(p).reads[1], 2); },
     ", query: 2 x 4 x 3 x 8 elements with strides 96, 8, 32, 1 need 384"},
    {"keyBuffer", [](PlanT &p) { shrink(attentionCallOf(p).reads[2], 2); },
     ", key: 2 x 2 x 5 x 8 elements with strides 80, 8, 16, 1 need 320"},
    {"valueBuffer", [](PlanT &p) { shrink(attentionCallOf(p).reads[3], 2); },
     ", value: 2 x 2 x 5 x 6 elements with strides 60, 6, 12, 1 need 240"},
    {"resultBuffer", [](PlanT &p) { shrink(attentionCallOf(p).reads[4], 2); },
     ", result: 2 x 4 x 3 x 6 elements with strides 72, 6, 24, 1 need 288"},
    {"lseBuffer", [](PlanT &p) { shrink(attentionCallOf(p).reads[5], 4); },
     ", lse: 2 x 4 x 3 numbers need 96 bytes"},
    {"biasBuffer", [](PlanT &p) { shrink(attentionCallOf(p).reads[6], 4); },
     ", bias: 2 x 4 x 3 x 5 elements with strides 0, 15, 5, 1 need 240"},
    {"queryGradientBuffer",
     [](PlanT &p) { shrink(attentionCallOf(p).writes[0], 2); },
     ", query's gradient: 2 x 4 x 3 x 8 elements with strides 96, 8, 32, 1 "
     "need 384"},
    {"keyGradientBuffer",
     [](PlanT &p) { shrink(attentionCallOf(p).writes[1], 2); },
     ", key's gradient: 2 x 2 x 5 x 8 elements with strides 80, 8, 16, 1 need "
     "320"},
    {"valueGradientBuffer",
     [](PlanT &p) { shrink(attentionCallOf(p).writes[2], 2); },
     ", value's gradient: 2 x 2 x 5 x 6 elements with strides 60, 6, 12, 1 "
     "need 240"},
    {"biasGradientBuffer",
     [](PlanT &p) { shrink(attentionCallOf(p).writes[3], 4); },
     ", bias's gradient: 2 x 4 x 3 x 5 elements with strides 0, 15, 5, 1 need "
     "240"},
    {"oddAddress",
     [](PlanT &p) {
       BufferRef &key = attentionCallOf(p).reads[2];
       move(key, key.offset() + 1);
     },
     ", key: offset "},
};

const Lie gradLies[] = {
    {"noStridesOfGradient", [](PlanT &p) { gradOf(p).key_gradient = nullptr; },
     "key's gradient: has no strides"},
    {"shortRowsOfGradient",
     [](PlanT &p) { *gradOf(p).result_gradient = RowStrides(72, 6, 5); },
     "result's gradient: rows of 6 elements are 5 elements apart"},
    {"queryGradientsOverlap",
     [](PlanT &p) { *gradOf(p).query_gradient = RowStrides(96, 7, 32); },
     "query's gradient: 4 of its parts are 7 elements apart"},
    {"keyGradientsOverlap",
     [](PlanT &p) { *gradOf(p).key_gradient = RowStrides(80, 0, 16); },
     "key's gradient: 2 of its parts are 0 elements apart"},
    {"valueGradientsOverlap",
     [](PlanT &p) { *gradOf(p).value_gradient = RowStrides(59, 6, 12); },
     "value's gradient: 2 of its parts are 59 elements apart"},
    {"biasGradientKeys",
     [](PlanT &p) { *gradOf(p).bias_gradient = ScoreStrides(0, 15, 5, -1); },
     "bias's gradient: keys are -1 elements apart, not 0 or 1"},
    {"biasGradientsOverlap",
     [](PlanT &p) { *gradOf(p).bias_gradient = ScoreStrides(0, 14, 5, 1); },
     "bias's gradient: 4 of its parts are 14 elements apart"},
    {"biasGradientWithoutBias",
     [](PlanT &p) {
       bodyOf(p).bias = nullptr;
       attentionCallOf(p).reads.erase(attentionCallOf(p).reads.begin() + 6);
     },
     "bias's gradient: there is no bias"},
    {"resultGradientBuffer",
     [](PlanT &p) { shrink(attentionCallOf(p).reads[0], 4); },
     ", result's gradient: 2 x 4 x 3 x 6 elements"},
    {"resultBufferOfGrad",
     [](PlanT &p) { shrink(attentionCallOf(p).reads[4], 4); },
     ", result: 2 x 4 x 3 x 6 elements"},
    {"lseBufferOfGrad",
     [](PlanT &p) { shrink(attentionCallOf(p).reads[5], 4); },
     ", lse: 2 x 4 x 3 numbers need 96"},
    {"queryGradientBuffer",
     [](PlanT &p) { shrink(attentionCallOf(p).writes[0], 4); },
     ", query's gradient: 2 x 4 x 3 x 8 elements"},
    {"keyGradientBuffer",
     [](PlanT &p) { shrink(attentionCallOf(p).writes[1], 4); },
     ", key's gradient: 2 x 2 x 5 x 8 elements"},
    {"valueGradientBuffer",
     [](PlanT &p) { shrink(attentionCallOf(p).writes[2], 4); },
     ", value's gradient: 2 x 2 x 5 x 6 elements"},
    {"biasGradientBuffer",
     [](PlanT &p) { shrink(attentionCallOf(p).writes[3], 4); },
     ", bias's gradient: 2 x 4 x 3 x 5 elements"},
    {"withoutGrad", [](PlanT &p) { bodyOf(p).grad = nullptr; },
     "reads 15 buffers instead of 12"},
    {"withoutBiasGradient", [](PlanT &p) { gradOf(p).bias_gradient = nullptr; },
     "writes 4 buffers instead of 3"},
    {"keyGradientOverValueGradient",
     [](PlanT &p) {
       move(attentionCallOf(p).writes[1],
            attentionCallOf(p).writes[2].offset() - 64);
     },
     "overlap"},
};

class RefusedAttention : public testing::TestWithParam<Lie> {};
class RefusedAttentionGrad : public testing::TestWithParam<Lie> {};
class RefusedNarrowAttention : public testing::TestWithParam<Lie> {};

TEST_P(RefusedAttention, NamesThePlaceAndTheValues) {
  expectRefused(GetParam(), planWith(all));
}
TEST_P(RefusedAttentionGrad, NamesThePlaceAndTheValues) {
  expectRefused(GetParam(), planWith(allOfGrad));
}

TEST_P(RefusedNarrowAttention, NamesThePlaceAndTheValues) {
  expectRefused(GetParam(), planWith(narrow(allOfGrad)));
}

INSTANTIATE_TEST_SUITE_P(VerifyAttention, RefusedNarrowAttention,
                         testing::ValuesIn(narrowLies),
                         [](const auto &info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(VerifyAttention, RefusedAttention,
                         testing::ValuesIn(forwardLies),
                         [](const auto &info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(VerifyAttention, RefusedAttentionGrad,
                         testing::ValuesIn(gradLies),
                         [](const auto &info) { return info.param.name; });

TEST(VerifyAttention, AcceptsCallsWithAndWithoutTheirOptions) {
  for (int bits = 0; bits < 64; ++bits) {
    AttentionOptions options{bool(bits & 1), bool(bits & 2),  bool(bits & 4),
                             bool(bits & 8), bool(bits & 16), bool(bits & 32)};
    if (options.hasBiasGradient && !(options.isGrad && options.hasBias))
      continue;
    SCOPED_TRACE(bits);
    expectAccepted(planWith(options));
    expectAccepted(planWith(narrow(options)));
  }
}

TEST(VerifyAttention, AcceptsWhatTheRulesAllow) {
  auto check = [](const char *what,
                  const std::function<void(CpuAttentionT &)> &change) {
    SCOPED_TRACE(what);
    PlanT plan = planWith(allOfGrad);
    change(bodyOf(plan));
    expectAccepted(plan);
  };
  check("a window", [](CpuAttentionT &body) { body.window = INT64_MAX; });
  check("softcap", [](CpuAttentionT &body) { body.softcap = 30; });
  check("a fill of -infinity", [](CpuAttentionT &body) {
    body.masked = MaskedScores::Add, body.fill = -INFINITY;
  });
  check("all samples with the same keys",
        [](CpuAttentionT &body) { *body.key = RowStrides(0, 8, 16); });
  check("a bias gradient of each head", [](CpuAttentionT &body) {
    *body.grad->bias_gradient = ScoreStrides(0, 1, 0, 0);
  });
  check("bf16 that is widened", [](CpuAttentionT &body) {
    body.type = ElementType::BF16, body.products = TileProducts::Widened;
  });
  check("f16 that is widened", [](CpuAttentionT &body) {
    body.type = ElementType::F16, body.products = TileProducts::Widened;
  });
  check("heads before rows", [](CpuAttentionT &body) {
    *body.grad->key_gradient = RowStrides(80, 40, 8);
  });
}

} // namespace
} // namespace polyrank::runtime::test
