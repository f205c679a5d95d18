// The internals of the plan verifier, shared by VerifyPlan.cpp,
// VerifyImages.cpp, VerifyCalls.cpp, VerifyCommands.cpp, VerifyRequests.cpp,
// VerifyPrograms.cpp, VerifyQueues.cpp and VerifyEnd.cpp.

#pragma once

#include "runtime/plan/CallRules.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/PlanTargets.h"
#include "support/Checked.h"

#include <algorithm>
#include <fmt/format.h>

namespace polyrank::runtime {

/// Returns true if elements are aligned as their type requires: FlatBuffers'
/// verifier checks only the alignment of the length before them, and its
/// builder does not align empty lists.
template <typename Elements>
bool isAligned(const Elements *elements) {
  return !elements || elements->size() == 0 ||
         reinterpret_cast<uintptr_t>(elements->Data()) % sizeof(int64_t) == 0;
}

/// Each function returns true if its check holds; the first one that fails
/// leaves the reason in `message`.
class PlanVerifier {
public:
  PlanVerifier(const plan::Plan &plan, std::span<const PlanTarget> targets)
      : plan(plan), targets(targets) {}
  bool verify();

  std::string message;

private:
  static constexpr uint64_t maxRank = 32, maxElements = uint64_t(1) << 48,
                            maxArena = maxElements, maxMicrobatches = 1u << 20,
                            maxThreads = 4096, maxRanks = 1u << 16,
                            maxOperands = 1u << 16, maxAxes = 64,
                            maxGroups = 1024, maxQueues = 4096,
                            maxSlots = 1u << 16, maxPrograms = 4096,
                            maxImages = 64, maxPicoseconds = uint64_t(1) << 60;

  template <typename... Arguments>
  bool fail(fmt::format_string<Arguments...> text, Arguments &&...arguments) {
    message = fmt::format(text, std::forward<Arguments>(arguments)...);
    return false;
  }

  template <typename Elements>
  bool verifyAligned(const std::string &what, const Elements *elements) {
    if (isAligned(elements))
      return true;
    return fail("{}: its elements are not aligned to {} bytes", what,
                sizeof(int64_t));
  }

  bool verifyHeader();
  /// Verifies one program by itself.
  bool verifyProgram();
  // VerifyImages.cpp
  bool verifyImages();
  bool verifyImage(const std::string &what, const plan::Image &image);
  /// Verifies the entries of an image for a GPU, and what it is packed in.
  bool verifyEntries(const std::string &what, const plan::Image &image);
  bool verifyPacked(const std::string &what, const plan::Image &image);
  /// Finds the target of the current program.
  bool verifyTarget();
  bool verifyLaunchBody(const std::string &what, const plan::Launch &launch);
  bool verifyCpuLaunch(const std::string &what, const plan::CpuLaunch &launch);
  bool verifyCudaLaunch(const std::string &what, const plan::Launch &launch,
                        const plan::CudaLaunch &body);
  bool verifyStored();
  bool verifyData();
  bool verifyArgument(const plan::Argument &argument);
  bool verifyView(const std::string &what, const plan::Argument &argument);
  bool verifyType(const std::string &what, plan::ElementType type);
  bool verifyAxes(const std::string &what, const AxisRefs *refs);
  bool verifyAxes(const std::string &what, const AxisRefs *refs,
                  std::vector<plan::AxisRef> &used);
  bool verifyBuffer(const std::string &what, const plan::BufferRef &buffer,
                    uint64_t alignment);
  /// Returns the number of blocks of which the buffer is one.
  int64_t blocksOf(const plan::BufferRef &buffer) const;
  /// Returns the buffer's lowest byte over all iterations of the current loop.
  /// Requires that verifyBuffer has accepted the buffer.
  uint64_t beginOf(const plan::BufferRef &buffer) const;
  /// Returns one past the last byte of all its blocks in all microbatches and
  /// iterations. Requires that verifyBuffer has accepted the buffer.
  uint64_t endOf(const plan::BufferRef &buffer) const;
  bool verifyShard(const std::string &what, plan::ElementType type,
                   const Dims *dims, const plan::BufferRef &buffer);
  /// `batchDim` is the dim of the samples in the user's array, or noBatch.
  bool verifyMicrobatched(const std::string &what, const Dims *dims,
                          int64_t batchDim);

  bool verifySegment(const plan::Segment &segment);
  // VerifyRequests.cpp
  class InFlight;
  bool verifyRequest(const std::string &what, const plan::Command &command,
                     InFlight &inFlight);
  /// Names a command of a segment.
  static std::string describe(const plan::Segment &segment, uint64_t number);
  /// Names a command by its kind and its origin.
  static std::string describe(const plan::Command &command);
  bool verifyCommand(const std::string &what, const plan::Command &command);
  bool verifyPhase(const std::string &what, const plan::Command &command);
  bool verifyLoop(const std::string &what);
  bool verifyLaunch(const std::string &what, const plan::Launch &launch);
  // VerifyCalls.cpp
  bool verifyCall(const std::string &what, const plan::Call &call);
  bool
  verifyOperands(const std::string &what, const char *verb,
                 const flatbuffers::Vector<const plan::BufferRef *> &buffers,
                 const std::vector<CallOperand> &operands);
  bool verifyCallApart(const std::string &what, const plan::Call &call,
                       const std::vector<CallOperand> &reads);
  bool verifyCollective(const std::string &what,
                        const plan::Collective &collective);
  bool verifyTransfer(const std::string &what,
                      const plan::Collective &collective,
                      const plan::Transfer &transfer, int64_t groupSize);
  bool verifyCopy(const std::string &what, const plan::Copy &copy);
  /// Verifies a Send or a Receive, which moves `value`; the rank has index `me`
  /// in the group.
  template <typename End>
  bool verifyChannelEnd(const std::string &what, const End &end,
                        const plan::BufferRef &value, uint32_t me);
  bool verifyReason(const std::string &what, uint32_t why);
  // VerifyPrograms.cpp
  bool verifyPlaces();
  bool verifySharedNames();
  bool verifyTransfers();
  bool verifyTimes();
  // VerifyQueues.cpp
  class QueueWalk;
  bool verifyQueue(const std::string &what, const plan::Command &command);
  /// Verifies what is on one queue, of all programs.
  bool verifyQueues();
  // VerifyEnd.cpp
  class StepWalk;
  bool verifyEnd();
  bool overlap(const plan::BufferRef &a, const plan::BufferRef &b) const;
  bool verifyApart(const std::string &what, const plan::BufferRef &a,
                   const plan::BufferRef &b);
  bool verifySize(const std::string &what, const plan::BufferRef &buffer,
                  Checked bytes);

  uint32_t iterations() const { return loop ? loop->count() : 1; }

  const plan::Plan &plan;
  std::span<const PlanTarget> targets;    // that exist
  const plan::Program *program = nullptr; // that is being verified
  const PlanTarget *target = nullptr;     // of this program
  const plan::Loop *loop = nullptr;       // whose commands are being verified
};

} // namespace polyrank::runtime
