// Any text as one of the command line's little languages; its first character
// chooses which.

#include "compiler/sharding/ShardPattern.h"
#include "compiler/strategy/MeshAxes.h"
#include "compiler/training/Optimizer.h"
#include "frontends/onnx/Import.h"
#include "mlir/AsmParser/AsmParser.h"
#include "support/LearningRate.h"
#include "support/LinkSpec.h"
#include "support/Names.h"
#include "support/RatesSpec.h"
#include "test/fuzz/Input.h"
#include "test/fuzz/Mlir.h"

using namespace mlir;
using namespace polyrank;

namespace {

/// A failure has a message that quotes something, and only a failure has one.
void check(bool succeeded, const std::string &error) {
  if (succeeded != error.empty())
    std::abort();
}
template <typename T>
void check(const Result<T> &result) {
  check(bool(result), result ? "" : result.error().message);
}

void parse(MLIRContext &context, char language, const std::string &text) {
  auto mesh = sharding::MeshAttr::get(
      &context,
      {StringAttr::get(&context, "data"), StringAttr::get(&context, "tensor")},
      {2, 4});
  fuzz::Diagnostics diagnostics(context);
  auto emitError = [&] { return mlir::emitError(UnknownLoc::get(&context)); };
  training::Optimizer::Names trained;
  trained.names.push_back("fc1.weight");
  trained.trainable = true;
  switch (language) {
  case 'm':
    return check(strategy::parseMeshAxes(text));
  case 'l':
    return check(LinkSpec::parse(text));
  case 'n':
    return check(RatesSpec::parse(text));
  case 's': {
    auto pattern = sharding::ShardPattern::parse(text);
    check(pattern);
    if (!pattern)
      return;
    pattern->matches("transformer.h.3.attn.c_attn.weight");
    for (size_t dim = 0; dim < pattern->dims.size(); ++dim)
      check(pattern->getAxes(dim, mesh));
    std::vector<std::string> names = {"fc1.weight", "h.0.attn.bias"};
    nearestNames(pattern->pattern, names);
    return;
  }
  case 'i':
    return check(frontends::parseInputSpec(text));
  case 'c':
    return diagnostics.checkOutcome(
        succeeded(training::parseCall(text, emitError)));
  case 't':
    return diagnostics.checkOutcome(
        succeeded(training::parseSum(text, emitError)));
  case 'o': {
    auto optimizer = training::Optimizer::parse(text, emitError);
    diagnostics.checkOutcome(succeeded(optimizer));
    if (succeeded(optimizer))
      diagnostics.checkOutcome(
          succeeded(optimizer->checkPatterns(trained, emitError)));
    return;
  }
  case 'g': {
    auto optimizer = training::Optimizer::parse("sgd", emitError);
    bool added = succeeded(optimizer->addGroup(text, emitError));
    diagnostics.checkOutcome(added);
    if (added)
      diagnostics.checkOutcome(
          succeeded(optimizer->checkPatterns(trained, emitError)));
    return;
  }
  case 'r': {
    auto schedule = LearningRateSchedule::parse(text);
    check(schedule);
    if (schedule)
      for (uint64_t step : {uint64_t(0), schedule->getTotal(), UINT64_MAX})
        schedule->at(1, step);
    return;
  }
  case 'a': {
    // Parses layouts and meshes as printed in MLIR, whose parser reports an
    // open string after an attribute but returns the attribute.
    Attribute attribute = parseAttribute(text, &context);
    if (!attribute)
      return diagnostics.checkOutcome(false);
    if (diagnostics.hasErrors())
      return;
    std::string printed;
    llvm::raw_string_ostream(printed) << attribute;
    if (parseAttribute(printed, &context) != attribute)
      std::abort();
    return;
  }
  default:
    return;
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  static fuzz::Context context;
  MLIRContext &mlir = context.next();
  mlir.loadDialect<sharding::ShardingDialect>();
  parse(mlir, static_cast<char>(data[0]),
        std::string(fuzz::text(data + 1, size - 1)));
  return 0;
}
