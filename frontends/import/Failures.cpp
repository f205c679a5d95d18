// Collects everything in a model that cannot be imported, for one report.

#include "frontends/import/Failures.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace polyrank::frontends {

/// Names in a file may have any length, and each of their uses may fail.
static std::string shortened(const std::string &text) {
  constexpr size_t most = 1024;
  return text.size() <= most ? text : text.substr(0, most) + "..";
}

void Failures::add(const std::string &reason, std::string place) {
  failures[shortened(reason)].push_back(shortened(place));
}

void Failures::addUnsupported(const std::string &reason, std::string place) {
  unsupported[shortened(reason)].push_back(shortened(place));
}

LogicalResult Failures::report(Location location,
                               std::vector<UnsupportedNodes> *into) const {
  if (empty())
    return success();
  if (into) {
    for (const auto *each : {&unsupported, &failures})
      for (const auto &[reason, places] : *each)
        into->push_back({reason, places});
    return failure();
  }
  InFlightDiagnostic diagnostic = emitError(location);
  diagnostic << "the model cannot be imported";
  auto list = [&](StringRef text, ArrayRef<std::string> places) {
    constexpr size_t shown = 3;
    diagnostic << "\n  " << text << ": " << places.size()
               << (places.size() == 1 ? " node, " : " nodes, ")
               << llvm::join(places.take_front(shown), ", ")
               << (places.size() > shown ? ", ..." : "");
  };
  for (const auto &[reason, places] : unsupported)
    list(reason, places);
  size_t lines = 0;
  for (const auto &[reason, places] : failures) {
    if (++lines > maxReasons) {
      diagnostic << "\n  and " << failures.size() - maxReasons
                 << " more reasons";
      break;
    }
    list(reason, places);
  }
  return diagnostic;
}

} // namespace polyrank::frontends
