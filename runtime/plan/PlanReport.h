// The tensors, communication and commands of a plan as data, for summaries and
// polyrank-inspect.

#pragma once

#include "runtime/plan/MemoryTimeline.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/VerifyPlan.h"

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// An argument that persists from step to step: a parameter or state.
struct HeldArgument {
  std::string place; // the ranks that hold it: "pipe=1"; empty: all
  std::string name, dtype, layout; // [50257 pad 50260 {tensor}, 768]
  std::string stored, stateOf;     // the user's tensor; a state's parameter
  bool isParameter = false, trainable = false;
  uint64_t bytes = 0;   // on each rank
  int64_t elements = 0; // of the whole tensor
};

/// All executions in one step of one kind of collective over one set of axes,
/// or of all sends or receives over it.
struct CommunicationLine {
  std::string place; // the ranks that run it: "pipe=1"; empty: all
  std::string kind, axes, segment;
  std::string type; // of the elements, "bf16"; empty for sends and receives
  int64_t groupSize = 1;
  uint64_t count = 0;
  uint64_t started = 0; // of these, those with a separate wait
  uint64_t payload = 0; // the larger of input and output, summed
  uint64_t sent = 0; // by each rank: payload x (g-1)/g, all-reduce twice that
};

/// One collective or send command, and its reason.
struct CollectiveReason {
  std::string place; // the ranks that run it: "pipe=1"; empty: all
  std::string kind, axes, segment, origin;
  std::string value, op, from, to, constraint;
  /// For a bucket: the op that each tensor is for.
  std::vector<std::string> members;
  std::string type; // of the elements, "bf16"; empty for a send
  uint64_t bytes = 0, executions = 0;
};

/// An image of kernels.
struct ImageLine {
  std::string target, format, machine; // cpu, elf, x86-64-v4
  std::vector<std::string> features;   // that the machine must have
  uint64_t bytes = 0;
};

/// A kernel's code in an image for a GPU. Numbers that the driver decides, in
/// PTX, are 0.
struct KernelCode {
  std::string machine, format;                              // sm_90a, cubin
  uint64_t registers = 0, spilledBytes = 0, stackBytes = 0; // of a thread
  uint64_t residentBlocks = 0; // that a multiprocessor holds
  double waves = 0;            // of blocks, on 132 multiprocessors
  uint64_t bytesInFlight = 0;  // loads of a multiprocessor's threads at once
};

struct KernelLine {
  std::string symbol;
  uint64_t launches = 0; // per step
  uint64_t bytes = 0;    // that a launch reads and writes
  /// Of a GPU's kernel: how its threads share the loops, its blocks, and what
  /// all threads ask of memory.
  std::string kind = {};
  uint64_t blocks = 0, threads = 0, sharedBytes = 0, requestedBytes = 0;
  std::vector<KernelCode> code = {};
};

/// The library calls of one kind.
struct CallCount {
  uint64_t calls = 0, flops = 0; // per step
};
inline constexpr size_t numCallKinds = size_t(plan::CallKind::MAX) + 1;

/// The memory of a runtime process besides its arena and the library's own
/// memory: code and data of the program and its libraries, as measured.
constexpr uint64_t programBytes = uint64_t(32) << 20;

/// What each of the ranks that run one program holds and does.
struct ProgramReport {
  std::string place; // "pipe=1"; empty if all ranks run it
  int64_t ranks = 1;
  uint64_t sharedBytes = 0, privateBytes = 0;
  uint64_t arenaBytes() const { return sharedBytes + privateBytes; }
  /// What the communicator takes for the values that are sent.
  uint64_t channelBytes = 0;
  /// The arena and this memory of the communicator: all that holds values. At
  /// least `lowerBound` of it are held at once.
  uint64_t valueBytes() const { return arenaBytes() + channelBytes; }
  uint64_t lowerBound = 0;
  /// By how many percent this exceeds its lower bound.
  double valueGap() const {
    return lowerBound ? 100 * (static_cast<double>(valueBytes()) /
                                   static_cast<double>(lowerBound) -
                               1)
                      : 0;
  }
  uint32_t threads = 1;
  /// The most that libraries allocate themselves.
  uint64_t libraryBytes() const { return threads * libraryBytesPerThread; }
  uint64_t libraryBytesPerThread = 0;
  uint64_t parameterBytes = 0, stateBytes = 0; // of the arguments
  int64_t parameterElements = 0;               // of whole parameters
  std::array<UseBytes, numMemoryUses> memory;
  PeakReport peak;
  /// The bytes of the arena that are unused at the peak: gaps between buffers,
  /// and space that is needed only at other times.
  uint64_t unusedBytes() const { return valueBytes() - peak.bytes; }
  /// Counts per step. Commands in a loop count in each iteration, in addition
  /// to the loop.
  uint64_t launches = 0, copies = 0, sends = 0, receives = 0, loops = 0;
  std::array<CallCount, numCallKinds> calls; // by plan::CallKind
  /// The library calls of all kinds.
  CallCount allCalls() const;
  /// The planned seconds of a step: computing, and idle.
  double computeSeconds = 0, idleSeconds = 0;
};

/// The report of a whole plan. The fields of ProgramReport are those of the
/// program whose ranks hold most, except that `ranks` and `parameterElements`
/// are totals.
struct PlanReport : ProgramReport {
  std::string model, compiler, mode, mesh, hash;
  /// The machine by whose rates and links the step was planned.
  std::string machine;
  std::string denormals; // flush or keep, as --denormals names them
  uint32_t microbatches = 1;
  uint64_t samplesPerStep = 0, tokensPerSample = 0;
  double learningRate = 0; // of a training plan, with its schedule
  std::string schedule;
  std::vector<std::string> learningRates; // as the log calls them
  std::vector<HeldArgument> held;
  std::set<std::string> weightFiles;            // from the plan's folder
  std::set<std::string> geometricMetrics;       // geometric mean over steps
  std::vector<CommunicationLine> communication; // largest first
  std::vector<CollectiveReason> reasons;
  std::vector<ImageLine> images; // as in the plan
  std::vector<KernelLine> kernels;
  double stepSeconds = 0;              // as planned
  std::vector<ProgramReport> programs; // as in the plan

  /// The program that a rank runs.
  const ProgramReport &programOf(int64_t rank) const {
    return programs[programs.size() > 1 ? programNumbers[rank] : 0];
  }
  std::vector<uint32_t> programNumbers; // by rank, where there are several
};

PlanReport reportOf(const LoadedPlan &plan);
/// The report "plan" of docs/reports.md.
nlohmann::ordered_json toJson(const PlanReport &report);

/// "segment 'update', optimizer (command 17)", for command `number` of a step
/// of a program.
std::string describeCommand(const plan::Program &program, uint32_t number);

} // namespace polyrank::runtime
