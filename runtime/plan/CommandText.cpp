// Commands in words.

#include "runtime/plan/CommandText.h"

#include <fmt/format.h>

namespace polyrank::runtime {

std::string describeWork(const plan::Plan &plan, const plan::Command &command) {
  switch (command.body_type()) {
  case plan::CommandBody::Launch:
    return plan.kernels()
        ->symbols()
        ->Get(command.body_as_Launch()->kernel())
        ->str();
  case plan::CommandBody::Gemm: {
    const plan::Gemm &gemm = *command.body_as_Gemm();
    return fmt::format("gemm {}x{}x{}", gemm.m(), gemm.n(), gemm.k());
  }
  case plan::CommandBody::Copy:
    return "copy";
  case plan::CommandBody::Wait:
    return "wait";
  case plan::CommandBody::Send:
    return "send";
  case plan::CommandBody::Receive:
    return "receive";
  case plan::CommandBody::Loop:
    return fmt::format("loop x {}", command.body_as_Loop()->count());
  default: {
    const plan::Collective &collective = *command.body_as_Collective();
    std::string kind = plan::EnumNameCollectiveKind(collective.kind());
    return collective.request() ? "start " + kind : kind;
  }
  }
}

const char *nameOf(plan::Phase phase) {
  static constexpr const char *names[] = {"forward", "backward", "update"};
  return names[int(phase)];
}

} // namespace polyrank::runtime
