// polyrank is one name for all tools: `polyrank run ..` is polyrank-run.

#include "runtime/report/Messages.h"
#include "tools/polyrank/Commands.h"

#include <csignal>

int main(int argc, char **argv) {
  polyrank::runtime::takeStandardDescriptors();
  // A reader that is gone becomes a write error, as in the other tools. The
  // tool that takes over sets its own signals.
  std::signal(SIGPIPE, SIG_IGN);
  return polyrank::runCommand(argc, argv);
}
