// What all jobs have in common.

#include "runtime/job/Job.h"

#include <utility>

namespace polyrank::runtime {

Job::AbortHook::AbortHook(Job &job, std::function<void()> wake) : job(&job) {
  std::lock_guard lock(job.mutex);
  place = job.hooks.insert(job.hooks.end(), std::move(wake));
}

Job::AbortHook::AbortHook(AbortHook &&other) noexcept
    : job(std::exchange(other.job, nullptr)), place(other.place) {}

Job::AbortHook &Job::AbortHook::operator=(AbortHook &&other) noexcept {
  std::swap(job, other.job);
  std::swap(place, other.place);
  return *this;
}

Job::AbortHook::~AbortHook() {
  if (!job)
    return;
  std::lock_guard lock(job->mutex);
  job->hooks.erase(place);
}

void Job::wakeSleepers() {
  std::lock_guard lock(mutex);
  for (const std::function<void()> &wake : hooks)
    wake();
}

std::string JobMember::describeAbsence(int rank) const {
  return "rank " + std::to_string(rank) + " (process " +
         std::to_string(report(rank).pid) + ") " +
         (presenceOf(rank) == Presence::Left ? "left the job early" : "died");
}

} // namespace polyrank::runtime
