// Writes the report "run" of docs/reports.md.

#include "runtime/report/RunReport.h"

#include "support/Json.h"

#include <cmath>

namespace polyrank::runtime {
namespace {

using nlohmann::ordered_json;

/// Returns an object of the metrics. NaN and infinity become null, since JSON
/// has neither.
ordered_json
toJson(const std::vector<std::pair<std::string, double>> &metrics) {
  ordered_json object = ordered_json::object();
  for (auto &[name, value] : metrics)
    object[name] = std::isfinite(value) ? ordered_json(value) : ordered_json();
  return object;
}

const char *statusOf(Error::Fault fault) {
  switch (fault) {
  case Error::Fault::Input:
  case Error::Fault::Rank:
    return "error";
  case Error::Fault::Hang:
    return "hang";
  case Error::Fault::Preempted:
    return "preempted";
  case Error::Fault::Disk:
    return "disk";
  case Error::Fault::NotFinite:
    return "not_finite";
  }
  return "error"; // for every other number
}

ordered_json start(const char *status, const RunFiles &files) {
  ordered_json report = newReport("run");
  report["status"] = status;
  ordered_json named = ordered_json::object();
  for (auto [name, path] : {std::pair("plan", &files.plan),
                            {"data", &files.data},
                            {"init", &files.init},
                            {"save", &files.save},
                            {"save_trained", &files.saveTrained},
                            {"save_ema", &files.saveEma},
                            {"outputs", &files.outputs},
                            {"log", &files.log},
                            {"profile", &files.profile},
                            {"trace", &files.trace},
                            {"rehearse", &files.rehearse}})
    named[name] = path->empty() ? ordered_json() : ordered_json(*path);
  report["files"] = std::move(named);
  return report;
}

} // namespace

ordered_json reportOf(const PlanReport &plan, const Mesh &mesh,
                      const Progress &progress,
                      const std::vector<RankUse> &uses, const RunFiles &files,
                      const std::vector<std::string> &links,
                      std::optional<double> rehearsedSeconds,
                      uint32_t restarts) {
  ordered_json report =
      start(progress.meanLossIsNan() ? "not_finite" : "ok", files);
  report["model"] = plan.model;
  report["mode"] = plan.mode;
  report["mesh"] = plan.mesh;
  report["threads"] = plan.threads;
  report["links"] = links;
  report["parameters"] = plan.parameterElements;
  report["samples_per_step"] = plan.samplesPerStep;
  report["tokens_per_sample"] = plan.tokensPerSample;
  report["steps"] = progress.stepsDone();
  report["restarts"] = restarts;
  report["seconds"] = progress.seconds();
  report["seconds_per_step"] = progress.secondsPerStep();
  report["least_seconds_per_step"] = progress.leastSecondsPerStep();
  report["data_seconds"] = progress.dataSeconds();
  if (rehearsedSeconds)
    report["planned_seconds_per_step"] = *rehearsedSeconds;
  report["last"] = toJson(progress.last());
  report["mean"] = toJson(progress.means());
  report["total"] = toJson(progress.totals());
  if (const auto &evaluation = progress.lastEvaluation()) {
    report["eval"] = toJson(evaluation->metrics);
    report["eval"]["step"] = evaluation->step;
  }
  if (!progress.saved().empty()) {
    SaveReport all;
    for (const SaveReport &saved : progress.saved()) {
      all.bytes += saved.bytes;
      all.seconds += saved.seconds;
    }
    report["saved_bytes"] = all.bytes;
    report["save_seconds"] = all.seconds;
  }
  report["ranks"] = ordered_json::array();
  for (size_t rank = 0; rank < uses.size(); ++rank)
    report["ranks"].push_back(
        {{"rank", rank},
         {"name", mesh.describeRank(static_cast<int64_t>(rank))},
         {"planned_bytes",
          plan.programOf(static_cast<int64_t>(rank)).valueBytes()},
         {"peak_resident_bytes", uses[rank].peakResident},
         {"peak_own_bytes", uses[rank].peakOwn},
         {"sent_bytes", uses[rank].sentBytes},
         {"compute_seconds", uses[rank].computeSeconds},
         {"communication_seconds", uses[rank].communicationSeconds},
         {"data_seconds", uses[rank].dataSeconds},
         {"starting_seconds", uses[rank].startingSeconds},
         {"waiting_seconds", uses[rank].waitingSeconds}});
  return report;
}

ordered_json reportOfFailure(const Error &error, uint64_t steps,
                             const RunFiles &files) {
  ordered_json report = start(statusOf(error.fault), files);
  report["error"] = error.message;
  report["steps"] = steps;
  return report;
}

} // namespace polyrank::runtime
