// polyrank-compile: an exported model to a plan.

#include "tools/polyrank-compile/Options.h"

int main(int argc, char **argv) {
  auto parsed = polyrank::driver::parseOptions(argc, argv);
  if (int *status = std::get_if<int>(&parsed))
    return *status;
  return polyrank::driver::compile(std::get<polyrank::driver::Options>(parsed));
}
