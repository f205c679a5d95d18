// Chooses a checkpoint and compares it with the run.

#include "runtime/session/Resume.h"

#include "runtime/report/Messages.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace polyrank::runtime {
namespace {

/// Returns true for DIR/step-000000100, whatever its contents.
bool namesCheckpoint(const std::string &path) {
  std::string name = path.substr(path.rfind('/') + 1);
  return name.starts_with("step-") &&
         name.find_first_not_of("0123456789", 5) == std::string::npos &&
         name.size() > 5;
}

bool isFeed(const ManifestData &data) {
  return data.order == feedOrder || data.order == inexactFeedOrder;
}

const char *nameOf(SampleOrder order) {
  return order == SampleOrder::Random ? "random" : "sequential";
}

} // namespace

bool resumesFromFolder(const CheckpointOptions &options) {
  std::string path = withoutSlash(options.resume);
  struct stat status;
  return !path.empty() && !namesCheckpoint(path) &&
         stat((path + "/" + manifestName).c_str(), &status) != 0;
}

Result<std::optional<FoundCheckpoint>>
findResumed(const CheckpointOptions &options, uint64_t before) {
  if (options.resume.empty())
    return std::optional<FoundCheckpoint>();
  bool isAuto = options.resume == "auto";
  if (isAuto && options.folder.empty())
    return Error{"--resume auto goes on from the newest checkpoint of "
                 "--checkpoint DIR: give that too"};
  std::string path = withoutSlash(isAuto ? options.folder : options.resume);
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    if (Error error = fileError(path, "cannot be opened"); !isDamage(error))
      return ofCheckpoint(error.saying("--resume: " + error.message));
    if (isAuto)
      return std::optional<FoundCheckpoint>();
  } else if (!S_ISDIR(status.st_mode) && isAuto) {
    return std::optional<FoundCheckpoint>();
  }
  if (!isFolder(path))
    return Error{
        fmt::format("--resume {}: there is no such folder", options.resume)};
  if (!isAuto && !resumesFromFolder(options)) {
    Result<FoundCheckpoint> opened = openCheckpoint(path);
    if (!opened)
      return opened.error().saying("--resume: " + opened.error().message);
    return std::optional<FoundCheckpoint>(*std::move(opened));
  }
  POLYRANK_ASSIGN(choice, newestCheckpoint(path, before));
  if (!choice.found) {
    POLYRANK_ASSIGN(aside, damagedIn(path));
    if (isAuto && choice.damaged.empty() && aside.empty() &&
        before == ~uint64_t(0))
      return std::optional<FoundCheckpoint>();
    std::string why;
    for (const std::string &reason : choice.damaged)
      why += "; " + reason;
    if (!aside.empty())
      why += fmt::format("; {} {} set aside: repair {} and give it its name "
                         "without '.damaged' "
                         "again, or begin from the start without --resume",
                         fmt::join(aside, ", "),
                         aside.size() == 1 ? "was" : "were",
                         aside.size() == 1 ? "it" : "one of them");
    return Error{fmt::format(
        "--resume {}: it has no whole checkpoint{}{}", options.resume,
        before == ~uint64_t(0) ? "" : fmt::format(" before step {}", before),
        why)};
  }
  for (const std::string &reason : choice.damaged)
    tell(fmt::format("polyrank-run: passed over, for an older checkpoint: {}\n",
                     reason));
  return std::move(choice.found);
}

Result<ManifestData> dataOf(const SessionOptions &options,
                            const plan::Plan &plan, const DataSource *data) {
  ManifestData result;
  result.samplesPerStep = plan.samples_per_step();
  result.order = options.hasFeeds() ? feedOrder : nameOf(options.order);
  if (!data)
    return result;
  result.description = data->describe();
  result.samples = data->samples(Split::Train);
  POLYRANK_ASSIGN(fingerprint, fingerprintOf(*data, plan));
  result.fingerprint = fingerprint;
  return result;
}

Result<void> continueData(const SessionOptions &options,
                          const FoundCheckpoint &found, ManifestData &now) {
  const Manifest &manifest = found.manifest;
  const ManifestData &then = manifest.data;
  if (options.checkpoints.resetData) {
    now.origin = manifest.step;
    return {};
  }
  now.origin = then.origin;
  auto differ = [&](const std::string &what) {
    return Error{fmt::format("{}: {}; --reset-data begins the order of the "
                             "samples anew with what this run has",
                             found.path, what)};
  };
  if (then.samplesPerStep != now.samplesPerStep)
    return differ(fmt::format(
        "it was written with {} samples per step, and the plan takes {}: "
        "compile it for {} (microbatches times the batch of each)",
        then.samplesPerStep, now.samplesPerStep, then.samplesPerStep));
  if (manifest.seed != options.seed)
    return differ(fmt::format("it was written with --seed {}, and this run has "
                              "--seed {}: give --seed {}",
                              manifest.seed, options.seed, manifest.seed));
  if (isFeed(then) && isFeed(now)) {
    if (then.fingerprint != now.fingerprint)
      return differ(fmt::format(
          "it was written with samples of {}, and this run has them of {}: "
          "give feeds in the same order, with the same weights",
          then.description, now.description));
    now.order = then.order;
    return {};
  }
  if (isFeed(then) != isFeed(now))
    return differ(fmt::format("it was written with samples of {}, and this run "
                              "has them of {}: give the same --data",
                              isFeed(then) ? "a feed" : "files",
                              isFeed(now) ? "a feed" : "files"));
  if (then.order != now.order)
    return differ(
        fmt::format("it was written with --order {}, and this run has "
                    "--order {}: give --order {}",
                    then.order, now.order, then.order));
  if (then.fingerprint != now.fingerprint)
    return differ(fmt::format(
        "it was written with other data: then '{}' with {} samples to train "
        "with (fingerprint {}), now '{}' with {} ({}): give the same --data "
        "and "
        "--holdout",
        then.description, then.samples, then.fingerprint.substr(0, 8),
        now.description, now.samples, now.fingerprint.substr(0, 8)));
  return {};
}

Result<void> checkFolder(const CheckpointOptions &options, uint64_t step) {
  POLYRANK_ASSIGN(steps, checkpointsIn(options.folder));
  for (uint64_t there : steps) {
    if (there <= step)
      break;
    std::string path = checkpointPath(options.folder, there);
    if (Result<FoundCheckpoint> opened = openCheckpoint(path); !opened) {
      if (!isDamage(opened.error()))
        return opened.error();
      continue; // set aside once its step is saved again
    }
    return Error{
        step == 0
            ? fmt::format("--checkpoint {}: there are checkpoints in it, the "
                          "newest of step {}: go on from it with --resume {}, "
                          "or give another folder",
                          options.folder, there, options.folder)
            : fmt::format("--checkpoint {}: '{}' is of a later step than {}, "
                          "from which this run goes on: move it away, or give "
                          "another folder",
                          options.folder, path, step)};
  }
  return {};
}

} // namespace polyrank::runtime
