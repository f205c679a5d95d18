// The format is that of torch.distributed.elastic.multiprocessing.errors.

#include "tools/polyrank-run/ErrorFile.h"

#include "support/Json.h"

#include <chrono>
#include <cstdlib>
#include <fstream>

namespace polyrank::runtime {

void writeErrorFile(const Error &error) {
  const char *path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (!path || !*path)
    return;
  // torchrun shows the error of the task that has failed first.
  auto now = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::json text{
      {"message", error.message},
      {"timestamp",
       std::chrono::duration_cast<std::chrono::seconds>(now).count()},
      {"exit_code", int(error.fault)}};
  std::ofstream(path) << text.dump() << "\n";
}

} // namespace polyrank::runtime
