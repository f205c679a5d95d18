// polyrank-compile: an exported model to a plan.

#include "tools/polyrank-compile/Options.h"

#include <csignal>
#include <malloc.h>

int main(int argc, char **argv) {
  // A file that reaches the limit of `ulimit -f` is a write error, no signal.
  std::signal(SIGXFSZ, SIG_IGN);
  // Tensors of masks and tables come and go; given back to the system, each of
  // them would be made of new, zeroed pages.
  constexpr int keptBytes = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, keptBytes);
  mallopt(M_TRIM_THRESHOLD, keptBytes);
  auto parsed = polyrank::driver::parseOptions(argc, argv);
  if (int *status = std::get_if<int>(&parsed))
    return *status;
  return polyrank::driver::compile(std::get<polyrank::driver::Options>(parsed));
}
