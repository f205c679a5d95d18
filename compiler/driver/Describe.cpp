// polyrank-compile MODEL --describe: reports what a model contains and needs,
// before it is compiled.

#include "compiler/driver/Describe.h"

#include <map>
#include <numeric>
#include <set>

#include "compiler/cost/CostModel.h"
#include "compiler/driver/Batch.h"
#include "compiler/driver/Bind.h"
#include "compiler/driver/Description.h"
#include "compiler/driver/FindCommand.h"
#include "compiler/driver/Frontends.h"
#include "compiler/driver/Machine.h"
#include "compiler/driver/Stages.h"
#include "compiler/sharding/BatchAxes.h"
#include "compiler/training/Passes.h"
#include "frontends/import/LastError.h"
#include "mlir/Pass/PassManager.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;
using frontends::DescribedParameter;
using frontends::DescribedValue;

namespace {

/// Collects the description by importing the model and building its step.
class Describer {
public:
  /// `bindings` is what `given` says of the inputs and their dims.
  Describer(const Options &given, const frontends::ImportOptions &bindings,
            frontends::ModelDescription file)
      : given(given), bindings(bindings), context(getRegistry()) {
    result.model = given.model;
    result.file = std::move(file);
    context.loadAllAvailableDialects();
    context.printOpOnDiagnostic(false);
    context.printStackTraceOnDiagnostic(false);
    context.disableMultithreading();
  }

  Result<void> run();
  Description take() { return std::move(result); }

private:
  using Sizes = std::map<std::string, int64_t>;

  void findOpenDims();
  void groupParameters();
  /// The inputs with all sizes, in the syntax of `--input`.
  std::vector<std::string> inputsWith(const Sizes &sizes) const;
  Result<OwningOpRef<ModuleOp>> import(const Options &options);
  OwningOpRef<ModuleOp> importWithSizes(Options &options);
  /// Builds `step`.
  Result<void> buildStep(const Options &options, ModuleOp module);
  bool fits(const std::string &loss, ModuleOp module);
  /// The losses of each output; for each loss the forms to try, of which the
  /// first that fits is used.
  std::vector<std::vector<std::string>> proposeLosses() const;
  bool chooseLoss(Options &options, ModuleOp module);
  /// Falls back to the forward alone if no loss fits.
  bool goForward(Options &options);
  /// The size of a batch that the user left open.
  int64_t chooseBatch();
  std::vector<std::string> axesFor(const DescribedValue &output) const;
  void noteDropout(ModuleOp module);
  void noteAttentions(ModuleOp module);
  std::string dimName(size_t input, size_t dim) const;

  const Options &given;
  const frontends::ImportOptions &bindings;
  MLIRContext context;
  OwningOpRef<ModuleOp> step;
  /// The remark of lower-precision on `step`; empty if there is none.
  std::string precision;
  Description result;
};

} // namespace

/// The name of a dim in the file, or else a name made of its position.
std::string Describer::dimName(size_t input, size_t dim) const {
  const DescribedValue &value = result.file.inputs[input];
  const std::string &name = (*value.dims)[dim].name;
  return name.empty() ? value.name + "." + std::to_string(dim) : name;
}

void Describer::findOpenDims() {
  Sizes bound;
  for (const auto &dim : bindings.dims)
    bound[dim.first().str()] = dim.second;
  for (auto [i, input] : llvm::enumerate(result.file.inputs)) {
    auto spec = bindings.inputs.find(input.name);
    if (spec == bindings.inputs.end() || !input.dims ||
        input.dims->size() != spec->second.shape.size())
      continue;
    for (auto [d, dim] : llvm::enumerate(*input.dims))
      if (!dim.size)
        bound[dimName(i, d)] = spec->second.shape[d];
  }
  std::set<std::string> seen;
  for (auto [i, input] : llvm::enumerate(result.file.inputs))
    for (size_t d = 0; input.dims && d < input.dims->size(); ++d) {
      if ((*input.dims)[d].size)
        continue;
      std::string name = dimName(i, d);
      auto size = bound.find(name);
      if (seen.insert(name).second)
        result.dims.push_back({name, size == bound.end() ? 0 : size->second,
                               /*isGiven=*/size != bound.end(),
                               /*isBatch=*/d == 0});
    }
}

void Describer::groupParameters() {
  std::map<std::string, size_t> groups;
  for (const DescribedParameter &parameter : result.file.parameters) {
    std::string shape;
    for (int64_t size : parameter.shape)
      shape += std::to_string(size) + "x";
    std::string key = LayerNames::getKey(parameter.name) + "|" +
                      parameter.dtype + "|" + shape +
                      (parameter.trainable ? "" : "|fixed");
    auto [found, isNew] = groups.try_emplace(key, result.groups.size());
    if (isNew)
      result.groups.push_back({parameter, {}, 0});
    ParameterGroup &group = result.groups[found->second];
    group.names.add(parameter.name);
    ++group.count;
  }
}

