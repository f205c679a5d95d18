// PyTorch's operators by name and overload.

#include "frontends/aten/Operators.h"

#include "frontends/aten/Batched.h"
#include "frontends/aten/Call.h"
#include "frontends/aten/Complex.h"
#include "frontends/aten/Nested.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

struct Overload {
  Schema schema;
  StringRef text;
  LogicalResult (*import)(Call &);
};

/// The overloads of each operator, by name with the namespace.
const llvm::StringMap<std::vector<Overload>> &getTable() {
  static const auto *table = [] {
    auto *result = new llvm::StringMap<std::vector<Overload>>();
    for (ArrayRef<OperatorRow> rows : {getArithmeticRows(),
                                       getSelectionRows(),
                                       getFunctionRows(),
                                       getActivationRows(),
                                       getComparisonRows(),
                                       getCreationRows(),
                                       getConversionRows(),
                                       getViewRows(),
                                       getPartRows(),
                                       getJoinRows(),
                                       getPaddingRows(),
                                       getProductRows(),
                                       getConvolutionRows(),
                                       getPoolingRows(),
                                       getResizeRows(),
                                       getNormalizationRows(),
                                       getAttentionRows(),
                                       getReductionRows(),
                                       getMomentRows(),
                                       getIndexRows(),
                                       getScatterRows(),
                                       getRandomRows(),
                                       getLossRows(),
                                       getRecurrentRows(),
                                       getNumberRows(),
                                       getPropertyRows(),
                                       getListRows(),
                                       getPackedRows(),
                                       getBagRows(),
                                       getCumulativeRows(),
                                       getOrderStatisticRows(),
                                       getDistanceRows(),
                                       getWindowRows(),
                                       getGridRows(),
                                       getSolveRows(),
                                       getComplexRows(),
                                       getCtcRows(),
                                       getMaskRows()})
      for (const OperatorRow &row : rows) {
        auto [space, text] = row.schema.contains("::")
                                 ? row.schema.split("::")
                                 : std::pair(StringRef("aten"), row.schema);
        auto schema = parseSchema(text);
        if (!schema)
          llvm::report_fatal_error("mistyped schema: " + Twine(row.schema));
        std::string name = space.str() + "::" + schema->name;
        (*result)[name].push_back({std::move(*schema), text, row.import});
      }
    return result;
  }();
  return *table;
}

/// The chosen overload, with its bound arguments.
struct Choice {
  const Overload *overload = nullptr;
  std::vector<Value> arguments;
};

FailureOr<Choice> choose(Context &context, StringRef name,
                         const std::vector<Overload> &overloads,
                         std::optional<StringRef> wanted,
                         ArrayRef<Value> positional, const Keywords &keywords) {
  std::string why;
  SmallVector<const Overload *> candidates;
  for (const Overload &overload : overloads)
    if (!wanted || overload.schema.overload == *wanted)
      candidates.push_back(&overload);
  if (candidates.empty()) {
    SmallVector<std::string> names;
    for (const Overload &overload : overloads)
      names.push_back("`" +
                      (overload.schema.overload.empty()
                           ? std::string("default")
                           : overload.schema.overload) +
                      "`");
    return context.emit.fail(
        "its overload `" + (wanted->empty() ? "default" : *wanted) +
        "` is not supported; there are " + llvm::join(names, ", "));
  }
  for (bool converts : {false, true})
    for (const Overload *overload : candidates) {
      auto arguments = bindArguments(overload->schema, context.emit, positional,
                                     keywords, converts);
      if (arguments)
        return Choice{overload, std::move(*arguments)};
      why = arguments.error().message;
    }
  if (candidates.size() == 1)
    return context.emit.fail(why + " where the schema is " +
                             candidates[0]->text);
  SmallVector<std::string> given;
  for (const Value &value : positional)
    given.push_back(value.describe());
  for (const auto &[key, value] : keywords)
    given.push_back(key + "=" + value.describe());
  return context.emit.fail("no overload takes " + llvm::join(given, ", "));
}

/// Returns true if an argument for a tensor parameter is batched. Operators
/// that take values of any kind (lists) just pass it on.
bool takesBatched(const Choice &choice) {
  return llvm::any_of(
      llvm::zip_equal(choice.overload->schema.parameters, choice.arguments),
      [](const auto &each) {
        const auto &[parameter, argument] = each;
        return parameter.type.base == SchemaType::Base::Tensor &&
               hasBatched(argument);
      });
}

/// The tensor that the schema marks as written, or null.
TensorRef findWritten(const Choice &choice) {
  for (auto [parameter, value] :
       llvm::zip_equal(choice.overload->schema.parameters, choice.arguments))
    if (parameter.type.isWritten && value.isTensor())
      return value.getTensor();
  return nullptr;
}

/// Returns true if an in-place operator may write a value of type `from` into
/// `to`.
bool mayWrite(ElementType from, ElementType to) {
  if (isFloat(from))
    return isFloat(to);
  return from == ElementType::BOOL || to != ElementType::BOOL;
}

