// Hand-built plans for tests: a linear model y = x W, trained with the sum of
// squared errors by plain gradient descent, on any mesh of data and tensor.

#pragma once

#include "runtime/plan/PlanFile.h"
#include "runtime/plan/VerifyPlan.h"
#include "runtime/plan/plan_generated.h"

#include <memory>
#include <string>
#include <vector>

namespace polyrank::runtime::test {

/// Samples have 3 features and 4 targets. W is stored as [4, 3],
/// "linear.weight", and used as [3, 4] split over tensor; inputs are split over
/// data.
struct LinearModel {
  int64_t data = 1, tensor = 1, microbatches = 1, batch = 4;
  int threads = 1;
  std::string weights; // a file with 12 floats at byte 16
};
constexpr int64_t features = 3, targets = 4;

/// The numbers of its parts, for tests that change them.
enum Segments { firstSegment, nextSegment, updateSegment };
enum Arguments { weightArgument, inputArgument, labelArgument };

plan::PlanT linearPlan(const LinearModel &model);

/// Starts the collective that is command `number` of a segment, and waits for
/// it before command `wait` (of the segment as it was, wait > number).
void startEarly(plan::PlanT &plan, int segment, int number, int wait,
                uint32_t request);

/// Gives each command its queue, and the programs as many as that takes.
void assignQueues(plan::PlanT &plan);

/// A forward plan of the same model: output "y".
plan::PlanT linearForwardPlan(const LinearModel &model);

/// Sets the span's digests from the file, if it exists.
void sign(plan::FileSpanT &span);

std::vector<uint8_t> serialise(const plan::PlanT &plan);

/// Loads `plan` as from a file. Throws if it is refused.
LoadedPlan load(const plan::PlanT &plan);

/// The kernels of test/runtime/kernels.c, as an ELF image.
std::vector<uint8_t> testKernels();

/// An image of them for a CPU.
std::unique_ptr<plan::ImageT> testImage();

/// A directory that is removed with its contents.
class TemporaryDirectory {
public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  std::string operator/(const std::string &name) const {
    return path + "/" + name;
  }

private:
  std::string path;
};

void writeFile(const std::string &path, const void *data, size_t size);
std::string readFile(const std::string &path);

} // namespace polyrank::runtime::test