std::vector<std::string> Describer::inputsWith(const Sizes &sizes) const {
  std::vector<std::string> specs;
  for (auto [i, input] : llvm::enumerate(result.file.inputs)) {
    if (!input.dims ||
        llvm::all_of(*input.dims, [](auto &dim) { return !!dim.size; }))
      continue;
    SmallVector<std::string> dims;
    for (auto [d, dim] : llvm::enumerate(*input.dims))
      dims.push_back(
          std::to_string(dim.size ? *dim.size : sizes.at(dimName(i, d))));
    specs.push_back(input.name + "=" + input.dtype + "[" +
                    llvm::join(dims, ",") + "]");
  }
  return specs;
}

Result<OwningOpRef<ModuleOp>> Describer::import(const Options &options) {
  POLYRANK_ASSIGN(importOptions, readImportOptions(options));
  if (auto bound = bindInputs(context, options, importOptions); !bound)
    return bound.error();
  result.unsupported.clear();
  importOptions.unsupported = &result.unsupported;
  llvm::StringMap<frontends::OpenDims> openDims;
  importOptions.openDims = &openDims;
  frontends::LastError said(context);
  auto module = importModel(context, options.model, importOptions);
  if (!module || failed(findBatch(*module, options, openDims)))
    return Error{said.message};
  return module;
}

int64_t Describer::chooseBatch() {
  // A multiple of the data axes and of the groups of --batch-norm local=G.
  auto axes = sharding::findBatchAxes(
      strategy::toAttribute(context, given.strategy.mesh),
      given.strategy.batchAxes);
  int64_t unit = std::lcm(axes ? sharding::product(*axes) : 1,
                          std::max<int64_t>(1, bindings.batchNormGroup));
  constexpr int64_t usual = 8;
  return llvm::alignTo(usual, unit);
}

/// Imports with the sizes that the user gave, or else with some that the model
/// takes: a batch of 8 or a little more, and the first of a few sizes for all
/// other open dims.
OwningOpRef<ModuleOp> Describer::importWithSizes(Options &options) {
  std::string said;
  std::vector<frontends::UnsupportedNodes> fewest;
  bool isOpen =
      llvm::any_of(result.dims, [](auto &dim) { return !dim.isGiven; });
  int64_t batch = chooseBatch();
  for (int64_t size : {64, 32, 16, 128, 224, 8, 1}) {
    Sizes sizes;
    for (OpenDim &dim : result.dims) {
      if (!dim.isGiven)
        dim.size = dim.isBatch ? batch : size;
      sizes[dim.name] = dim.size;
    }
    if (isOpen)
      options.inputs = inputsWith(sizes);
    auto module = import(options);
    if (module)
      return std::move(*module);
    said = module.error().message;
    // A size that does not fit makes nodes fail that others would not.
    auto count = [](ArrayRef<frontends::UnsupportedNodes> all) {
      size_t nodes = 0;
      for (const frontends::UnsupportedNodes &each : all)
        nodes += each.nodes.size();
      return nodes;
    };
    if (fewest.empty() || count(result.unsupported) < count(fewest))
      fewest = result.unsupported;
    if (!isOpen)
      break;
  }
  result.unsupported = std::move(fewest);
  if (result.unsupported.empty())
    result.problem = said;
  return {};
}

/// The options that may tell cross entropy which dim the classes are, likeliest
/// first: nothing, if the inputs show it; dim 1, if an input has the same last
/// dim (pixels, samples of a signal); else the last dim.
std::vector<std::string>
Describer::axesFor(const DescribedValue &output) const {
  size_t rank = output.dims->size();
  if (rank < 3)
    return {""};
  std::string first = ",axis=1", last = ",axis=" + std::to_string(rank - 1);
  bool isFirst = rank > 3;
  for (const DescribedValue &input : result.file.inputs)
    isFirst |= input.isFloat && input.dims && !input.dims->empty() &&
               input.dims->back().size == output.dims->back().size &&
               input.dims->back().name == output.dims->back().name;
  if (isFirst)
    return {"", first, last};
  return {"", last, first};
}

Result<void> Describer::buildStep(const Options &options, ModuleOp module) {
  OwningOpRef<ModuleOp> made = module.clone();
  frontends::LastError said(context);
  // Only the remark of lower-precision is kept: --describe says the rest in its
  // own words.
  precision.clear();
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    bool isRemark = diagnostic.getSeverity() == DiagnosticSeverity::Remark;
    if (std::string text = diagnostic.str();
        isRemark && StringRef(text).starts_with("--precision"))
      precision = text;
    return failure(); // the error is kept by `said`
  });
  PassManager manager(&context);
  // The mesh was checked before, and has the requested axes.
  addTraining(manager, options,
              strategy::toAttribute(context, options.strategy.mesh));
  if (failed(manager.run(*made)))
    return Error{said.message};
  step = std::move(made);
  return {};
}

