// The options about samples, and opening them.

#include "tools/polyrank-run/DataOptions.h"

#include "runtime/checkpoint/Checksum.h"
#include "runtime/exec/DataFingerprint.h"
#include "tools/polyrank-run/OptionTable.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

/// Splits a list at its commas, unless a file has the whole text as its name.
std::vector<std::string> splitPaths(const std::vector<std::string> &given) {
  std::vector<std::string> paths;
  for (const std::string &text : given) {
    if (access(text.c_str(), F_OK) == 0) {
      paths.push_back(text);
      continue;
    }
    for (size_t begin = 0; begin <= text.size();) {
      size_t end = std::min(text.find(',', begin), text.size());
      if (end > begin)
        paths.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return paths;
}

} // namespace

OptionGroup sampleOptions(RunOptions &options) {
  DocumentOptions &documents = options.documents;
  auto refuse = unlessRehearsal(options);
  return {
      "Samples",
      {
          {"--data",
           "FILE",
           &options.data,
           "Samples: a token file (.bin/.u16: uint16, .u32: uint32, .txt/.u8: "
           "bytes, .npy, .idx and .bin of Megatron-LM) or a .npz set with one "
           "array per input (and 'labels'). Repeatable, several at commas, "
           "patterns in quotes ('corpus/*.bin'), with weights (a.bin:0.7). "
           "docs/data-files.md says which sample stands where",
           {.refuse = refuse}},
          {"--inputs",
           "FILE",
           &options.inputs,
           "Forward plans: a .npz set of inputs",
           {.excludes = {"--data"}, .refuse = refuse}},
          {"--token-type",
           "TYPE",
           oneOfWords(&options.tokenType,
                      {"uint8", "uint16", "uint32", "int32", "int64"}),
           "Type of the tokens in --data, where its name does not say: uint8, "
           "uint16, uint32, int32, int64",
           {.refuse = refuse}},
          {"--order",
           "ORDER",
           choice(&options.order, {{"random", SampleOrder::Random},
                                   {"sequential", SampleOrder::Sequential}}),
           "Order of the samples: random (a permutation of each epoch, keyed "
           "by the seed, the same on any number of ranks) or sequential "
           "(begins again at the end); forward plans take them as they stand",
           {.refuse = refuse}},
          {"--holdout",
           "FRACTION",
           &options.holdout,
           "Keep this fraction of each file's samples, the last ones, from "
           "training; forward plans run on them alone",
           {.check = between(0.0, 0.9), .refuse = refuse}},
          {"--documents",
           "RULE",
           choice(&documents.rule, {{"stream", DocumentRule::Stream},
                                    {"whole", DocumentRule::Whole},
                                    {"pad", DocumentRule::Pad}}),
           "How token files are cut into rows: stream (every T tokens), whole "
           "(documents one after another as long as they fit whole; the rest "
           "is filled up) or pad (each begins a row)",
           {.refuse = refuse}},
          {"--eos",
           "ID",
           &documents.eos,
           "The token that ends a document, where no .idx says it",
           {.refuse = refuse}},
          {"--mask-eos", "", &documents.maskLabels,
           "The label after the end of a document, the first token of the next "
           "one, does not count"},
          {"--reset-position-ids", "", &documents.resetPositions,
           "Position ids begin again at 0 with each document, of a model with "
           "an input 'position_ids'"},
          {"--pad-token", "ID", &documents.pad,
           "The token that fills rows up (default: that of --eos, else 0)"},
      }};
}

OptionGroup evaluationOptions(RunOptions &options) {
  constexpr int64_t most = int64_t(1) << 40;
  return {
      "Evaluation",
      {
          {"--eval-every",
           "N",
           &options.evalEvery,
           "Evaluate after every N steps, and after the last one; not a bit of "
           "the training changes (docs/evaluating.md)",
           {.check = between(int64_t(1), most),
            .refuse = unlessRehearsal(options)}},
          {"--eval-data",
           "FILE",
           &options.evalData,
           "Samples to evaluate, as --data names them (default: those of "
           "--holdout)",
           {.needs = "--eval-every"}},
          {"--eval-plan",
           "FILE",
           &options.evalPlan,
           "A forward plan of the model, with a loss or metrics and for the "
           "same ranks, that evaluates (default: the training plan itself)",
           {.needs = "--eval-every"}},
          {"--eval-ema",
           "",
           &options.evalEma,
           "Evaluate the moving means of the weights, of a plan compiled with "
           "--ema",
           {.needs = "--eval-plan"}},
          {"--patience",
           "N",
           &options.patience,
           "End when so many evaluations in a row have not had a smaller loss "
           "than the best one",
           {.check = between(int64_t(1), most), .needs = "--eval-every"}},
      }};
}

void takeFiles(CLI::App &app, RunOptions &options,
               const std::vector<std::string> &more) {
  if (!more.empty() && !app.count("--data"))
    throw CLI::ValidationError("'" + more[0] + "'",
                               "The following argument was not expected: " +
                                   more[0]);
  options.data = splitPaths(options.data);
  options.evalData = splitPaths(options.evalData);
  if (options.evalEvery != 0 && options.evalData.empty() &&
      options.holdout == 0)
    throw CLI::ValidationError(
        "--eval-every", "there are no samples to evaluate: give --eval-data "
                        "FILE, or keep some apart with --holdout FRACTION");
  options.data.insert(options.data.end(), more.begin(), more.end());
  // Added to --data, so that ranks and --write-config have them, too.
  for (const std::string &path : more)
    app.get_option("--data")->add_result(path);
}

uint64_t stepsOfEpochs(double epochs, uint64_t samples, uint64_t batch) {
  double exact =
             epochs * static_cast<double>(samples) / static_cast<double>(batch),
         whole = std::round(exact);
  // 0.1 of 30 samples are 3, although the double is a little more.
  bool isWhole = std::abs(exact - whole) <= 1e-12 * exact;
  return std::max<uint64_t>(1, uint64_t(isWhole ? whole : std::ceil(exact)));
}

Result<DataSource> openData(const RunOptions &options, const plan::Plan &plan) {
  DataOptions data;
  data.paths = options.samples();
  data.tokenType = options.tokenType;
  data.documents = options.documents;
  data.batch = plan.samples_per_step();
  data.order = options.order;
  data.seed = options.seed;
  data.holdout = options.holdout;
  data.allowPart = evaluatesAll(options, plan);
  std::vector<InputSpec> specs = inputSpecsOf(plan);
  POLYRANK_ASSIGN(source, DataSource::open(data, specs));
  if (source.hasWeights() && plan.mode() == plan::Mode::Forward)
    return Error{"a forward plan takes each sample once, so weights of sources "
                 "say nothing: give --data without them"};
  return std::move(source);
}

Result<DataSource> openEvaluationData(const RunOptions &options,
                                      const plan::Plan &plan) {
  DataOptions data;
  bool own = options.evalData.empty();
  data.paths = own ? options.samples() : options.evalData;
  data.tokenType = options.tokenType;
  data.documents = options.documents;
  data.batch = plan.samples_per_step();
  data.order = SampleOrder::Sequential;
  data.holdout = own ? options.holdout : 0;
  data.allowPart = true;
  std::vector<InputSpec> specs = inputSpecsOf(plan);
  POLYRANK_ASSIGN(source, DataSource::open(data, specs));
  if (source.hasWeights() && !own)
    return Error{"--eval-data: each sample counts once, so weights of sources "
                 "say nothing: leave them out"};
  return std::move(source);
}

Result<std::string> fingerprintOf(const DataSource &data,
                                  const plan::Plan &plan) {
  return fingerprintOf(data, inputSpecsOf(plan), plan.samples_per_step());
}

Result<std::string> identityOf(const DataSource &data) {
  POLYRANK_ASSIGN(files, data.identity());
  return digestOf(files);
}

Result<void> checkSameData(std::string_view launchers, const DataSource &data,
                           const plan::Plan &plan) {
  POLYRANK_ASSIGN(found, fingerprintOf(data, plan));
  if (found != launchers)
    return Error{fmt::format("the data files changed while the run started: "
                             "this rank finds {}, the launcher found {}",
                             found, launchers)};
  return {};
}

Split splitOf(const RunOptions &options, const plan::Plan &plan) {
  return plan.mode() == plan::Mode::Forward && options.holdout > 0
             ? Split::Holdout
             : Split::Train;
}

bool evaluatesAll(const RunOptions &options, const plan::Plan &plan) {
  if (plan.mode() != plan::Mode::Forward || options.steps || options.epochs > 0)
    return false;
  for (const plan::Program *program : *plan.programs())
    for (const plan::Output *output : *program->outputs())
      if (output->kind() == plan::OutputKind::Metric)
        return true;
  return false;
}

std::vector<Batch> evaluatedBatchesOf(const RunOptions &options,
                                      const plan::Plan &plan,
                                      const DataSource &data) {
  if (!evaluatesAll(options, plan))
    return {};
  return data.batchesOfAll(splitOf(options, plan));
}

uint64_t stepsOf(const RunOptions &options, const plan::Plan &plan,
                 const DataSource &data) {
  if (options.steps)
    return options.steps;
  uint64_t batch = plan.samples_per_step();
  if (options.epochs > 0)
    return stepsOfEpochs(options.epochs, data.samples(Split::Train), batch);
  if (evaluatesAll(options, plan))
    return evaluatedBatchesOf(options, plan, data).size();
  uint64_t samples = data.samples(splitOf(options, plan));
  // With --outputs every sample needs an output.
  return options.outputs.empty() ? samples / batch
                                 : (samples + batch - 1) / batch;
}

uint64_t outputSamplesOf(const RunOptions &options, const plan::Plan &plan,
                         const DataSource &data) {
  uint64_t samples = data.samples(splitOf(options, plan)), upTo = 0;
  if (evaluatesAll(options, plan))
    return samples;
  bool all = __builtin_mul_overflow(stepsOf(options, plan, data),
                                    plan.samples_per_step(), &upTo);
  return all ? samples : std::min(samples, upTo);
}

} // namespace polyrank::runtime
