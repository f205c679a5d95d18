// runtime-test-plan OUT WEIGHTS data tensor microbatches [forward]

#include "test/runtime/PlanBuilder.h"

#include <cstdio>
#include <cstdlib>

int main(int argc, char **argv) {
  using namespace polyrank::runtime;
  if (argc < 6)
    return 1;
  test::LinearModel model;
  model.weights = argv[2];
  model.data = std::atoi(argv[3]);
  model.tensor = std::atoi(argv[4]);
  model.microbatches = std::atoi(argv[5]);
  model.batch = 8;
  auto plan =
      argc > 6 ? test::linearForwardPlan(model) : test::linearPlan(model);
  auto written = writePlan(argv[1], test::serialise(plan));
  if (!written)
    std::fprintf(stderr, "%s\n", written.error().message.c_str());
  return written ? 0 : 1;
}
