// Parses optimizers, groups of parameters, and learning-rate schedules.

#include "compiler/training/Optimizer.h"

#include "dialects/graph/NamePattern.h"
#include "support/LearningRate.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

/// PyTorch's options that choose an implementation and not a result.
constexpr StringRef implementations[] = {"foreach", "fused", "capturable",
                                         "differentiable"};

/// Reads `torch.optim.AdamW(model.parameters(), 1e-3)` as `adamw(lr=1e-3)`:
/// drops the parameters, which are always all trainable ones, and names each
/// positional argument. `order` is PyTorch's order of arguments.
static LogicalResult nameArguments(Call &call, ArrayRef<StringRef> order,
                                   EmitError emitError) {
  ArrayRef<std::string> given = call.positional;
  if (!given.empty() && (given.front() == "params" ||
                         StringRef(given.front()).ends_with("parameters()")))
    given = given.drop_front();
  for (auto [i, value] : llvm::enumerate(given)) {
    if (i == order.size())
      return emitError() << call.name << ": '" << value
                         << "' is one value too many; write KEY=VALUE";
    for (auto &[key, other] : call.named)
      if (key == order[i])
        return emitError() << call.name << ": '" << value << "' is " << key
                           << ", which is given as '" << key << "=" << other
                           << "' too";
    call.named.push_back({order[i].str(), value});
  }
  call.positional.clear();
  return success();
}

/// The options that may be given as a bare word.
static SmallVector<StringRef> getFlags() {
  SmallVector<StringRef> flags{"nesterov",  "amsgrad",         "maximize",
                               "centered",  "bias_correction", "grad_averaging",
                               "use_nvlamb"};
  llvm::append_range(flags, implementations);
  return flags;
}

static LogicalResult checkGlobs(ArrayRef<std::string> patterns, StringRef text,
                                EmitError emitError) {
  for (const std::string &pattern : patterns) {
    auto glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return emitError() << "'" << text << "': bad pattern '" << pattern
                         << "': " << llvm::toString(glob.takeError());
  }
  return success();
}

/// Creates the rule that a call names, with its options. `text` is what the
/// user wrote; `decaying`, null for groups, takes the option `decay`.
static FailureOr<std::unique_ptr<UpdateRule>>
readRule(const Call &call, StringRef text, EmitError emitError,
         SmallVectorImpl<std::string> *decaying = nullptr) {
  std::unique_ptr<UpdateRule> rule = UpdateRule::create(call.name);
  NamedArguments named(call, emitError);
  rule->takeOptions(named);
  if (decaying) {
    named.take("decay", *decaying);
    named.drop("params");
  }
  for (StringRef word : implementations)
    if (named.drop(word))
      return emitError() << call.name << ": '" << word
                         << "' is how PyTorch computes the update, not what "
                            "it is; leave it out";
  if (failed(named.finish()))
    return failure();
  if (std::string wrong = rule->check(); !wrong.empty())
    return emitError() << "'" << text << "': " << wrong;
  if (failed(checkGlobs(rule->getPatterns().second, text, emitError)))
    return failure();
  return std::move(rule);
}

FailureOr<Optimizer> Optimizer::parse(StringRef text, EmitError emitError) {
  FailureOr<Call> call = parseCall(text, emitError, getFlags());
  if (failed(call))
    return failure();
  StringRef name = call->name;
  if (!name.consume_front("torch.optim."))
    name.consume_front("optim.");
  call->name = name.lower();
  std::unique_ptr<UpdateRule> standard = UpdateRule::create(call->name);
  if (!standard) {
    std::vector<std::string> known(UpdateRule::getNames().begin(),
                                   UpdateRule::getNames().end());
    return emitError() << "unknown optimizer '" << call->name
                       << "'; there are: "
                       << llvm::join(UpdateRule::getNames(), ", ")
                       << nearestWords(call->name, known);
  }
  if (failed(nameArguments(*call, standard->getOrder(), emitError)))
    return failure();
  Optimizer result;
  auto rule = readRule(*call, text, emitError, &result.decaying);
  if (failed(rule))
    return failure();
  llvm::erase_if(call->named, [](auto &option) {
    return option.first == "decay" || option.first == "params";
  });
  if (failed(checkGlobs(result.decaying, text, emitError)))
    return failure();
  result.rest.rule = std::move(*rule);
  result.call = std::move(*call);
  return std::move(result);
}