/// Returns true if the outputs and inputs have the types that the loss needs.
bool Describer::fits(const std::string &loss, ModuleOp module) {
  OwningOpRef<ModuleOp> tried = module.clone();
  frontends::LastError said(context);
  PassManager manager(&context);
  training::AttachLossPassOptions attached;
  attached.loss = loss;
  manager.addPass(training::createAttachLossPass(attached));
  return succeeded(manager.run(*tried));
}

/// The losses that each output admits: cross entropy with labels, or a target
/// of the same shape. A scalar is a loss by itself.
std::vector<std::vector<std::string>> Describer::proposeLosses() const {
  auto outputs = llvm::make_filter_range(result.file.outputs,
                                         [](const DescribedValue &output) {
                                           return output.isFloat && output.dims;
                                         });
  auto isCalled = [](const DescribedValue &value, const char *name) {
    return StringRef(value.name).contains_insensitive(name);
  };
  // A scalar beside other outputs may be part of a loss or none. One with loss
  // in its name, or one that the model computes from labels, is a whole loss.
  bool readsLabels =
      llvm::any_of(result.file.inputs, [&](const DescribedValue &input) {
        return isCalled(input, "label") || isCalled(input, "target");
      });
  std::vector<std::vector<std::string>> wholes, others, numbers;
  for (const DescribedValue &output : outputs) {
    if (output.dims->empty()) {
      auto &list = readsLabels || isCalled(output, "loss") ? wholes : numbers;
      list.push_back({"output(" + output.name + ")"});
      continue;
    }
    std::vector<std::string> forms;
    bool hasClasses = output.dims->size() >= 2 && output.dims->back().size != 1;
    for (const std::string &axis :
         hasClasses ? axesFor(output) : std::vector<std::string>())
      for (const char *labels : {"labels", "targets"})
        forms.push_back("cross_entropy(" + output.name + "," + labels + axis +
                        ")");
    // An output named logits is meant for classes.
    bool isFirst = isCalled(output, "logit");
    auto place = isFirst ? others.begin() : others.end();
    if (!forms.empty())
      place = others.insert(place, std::move(forms)) + 1;
    others.insert(place,
                  std::vector<std::string>{"mse(" + output.name + ",target)"});
  }
  llvm::append_range(wholes, others);
  llvm::append_range(wholes, numbers);
  return wholes;
}

/// Finds the losses that the model's outputs admit, and chooses the first that
/// can be trained.
bool Describer::chooseLoss(Options &options, ModuleOp module) {
  std::vector<std::string> losses;
  if (!options.loss.empty())
    losses.push_back(options.loss);
  else
    for (const std::vector<std::string> &forms : proposeLosses())
      if (auto form = llvm::find_if(
              forms,
              [&](const std::string &loss) { return fits(loss, module); });
          form != forms.end())
        losses.push_back(*form);
  std::string said;
  for (const std::string &loss : losses) {
    options.loss = loss;
    if (auto built = buildStep(options, module); !built) {
      said = built.error().message;
      continue;
    }
    result.stepFlops = cost::getFlops(step->lookupSymbol<func::FuncOp>("step"));
    if (given.loss.empty()) {
      result.losses = losses;
      // The loss of the command comes first.
      auto chosen = llvm::find(result.losses, loss);
      std::rotate(result.losses.begin(), chosen, chosen + 1);
    }
    return true;
  }
  result.problem = losses.empty()
                       ? "no output is a float tensor of known rank that a "
                         "loss could be made of; give one with --loss"
                       : said;
  return false;
}

bool Describer::goForward(Options &options) {
  const Options standard;
  options.forward = true;
  options.loss = standard.loss;
  options.optimizer = standard.optimizer;
  options.batchNorm = given.batchNorm;
  options.dropout = standard.dropout;
  options.ema = standard.ema;
  options.lossScale = standard.lossScale;
  options.skipNonfinite = standard.skipNonfinite;
  options.strategy.microbatches = standard.strategy.microbatches;
  options.freeze = options.trainOnly = options.detach = {};
  auto module = import(options);
  if (!module || !buildStep(options, **module))
    return false;
  result.notes.push_back("there is no loss to train it with (" +
                         result.problem +
                         "); the command computes its outputs");
  result.problem.clear();
  return true;
}

