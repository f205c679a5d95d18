// Which implementation computes a product, and how much scratch it needs.

#include "compiler/target/cpu/GemmLibrary.h"

#include "compiler/target/GemmShape.h"
#include "compiler/target/cpu/ChooseCalls.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;

runtime::GemmShape cpu::getGemmShape(rank::GemmOp gemm) {
  runtime::GemmShape shape = target::getGemmShape(gemm);
  // The default without a measurement is the BLAS call for single and grouped
  // products: with oneDNN 2.6, matmul can be half as fast if rows of B are a
  // multiple of 4 KiB apart. The products of a batch are too small for the
  // packing of the BLAS call to pay off; those of groups have sizes that depend
  // on data.
  if (!gemm.getCallAttr())
    shape.library = shape.batch.empty() || gemm.getGrouped()
                        ? runtime::GemmLibrary::Sgemm
                        : runtime::GemmLibrary::Matmul;
  return shape;
}

Result<void> cpu::checkGemm(rank::GemmOp gemm) {
  for (Type type : {gemm.getElementType(), gemm.getAccumulatorType(),
                    gemm.getResult().getType().getElementType()})
    if (!type.isF32()) {
      std::string text;
      llvm::raw_string_ostream(text)
          << "multiplies '" << type << "', for which this device has no "
          << "library call; convert the operands to f32";
      return Error{text};
    }
  return {};
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
      gemm.setCallAttr(rank::CpuCallAttr::get(
          gemm.getContext(), rank::GemmLibrary(call.library), call.pieces));
}

FailureOr<int64_t> cpu::getGemmScratch(rank::GemmOp gemm, int64_t threads) {
  auto bytes = runtime::gemmScratchBytes(getGemmShape(gemm), threads);
  if (!bytes)
    return gemm.emitOpError(bytes.error().message);
  return static_cast<int64_t>(*bytes);
}
