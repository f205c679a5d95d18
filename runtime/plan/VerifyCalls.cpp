// Verifies library calls: their buffers against what the body demands of them.

#include "runtime/plan/CallRules.h"
#include "runtime/plan/Verifier.h"

#include <optional>

namespace polyrank::runtime {

using namespace plan;

/// The alignment of scratch, in bytes: a cache line.
static constexpr uint64_t scratchAlignment = 64;

/// Returns nullopt for a body that does not exist.
static std::optional<CallRules> rulesOf(const Call &call) {
  switch (call.body_type()) {
  case CallBody::CpuGemm:
    return rulesOf(*call.body_as_CpuGemm());
  case CallBody::CpuAttention:
    return rulesOf(*call.body_as_CpuAttention());
  case CallBody::CudaGemm:
    return rulesOf(*call.body_as_CudaGemm());
  case CallBody::NONE:
    break;
  }
  return std::nullopt;
}

static bool areOnePlace(const BufferRef &a, const BufferRef &b) {
  return a.offset() == b.offset() && a.size() == b.size() &&
         a.stride() == b.stride() && a.step() == b.step() &&
         a.each() == b.each() && a.slots() == b.slots() &&
         a.axes() == b.axes() && a.region() == b.region();
}

bool PlanVerifier::verifyOperands(
    const std::string &what, const char *verb,
    const flatbuffers::Vector<const BufferRef *> &buffers,
    const std::vector<CallOperand> &operands) {
  if (!verifyAligned(what, &buffers))
    return false;
  if (buffers.size() != operands.size())
    return fail("{}: {} {} buffers instead of {}", what, verb, buffers.size(),
                operands.size());
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    const BufferRef &buffer = *buffers.Get(i);
    const CallOperand &operand = operands[i];
    if (!verifyBuffer(fmt::format("{}, {}", what, operand.name), buffer,
                      operand.alignment))
      return false;
    if (!operand.bytes.fits(buffer.size()))
      return fail("{}, {}: {} need {} bytes, its buffer has {}", what,
                  operand.name, operand.what, operand.bytes.value(),
                  buffer.size());
  }
  return true;
}

/// Writes and scratch are disjoint from each other and from all reads, except
/// for a write that takes the place of a read.
bool PlanVerifier::verifyCallApart(const std::string &what, const Call &call,
                                   const std::vector<CallOperand> &reads) {
  const BufferRef *scratch = call.scratch();
  for (uint32_t w = 0; w < call.writes()->size(); ++w) {
    const BufferRef &written = *call.writes()->Get(w);
    for (uint32_t r = 0; r < call.reads()->size(); ++r) {
      const BufferRef &read = *call.reads()->Get(r);
      if (reads[r].write == int(w) && areOnePlace(read, written))
        continue;
      if (reads[r].write == int(w) && reads[r].isAddend)
        return fail("{}: adds to {} bytes at offset {}, and writes the sum of "
                    "{} bytes to offset {}",
                    what, read.size(), read.offset(), written.size(),
                    written.offset());
      if (!verifyApart(what, read, written))
        return false;
    }
    for (uint32_t other = 0; other < w; ++other)
      if (!verifyApart(what, *call.writes()->Get(other), written))
        return false;
  }
  if (scratch)
    for (const auto *buffers : {call.reads(), call.writes()})
      for (const BufferRef *buffer : *buffers)
        if (!verifyApart(what + ", scratch", *buffer, *scratch))
          return false;
  return true;
}

bool PlanVerifier::verifyCall(const std::string &what, const Call &call) {
  if (call.kind() < CallKind::MIN || call.kind() > CallKind::MAX)
    return fail("{}: calls of kind {} do not exist", what, int(call.kind()));
  std::optional<CallRules> rules = rulesOf(call);
  if (!rules)
    return fail("{}: a call of type {} does not exist", what,
                int(call.body_type()));
  if (std::find(target->calls.begin(), target->calls.end(), call.body_type()) ==
      target->calls.end())
    return fail("{}: the target '{}' has no calls of type {}", what,
                target->name, int(call.body_type()));
  if (!rules->fault.empty())
    return fail("{}: {}", what, rules->fault);
  if (!isFloat(call.factors()))
    return fail("{}: multiplies elements of type {}, which is no float", what,
                int(call.factors()));
  if (call.library_bytes() > maxArena)
    return fail("{}: the library allocates {} bytes for each thread, more than "
                "an arena may have",
                what, call.library_bytes());
  if (!verifyOperands(what, "reads", *call.reads(), rules->reads) ||
      !verifyOperands(what, "writes", *call.writes(), rules->writes))
    return false;
  // The scratch is verified first: overlap is defined only for valid buffers.
  if (call.scratch() &&
      !verifyBuffer(what + ", scratch", *call.scratch(), scratchAlignment))
    return false;
  return verifyCallApart(what, call, rules->reads);
}

} // namespace polyrank::runtime
