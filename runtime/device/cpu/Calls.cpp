// The library calls of the CPU.

#include "runtime/device/cpu/Calls.h"

#include "runtime/device/cpu/AttentionCalls.h"

namespace polyrank::runtime {

Device::Prepared CpuCalls::prepare(const plan::Call &call,
                                   const ArenaView &arena) {
  switch (call.body_type()) {
  case plan::CallBody::CpuGemm:
    return gemms.prepare(call, arena);
  case plan::CallBody::CpuAttention:
    return prepareAttention(call, arena, threads);
  case plan::CallBody::CudaGemm:
  case plan::CallBody::NONE:
    break;
  }
  return Error{call.text()->str() + ": this device has no such call"};
}

} // namespace polyrank::runtime
