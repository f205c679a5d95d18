// Any bytes as a schedule of a pipeline.

#include "compiler/stage_order/Check.h"
#include "compiler/stage_order/Picture.h"
#include "compiler/stage_order/ScheduleText.h"
#include "compiler/stage_order/Simulate.h"
#include "test/fuzz/Input.h"

using namespace polyrank;
using namespace polyrank::stage_order;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto schedule = readSchedule(fuzz::text(data, size), "s.txt");
  if (!schedule) {
    if (!schedule.error().message.starts_with("s.txt:"))
      std::abort(); // a message names the file
    return 0;
  }
  auto again = readSchedule(writeSchedule(*schedule), "s.txt");
  if (!again || *again != *schedule)
    std::abort();
  CheckOptions options;
  options.trains = schedule->splitsBackward ||
                   schedule->ranks[0].back().part != Part::Forward;
  options.slots = size % 3;
  auto ok = checkSchedule(*schedule, options);
  Times times;
  times.slots = options.slots;
  auto simulation = simulate(*schedule, times);
  // An accepted schedule ends, and takes at least the bound.
  if (ok && (!simulation || simulation->makespan < simulation->lowerBound ||
             toSvg(*schedule, *simulation).empty()))
    std::abort();
  return 0;
}
