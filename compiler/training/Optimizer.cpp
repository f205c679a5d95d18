// Optimizers: options as text.

#include "compiler/training/Optimizer.h"

#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

/// What PyTorch calls how an update is computed, and not what it is.
constexpr StringRef implementations[] = {"foreach", "fused", "capturable",
                                         "differentiable"};

/// `torch.optim.AdamW(model.parameters(), 1e-3)` as `adamw(lr=1e-3)`: without
/// the module and the parameters, which are all that train, and with a name for
/// each positional argument. `order` is theirs in PyTorch.
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

FailureOr<Optimizer> Optimizer::parse(StringRef text, EmitError emitError) {
  SmallVector<StringRef> flags{"nesterov", "amsgrad", "maximize", "centered"};
  llvm::append_range(flags, implementations);
  FailureOr<Call> call = parseCall(text, emitError, flags);
  if (failed(call))
    return failure();
  StringRef name = call->name;
  if (!name.consume_front("torch.optim."))
    name.consume_front("optim.");
  call->name = name.lower();
  Optimizer result;
  result.rule = UpdateRule::create(call->name);
  if (!result.rule) {
    std::vector<std::string> known(UpdateRule::getNames().begin(),
                                   UpdateRule::getNames().end());
    return emitError() << "unknown optimizer '" << call->name
                       << "'; there are: "
                       << llvm::join(UpdateRule::getNames(), ", ")
                       << nearestWords(call->name, known);
  }
  if (failed(nameArguments(*call, result.rule->getOrder(), emitError)))
    return failure();
  NamedArguments named(*call, emitError);
  result.rule->takeOptions(named);
  named.take("decay", result.patterns);
  named.drop("params");
  for (StringRef word : implementations)
    if (named.drop(word))
      return emitError() << call->name << ": '" << word
                         << "' is how PyTorch computes the update, not what "
                            "it is; leave it out";
  if (failed(named.finish()))
    return failure();
  if (StringRef wrong = result.rule->check(); !wrong.empty())
    return emitError() << "'" << text << "': " << wrong;
  for (const std::string &pattern : result.patterns) {
    auto glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return emitError() << "'" << text << "': bad pattern '" << pattern
                         << "': " << llvm::toString(glob.takeError());
  }
  return std::move(result);
}

/// A GlobPattern refers to its text, so it is made where it is used.
static bool matches(StringRef pattern, StringRef name) {
  return llvm::cantFail(llvm::GlobPattern::create(pattern)).match(name);
}

bool Optimizer::decays(ArrayRef<std::string> names) const {
  return patterns.empty() || llvm::any_of(patterns, [&](StringRef pattern) {
           return llvm::any_of(names, [&](const std::string &name) {
             return matches(pattern, name);
           });
         });
}

LogicalResult Optimizer::checkPatterns(ArrayRef<std::string> names,
                                       EmitError emitError) const {
  for (const std::string &pattern : patterns)
    if (llvm::none_of(names, [&](const std::string &name) {
          return matches(pattern, name);
        }))
      return emitError() << "decay=" << pattern
                         << " matches no trainable parameter"
                         << nearestNames(pattern, names);
  return success();
}

void Optimizer::buildScalars(graph::Parts &parts, Value step) {
  rule->buildScalars(parts, step, buildNumber(parts, rule->learningRate));
}

void Optimizer::buildUpdates(OpBuilder &builder, ArrayRef<std::string> names,
                             MutableArrayRef<UpdatedTensor> views) const {
  for (UpdatedTensor &view : views)
    view.decays = decays(names);
  rule->buildUpdates(builder, views);
}
