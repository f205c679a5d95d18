// The buffers of a GEMM that a library of a CPU or a GPU computes.

#include "runtime/plan/CallRules.h"
#include "runtime/plan/Verifier.h"

#include <algorithm>

namespace polyrank::runtime {

using namespace plan;

static constexpr uint32_t mostBatchDims = 32;

/// The buffer must reach to the last element that any product of the batch
/// accesses.
template <typename Gemm>
static CallOperand matrixOf(const char *name, ElementType type, int64_t rows,
                            int64_t columns, int64_t leading, const Gemm &gemm,
                            int64_t (GemmBatch::*stride)() const) {
  Checked elements =
      Checked::of(rows - 1) * Checked::of(leading) + Checked::of(columns);
  if (gemm.batch())
    for (const GemmBatch *batch : *gemm.batch())
      elements = elements + Checked::of(batch->count() - 1) *
                                Checked::of((batch->*stride)());
  uint64_t size = elementSize(type);
  return {name, size, elements * Checked(size),
          fmt::format("{} x {} with leading dim {} and its batch", rows,
                      columns, leading)};
}

static CallOperand numbersOf(const char *name, int64_t count) {
  return {name, sizeof(int64_t), Checked::of(count) * Checked(sizeof(int64_t)),
          fmt::format("{} numbers", count)};
}

/// Returns true for products of elements that are added in a wider type.
static bool isNarrow(const CpuGemm &gemm) {
  return gemm.operands() != gemm.accumulator();
}

/// The implementation that takes products of any size, one by one.
static GemmImplementation byBlas(const CpuGemm &gemm) {
  return isNarrow(gemm) ? GemmImplementation::Widened
                        : GemmImplementation::Sgemm;
}

/// The two implementations that end in oneDNN's sgemm compute in F32.
static std::string findImplementationFault(const CpuGemm &gemm) {
  if (gemm.implementation() == GemmImplementation::Matmul)
    return "";
  if (gemm.implementation() != byBlas(gemm) ||
      gemm.accumulator() != ElementType::F32)
    return fmt::format("{} cannot multiply {} and add in {}",
                       EnumNameGemmImplementation(gemm.implementation()),
                       EnumNameElementType(gemm.operands()),
                       EnumNameElementType(gemm.accumulator()));
  return "";
}

template <typename Gemm>
static std::string findTypeFault(const Gemm &gemm) {
  for (ElementType type : {gemm.operands(), gemm.accumulator(), gemm.result()})
    if (!isFloat(type))
      return fmt::format("element type {} is no float", int(type));
  if (gemm.accumulator() != gemm.operands() &&
      elementSize(gemm.accumulator()) <= elementSize(gemm.operands()))
    return fmt::format("adds products of {} in {}, which is no wider type",
                       EnumNameElementType(gemm.operands()),
                       EnumNameElementType(gemm.accumulator()));
  if (gemm.result() != gemm.operands() && gemm.result() != gemm.accumulator())
    return fmt::format("gives {}; what is multiplied is {}, and added in {}",
                       EnumNameElementType(gemm.result()),
                       EnumNameElementType(gemm.operands()),
                       EnumNameElementType(gemm.accumulator()));
  return "";
}

/// `sharesRows`: all products of the batch write to the same rows.
template <typename Gemm>
static std::string findBatchFault(const Gemm &gemm, bool sharesRows) {
  if (!gemm.batch())
    return "";
  if (!isAligned(gemm.batch()))
    return "its elements are not aligned to 8 bytes";
  if (gemm.batch()->size() > mostBatchDims)
    return fmt::format("{} batch dims, at most {} are possible",
                       gemm.batch()->size(), mostBatchDims);
  Checked products = 1;
  for (const GemmBatch *batch : *gemm.batch()) {
    if (batch->count() < 1 ||
        (!sharesRows && batch->count() > 1 && batch->c_stride() < 1))
      return fmt::format("a batch dim of {} products whose results are {} "
                         "elements apart",
                         batch->count(), batch->c_stride());
    products = products * Checked::of(batch->count());
  }
  return products.fits(INT32_MAX)
             ? ""
             : fmt::format("a batch of {} products", products.value());
}

/// A grouped GEMM has a group number for each row, or each element of the inner
/// dim, and one for each product of its only batch dim; all rows of C belong to
/// it.
static std::string findGroupFault(const CpuGemm &gemm) {
  if (gemm.grouped() < GemmGrouping::MIN || gemm.grouped() > GemmGrouping::MAX)
    return fmt::format("groups of kind {} do not exist", int(gemm.grouped()));
  if (gemm.grouped() == GemmGrouping::None)
    return "";
  if (!gemm.batch() || gemm.batch()->size() != 1)
    return "groups are of one batch dim";
  if (gemm.implementation() != byBlas(gemm))
    return fmt::format("groups are computed by {}, not by {}",
                       EnumNameGemmImplementation(byBlas(gemm)),
                       EnumNameGemmImplementation(gemm.implementation()));
  const GemmBatch &batch = *gemm.batch()->Get(0);
  if (gemm.grouped() == GemmGrouping::Rows && batch.c_stride() != 0)
    return fmt::format("rows in groups whose results are {} elements apart",
                       batch.c_stride());
  return "";
}

template <typename Gemm>
static std::string findSizeFault(const Gemm &gemm) {
  int64_t m = gemm.m(), n = gemm.n(), k = gemm.k();
  if (m < 1 || n < 1 || k < 1)
    return fmt::format("m={} n={} k={}", m, n, k);
  struct Matrix {
    const char *name;
    int64_t leading, columns;
  };
  for (auto [name, leading, columns] :
       {Matrix{"a", gemm.lda(), gemm.transpose_a() ? m : k},
        Matrix{"b", gemm.ldb(), gemm.transpose_b() ? k : n},
        Matrix{"c", gemm.ldc(), n}})
    if (leading < columns)
      return fmt::format("{}: leading dim {} is less than its {} columns", name,
                         leading, columns);
  return "";
}

static std::string findPiecesFault(const CpuGemm &gemm) {
  if (gemm.implementation() < GemmImplementation::MIN ||
      gemm.implementation() > GemmImplementation::MAX)
    return fmt::format("implementation {} does not exist",
                       int(gemm.implementation()));
  int64_t m = gemm.m(), n = gemm.n();
  if (m >= 1 && n >= 1 && gemm.pieces() > std::max(m, n))
    return fmt::format("cut into {} pieces, but its sides are {} and {}",
                       gemm.pieces(), m, n);
  return "";
}

/// Fills in A, B and C.
template <typename Gemm>
static void addMatrices(const Gemm &gemm, CallRules &rules) {
  int64_t m = gemm.m(), n = gemm.n(), k = gemm.k();
  bool ta = gemm.transpose_a(), tb = gemm.transpose_b();
  rules.reads = {matrixOf("a", gemm.operands(), ta ? k : m, ta ? m : k,
                          gemm.lda(), gemm, &GemmBatch::a_stride),
                 matrixOf("b", gemm.operands(), tb ? n : k, tb ? k : n,
                          gemm.ldb(), gemm, &GemmBatch::b_stride)};
  rules.writes = {matrixOf("c", gemm.result(), m, n, gemm.ldc(), gemm,
                           &GemmBatch::c_stride)};
  if (gemm.beta() != 0) {
    rules.reads.push_back(rules.writes[0]);
    rules.reads.back().write = 0;
    rules.reads.back().isAddend = true;
  }
}

CallRules rulesOf(const CudaGemm &gemm) {
  CallRules rules;
  for (std::string fault : {findSizeFault(gemm), findTypeFault(gemm),
                            findBatchFault(gemm, /*sharesRows=*/false)})
    if (rules.fault = fault; !rules.fault.empty())
      return rules;
  addMatrices(gemm, rules);
  return rules;
}

CallRules rulesOf(const CpuGemm &gemm) {
  CallRules rules;
  bool sharesRows = gemm.grouped() == GemmGrouping::Rows;
  for (std::string fault :
       {findPiecesFault(gemm), findSizeFault(gemm), findTypeFault(gemm)})
    if (rules.fault = fault; !rules.fault.empty())
      return rules;
  for (std::string fault :
       {findImplementationFault(gemm), findBatchFault(gemm, sharesRows),
        findGroupFault(gemm)})
    if (rules.fault = fault; !rules.fault.empty())
      return rules;
  addMatrices(gemm, rules);
  if (gemm.grouped() != GemmGrouping::None) {
    bool ofRows = gemm.grouped() == GemmGrouping::Rows;
    rules.reads.push_back(numbersOf("groups", ofRows ? gemm.m() : gemm.k()));
    rules.reads.push_back(numbersOf("ids", gemm.batch()->Get(0)->count()));
  }
  return rules;
}

} // namespace polyrank::runtime
