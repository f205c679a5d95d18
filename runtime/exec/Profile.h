// The time of a step, broken down by what its commands do.

#pragma once

#include "runtime/device/Device.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// All commands of a step that are the same kernel, library call or collective.
struct ProfileLine {
  /// `kind` is launch, the kind of a library call (gemm), copy, collective,
  /// send, receive, data, or wait. A wait has the bytes and the floor of the
  /// started collective that it finishes.
  std::string command, kind;
  std::string origin;  // of the first command, in the user's model
  bool isCall = false; // of a library
  ElementType factors = ElementType::F32; // what a library call multiplies
  double seconds = 0;                     // the minimum over the steps
  uint64_t count = 0;
  double flops = 0, bytes = 0;
  /// The roofline time at the device's rates, in seconds: the longer one of a
  /// library call's FLOPs and its bytes, a kernel's memory traffic, or a
  /// collective's bytes sent, read and written once. Data that stays in the
  /// caches may take less.
  double floor = 0;
};

/// The elements other than f32 that library calls of a program multiply.
std::vector<ElementType> narrowFactors(const plan::Program &program);

/// The time of each command of a program. A command's time in a step is summed
/// over its microbatches, and in a loop over the iterations.
class Profile {
public:
  explicit Profile(const plan::Program &program);

  /// Adds one execution of a command; in a loop, of its command number
  /// `nested`.
  void add(uint32_t segment, size_t command, uint64_t nanoseconds,
           size_t nested = 0) {
    Entry &entry = segments[segment][command][nested];
    entry.step += nanoseconds;
    ++entry.count;
  }
  /// Adds the time for which the step waited for its inputs.
  void addInputs(uint64_t nanoseconds) {
    (steps == 0 ? firstInputs : inputs) += nanoseconds;
  }
  void endStep();

  /// The lines, longest first. If there are several steps the first one, which
  /// touches memory for the first time, is left out. If steps waited for their
  /// inputs a line has the mean of that, since such waits are not alike.
  std::vector<ProfileLine> lines(const plan::Plan &plan,
                                 const DeviceRates &rates) const;
  /// The rates that these lines reach in library calls (FLOP/s) and in all
  /// other computation (bytes/s), as polyrank-compile --rates takes them; zero
  /// if there are no such commands.
  static DeviceRates reached(const std::vector<ProfileLine> &lines);
  /// Returns a table of the lines: time, floor, share of the step, count, rate,
  /// origin.
  std::string table(const plan::Plan &plan, const DeviceRates &rates) const;
  /// The same as a report in JSON.
  std::string json(const plan::Plan &plan, const DeviceRates &rates) const;

private:
  struct Entry {
    uint64_t step = 0, least = ~uint64_t(0), count = 0;
  };

  const plan::Program &program;
  uint64_t steps = 0;
  uint64_t firstInputs = 0, inputs = 0; // of the first step, and of the others
  /// Indexed by segment and command, and in a loop by its nested command.
  std::vector<std::vector<std::vector<Entry>>> segments;
};

} // namespace polyrank::runtime
