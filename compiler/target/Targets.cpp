// The targets that the compiler is built with.

#include "compiler/target/Targets.h"

#include "compiler/target/Target.h"
#include "compiler/target/cpu/CpuTarget.h"
#include "compiler/target/cuda/CudaTarget.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;

namespace {
/// A target as users name it.
struct KnownTarget {
  StringLiteral name;
  void (*add)(DialectRegistry &registry);
  /// Makes the target's attribute of the text after the colon.
  Attribute (*parse)(MLIRContext &context, StringRef machine);
};
} // namespace

static constexpr KnownTarget targets[] = {
    {"cpu", cpu::registerTarget, cpu::parseTarget},
    {"cuda", cuda::registerTarget, cuda::parseTarget}};

void target::registerTargets(DialectRegistry &registry) {
  for (const KnownTarget &target : targets)
    target.add(registry);
}

Result<Attribute> target::parseTarget(MLIRContext &context, StringRef text) {
  auto [name, machine] = text.split(':');
  std::vector<std::string> names;
  for (const KnownTarget &target : targets) {
    names.push_back(target.name.str());
    if (target.name != name)
      continue;
    if (text.ends_with(":"))
      return Error{"'" + text.str() +
                   "' names no machine after the colon; leave out the colon "
                   "for this machine"};
    Attribute attribute = target.parse(context, machine);
    Result<void> can = cast<TargetInterface>(attribute).checkMachine();
    if (!can)
      return can.error();
    return attribute;
  }
  return Error{"there is no target '" + name.str() + "'; there are: " +
               llvm::join(names, ", ") + nearestWords(name.str(), names)};
}