LogicalResult writeResult(Call &call, const TensorRef &written) {
  assert(call.getResults().size() == 1 && "in place there is one result");
  TensorRef result = call.getResults()[0].getTensor();
  if (result == written)
    return success(); // written by the function itself
  if (!mayWrite(result->getType(), written->getType()))
    return call.fail("its result of " + longNameOf(result->getType()) +
                     " cannot be put into a tensor of " +
                     longNameOf(written->getType()));
  auto common = broadcastShapes(result->getShape(), written->getShape());
  if (failed(common) || *common != written->getShape())
    return call.fail("its result of " + toString(result->getShape()) +
                     " does not go into a tensor of " +
                     toString(written->getShape()));
  Call &c = call;
  Imported value = c.as(result->read(c.emit), written->getType());
  value = c.emit.broadcast(value, written->getShape(), !value.isConstant());
  written->write(c.emit, value);
  call.getResults()[0] = written;
  return success();
}

/// Fails if a list that determines the rank of a tensor is too long: a file may
/// have any length, but PyTorch's tensors have at most `maxRank` dims.
LogicalResult checkRank(Context &context, const Choice &choice) {
  constexpr StringRef names[] = {"size", "shape", "repeats", "dims"};
  for (auto [parameter, value] :
       llvm::zip_equal(choice.overload->schema.parameters, choice.arguments))
    if (llvm::is_contained(names, parameter.name) && value.isList() &&
        value.getList().size() > maxRank)
      return context.emit.fail(
          "its `" + parameter.name + "` is " + value.describe() +
          ", and a tensor has at most " + Twine(maxRank) + " dims");
  return success();
}

LogicalResult run(Context &context, const Choice &choice,
                  std::vector<Value> &results) {
  if (failed(checkRank(context, choice)))
    return failure();
  TensorRef written = findWritten(choice);
  if (written)
    if (std::string why = written->prepareToWrite(); !why.empty())
      return context.emit.fail(why);
  Call call(context, choice.overload->schema, choice.arguments);
  if (failed(choice.overload->import(call)) ||
      (written && failed(writeResult(call, written))))
    return failure();
  results = std::move(call.getResults());
  return success();
}

} // namespace

Value call(Context &context, StringRef name, std::optional<StringRef> overload,
           ArrayRef<Value> positional, const Keywords &keywords) {
  if (llvm::any_of(positional, [](const Value &v) { return v.hasUnknown(); }) ||
      llvm::any_of(keywords,
                   [](const auto &each) { return each.second.hasUnknown(); }))
    return Value::unknown();
  auto anyArgument = [&](bool (*is)(const Value &)) {
    return llvm::any_of(positional, is) ||
           llvm::any_of(keywords,
                        [&](const auto &each) { return is(each.second); });
  };
  if (anyArgument(hasComplex)) {
    if (!anyArgument(hasBatched))
      return callComplex(context, name, overload, positional, keywords);
    context.failures.add(name.str() + " in torch.vmap: complex numbers" +
                             explainRegion().str(),
                         context.place);
    return Value::unknown();
  }
  auto found = getTable().find(name);
  if (found == getTable().end()) {
    StringRef instead = explainUnsupported(name);
    if (context.mayDecompose && isDecomposed(name))
      instead = "; PyTorch writes it with others: export the model by "
                "tools/export.py --decompose, or save "
                "program.run_decompositions()";
    context.failures.addUnsupported(
        name.str() + " is not supported" + instead.str(), context.place);
    return Value::unknown();
  }
  (void)context.emit.takeError();
  auto choice =
      choose(context, name, found->second, overload, positional, keywords);
  if (succeeded(choice) && takesBatched(*choice))
    return callBatched(context, name, choice->overload->schema,
                       std::move(choice->arguments));
  std::vector<Value> results;
  bool isImported =
      succeeded(choice) && succeeded(run(context, *choice, results));
  std::string error = context.emit.takeError();
  if (!isImported || !error.empty()) {
    context.failures.add(name.str() + ": " + error, context.place);
    return Value::unknown();
  }
  if (results.size() == 1)
    return results[0];
  return results.empty() ? Value() : Value::tuple(std::move(results));
}

LogicalResult checkLayerOptions(Location location, const Context &context) {
  const ImportOptions &options = context.options;
  if (options.batchNorm != BatchNorm::Unset && context.numBatchNorms == 0)
    return emitError(location)
           << "--batch-norm: the model has no batch normalization; leave the "
              "option out";
  if (options.dropout.value_or(0) > 0 && context.numDropouts == 0)
    return emitError(location)
           << "--dropout: the model has no dropout; leave the option out";
  return success();
}

bool hasOperator(StringRef name) { return getTable().contains(name); }

std::vector<OperatorEntry> listOperators() {
  std::vector<OperatorEntry> result;
  for (const auto &entry : getTable()) {
    OperatorEntry &added = result.emplace_back();
    added.name = entry.getKey().str();
    for (const Overload &overload : entry.getValue())
      added.schemas.push_back(overload.text.str());
  }
  llvm::sort(result, [](const OperatorEntry &a, const OperatorEntry &b) {
    return a.name < b.name;
  });
  return result;
}

} // namespace polyrank::frontends::aten
