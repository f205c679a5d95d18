// Which implementation computes a product, and how much scratch it needs.

#include "compiler/target/cpu/GemmLibrary.h"

#include "compiler/target/Target.h"
#include "compiler/target/cpu/ChooseCalls.h"
#include "compiler/target/cpu/Cpu.h"
#include "compiler/target/cpu/CpuTarget.h"
#include "dialects/graph/ElementTypes.h"
#include "dialects/rank/Denormals.h"
#include "runtime/plan/plan_generated.h"
#include "support/EnumNames.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;

static_assert(
    runtime::numGemmLibraries == getMaxEnumValForGemmLibrary() + 1 &&
    agreeOn<runtime::GemmLibrary, GemmLibrary, runtime::numGemmLibraries>);

/// oneDNN's sgemm packs its operands in up to this many bytes for each thread.
static constexpr uint64_t sgemmPacks = uint64_t(15) << 20;

/// The type, which checkGemm has accepted.
static ElementType elementOf(Type type) {
  return graph::toElementType(type).value_or(ElementType::UNDEFINED);
}

bool cpu::mayUseNarrowInstructions(Operation *call) {
  auto target = target::getTarget(call);
  return succeeded(target) && isNative(Attribute(*target)) &&
         rank::getDenormals(call->getParentOfType<ModuleOp>()) ==
             rank::Denormals::Flush;
}

/// Returns true if a plan may leave narrow elements to oneDNN's primitive.
static bool mayMultiplyNarrow(rank::GemmOp gemm,
                              const runtime::GemmShape &shape) {
  return mayUseNarrowInstructions(gemm) &&
         runtime::hasNarrowMatmul(shape.operands, shape.result);
}

runtime::GemmShape cpu::getGemmShape(rank::GemmOp gemm) {
  runtime::GemmShape shape;
  shape.operands = elementOf(gemm.getElementType());
  shape.accumulator = elementOf(gemm.getAccumulatorType());
  shape.result = elementOf(getElementTypeOrSelf(gemm.getResult()));
  shape.m = gemm.getM();
  shape.n = gemm.getN();
  shape.k = gemm.getK();
  shape.transposeA = gemm.getAForm().isTransposed;
  shape.lda = gemm.getAForm().leading;
  shape.transposeB = gemm.getBForm().isTransposed;
  shape.ldb = gemm.getBForm().leading;
  shape.ldc = gemm.getRow();
  for (rank::GemmOp::BatchDim dim : gemm.getBatchDims())
    shape.batch.push_back(
        {dim.count, dim.aStride, dim.bStride, dim.resultStride});
  shape.alpha = static_cast<float>(gemm.getAlpha().convertToDouble());
  shape.beta = gemm.getAddend() ? 1 : 0;
  if (std::optional<rank::Grouped> grouped = gemm.getGrouped())
    shape.grouped = grouped == rank::Grouped::Rows ? runtime::GemmGroups::Rows
                                                   : runtime::GemmGroups::Inner;
  if (auto call = dyn_cast_or_null<CallAttr>(gemm.getCallAttr())) {
    shape.library = runtime::GemmLibrary(call.getLibrary());
    shape.pieces = call.getPieces();
    return shape;
  }
  // The default without a measurement is the BLAS call for single and grouped
  // products: with oneDNN 2.6, matmul can be half as fast if rows of B are a
  // multiple of 4 KiB apart. The products of a batch are too small for the
  // packing of the BLAS call to pay off; those of groups have sizes that depend
  // on data. Narrow elements are multiplied as they are where that is possible.
  bool isSingle = shape.batch.empty() || gemm.getGrouped();
  if (shape.isNarrow())
    shape.library = !gemm.getGrouped() && mayMultiplyNarrow(gemm, shape)
                        ? runtime::GemmLibrary::Matmul
                        : runtime::GemmLibrary::Widened;
  else
    shape.library =
        isSingle ? runtime::GemmLibrary::Sgemm : runtime::GemmLibrary::Matmul;
  return shape;
}

Result<void> cpu::checkGemm(rank::GemmOp gemm) {
  auto element = graph::toElementType(gemm.getElementType()),
       accumulator = graph::toElementType(gemm.getAccumulatorType()),
       result = graph::toElementType(getElementTypeOrSelf(gemm.getResult()));
  if (element && accumulator && result &&
      runtime::hasProduct(*element, *accumulator, *result))
    return {};
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "multiplies '" << gemm.getElementType() << "'";
  // A narrow type has products, but not with any accumulator.
  if (element && rowOf(*element).accumulator != *element)
    os << " and adds in '" << gemm.getAccumulatorType() << "'";
  os << ", for which this device has no library call; convert the operands to "
     << "f32";
  return Error{text};
}

void cpu::chooseGemmCalls(ArrayRef<rank::GemmOp> gemms, int64_t threads,
                          bool measure) {
  llvm::MapVector<Attribute, SmallVector<rank::GemmOp>> equal;
  for (rank::GemmOp gemm : gemms)
    equal[gemm.getKey()].push_back(gemm);
  std::vector<runtime::GemmShape> shapes;
  for (auto &[key, alike] : equal)
    shapes.push_back(getGemmShape(alike.front()));
  std::vector<GemmCall> calls = chooseCalls(shapes, threads, measure);
  for (auto [entry, call] : llvm::zip_equal(equal, calls))
    for (rank::GemmOp gemm : entry.second)
      gemm.setCallAttr(CallAttr::get(gemm.getContext(),
                                     GemmLibrary(call.library), call.pieces));
}

FailureOr<int64_t> cpu::getGemmScratch(rank::GemmOp gemm, int64_t threads) {
  auto bytes = runtime::gemmScratchBytes(getGemmShape(gemm), threads);
  if (!bytes)
    return gemm.emitOpError(bytes.error().message);
  return static_cast<int64_t>(*bytes);
}

LogicalResult cpu::writeGemm(rank::GemmOp gemm, runtime::plan::CallT &call) {
  namespace plan = runtime::plan;
  if (!isa_and_present<CallAttr>(gemm.getCallAttr()))
    return gemm.emitOpError("has no call: choose-calls comes first");
  runtime::GemmShape shape = getGemmShape(gemm);
  plan::CpuGemmT body;
  body.implementation = plan::GemmImplementation(shape.library);
  body.operands = plan::ElementType(shape.operands);
  body.accumulator = plan::ElementType(shape.accumulator);
  body.result = plan::ElementType(shape.result);
  body.m = shape.m, body.n = shape.n, body.k = shape.k;
  body.transpose_a = shape.transposeA, body.lda = shape.lda;
  body.transpose_b = shape.transposeB, body.ldb = shape.ldb;
  body.ldc = shape.ldc;
  for (const runtime::GemmBatchDim &dim : shape.batch)
    body.batch.push_back({dim.count, dim.aStride, dim.bStride, dim.cStride});
  body.alpha = shape.alpha, body.beta = shape.beta;
  body.grouped = plan::GemmGrouping(shape.grouped);
  body.pieces = shape.pieces;
  if (shape.pieces)
    call.text += " in " + std::to_string(shape.pieces);
  call.text += " ";
  call.text += plan::EnumNameGemmImplementation(body.implementation);
  if (shape.library != runtime::GemmLibrary::Matmul)
    call.library_bytes = sgemmPacks;
  call.body.Set(std::move(body));
  return success();
}
