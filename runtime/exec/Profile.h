// Where the time of a step goes, by what the commands do.

#pragma once

#include "runtime/device/Device.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// Commands that are the same kernel, product or collective: what they do in a
/// step.
struct ProfileLine {
  /// launch, gemm, copy, collective, send, receive, or wait for a collective
  /// that is started: its bytes and floor are those of the wait, in which it is
  /// done.
  std::string command, kind;
  std::string origin; // of the first, in the user's model
  double seconds = 0; // the least over the steps
  uint64_t count = 0;
  double flops = 0, bytes = 0;
  /// At the device's rates: a product's FLOPs, a kernel's bytes from and to
  /// memory, of a collective what is sent, read and written once. What stays in
  /// the caches may take less.
  double floor = 0;
};

/// The time of each command of a program. A command of a microbatched segment
/// counts all its microbatches of a step together, a command in a loop all its
/// iterations.
class Profile {
public:
  explicit Profile(const plan::Program &program);

  /// Of a loop each of its commands is added, `nested` of them.
  void add(uint32_t segment, size_t command, uint64_t nanoseconds,
           size_t nested = 0) {
    Entry &entry = segments[segment][command][nested];
    entry.step += nanoseconds;
    ++entry.count;
  }
  void endStep();

  /// The longest first. Of several steps the first, which touches memory for
  /// the first time, is left out.
  std::vector<ProfileLine> lines(const plan::Plan &plan,
                                 const DeviceRates &rates) const;
  /// What products, and all else that is computed, reach in these lines: the
  /// rates by which polyrank-compile --rates reckons. Zero of what there is
  /// none.
  static DeviceRates reached(const std::vector<ProfileLine> &lines);
  /// A table of the lines: time, floor, share of the step, how often, rate,
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
  /// One of each command, of a loop one of each of its commands.
  std::vector<std::vector<std::vector<Entry>>> segments;
};

} // namespace polyrank::runtime
