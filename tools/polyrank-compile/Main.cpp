// polyrank-compile: an exported model to a plan.

#include "tools/polyrank-compile/Options.h"

#include <csignal>

int main(int argc, char **argv) {
  // A file that reaches the limit of `ulimit -f` is a write error, no signal.
  std::signal(SIGXFSZ, SIG_IGN);
  auto parsed = polyrank::driver::parseOptions(argc, argv);
  if (int *status = std::get_if<int>(&parsed))
    return *status;
  return polyrank::driver::compile(std::get<polyrank::driver::Options>(parsed));
}
