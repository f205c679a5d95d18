// Lists the work of a calibration.

#include "runtime/calibrate/Workload.h"

#include <memory>

namespace polyrank::runtime {

std::span<const ElementType> calibratedElements() {
  static constexpr ElementType all[] = {ElementType::F32, ElementType::BF16,
                                        ElementType::F16};
  return all;
}

std::vector<ProductTrial> calibratedProducts(ElementType elements) {
  struct Shape {
    int64_t batch, m, n, k;
    bool transposeA = false, transposeB = false;
  };
  static constexpr Shape shapes[] = {
      {1, 512, 512, 512},              // large
      {1, 256, 576, 768},              // a quarter of attention's projections
      {1, 256, 768, 192},              //
      {1, 256, 768, 768},              // and of the layers after it
      {1, 256, 768, 576, false, true}, // their gradients
      {1, 768, 576, 256, true},        //
      {1, 256, 512, 128},              // a small transformer
      {1, 256, 128, 512},              //
      {1, 128, 512, 256, true},        //
      {1, 256, 128, 512, false, true}, //
      {1, 1024, 64, 576},              // windows of a convolution
      {1, 196, 256, 2304},             //
      {1, 32, 1024, 256},              // a step of a recurrent layer
      {1, 8, 1024, 256},               //
      {1, 16, 256, 64},                //
      {1, 64, 64, 64},                 //
      {1, 100, 100, 100},              // no multiples of a tile
      {1, 36, 68, 200},                //
      {8, 128, 128, 64, false, true},  // several at once
      {8, 64, 128, 128},               // experts
  };
  std::vector<ProductTrial> all;
  for (const Shape &shape : shapes)
    all.push_back({elements, elements, shape.batch, shape.m, shape.n, shape.k,
                   shape.transposeA, shape.transposeB});
  return all;
}

AdditionTrial calibratedAddition() { return {1 << 20}; }

std::span<const CollectiveKind> calibratedKinds() {
  static constexpr CollectiveKind all[] = {CollectiveKind::AllReduce,
                                           CollectiveKind::ReduceScatter,
                                           CollectiveKind::AllGather};
  return all;
}

std::span<const uint64_t> calibratedBytes() {
  static constexpr uint64_t all[] = {1 << 10, 16 << 10, 128 << 10,
                                     1 << 20, 4 << 20,  16 << 20};
  return all;
}

plan::PlanT makeLaunchPlan(int devices, int threads) {
  using namespace plan;
  PlanT plan;
  plan.microbatches = 1;
  plan.threads = static_cast<uint32_t>(threads);
  plan.denormals = Denormals::flush; // the default of plans
  plan.mesh.push_back(std::make_unique<AxisT>());
  plan.mesh.back()->name = "device";
  plan.mesh.back()->size = devices;
  auto image = std::make_unique<ImageT>();
  image->target = "cpu"; // the only kind of device that can be calibrated
  image->requirements = std::make_unique<RequirementsT>();
  plan.images.push_back(std::move(image));
  constexpr uint64_t line = launchArena / 2;
  for (int64_t bytes : {int64_t(line), int64_t(0)}) {
    auto program = std::make_unique<ProgramT>();
    program->target = "cpu";
    program->private_size = launchArena;
    auto segment = std::make_unique<SegmentT>();
    segment->name = "copies";
    for (uint64_t n = 0; n < numCommands; ++n) {
      CopyT copy;
      copy.input =
          std::make_unique<BufferRef>(0, line, 0, 0, 0, 0, 0, Region::Private);
      copy.output = std::make_unique<BufferRef>(line, line, 0, 0, 0, 0, 0,
                                                Region::Private);
      copy.element = 1;
      copy.outer = 1;
      copy.inner = bytes;
      auto command = std::make_unique<CommandT>();
      command->body.Set(std::move(copy));
      segment->commands.push_back(std::move(command));
    }
    program->segments.push_back(std::move(segment));
    program->schedule.push_back(Action(0, 0));
    plan.programs.push_back(std::move(program));
  }
  return plan;
}

} // namespace polyrank::runtime
