// The options about samples.

#include "tools/polyrank-run/DataOptions.h"

#include "tools/polyrank-run/OptionTable.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

/// Splits a list at its commas, unless a file has the whole text as its name.
std::vector<std::string> splitPaths(const std::vector<std::string> &given) {
  std::vector<std::string> paths;
  for (const std::string &text : given) {
    if (access(text.c_str(), F_OK) == 0 || feedNameOf(text)) {
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
           "patterns in quotes ('corpus/*.bin'), with weights (a.bin:0.7); or "
           "a feed: command:COMMAND, or a FIFO; several feeds with weights "
           "('command:python a.py:0.7'). docs/data-files.md says which sample "
           "stands where",
           {.refuse = refuse}},
          {"--data-timeout",
           "SECONDS",
           &options.dataTimeout,
           "End the run if a feed gives nothing for this many seconds",
           {.check = between(0.1, 1e9), .refuse = refuse}},
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
          {"--labels",
           "WHICH",
           choice(&documents.labels,
                  {{"next", std::optional(LabelRule::Next)},
                   {"same", std::optional(LabelRule::Same)}}),
           "The labels of token files: next (the next token, the default) or "
           "same (the tokens themselves, for a model that shifts them itself, "
           "as those of transformers do). An input 'labels' of the model gets "
           "them, too",
           {.refuse = refuse}},
          {"--mask-prompts", "", &documents.maskPrompts,
           "Tokens that NAME.mask beside a token file marks with 0 are no "
           "labels: one byte for each token, 1 where it is learned"},
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

} // namespace polyrank::runtime
