// Every pass of the compiler, registered by its command-line name.

#pragma once

#include "compiler/codegen/Passes.h"
#include "compiler/evaluate/Passes.h"
#include "compiler/lowering/Passes.h"
#include "compiler/sharding/Passes.h"
#include "compiler/training/Passes.h"

namespace polyrank {

inline void registerPasses() {
  codegen::registerCodegenPasses();
  evaluate::registerEvaluatePasses();
  lowering::registerLoweringPasses();
  sharding::registerShardingPasses();
  training::registerTrainingPasses();
}

} // namespace polyrank
