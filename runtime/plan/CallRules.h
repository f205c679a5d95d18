// The demands of a library call's body on the call's buffers.

#pragma once

#include "runtime/plan/plan_generated.h"
#include "support/Checked.h"
#include "support/ElementType.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// Returns true for a float type; of bytes that name no type, false.
inline bool isFloat(plan::ElementType type) {
  return type >= plan::ElementType::MIN && type <= plan::ElementType::MAX &&
         polyrank::isFloat(static_cast<polyrank::ElementType>(type));
}

/// A buffer that a call reads or writes.
struct CallOperand {
  std::string name;       // "a"
  uint64_t alignment = 1; // in bytes
  Checked bytes = 0;      // the least size of the buffer
  std::string what;       // takes these bytes: "4 x 3 with leading dim 3"
  /// For a read, the number of the write that may take its place as a whole, or
  /// -1. The buffer that a call adds to is always that write's buffer.
  int write = -1;
  bool isAddend = false;
};

/// The demands of a body. Whatever else a call may do wrong, such as writing
/// over what it reads, is the same for all of them.
struct CallRules {
  std::string fault; // of the body itself; empty if it has none
  std::vector<CallOperand> reads, writes;
};

/// Return the demands of a GEMM; if it has a fault, nothing else.
CallRules rulesOf(const plan::CpuGemm &gemm);
CallRules rulesOf(const plan::CudaGemm &gemm);

/// Returns the demands of attention or its gradient; if it has a fault, nothing
/// else.
CallRules rulesOf(const plan::CpuAttention &attention);

} // namespace polyrank::runtime
