// The messages and times of a compilation, as text while it runs and as one
// JSON object at its end.

#include "compiler/driver/Report.h"

#include <chrono>

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/Pass/Pass.h"
#include "runtime/plan/MachineTraffic.h"
#include "runtime/plan/PlanReport.h"
#include "support/ByteText.h"
#include "support/Json.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;
using nlohmann::ordered_json;

/// The place of a location in the user's model: its innermost name.
static std::string describe(Location location) {
  std::string name;
  location->walk([&](Location inner) {
    if (auto named = dyn_cast<NameLoc>(inner); named && name.empty())
      name = named.getName().str();
    if (auto file = dyn_cast<FileLineColLoc>(inner); file && name.empty())
      name = file.getFilename().str() +
             (file.getLine() ? ":" + std::to_string(file.getLine()) : "");
    return WalkResult::advance();
  });
  return name;
}

Message::Message(Diagnostic &diagnostic)
    : severity(diagnostic.getSeverity() == DiagnosticSeverity::Error ? "error"
               : diagnostic.getSeverity() == DiagnosticSeverity::Warning
                   ? "warning"
                   : "note"),
      where(describe(diagnostic.getLocation())), text(diagnostic.str()) {
  for (Diagnostic &note : diagnostic.getNotes())
    notes.push_back(note.str());
}

double polyrank::driver::now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void PassTimer::runBeforePass(Pass *, Operation *) { starts.push_back(now()); }

void PassTimer::runAfterPass(Pass *pass, Operation *) { finish(pass, false); }

void PassTimer::runAfterPassFailed(Pass *pass, Operation *) {
  finish(pass, true);
}

void PassTimer::finish(Pass *pass, bool failed) {
  double seconds = now() - starts.back();
  starts.pop_back();
  // An adaptor that only runs the passes of a function has no name.
  if (!pass->getArgument().empty())
    passes.push_back({stage, pass->getArgument().str(), seconds, failed});
}

std::string polyrank::driver::describeTimes(const CompileReport &report) {
  std::string text = "   seconds  stage      pass\n";
  double total = 0;
  for (const TimedPass &each : report.passes) {
    text += llvm::formatv("{0,10:F3}  {1,-10} {2}\n", each.seconds, each.stage,
                          each.pass)
                .str();
    total += each.seconds;
  }
  text += llvm::formatv("{0,10:F3}  in all\n", total).str();
  if (report.kernels)
    text += llvm::formatv("kernels: {0} from '{1}', {2} compiled\n",
                          report.kernels->found, report.kernels->folder,
                          report.kernels->compiled)
                .str();
  return text;
}

namespace {
struct ReadPlan {
  runtime::PlanReport report;
  std::optional<runtime::MachineTraffic> traffic; // of several machines
};
} // namespace

static Result<ReadPlan> readPlan(StringRef path, int machines) {
  POLYRANK_ASSIGN(plan, runtime::loadPlan(path.str()));
  ReadPlan read{runtime::reportOf(plan), std::nullopt};
  if (machines > 1) {
    POLYRANK_ASSIGN(traffic, runtime::machineTrafficOf(plan, machines));
    read.traffic = std::move(traffic);
  }
  return read;
}

static ordered_json toJson(sharding::CostAttr cost) {
  return {{"violations", cost.getViolations().vec()},
          {"bytes", cost.getBytes()},
          {"flops", cost.getFlops()}};
}

std::string polyrank::driver::toJson(const CompileReport &report,
                                     StringRef model, StringRef plan,
                                     int machines) {
  ordered_json json = newReport("compile");
  json["status"] = plan.empty() ? "error" : "ok";
  json["model"] = model.str();
  json["messages"] = ordered_json::array();
  for (const Message &message : report.messages)
    json["messages"].push_back({{"severity", message.severity},
                                {"where", message.where},
                                {"text", message.text},
                                {"notes", message.notes}});
  json["objective"] = nullptr;
  if (report.objective)
    json["objective"] = {{"value", ::toJson(report.objective.getValue())},
                         {"bound", ::toJson(report.objective.getBound())}};
  json["replicated"] = ordered_json::array();
  for (const sharding::Replicated &each : report.replicated)
    json["replicated"].push_back({{"ops", each.ops},
                                  {"axis", each.axis},
                                  {"parameters", each.parameters},
                                  {"flops_share", each.share}});
  json["passes"] = ordered_json::array();
  json["checks"] = ordered_json::array();
  double total = 0;
  for (const TimedPass &each : report.passes) {
    json["passes"].push_back({{"stage", each.stage},
                              {"pass", each.pass},
                              {"seconds", each.seconds}});
    if (StringRef(each.pass).starts_with("check-"))
      json["checks"].push_back({{"check", each.pass}, {"holds", !each.failed}});
    total += each.seconds;
  }
  json["seconds"] = total;
  if (report.kernels)
    json["kernels"] = {{"folder", report.kernels->folder},
                       {"found", report.kernels->found},
                       {"compiled", report.kernels->compiled}};
  json["file"] = plan.empty() ? ordered_json() : ordered_json(plan.str());
  json["plan"] = nullptr;
  if (!plan.empty())
    if (auto read = readPlan(plan, machines)) {
      json["plan"] = runtime::toJson(read->report);
      if (read->traffic)
        json["plan"]["machines"] = runtime::toJson(*read->traffic);
    }
  return toText(json);
}

std::string polyrank::driver::describePlan(StringRef plan, int machines) {
  auto file = readPlan(plan, machines);
  if (!file)
    return file.error().message + "\n";
  const runtime::PlanReport *read = &file->report;
  uint64_t count = 0, sent = 0;
  for (const runtime::CommunicationLine &line : read->communication)
    count += line.count, sent += line.sent;
  std::string text =
      llvm::formatv("wrote {0}: {1} rank{2}{3}\n  each holds {4} (lower bound "
                    "+ {5:f2} %)",
                    plan, read->ranks, read->ranks == 1 ? "" : "s",
                    read->mesh.empty() ? "" : " (" + read->mesh + ")",
                    bytesText(read->valueBytes()), read->valueGap())
          .str();
  // Only uses of at least 1/200 of the memory; polyrank-inspect shows the
  // others.
  std::string uses;
  for (int use = 0; use < runtime::numMemoryUses; ++use)
    if (uint64_t bytes = read->memory[use].atPeak;
        bytes >= read->valueBytes() / 200)
      uses += (uses.empty() ? "" : ", ") + bytesText(bytes) + " " +
              runtime::nameOf(runtime::MemoryUse(use));
  if (count)
    text += llvm::formatv(" and sends {0} in {1} collective{2} a step",
                          bytesText(sent), count, count == 1 ? "" : "s")
                .str();
  if (!uses.empty())
    text += "\n  when most is held: " + uses;
  text += " (polyrank-inspect shows more)\n";
  return file->traffic ? text + runtime::describe(*file->traffic) : text;
}
