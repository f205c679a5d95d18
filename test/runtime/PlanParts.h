// The parts of hand-built plans.

#pragma once

#include "runtime/plan/plan_generated.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace polyrank::runtime::test {

using namespace plan;

/// Allocates buffers in the arena, in units of 64 bytes.
class Arena {
public:
  BufferRef take(Region region, uint64_t size, uint64_t count = 1) {
    uint64_t &end = region == Region::Shared ? shared : unshared;
    uint64_t stride = (size + 63) / 64 * 64;
    BufferRef buffer(end, size, count > 1 ? stride : 0, 0, 0, 0, 0, region);
    end += stride * count;
    return buffer;
  }
  uint64_t shared = 0, unshared = 0;
};

inline std::unique_ptr<BufferRef> copyOf(const BufferRef &buffer) {
  return std::make_unique<BufferRef>(buffer);
}

inline std::unique_ptr<AxisListT> axisList(std::vector<AxisRef> axes) {
  auto list = std::make_unique<AxisListT>();
  list->axes = std::move(axes);
  return list;
}

inline std::unique_ptr<DimT> dim(int64_t size, std::vector<AxisRef> axes = {}) {
  auto result = std::make_unique<DimT>();
  int64_t blocks = 1;
  for (const AxisRef &axis : axes)
    blocks *= axis.size();
  result->size = size;
  result->padded = (size + blocks - 1) / blocks * blocks;
  result->axes = std::move(axes);
  return result;
}

template <typename... Dims>
std::vector<std::unique_ptr<DimT>> dims(Dims... each) {
  std::vector<std::unique_ptr<DimT>> result;
  (result.push_back(std::move(each)), ...);
  return result;
}

template <typename Body>
std::unique_ptr<CommandT> command(Body body, std::string origin) {
  auto result = std::make_unique<CommandT>();
  result->body.Set(std::move(body));
  result->origin = std::move(origin);
  return result;
}

inline CpuLaunchT cpuLaunch(int64_t range, int64_t grain = 1) {
  CpuLaunchT result;
  result.range = range, result.grain = grain;
  return result;
}

inline LaunchT launch(uint32_t kernel, int64_t range,
                      std::vector<BufferRef> inputs,
                      std::vector<BufferRef> outputs) {
  LaunchT result;
  result.kernel = kernel;
  result.body.Set(cpuLaunch(range));
  result.inputs = std::move(inputs);
  result.outputs = std::move(outputs);
  result.bytes = 1 << 20; // large enough for the team
  return result;
}

/// A call that reads a, b, with beta c, and `numbers`: of a grouped GEMM those
/// of its rows and the ids of its groups.
inline CallT call(CpuGemmT gemm, const BufferRef &a, const BufferRef &b,
                  const BufferRef &c,
                  const std::vector<BufferRef> &numbers = {}) {
  CallT result;
  result.kind = CallKind::gemm;
  result.reads = {a, b};
  if (gemm.beta != 0)
    result.reads.push_back(c);
  result.reads.insert(result.reads.end(), numbers.begin(), numbers.end());
  result.writes = {c};
  result.flops = 2 * gemm.m * gemm.n * gemm.k;
  result.text = "gemm " + std::to_string(gemm.m) + "x" +
                std::to_string(gemm.n) + "x" + std::to_string(gemm.k) + " " +
                EnumNameGemmImplementation(gemm.implementation);
  result.body.Set(std::move(gemm));
  return result;
}

/// A GEMM of row-major matrices without gaps.
inline CpuGemmT gemmOf(int64_t m, int64_t n, int64_t k, bool transposeA = false,
                       float beta = 0) {
  CpuGemmT result;
  result.m = m, result.n = n, result.k = k;
  result.transpose_a = transposeA;
  result.lda = transposeA ? m : k;
  result.ldb = n, result.ldc = n;
  result.beta = beta;
  return result;
}

inline CallT gemm(int64_t m, int64_t n, int64_t k, const BufferRef &a,
                  bool transposeA, const BufferRef &b, const BufferRef &c,
                  float beta) {
  return call(gemmOf(m, n, k, transposeA, beta), a, b, c);
}

inline CollectiveT allReduce(uint32_t group, uint64_t id,
                             const BufferRef &buffer) {
  CollectiveT result;
  result.kind = CollectiveKind::AllReduce;
  result.reduction = Reduction::Sum;
  result.group = group;
  result.id = id;
  result.why = static_cast<uint32_t>(id - 1);
  auto transfer = std::make_unique<TransferT>();
  transfer->input = copyOf(buffer), transfer->output = copyOf(buffer);
  transfer->inner = static_cast<int64_t>(buffer.size() / 4);
  result.transfers.push_back(std::move(transfer));
  return result;
}

inline const std::vector<std::string> kernelNames = {
    "difference", "squares4", "zero", "total", "descend", "crash", "spin"};
/// The kernels of kernels.c, by their numbers in plans.
enum Kernel { difference, squares4, zero, total, descend };

} // namespace polyrank::runtime::test
