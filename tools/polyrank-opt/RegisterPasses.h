// Every pass of the compiler, registered by its command-line name.

#pragma once

#include "compiler/codegen/Passes.h"
#include "compiler/evaluate/Passes.h"

namespace polyrank {

inline void registerPasses() {
  codegen::registerCodegenPasses();
  evaluate::registerEvaluatePasses();
}

} // namespace polyrank
