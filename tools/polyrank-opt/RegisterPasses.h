// Every pass of the compiler, registered by its command-line name.

#pragma once

#include "compiler/evaluate/Passes.h"
#include "compiler/training/Passes.h"

namespace polyrank {

inline void registerPasses() {
  evaluate::registerEvaluatePasses();
  training::registerTrainingPasses();
}

} // namespace polyrank
