// Any text as a machine file: it is read, or a message has its line; and what
// is read has possible numbers, over which any mesh lies or is refused.

#include "support/LinkSpec.h"
#include "support/MachineFile.h"
#include "test/fuzz/Input.h"

using namespace polyrank;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(fuzz::text(data, size));
  Result<MachineFile> machine = MachineFile::parse(text, "machine.toml");
  if (!machine) {
    if (machine.error().message.find("machine.toml, line ") ==
        std::string::npos)
      std::abort();
    return 0;
  }
  if (!LinkSpec::hasBandwidth(machine->node.bandwidth.value) ||
      machine->f32.source.empty() || machine->describe().empty())
    std::abort();
  if (auto levels = machine->getLevels())
    for (double bytes : {0.0, 1.0, 1e6, 1e12})
      if (!(levels->node.timePerByte(bytes) > 0) ||
          levels->node.algorithms.empty() ||
          (levels->network && levels->network->algorithms.empty()))
        std::abort();
  // The first bytes are the sizes of three axes.
  std::vector<MachineFile::Axis> axes;
  for (size_t i = 0; i < std::min<size_t>(size, 3); ++i)
    axes.push_back({std::string(1, static_cast<char>('a' + i)), 1 + data[i]});
  if (auto checked = machine->checkMesh(axes);
      !checked && checked.error().message.empty())
    std::abort();
  return 0;
}
