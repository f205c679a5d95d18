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
  case plan::CommandBody::Gemm: {
    const plan::Gemm &gemm = *command.body_as_Gemm();
    read(*gemm.a());
    read(*gemm.b());
    for (const plan::BufferRef *numbers : {gemm.groups(), gemm.ids()})
      if (numbers)
        read(*numbers);
    if (gemm.beta() != 0)
      read(*gemm.c());
    write(*gemm.c(), false);
    if (gemm.scratch())
      write(*gemm.scratch(), true);
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