void Describer::noteDropout(ModuleOp module) {
  int64_t active = 0;
  std::map<double, std::string> rates;
  module.walk([&](graph::DroppingOp op) {
    if (!op.getDropRate())
      return;
    ++active;
    double rate = *op.getDropRate();
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%g", rate);
    // Rates are equal by their text: some are 0.1 in float32, others in
    // float64.
    if (llvm::none_of(rates, [&](auto &other) { return other.second == text; }))
      rates[rate] = text;
  });
  int64_t dropouts = result.file.numDropouts;
  auto count = [](int64_t number, const char *one, const char *many) {
    return std::to_string(number) + (number == 1 ? one : many);
  };
  if (active > 0) {
    SmallVector<std::string> texts;
    for (auto &[rate, text] : rates)
      texts.push_back(text);
    result.notes.push_back(count(active, " dropout is", " dropouts are") +
                           " on in training, at a rate of " +
                           llvm::join(texts, ", ") +
                           "; --dropout P sets another, --dropout off none");
  } else if (dropouts > 0) {
    bool isOff = bindings.dropout && *bindings.dropout == 0;
    result.notes.push_back(
        isOff ? count(dropouts, " dropout is", " dropouts are") +
                    " off (--dropout)"
              : count(dropouts, " dropout drops", " dropouts drop") +
                    " nothing: their rate is 0, or the model was exported in "
                    "evaluation mode; --dropout P sets another rate and turns "
                    "them on");
  }
}

/// Says how many attentions are one op, and why others are not.
void Describer::noteAttentions(ModuleOp module) {
  OwningOpRef<ModuleOp> raised = module.clone();
  SmallVector<std::string> inParts;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
      inParts.push_back(diagnostic.str());
    return success();
  });
  PassManager manager(&context);
  manager.addPass(training::createRaiseCompositesPass());
  if (failed(manager.run(*raised)))
    return;
  int64_t whole = 0;
  raised->walk([&](graph::AttentionOp) { ++whole; });
  if (whole > 0)
    result.notes.push_back(
        std::to_string(whole) +
        (whole == 1 ? " attention is one op" : " attentions are one op each"));
  llvm::append_range(result.notes, inParts);
}

Result<void> Describer::run() {
  groupParameters();
  findOpenDims();
  sharding::MeshAttr mesh = strategy::toAttribute(context, given.strategy.mesh);
  if (auto checked = given.strategy.check(context); !checked)
    return checked;
  auto machine = makeMachine(context, given, mesh);
  if (!machine)
    return machine.error();
  Options options = given;
  if (result.file.numBatchNorms > 0) {
    if (!options.forward && options.batchNorm.empty())
      options.batchNorm = "batch";
    if (!options.forward)
      result.notes.push_back(
          std::to_string(result.file.numBatchNorms) +
          (result.file.numBatchNorms == 1 ? " batch normalization"
                                          : " batch normalizations") +
          ": the exporter writes them in inference form, so training needs "
          "--batch-norm batch (statistics of the batch, as PyTorch), local=G "
          "or frozen");
  }
  for (const std::string &warning : result.file.warnings)
    result.notes.push_back(warning);
  for (const std::string &suggestion : result.file.suggestions)
    result.notes.push_back(suggestion);

  auto module = importWithSizes(options);
  if (!module)
    return {};
  setMachine(*module, *machine);
  {
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      result.problem = diagnostic.str();
      return success();
    });
    if (failed(checkElements(*module)))
      return {};
  }
  auto forward = module->lookupSymbol<func::FuncOp>("forward");
  result.forwardFlops = cost::getFlops(forward);
  noteAttentions(*module);
  if (!options.forward)
    noteDropout(*module);
  if (options.forward) {
    if (auto built = buildStep(options, *module); !built) {
      result.problem = built.error().message;
      return {};
    }
  } else if (!chooseLoss(options, *module)) {
    if (!given.loss.empty() || !goForward(options))
      return {};
  }
  if (!precision.empty())
    result.notes.push_back(precision);
  FoundCommand found = findCommand(*step, options, result.file);
  llvm::append_range(result.notes, found.notes);
  result.problem = found.problem;
  if (found.options)
    result.command = commandFor(*found.options);
  return {};
}

int polyrank::driver::describe(const Options &options) {
  auto fail = [&](const std::string &error) {
    llvm::errs() << "error: " << error << "\n";
    return 1;
  };
  auto importOptions = readImportOptions(options);
  if (!importOptions)
    return fail(importOptions.error().message);
  MLIRContext context;
  if (auto bound = bindInputs(context, options, *importOptions); !bound)
    return fail(bound.error().message);
  auto file = describeModel(options.model, *importOptions);
  if (!file)
    return fail(file.error().message);
  eraseBound(options, *file);
  Describer describer(options, *importOptions, std::move(*file));
  if (auto done = describer.run(); !done)
    return fail(done.error().message);
  Description description = describer.take();
  llvm::outs() << (options.json ? toJson(description) : toText(description));
  return 0;
}
