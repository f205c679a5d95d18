// Any bytes as a plan file, and, so that a wrong hash hides nothing, what
// follows the header as a plan. Whatever the verifier lets through is used as
// the tools use it. Bytes that begin as an ELF image are one of kernels.

#include "runtime/device/cpu/ElfCheck.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/plan/PlanReport.h"
#include "test/fuzz/Input.h"

#include <cstring>
#include <nlohmann/json.hpp>

using namespace polyrank;
using namespace polyrank::runtime;

namespace {

void use(const LoadedPlan &plan) {
  using enum nlohmann::json::error_handler_t;
  PlanReport report = reportOf(plan);
  toJson(report).dump(2, ' ', false, replace);
  inputSpecsOf(*plan.plan);
  savedTensorsOf(*plan.plan);
  Mesh mesh(*plan.plan);
  for (int64_t rank : {int64_t(0), mesh.ranks() - 1}) {
    mesh.describeRank(rank);
    const plan::Program &program =
        plan.program(programOf(*plan.plan, mesh, rank));
    for (const plan::AxisList *group : *program.groups())
      mesh.group(rank, group->axes());
    for (const plan::Argument *argument : *program.arguments()) {
      blockOf(mesh, rank, argument->dims());
      ownsBlock(mesh, rank, argument->dims(), program.at());
    }
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr size_t headerSize = 64;
  if (fuzz::text(data, size)
          .starts_with("\x7f"
                       "ELF")) {
    if (auto done = checkKernelImage({data, size});
        !done && done.error().message.empty())
      std::abort();
    return 0;
  }
  std::string path = fuzz::writeFile("plan", fuzz::text(data, size));
  if (auto whole = loadPlan(path))
    use(*whole);
  else if (whole.error().message.find(path) == std::string::npos)
    std::abort(); // a message names the file
  if (size < headerSize)
    return 0;
  size -= headerSize;
  PlanBytes bytes;
  bytes.memory.reset(static_cast<std::byte *>(std::aligned_alloc(
      headerSize, (size + headerSize) / headerSize * headerSize)));
  bytes.size = size;
  std::memcpy(bytes.memory.get(), data + headerSize, size);
  auto plan = verifyPlan(bytes.payload());
  if (plan)
    use(LoadedPlan{std::move(bytes), *plan, path});
  else if (plan.error().message.empty())
    std::abort();
  return 0;
}
