// Commands in words.

#include "runtime/plan/CommandText.h"

#include "runtime/plan/PlanTargets.h"

#include <fmt/format.h>

namespace polyrank::runtime {

const char *kindOf(const plan::Command &command) {
  switch (command.body_type()) {
  case plan::CommandBody::Launch:
    return "launch";
  case plan::CommandBody::Call:
    return plan::EnumNameCallKind(command.body_as_Call()->kind());
  case plan::CommandBody::Copy:
    return "copy";
  case plan::CommandBody::Loop:
    return "loop";
  case plan::CommandBody::Wait:
    return "wait";
  case plan::CommandBody::Send:
    return "send";
  case plan::CommandBody::Receive:
    return "receive";
  default:
    return "collective";
  }
}

const char *nameOf(const plan::Command &command) {
  const plan::Call *call = command.body_as_Call();
  return call ? plan::EnumNameCallKind(call->kind())
              : plan::EnumNameCommandBody(command.body_type());
}

std::string describeWork(const plan::Plan &plan, const plan::Command &command) {
  switch (command.body_type()) {
  case plan::CommandBody::Launch:
    return kernelOf(plan, *command.body_as_Launch());
  case plan::CommandBody::Call:
    return command.body_as_Call()->text()->str();
  case plan::CommandBody::Loop:
    return fmt::format("loop x {}", command.body_as_Loop()->count());
  case plan::CommandBody::Collective: {
    const plan::Collective &collective = *command.body_as_Collective();
    std::string kind = plan::EnumNameCollectiveKind(collective.kind());
    return collective.request() ? "start " + kind : kind;
  }
  default:
    return kindOf(command);
  }
}

const char *nameOf(plan::Phase phase) {
  static constexpr const char *names[] = {"forward", "backward", "update"};
  return names[int(phase)];
}

} // namespace polyrank::runtime
