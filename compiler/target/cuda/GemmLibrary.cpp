// Products by cuBLASLt. Its algorithms are chosen on the device; a plan has
// shapes, and what all products share: a workspace.

#include "compiler/target/cuda/GemmLibrary.h"

#include "compiler/target/cuda/Cuda.h"
#include "dialects/graph/ElementTypes.h"
#include "runtime/plan/plan_generated.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cuda;

/// The workspace that NVIDIA recommends for GPUs from sm_90 on, in bytes.
static constexpr int64_t workspaceBytes = int64_t(32) << 20;
/// The rows and columns of the results that a block multiplies.
static constexpr int64_t tile = 64;
/// What a GPU multiplies and copies, for each nanosecond, and the time of a
/// launch.
static constexpr double flopsPerNanosecond = 50e3, bytesPerNanosecond = 2.8e3,
                        launchNanoseconds = 3e3;

Result<void> cuda::checkCall(rank::LibraryCallOp call) {
  auto gemm = dyn_cast<rank::GemmOp>(*call);
  if (!gemm)
    return Error{"is no call of a library for CUDA"};
  if (gemm.getGrouped())
    return Error{"is a product in groups, as a mixture of experts has, for "
                 "which the target cuda has no call yet; compile for --target "
                 "cpu"};
  Type element = gemm.getElementType(), sum = gemm.getAccumulatorType();
  bool isNarrow = element.isBF16() || element.isF16();
  if (isNarrow ? sum.isF32()
               : (element.isF32() || element.isF64()) && sum == element)
    return {};
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "multiplies '" << element << "' and adds in '" << sum
     << "', for which this device has no library call; convert the operands to "
        "f32";
  return Error{text};
}

void cuda::chooseCalls(ArrayRef<rank::LibraryCallOp> calls) {
  for (rank::LibraryCallOp call : calls)
    call.setCallAttr(CallAttr::get(call.getContext(), Library::CublasLt));
}

FailureOr<int64_t> cuda::getScratchBytes(rank::LibraryCallOp call) {
  if (Result<void> has = checkCall(call); !has)
    return call.emitOpError(has.error().message);
  return workspaceBytes;
}

LogicalResult cuda::writeCall(rank::LibraryCallOp call,
                              runtime::plan::CallT &written) {
  namespace plan = runtime::plan;
  if (Result<void> has = checkCall(call); !has)
    return call.emitOpError(has.error().message);
  auto chosen = dyn_cast_or_null<CallAttr>(call.getCallAttr());
  if (!chosen)
    return call.emitOpError("has no call: choose-calls comes first");
  auto gemm = cast<rank::GemmOp>(*call);
  auto elementOf = [](Type type) {
    return plan::ElementType(*graph::toElementType(type));
  };
  plan::CudaGemmT body;
  body.operands = elementOf(gemm.getElementType());
  body.accumulator = elementOf(gemm.getAccumulatorType());
  body.result = elementOf(getElementTypeOrSelf(gemm.getResult()));
  body.m = gemm.getM(), body.n = gemm.getN(), body.k = gemm.getK();
  rank::GemmOp::Form a = gemm.getAForm(), b = gemm.getBForm();
  body.transpose_a = a.isTransposed, body.lda = a.leading;
  body.transpose_b = b.isTransposed, body.ldb = b.leading;
  body.ldc = gemm.getRow();
  for (rank::GemmOp::BatchDim dim : gemm.getBatchDims())
    body.batch.push_back(
        {dim.count, dim.aStride, dim.bStride, dim.resultStride});
  body.alpha = static_cast<float>(gemm.getAlpha().convertToDouble());
  body.beta = gemm.getAddend() ? 1 : 0;
  written.text += " ";
  written.text += stringifyLibrary(chosen.getLibrary());
  written.body.Set(std::move(body));
  return success();
}

double cuda::estimateProducts(int64_t m, int64_t n, int64_t k,
                              int64_t products) {
  auto padded = [](int64_t size) {
    return static_cast<double>(llvm::alignTo(size, tile));
  };
  return launchNanoseconds + 2 * padded(m) * padded(n) *
                                 static_cast<double>(k * products) /
                                 flopsPerNanosecond;
}

double cuda::estimateCopy(int64_t bytes) {
  return launchNanoseconds +
         2 * static_cast<double>(bytes) / bytesPerNanosecond;
}
