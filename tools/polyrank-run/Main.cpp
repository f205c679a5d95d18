// polyrank-run, see RunMain.cpp.

#include "tools/polyrank-run/RunMain.h"

int main(int argc, char **argv) {
  return polyrank::runtime::runMain(argc, argv);
}
