// GEMMs of a plan, prepared for a team of threads.

#include "runtime/device/cpu/GemmCalls.h"

#include "runtime/device/cpu/HostPlace.h"
#include "runtime/plan/Enums.h"

#include <optional>

namespace polyrank::runtime {
namespace {

using namespace plan;

static_assert(
    mirrorsAll<GemmLibrary, plan::GemmImplementation, numGemmLibraries>);
static_assert(mirrorsAll<GemmGroups, plan::GemmGrouping, numGemmGroups>);

/// Reads a, b, c if it is added to, and the numbers and the ids of groups.
class GemmOperation : public Operation {
public:
  GemmOperation(const Call &call, PreparedGemm &product, const ArenaView &arena)
      : product(product), a(placeOf(*call.reads()->Get(0), arena)),
        b(placeOf(*call.reads()->Get(1), arena)),
        c(placeOf(*call.writes()->Get(0), arena)) {
    if (call.scratch())
      scratch = placeOf(*call.scratch(), arena);
    if (call.body_as_CpuGemm()->grouped() != GemmGrouping::None) {
      uint32_t last = call.reads()->size() - 1;
      numbers.emplace(placeOf(*call.reads()->Get(last - 1), arena),
                      placeOf(*call.reads()->Get(last), arena));
    }
  }

  Result<void> run(Invocation invocation) override {
    GemmOperands operands{a.at(invocation), b.at(invocation), c.at(invocation),
                          scratch.at(invocation)};
    if (numbers) {
      operands.groups =
          reinterpret_cast<const int64_t *>(numbers->first.at(invocation));
      operands.ids =
          reinterpret_cast<const int64_t *>(numbers->second.at(invocation));
    }
    return product.run(operands);
  }

private:
  PreparedGemm &product;
  HostPlace a, b, c, scratch;
  std::optional<std::pair<HostPlace, HostPlace>> numbers; // groups, ids
};

GemmShape shapeOf(const CpuGemm &gemm) {
  GemmShape shape{static_cast<GemmLibrary>(gemm.implementation()),
                  gemm.m(),
                  gemm.n(),
                  gemm.k(),
                  gemm.transpose_a(),
                  gemm.transpose_b(),
                  gemm.lda(),
                  gemm.ldb(),
                  gemm.ldc(),
                  {},
                  gemm.alpha(),
                  gemm.beta(),
                  gemm.pieces(),
                  static_cast<GemmGroups>(gemm.grouped()),
                  static_cast<polyrank::ElementType>(gemm.operands()),
                  static_cast<polyrank::ElementType>(gemm.accumulator()),
                  static_cast<polyrank::ElementType>(gemm.result())};
  if (gemm.batch())
    for (const GemmBatch *dim : *gemm.batch())
      shape.batch.push_back(
          {dim->count(), dim->a_stride(), dim->b_stride(), dim->c_stride()});
  return shape;
}

} // namespace

Result<PreparedGemm *> GemmCalls::preparedGemm(const GemmShape &shape) {
  for (auto &[known, product] : gemms)
    if (known == shape)
      return product.get();
  auto product = prepareGemm(shape, threads);
  if (!product)
    return product.error();
  return gemms.emplace_back(shape, *std::move(product)).second.get();
}

Device::Prepared GemmCalls::prepare(const Call &call, const ArenaView &arena) {
  GemmShape shape = shapeOf(*call.body_as_CpuGemm());
  POLYRANK_ASSIGN(product, preparedGemm(shape));
  uint64_t given = call.scratch() ? call.scratch()->size() : 0;
  if (product->scratchBytes() > given)
    return Error{"gemm " + describe(shape) + ": oneDNN now asks for " +
                 std::to_string(product->scratchBytes()) +
                 " bytes of scratch, the plan gives " + std::to_string(given) +
                 ": compile again on this machine"};
  return std::unique_ptr<Operation>(new GemmOperation(call, *product, arena));
}

} // namespace polyrank::runtime
