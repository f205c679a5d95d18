// runtime-test-plan OUT WEIGHTS data tensor microbatches [forward | pipeline |
// loops | attention]

#include "test/runtime/AttentionPlan.h"
#include "test/runtime/PipelineBuilder.h"
#include "test/runtime/RecurrentBuilder.h"

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
  test::PipelineModel pipeline;
  pipeline.weights = model.weights;
  pipeline.data = model.data;
  pipeline.microbatches = model.microbatches;
  std::string kind = argc > 6 ? argv[6] : "";
  auto plan = kind == "pipeline"  ? test::pipelinePlan(pipeline)
              : kind == "loops"   ? test::recurrentPlan(model).plan
              : kind == "forward" ? test::linearForwardPlan(model)
                                  : test::linearPlan(model);
  if (kind == "attention")
    test::addAttention(plan);
  auto written = writePlan(argv[1], test::serialise(plan));
  if (!written)
    std::fprintf(stderr, "%s\n", written.error().message.c_str());
  return written ? 0 : 1;
}
