// Commands in words, for traces, times and comparisons.

#pragma once

#include "runtime/plan/plan_generated.h"

#include <string>

namespace polyrank::runtime {

/// "launch", the kind of a library call ("gemm"), "copy", "loop", "collective",
/// "wait", "send" or "receive".
const char *kindOf(const plan::Command &command);

/// The same with a capital where the plan has one, for messages: "Launch",
/// "gemm", "Collective".
const char *nameOf(const plan::Command &command);

/// Returns the text of a library call ("gemm 256x3072x768 Sgemm"), the kernel's
/// name, "copy", "AllReduce", "start AllReduce" if it has a request, "send",
/// "receive" or "loop x 12". For a wait it is just "wait"; a caller that knows
/// its collective can say more.
std::string describeWork(const plan::Plan &plan, const plan::Command &command);

/// Returns true if the command is computation: not a collective, a wait, a send
/// or a receive.
inline bool isComputed(const plan::Command &command) {
  return !command.body_as_Collective() && !command.body_as_Wait() &&
         !command.body_as_Send() && !command.body_as_Receive();
}

/// "forward", "backward" or "update".
const char *nameOf(plan::Phase phase);

} // namespace polyrank::runtime