LogicalResult Optimizer::addGroup(StringRef text, EmitError emitError) {
  // Names and values may contain colons: the separator is the last one before
  // the first option.
  size_t colon = text.take_front(text.find('=')).rfind(':');
  StringRef options =
      colon == text.npos ? "" : text.drop_front(colon + 1).trim();
  if (options.empty())
    return emitError() << "expected PATTERN: KEY=VALUE, .., as in '*.bias: "
                          "lr=x0.1, weight_decay=0'";
  Group group;
  group.text = text.str();
  group.pattern = text.take_front(colon).trim().str();
  if (std::string why = graph::explainPattern(group.pattern); !why.empty())
    return emitError() << "'" << group.pattern << "' is no pattern: " << why;
  FailureOr<Call> given =
      parseCall(call.name + "(" + options.str() + ")", emitError, getFlags());
  if (failed(given))
    return failure();
  if (!given->positional.empty())
    return emitError() << "'" << given->positional.front()
                       << "' is not KEY=VALUE, as in weight_decay=0";
  Call merged = call;
  for (auto &[key, value] : given->named) {
    if (key == "lr") {
      StringRef factor = value;
      group.scale = std::nullopt;
      if (factor.consume_front("x")) {
        double scale = 0;
        if (factor.getAsDouble(scale) || !std::isfinite(scale) || scale < 0)
          return emitError()
                 << "'lr=" << value
                 << "': expected a rate, or a factor of the optimizer's that "
                    "is not negative, as in lr=x0.1";
        group.scale = scale;
        continue;
      }
    }
    auto *known = llvm::find_if(
        merged.named, [&](auto &option) { return option.first == key; });
    if (known == merged.named.end())
      merged.named.push_back({key, value});
    else
      known->second = value;
  }
  auto rule = readRule(merged, options, emitError);
  if (failed(rule))
    return failure();
  group.rule = std::move(*rule);
  groups.push_back(std::move(group));
  return success();
}

LogicalResult Optimizer::setSchedule(StringRef text, EmitError emitError) {
  auto parsed = LearningRateSchedule::parse(text);
  if (!parsed)
    return emitError() << parsed.error().message;
  schedule = text.str();
  return success();
}

static bool matchesAny(StringRef pattern, ArrayRef<std::string> names) {
  return llvm::any_of(names, [&](const std::string &name) {
    return graph::matchesName(pattern, name);
  });
}

const Optimizer::Group &Optimizer::find(ArrayRef<std::string> names) const {
  for (const Group &group : groups)
    if (matchesAny(group.pattern, names))
      return group;
  return rest;
}

bool Optimizer::decays(ArrayRef<std::string> names) const {
  return decaying.empty() || matchesGlobs(decaying, names);
}

LogicalResult Optimizer::checkPatterns(ArrayRef<Names> parameters,
                                       EmitError emitError) const {
  SmallVector<std::string> trained;
  for (const Names &parameter : parameters)
    if (parameter.trainable)
      llvm::append_range(trained, parameter.names);
  for (auto [option, patterns] :
       {std::pair(StringRef("decay"), ArrayRef<std::string>(decaying)),
        rest.rule->getPatterns()})
    for (const std::string &pattern : patterns)
      if (!matchesGlobs(pattern, trained))
        return emitError() << "--optimizer: " << option << "=" << pattern
                           << " matches no trainable parameter"
                           << nearestNames(pattern, trained);
  for (const Group &group : groups) {
    if (matchesAny(group.pattern, trained))
      continue;
    InFlightDiagnostic diagnostic = emitError()
                                    << "--group '" << group.text << "': '"
                                    << group.pattern << "' matches no ";
    for (const Names &parameter : parameters)
      if (matchesAny(group.pattern, parameter.names))
        return diagnostic << "parameter that is trained; '"
                          << parameter.names.front()
                          << "' is frozen, or a buffer";
    return diagnostic << "trainable parameter"
                      << nearestNames(group.pattern, trained);
  }
  for (const Names &parameter : parameters) {
    const Group *first = nullptr;
    for (const Group &group : groups) {
      if (!parameter.trainable || !matchesAny(group.pattern, parameter.names))
        continue;
      if (first)
        return emitError() << "--group '" << first->text << "' and --group '"
                           << group.text << "' both name '"
                           << parameter.names.front()
                           << "'; give patterns that have no parameter in "
                              "common";
      first = &group;
    }
  }
  return success();
}

void Optimizer::describeGroups(ArrayRef<Names> parameters,
                               EmitError emitRemark) const {
  for (const Group &group : groups) {
    SmallVector<std::string> named;
    for (const Names &parameter : parameters)
      if (parameter.trainable && matchesAny(group.pattern, parameter.names))
        named.push_back(parameter.names.front());
    emitRemark() << "--group '" << group.text << "': " << named.size()
                 << (named.size() == 1 ? " parameter, " : " parameters, ")
                 << groupNames(named);
  }
}

graph::LearningRateAttr Optimizer::getLearningRate(MLIRContext *context,
                                                   const Group &group) const {
  Builder builder(context);
  return graph::LearningRateAttr::get(
      context,
      builder.getF64FloatAttr((group.scale ? rest : group).rule->learningRate),
      group.scale ? builder.getF64FloatAttr(*group.scale) : FloatAttr(),
      schedule.empty() ? StringAttr() : builder.getStringAttr(schedule));
}

void Optimizer::buildScalars(
    graph::Parts &parts, Value step,
    const llvm::SmallDenseMap<Attribute, Value> &rates) {
  auto build = [&](Group &group) {
    if (Value rate =
            rates.lookup(getLearningRate(parts.builder.getContext(), group)))
      group.rule->buildScalars(parts, step, rate);
  };
  build(rest);
  for (Group &group : groups)
    build(group);
}

LogicalResult Optimizer::buildUpdates(OpBuilder &builder,
                                      ArrayRef<std::string> names,
                                      MutableArrayRef<UpdatedTensor> views,
                                      MutableArrayRef<Value> states) const {
  for (UpdatedTensor &view : views)
    view.decays = decays(names);
  return find(names).rule->buildUpdates(builder, views, states);
}
