// The launcher and the ranks of a calibration.

#include "runtime/calibrate/Calibrate.h"

#include "runtime/calibrate/MeasureMachine.h"
#include "runtime/calibrate/Workload.h"
#include "runtime/comm/MakeCommunicator.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/job/MakeJob.h"
#include "runtime/report/Messages.h"
#include "support/Cores.h"

#include <chrono>
#include <fmt/format.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

/// The kinds of messages of a rank.
constexpr const char *progressKind = "calibrating", *resultKind = "calibrated";

/// Shows on a terminal one line that changes, elsewhere one for each quarter.
class Shown {
public:
  explicit Shown(bool quiet) : quiet(quiet), terminal(isatty(STDERR_FILENO)) {}
  ~Shown() { clear(); }

  void show(double share, const std::string &what) {
    if (quiet)
      return;
    std::string line =
        fmt::format("calibrating: {:3.0f} %  {}", 100 * share, what);
    if (terminal)
      tellProgress("\r\033[K" + line);
    else if (int quarter = static_cast<int>(4 * share); quarter > told)
      told = quarter, tellProgress(line + "\n");
    lineOpen = terminal;
  }
  void clear() {
    if (lineOpen)
      tell("\r\033[K");
    lineOpen = false;
  }

private:
  bool quiet, terminal, lineOpen = false;
  int told = -1;
};

Result<std::unique_ptr<flatbuffers::FlatBufferBuilder>> packed(int devices,
                                                               int threads) {
  auto builder = std::make_unique<flatbuffers::FlatBufferBuilder>();
  plan::PlanT plan = makeLaunchPlan(devices, threads);
  plan::FinishPlanBuffer(*builder, plan::Plan::Pack(*builder, &plan));
  return builder;
}

Result<Measurements> measure(const CalibrationOptions &options,
                             const RankConnection &connection) {
  POLYRANK_ASSIGN(job, joinJob(connection.job(), connection.rank()));
  POLYRANK_ASSIGN(communicator,
                  attachCommunicator(connection.descriptors(), *job, {}));
  POLYRANK_ASSIGN(built, packed(job->worldSize(), options.threads));
  const plan::Plan &plan = *plan::GetPlan(built->GetBufferPointer());
  std::shared_ptr<const HostTeam> team = makeTeam(plan);
  communicator->setParallelFor(
      [team](int64_t range, int64_t grain, const RangeBody &body) {
        team->parallelFor(range, grain, body);
      });
  POLYRANK_ASSIGN(device, makeDevice(plan, *plan.programs()->Get(0), team));
  auto next = std::chrono::steady_clock::now();
  MeasureOptions wanted{options.seconds,
                        [&](double share, const std::string &what) {
                          auto now = std::chrono::steady_clock::now();
                          if (now < next)
                            return;
                          next = now + std::chrono::milliseconds(200);
                          connection.report({progressKind, {share, what}});
                        }};
  POLYRANK_ASSIGN(measured,
                  measureMachine({plan, *device, *communicator, team}, wanted));
  // No rank leaves before all are done.
  if (Result<void> all = job->gather(0, 0); !all)
    return all.error();
  return measured;
}

} // namespace

Result<int> countDevices(int threads) {
  int cores = usableCores();
  if (threads <= cores)
    return cores / threads;
  return Error{fmt::format("--threads {}: this process may use {} core{}; take "
                           "at most so many threads",
                           threads, cores, cores == 1 ? "" : "s")};
}

Result<Measurements> calibrate(const CalibrationOptions &options) {
  EndSignals::endAtOnce();
  POLYRANK_ASSIGN(devices, countDevices(options.threads));
  LaunchOptions launch;
  launch.ranks = devices;
  launch.threads = options.threads;
  POLYRANK_ASSIGN(cores, chooseCores(devices, options.threads, 0,
                                     options.binding.value_or(Binding::Core),
                                     options.binding.has_value()));
  launch.cores = std::move(cores);
  if (!launch.cores.note.empty() && !options.quiet)
    tell(launch.cores.note + "\n");
  launch.arguments = options.arguments;
  NewJob wanted;
  wanted.ranks = devices;
  wanted.threadsPerRank = options.threads;
  wanted.alone = launch.cores.alone;
  POLYRANK_ASSIGN(job, createJob(wanted));
  CommunicatorNeeds needs;
  needs.channelBytes.resize(static_cast<size_t>(devices));
  POLYRANK_ASSIGN(host, hostCommunicators(needs));
  Job::AbortHook wakes = job->onAbort([&host] { host->wakeSleepers(); });
  launch.descriptors = host->descriptors();
  launch.nameOf = [](int rank) { return fmt::format("rank {}", rank); };
  launch.placeOf = [](int, uint32_t) {
    return std::string("in a calibration");
  };
  Shown shown(options.quiet);
  launch.onWarning = [&](const std::string &text) {
    shown.clear();
    tell(text + "\n");
  };
  launch.onTick = [] {};
  std::optional<Measurements> measured;
  launch.onReport =
      [&](int, const TaggedMessage &message) -> Result<std::optional<double>> {
    try {
      if (message.kind == progressKind)
        shown.show(message.body.at(0).get<double>(),
                   message.body.at(1).get<std::string>());
      else
        measured = message.body.get<Measurements>();
    } catch (const nlohmann::json::exception &wrong) {
      return Error{fmt::format("sends a message that its launcher cannot "
                               "read: {}",
                               wrong.what()),
                   Error::Fault::Rank};
    }
    return std::optional<double>();
  };
  POLYRANK_ASSIGN(signals, EndSignals::block());
  LaunchEnd end = launchRanks(launch, *job, signals);
  if (!end.result)
    return end.result.error();
  if (!measured)
    return Error{"rank 0 has ended without telling what it has measured",
                 Error::Fault::Rank};
  return *std::move(measured);
}

int calibrateRank(const CalibrationOptions &options,
                  const RankConnection &connection) {
  try {
    Result<Measurements> measured = measure(options, connection);
    if (!measured)
      return connection.fail(measured.error());
    if (connection.rank() == 0)
      connection.report({resultKind, *measured});
    return connection.finish();
  } catch (const std::exception &exception) {
    return connection.fail({exception.what(), Error::Fault::Rank});
  }
}

} // namespace polyrank::runtime
