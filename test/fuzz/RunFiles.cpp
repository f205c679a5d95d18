// Any bytes as a file of times and as a trace of one plan; its hash replaces
// each @ in them.

#include "runtime/plan/StepTimeline.h"
#include "runtime/report/Comparison.h"
#include "test/fuzz/Input.h"
#include "test/runtime/PlanBuilder.h"

#include <nlohmann/json.hpp>

using namespace polyrank;
using namespace polyrank::runtime;

namespace {

/// The plan of two ranks and microbatches that `runtime-test-plan PLAN WEIGHTS
/// 2 1 2` writes for the seeds.
const LoadedPlan &loadedPlan() {
  static const LoadedPlan loaded = [] {
    test::LinearModel model;
    model.data = 2, model.microbatches = 2, model.batch = 4;
    return test::load(test::linearPlan(model));
  }();
  return loaded;
}

/// Returns true on success; a message must name the file.
template <typename T>
bool isRead(const Result<T> &read, const std::string &path) {
  if (!read && read.error().message.find(path) == std::string::npos)
    std::abort();
  return bool(read);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text, hash = toHex(loadedPlan().bytes.hash);
  for (char each : fuzz::text(data, size))
    text += each == '@' ? hash : std::string(1, each);
  std::string path = fuzz::writeFile("file.json", text);
  if (auto times = readTimes(path, loadedPlan()); isRead(times, path)) {
    planTimelineOf(loadedPlan(), *times);
    // Writes what was read, and reads it again.
    auto again =
        readTimes(fuzz::writeFile("again.json",
                                  timesText(*times, loadedPlan(), "planned")),
                  loadedPlan());
    if (!again)
      std::abort();
  }
  if (auto trace = readTrace(path, loadedPlan()); isRead(trace, path)) {
    toJson(compare(loadedPlan(), *trace, plannedTimesOf(loadedPlan())));
    measuredTimesOf(loadedPlan(), *trace);
  }
  return 0;
}
