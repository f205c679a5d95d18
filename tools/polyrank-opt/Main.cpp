// polyrank-opt with the targets of the product.

#include "compiler/target/Targets.h"
#include "tools/polyrank-opt/Opt.h"

int main(int argc, char **argv) {
  return polyrank::runOpt(argc, argv, polyrank::target::registerTargets);
}
