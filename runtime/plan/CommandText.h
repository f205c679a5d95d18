// What a command does, in words: for traces, times and comparisons.

#pragma once

#include "runtime/plan/plan_generated.h"

#include <string>

namespace polyrank::runtime {

/// "gemm 256x3072x768", the kernel's name, "copy", "AllReduce", "start
/// AllReduce" of one that has a ticket, "send", "receive", "loop x 12". Of a
/// wait "wait"; who knows its collective says more.
std::string describeWork(const plan::Plan &plan, const plan::Command &command);

/// Whether the rank computes it: it is no collective, no wait for one, and
/// moves nothing to or from another rank.
inline bool isComputed(const plan::Command &command) {
  return !command.body_as_Collective() && !command.body_as_Wait() &&
         !command.body_as_Send() && !command.body_as_Receive();
}

/// "forward", "backward" or "update".
const char *nameOf(plan::Phase phase);

} // namespace polyrank::runtime
