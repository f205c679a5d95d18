// What follows from a prepared session.

#include "runtime/session/Prepared.h"

#include "runtime/exec/SaveWeights.h"

namespace polyrank::runtime {

uint64_t Prepared::windowBytes() const {
  if (!outputs.empty())
    return bytesOf(outputs);
  return options.savesAny() ? saveMemoryBytes : 0;
}

std::optional<ManifestEvaluation> Prepared::evaluationsBefore() const {
  return resumed && !isAnotherRun() ? resumed->manifest.evaluation
                                    : std::nullopt;
}

bool Prepared::isToEvaluate() const {
  return evaluation && resumed && !isAnotherRun() &&
         evaluatesAgain(options, resumed->manifest, steps);
}

} // namespace polyrank::runtime
