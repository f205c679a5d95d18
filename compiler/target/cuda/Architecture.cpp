// The architectures of NVIDIA's GPUs for which there is machine code.

#include "compiler/target/cuda/Architecture.h"

#include "support/Names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace polyrank;
using namespace polyrank::cuda;

llvm::ArrayRef<Architecture> cuda::architectures() {
  static constexpr Architecture all[] = {
      {"sm_80", 80, 70},    {"sm_86", 86, 71},    {"sm_87", 87, 74},
      {"sm_89", 89, 78},    {"sm_90", 90, 78},    {"sm_90a", 90, 80},
      {"sm_100", 100, 86},  {"sm_100a", 100, 86}, {"sm_103", 103, 88},
      {"sm_103a", 103, 88}, {"sm_120", 120, 87},  {"sm_120a", 120, 87}};
  return all;
}

const Architecture *cuda::findArchitecture(llvm::StringRef name) {
  const auto *found =
      llvm::find_if(architectures(), [&](const Architecture &each) {
        return each.name == name;
      });
  return found == architectures().end() ? nullptr : found;
}

static Error explainUnknown(llvm::StringRef name) {
  std::string quoted = "'" + name.str() + "'";
  int capability = 0;
  llvm::StringRef digits = name;
  if (digits.consume_front("sm_") && !digits.consumeInteger(10, capability) &&
      capability > 0 && capability < architectures().front().capability)
    return Error{"the architecture " + quoted + " is older than " +
                 architectures().front().name.str() +
                 ", which kernels need for bf16 and for maxima of NaN"};
  std::vector<std::string> names;
  for (const Architecture &each : architectures())
    names.push_back(each.name.str());
  return Error{"there is no architecture " + quoted + "; there are: " +
               llvm::join(names, ", ") + nearestWords(name.str(), names)};
}

Result<std::vector<std::string>>
cuda::parseArchitectures(llvm::StringRef list) {
  std::vector<std::string> names;
  for (llvm::StringRef name : llvm::split(list, ',')) {
    name = name.trim();
    if (!findArchitecture(name))
      return explainUnknown(name);
    if (llvm::is_contained(names, name))
      return Error{"names the architecture '" + name.str() + "' twice"};
    names.push_back(name.str());
  }
  return names;
}
