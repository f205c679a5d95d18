// How long a command takes on a device: the one function that the compiler's
// passes, the times of a plan and its reports ask. What a machine file says of
// launches and of products is 0 where there is none, and then a command takes
// the larger of FLOPs / rate and bytes / bandwidth.

#pragma once

#include <cstdint>
#include <optional>

namespace polyrank::cost {

/// `batch` products of a matrix of `rows` x `depth` and one of `depth` x
/// `columns`.
struct Product {
  int64_t batch = 1, rows = 1, columns = 1, depth = 1;
};

/// How much of the rate of large products small ones reach.
struct ProductCurve {
  /// The rows and columns of the parts of a result that are computed at once.
  int64_t tile = 1;
  /// The number of tiles, and the depth, with which half of the rate is
  /// reached.
  double halfTiles = 0, halfDepth = 0;

  /// How many times longer a product takes than its FLOPs at the rate of large
  /// products. With t tiles, parts of which may be in vain,
  ///
  ///   (t + halfTiles) tile^2 / (batch rows columns)
  ///   * (depth + halfDepth) / depth.
  double getSlowdown(const Product &product) const;

  friend bool operator==(const ProductCurve &, const ProductCurve &) = default;
};

/// The rates that one device reaches.
struct DeviceRates {
  double flopsPerSecond = 1, bytesPerSecond = 1;
  /// Picoseconds that the device needs for each kernel beside its bytes. What
  /// it needs for a library call follows from ProductCurve.
  double launch = 0;
  /// Picoseconds that the host needs to issue a command.
  double host = 0;
  /// None: products of all sizes reach the same.
  std::optional<ProductCurve> products = std::nullopt;
};

/// The work of one command. Only library calls state FLOPs: the bytes of
/// kernels take longer.
struct CommandWork {
  double flops = 0, bytes = 0;
  std::optional<Product> product = std::nullopt;
};

/// Picoseconds of a command on the device.
double getCommandTime(const CommandWork &work, const DeviceRates &rates);

/// Follows a list of commands that a host issues one after another, and that a
/// device runs in this order. The host does not wait for the device, so the
/// list takes the longer of what the commands take on the device and of what
/// the host needs to issue them.
class IssueClock {
public:
  explicit IssueClock(double host) : host(host) {}

  /// Adds a command that takes `time` on the device. Returns by how much later
  /// the list ends; without a host's time that is `time`.
  double run(double time);
  double now() const { return finished; }

private:
  double host, issued = 0, onDevice = 0, finished = 0;
};

} // namespace polyrank::cost
