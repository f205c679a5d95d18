// A machine file (--machine FILE): what devices, nodes and the links between
// them reach, in TOML. docs/cost.md describes it.

#pragma once

#include "support/LinkLevel.h"
#include "support/Result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace polyrank {

/// The numbers of a machine file. The units are those of the file: GFLOP/s,
/// GB/s, GB (10^9 bytes) and microseconds.
struct MachineFile {
  struct Number {
    double value = 0;
    /// "measured", "assumed" or "published: WHERE".
    std::string source;
    uint32_t line = 0;
  };
  /// The links of one level. Both numbers are there.
  struct Level {
    Number latency, bandwidth;
    /// The share of the bandwidth that messages reach, by their size.
    std::vector<LinkLevel::Reached> reached = {};
    /// Names of algorithms ("ring"); empty: the file says nothing of them.
    std::vector<std::string> algorithms = {};
  };
  /// How much of the rate of large products small ones reach.
  struct Products {
    std::optional<Number> tile, halfTiles, halfDepth;
  };

  std::string path, name;

  Number f32; // FLOPs of products
  std::optional<Number> bf16, f16;
  Number bandwidth; // of a device's memory
  std::optional<Number> memory;
  /// Microseconds of a command beside its work: on the device, and of the host
  /// that issues it.
  std::optional<Number> launch, host;
  std::optional<Products> products;

  Number devices; // of a node
  Level node;
  Number nodes; // 1 without a network
  std::optional<Level> network;

  /// Reads a file. The error names all wrong lines, each with the value that it
  /// has and those that are possible.
  static Result<MachineFile> read(const std::string &path);
  static Result<MachineFile> parse(const std::string &text,
                                   const std::string &path);

  /// The links of both levels, if the file says of one of them which bandwidth
  /// messages reach or which algorithms there are; else each axis of a mesh has
  /// one link.
  std::optional<LinkLevels> getLevels() const;

  struct Axis {
    std::string name;
    int64_t size = 1;
  };
  /// Fails if a mesh with these axes, the last of which lies within a node, has
  /// more devices than the machine, or an axis that nodes do not divide.
  Result<void> checkMesh(std::span<const Axis> axes) const;
  /// Returns true if neighbours along axis `number` of a mesh that has passed
  /// the check may be on different nodes, so that their link is the network.
  bool crossesNodes(std::span<const Axis> axes, size_t number) const;
  /// The same for nodes of `inNode` devices.
  static bool crosses(std::span<const Axis> axes, size_t number,
                      int64_t inNode);

  /// The text of a file that says this: parsed, it gives the same numbers.
  std::string toText() const;

  /// "machine 'two nodes' (cluster.toml): f32 19500 GFLOP/s (measured), ..".
  std::string describe() const;
};

} // namespace polyrank
