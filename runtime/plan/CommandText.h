// What a command does, in words: for traces, times and comparisons.

#pragma once

#include "runtime/plan/plan_generated.h"

#include <string>

namespace polyrank::runtime {

/// "gemm 256x3072x768", the kernel's name, "copy", "AllReduce", "start
/// AllReduce" of one that has a ticket. Of a wait "wait"; who knows its
/// collective says more.
std::string describeWork(const plan::Plan &plan, const plan::Command &command);

/// Whether the rank computes it: it is no collective and no wait for one.
inline bool isComputed(const plan::Command &command) {
  return !command.body_as_Collective() && !command.body_as_Wait();
}

/// "forward", "backward" or "update".
const char *nameOf(plan::Phase phase);

} // namespace polyrank::runtime
