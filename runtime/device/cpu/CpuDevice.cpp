// Kernel launches, GEMMs and copies on the CPU.

#include "runtime/device/cpu/CpuDevice.h"

#include "runtime/device/DeviceAccess.h"
#include "runtime/plan/Enums.h"

#include <cstring>
#include <optional>

namespace polyrank::runtime {
namespace {

using namespace plan;

/// A buffer of the plan in this process.
struct HostPlace {
  Address address;

  std::byte *at(Invocation invocation) const {
    return DeviceAccess::pointerTo(address.at(invocation));
  }
};

HostPlace placeOf(const BufferRef &buffer, const ArenaView &arena) {
  return {arena.resolve(buffer)};
}

class LaunchOperation : public Operation {
public:
  LaunchOperation(const Launch &launch, KernelFunction kernel,
                  const ThreadTeam &team, const ArenaView &arena)
      : kernel(kernel), team(team), range(launch.range()),
        grain(launch.grain()) {
    uint64_t bytes = 0;
    for (const auto *buffers : {launch.inputs(), launch.outputs()})
      if (buffers)
        for (const BufferRef *buffer : *buffers) {
          places.push_back(placeOf(*buffer, arena));
          moves |= buffer->stride() != 0 || buffer->each() != 0;
          bytes += buffer->size();
        }
    for (const HostPlace &place : places)
      pointers.push_back(place.at(Invocation()));
    if (launch.bytes())
      bytes = launch.bytes();
    // Any partition gives the same bits, so small work stays on one thread.
    if (bytes + launch.flops() < team.worthwhileWork())
      grain = std::max<int64_t>(range, 1);
  }

  Result<void> run(Invocation invocation) override {
    if (moves)
      for (size_t i = 0; i < places.size(); ++i)
        pointers[i] = places[i].at(invocation);
    team.parallelFor(
        range, grain,
        [](void *context, int64_t begin, int64_t end) {
          auto *self = static_cast<LaunchOperation *>(context);
          self->kernel(self->pointers.data(), begin, end);
        },
        this);
    return {};
  }

private:
  KernelFunction kernel;
  const ThreadTeam &team;
  int64_t range, grain;
  std::vector<HostPlace> places;
  std::vector<void *> pointers;
  bool moves = false; // an address depends on the turn
};

class GemmOperation : public Operation {
public:
  GemmOperation(const Gemm &gemm, PreparedGemm &product, const ArenaView &arena)
      : product(product), a(placeOf(*gemm.a(), arena)),
        b(placeOf(*gemm.b(), arena)), c(placeOf(*gemm.c(), arena)) {
    if (gemm.scratch())
      scratch = placeOf(*gemm.scratch(), arena);
    if (gemm.groups() && gemm.ids())
      numbers.emplace(placeOf(*gemm.groups(), arena),
                      placeOf(*gemm.ids(), arena));
  }

  Result<void> run(Invocation invocation) override {
    GemmOperands operands{reinterpret_cast<const float *>(a.at(invocation)),
                          reinterpret_cast<const float *>(b.at(invocation)),
                          reinterpret_cast<float *>(c.at(invocation)),
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

class CopyOperation : public Operation {
public:
  CopyOperation(const Copy &copy, int64_t index, const ThreadTeam &team,
                const ArenaView &arena)
      : team(team), input(placeOf(*copy.input(), arena)),
        output(placeOf(*copy.output(), arena)), rows(copy.outer()),
        rowBytes(copy.inner() * copy.element()),
        pitch(copy.count() * rowBytes) {
    input.address.base = input.address.base + index * rowBytes;
    if (pitch == rowBytes) { // contiguous: may be cut anywhere
      rowBytes = pitch = 64;
      tail = copy.outer() * copy.inner() * copy.element() % 64;
      rows = copy.outer() * copy.inner() * copy.element() / 64;
    }
    grain = uint64_t(rows * rowBytes) < team.worthwhileWork()
                ? std::max<int64_t>(rows, 1)
                : std::max<int64_t>(4096 / rowBytes, 1);
  }

  Result<void> run(Invocation invocation) override {
    from = input.at(invocation), to = output.at(invocation);
    team.parallelFor(
        rows, grain,
        [](void *context, int64_t begin, int64_t end) {
          auto &self = *static_cast<CopyOperation *>(context);
          if (self.pitch == self.rowBytes)
            std::memcpy(self.to + begin * self.rowBytes,
                        self.from + begin * self.rowBytes,
                        (end - begin) * self.rowBytes);
          else
            for (int64_t row = begin; row < end; ++row)
              std::memcpy(self.to + row * self.rowBytes,
                          self.from + row * self.pitch, self.rowBytes);
        },
        this);
    std::memcpy(to + rows * rowBytes, from + rows * pitch, tail);
    return {};
  }

private:
  const ThreadTeam &team;
  HostPlace input, output;
  int64_t rows, rowBytes, pitch, grain = 1, tail = 0;
  std::byte *from = nullptr, *to = nullptr;
};

} // namespace

GemmShape shapeOf(const Gemm &gemm) {
  GemmShape shape{libraryOf(gemm.implementation()),
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
                  groupsOf(gemm.grouped())};
  if (gemm.batch())
    for (const GemmBatch *dim : *gemm.batch())
      shape.batch.push_back(
          {dim->count(), dim->a_stride(), dim->b_stride(), dim->c_stride()});
  return shape;
}

Result<std::unique_ptr<CpuDevice>>
CpuDevice::create(const Kernels &kernels, const CpuOptions &options) {
  Result<KernelModule> module = KernelModule::load(kernels);
  if (!module)
    return module.error();
  return std::unique_ptr<CpuDevice>(new CpuDevice(*std::move(module), options));
}

Device::Prepared CpuDevice::prepare(const Launch &launch,
                                    const ArenaView &arena) {
  return std::unique_ptr<Operation>(new LaunchOperation(
      launch, module.function(launch.kernel()), team, arena));
}

Result<PreparedGemm *> CpuDevice::preparedGemm(const GemmShape &shape) {
  for (auto &[known, product] : gemms)
    if (known == shape)
      return product.get();
  auto product = prepareGemm(shape, team.size());
  if (!product)
    return product.error();
  return gemms.emplace_back(shape, *std::move(product)).second.get();
}

Device::Prepared CpuDevice::prepare(const Gemm &gemm, const ArenaView &arena) {
  GemmShape shape = shapeOf(gemm);
  POLYRANK_ASSIGN(product, preparedGemm(shape));
  uint64_t given = gemm.scratch() ? gemm.scratch()->size() : 0;
  if (product->scratchBytes() > given)
    return Error{"gemm " + describe(shape) + ": oneDNN now asks for " +
                 std::to_string(product->scratchBytes()) +
                 " bytes of scratch, the plan gives " + std::to_string(given) +
                 ": compile again on this machine"};
  return std::unique_ptr<Operation>(new GemmOperation(gemm, *product, arena));
}

Device::Prepared CpuDevice::prepare(const Copy &copy, int64_t index,
                                    const ArenaView &arena) {
  return std::unique_ptr<Operation>(
      new CopyOperation(copy, index, team, arena));
}

} // namespace polyrank::runtime
