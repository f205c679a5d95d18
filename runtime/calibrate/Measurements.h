// The times that a calibration measures. They are those of work of known size,
// and the numbers of a machine file follow from them.

#pragma once

#include "runtime/device/Device.h"
#include "runtime/plan/Collectives.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace polyrank::runtime {

/// Seconds of one thing that was done several times. Whatever else a machine
/// does makes things slower and never faster, so the least is what it reaches;
/// by how much the median is above tells how busy it was.
struct Timing {
  double least = 0, median = 0;

  /// Returns the least and the median of these times, of which there is one at
  /// least.
  static Timing of(std::vector<double> seconds);
  /// By which share of the least the median is above it.
  double spread() const { return median / least - 1; }

  friend bool operator==(const Timing &, const Timing &) = default;
};

/// The times of a machine of whose devices each is a rank with a core of its
/// own for each thread. All devices do the same at once, as the ranks of a plan
/// do. A time is that of the slowest one: of each collective, and of the least
/// and the median of all else.
struct Measurements {
  int devices = 1, threads = 1;

  struct Product {
    ProductTrial work;
    Timing seconds; // by the library that is fastest for it
  };
  std::vector<Product> products;

  struct Addition {
    AdditionTrial work;
    Timing seconds;
  };
  std::vector<Addition> additions;

  /// Seconds of a command that moves a few bytes, and of one that moves none.
  Timing launch, host;

  /// A collective of the first `members` ranks, where `bytes` are those of the
  /// larger one of a member's input and output.
  struct Collective {
    CollectiveKind kind = CollectiveKind::AllReduce;
    int64_t members = 2;
    uint64_t bytes = 0;
    Timing seconds;
  };
  std::vector<Collective> collectives;
};

/// As a rank reports them to its launcher.
/// @{
void to_json(nlohmann::json &json, const Measurements &measured);
void from_json(const nlohmann::json &json, Measurements &measured);
/// @}

} // namespace polyrank::runtime
