// polyrank-opt for the grid target: what lit tests run with --param
// target=grid.

#include "test/compiler/target/grid/Grid.h"
#include "tools/polyrank-opt/Opt.h"

int main(int argc, char **argv) {
  return polyrank::runOpt(argc, argv, polyrank::grid::registerTarget);
}
