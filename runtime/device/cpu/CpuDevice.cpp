// Kernel launches and copies on the CPU.

#include "runtime/device/cpu/CpuDevice.h"

#include "runtime/device/cpu/HostPlace.h"

#include <cstring>

namespace polyrank::runtime {
namespace {

using namespace plan;

class LaunchOperation : public Operation {
public:
  LaunchOperation(const Launch &launch, KernelFunction kernel,
                  const HostTeam &team, const ArenaView &arena)
      : kernel(kernel), team(team), range(launch.body_as_CpuLaunch()->range()),
        grain(launch.body_as_CpuLaunch()->grain()) {
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
  const HostTeam &team;
  int64_t range, grain;
  std::vector<HostPlace> places;
  std::vector<void *> pointers;
  bool moves = false; // an address depends on the turn
};

class CopyOperation : public Operation {
public:
  CopyOperation(const Copy &copy, int64_t index, const HostTeam &team,
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
  const HostTeam &team;
  HostPlace input, output;
  int64_t rows, rowBytes, pitch, grain = 1, tail = 0;
  std::byte *from = nullptr, *to = nullptr;
};

} // namespace

Result<std::unique_ptr<CpuDevice>>
CpuDevice::create(const Image &image, std::shared_ptr<const HostTeam> team) {
  Result<KernelModule> module = KernelModule::load(image);
  if (!module)
    return module.error();
  return std::unique_ptr<CpuDevice>(
      new CpuDevice(*std::move(module), std::move(team)));
}

Device::Prepared CpuDevice::prepare(const Launch &launch,
                                    const ArenaView &arena) {
  return std::unique_ptr<Operation>(new LaunchOperation(
      launch, module.function(launch.kernel()), *team, arena));
}

Device::Prepared CpuDevice::prepare(const Call &call, const ArenaView &arena) {
  return calls.prepare(call, arena);
}

Device::Prepared CpuDevice::prepare(const Copy &copy, int64_t index,
                                    const ArenaView &arena) {
  return std::unique_ptr<Operation>(
      new CopyOperation(copy, index, *team, arena));
}

} // namespace polyrank::runtime
