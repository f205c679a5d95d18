// The buffers that a command reads and writes.

#pragma once

#include "runtime/plan/plan_generated.h"

namespace polyrank::runtime {

/// Calls read(buffer) and write(buffer, isScratch) for each buffer of a
/// command, first for all that it reads. A started collective accesses its
/// buffers until its wait, which names no buffers itself. A channel is not a
/// buffer of a command: it is live all the time. A loop has the buffers of its
/// commands, in order, at their places in the first iteration.
template <typename Read, typename Write>
void visitBuffers(const plan::Command &command, const Read &read,
                  const Write &write) {
  switch (command.body_type()) {
  case plan::CommandBody::Launch: {
    const plan::Launch &launch = *command.body_as_Launch();
    if (launch.inputs())
      for (const plan::BufferRef *buffer : *launch.inputs())
        read(*buffer);
    if (launch.outputs())
      for (const plan::BufferRef *buffer : *launch.outputs())
        write(*buffer, false);
    return;
  }
  case plan::CommandBody::Call: {
    const plan::Call &call = *command.body_as_Call();
    for (const plan::BufferRef *buffer : *call.reads())
      read(*buffer);
    for (const plan::BufferRef *buffer : *call.writes())
      write(*buffer, false);
    if (call.scratch())
      write(*call.scratch(), true);
    return;
  }
  case plan::CommandBody::Copy:
    read(*command.body_as_Copy()->input());
    write(*command.body_as_Copy()->output(), false);
    return;
  case plan::CommandBody::Collective:
    for (const plan::Transfer *transfer :
         *command.body_as_Collective()->transfers())
      read(*transfer->input());
    for (const plan::Transfer *transfer :
         *command.body_as_Collective()->transfers())
      write(*transfer->output(), false);
    return;
  case plan::CommandBody::Send:
    read(*command.body_as_Send()->input());
    return;
  case plan::CommandBody::Receive:
    write(*command.body_as_Receive()->output(), false);
    return;
  case plan::CommandBody::Loop:
    for (const plan::Command *each : *command.body_as_Loop()->commands())
      visitBuffers(*each, read, write);
    return;
  case plan::CommandBody::Wait: // the collective has named them
  case plan::CommandBody::NONE:
    return;
  }
}

} // namespace polyrank::runtime
