// Reads from a machine file what it reaches.

#include "compiler/cost/Reach.h"

namespace polyrank::cost {

Reach Reach::of(const MachineFile &file) {
  auto valueOf = [](const std::optional<MachineFile::Number> &number,
                    double otherwise) {
    return number ? number->value : otherwise;
  };
  Reach reach;
  reach.launch = 1e6 * valueOf(file.launch, 0);
  reach.host = 1e6 * valueOf(file.host, 0);
  if (file.products)
    reach.products = {static_cast<int64_t>(valueOf(file.products->tile, 1)),
                      valueOf(file.products->halfTiles, 0),
                      valueOf(file.products->halfDepth, 0)};
  reach.levels = file.getLevels();
  return reach;
}

} // namespace polyrank::cost
