// Describes a `.pt2` file; nothing is imported.

#include <map>

#include "frontends/exported_program/GraphRunner.h"
#include "frontends/exported_program/Import.h"
#include "frontends/exported_program/Inputs.h"
#include "frontends/exported_program/Outputs.h"
#include "frontends/exported_program/State.h"
#include "frontends/exported_program/Symbols.h"
#include "frontends/import/Freeze.h"
#include "frontends/import/LastError.h"
#include "mlir/IR/MLIRContext.h"
#include "support/MappedFile.h"

using namespace mlir;

namespace polyrank::frontends {
namespace exported_program {
namespace {

DescribedValue describeTensor(const std::string &name, const TensorMeta *meta) {
  DescribedValue value;
  value.name = name;
  if (!meta)
    return value;
  if (auto type = typeOfNumber(meta->type)) {
    value.dtype = longNameOf(*type);
    value.isFloat = isFloat(*type);
  }
  value.dims.emplace();
  for (const SymbolicInt &size : meta->sizes)
    value.dims->push_back(
        {size.value,
         size.value ? "" : SymbolicExpression(size.expression).toString()});
  return value;
}

/// Counts operators by name, also in nested graphs.
class OperatorCounter {
public:
  void count(const Graph &graph) {
    for (const Node &node : graph.nodes) {
      for (const NamedArgument &input : node.inputs)
        if (input.value.graph)
          count(*input.value.graph);
      StringRef target = node.target;
      if (!target.consume_front("torch.ops.") ||
          target.starts_with("higher_order."))
        continue; // Python's arithmetic, and operators that hold graphs
      auto [space, rest] = target.split('.');
      std::string name = (space + "::" + rest.split('.').first).str();
      DescribedOp &op = ops[name];
      op.name = name;
      ++op.count;
      if (name == "aten::batch_norm")
        numBatchNorms += !isTraining(node);
      else if (name == "aten::_native_batch_norm_legit_no_training")
        ++numBatchNorms;
      if (aten::hasOperator(name))
        continue;
      op.isSupported = false;
      std::string module = moduleOf(node), value = node.outputs.empty()
                                                       ? node.target
                                                       : node.outputs[0].text;
      op.nodes.push_back("`" + value + "`" +
                         (module.empty() ? "" : " in " + module));
    }
  }

  /// The number of batch norms saved in evaluation mode: to train them, the
  /// user must say which statistics they use.
  int64_t numBatchNorms = 0;

  std::vector<DescribedOp> take() const { return sortByCount(ops); }

private:
  static bool isTraining(const Node &node) {
    return llvm::any_of(node.inputs, [](const NamedArgument &input) {
      return input.name == "training" && input.value.integer != 0;
    });
  }

  std::map<std::string, DescribedOp> ops;
};

Result<ModelDescription> describe(const Archive &archive,
                                  std::string_view bytes,
                                  const ImportOptions &options) {
  const Program &program = archive.getProgram();
  ModelDescription result;
  result.producer = "torch " + program.torchVersion;
  auto metaOf = [&](const Argument &argument) -> const TensorMeta * {
    auto found = program.graph.tensors.find(argument.text);
    return found == program.graph.tensors.end() ? nullptr : &found->second;
  };
  for (const InputSpec &spec : program.inputs)
    if (spec.kind == InputSpec::Kind::UserInput && metaOf(spec.argument))
      result.inputs.push_back(
          describeTensor(spec.argument.text, metaOf(spec.argument)));
  size_t count = 0, next = 0;
  for (const OutputSpec &spec : program.outputs)
    count += spec.kind == OutputSpec::Kind::UserOutput;
  std::vector<std::string> names = nameOutputs(program.outputTree, count);
  for (const OutputSpec &spec : program.outputs)
    if (spec.kind == OutputSpec::Kind::UserOutput)
      result.outputs.push_back(
          describeTensor(names[next++], metaOf(spec.argument)));

  POLYRANK_ASSIGN(state, findState(archive));
  MLIRContext context;
  LastError said(context);
  auto declared = aten::declare(UnknownLoc::get(&context),
                                {archive.path(), bytes, archive.getBudget()},
                                state.entries);
  if (failed(declared))
    return Error{said.message};
  std::vector<Freezable> freezable = aten::getFreezable(declared->parameters);
  std::vector<std::string> notes;
  if (std::string reason =
          freeze(freezable, options.freeze, options.trainOnly, notes);
      !reason.empty())
    return Error{reason};
  for (const auto &[number, entry] :
       llvm::zip_equal(declared->numbers, state.entries)) {
    if (number < 0)
      continue;
    const ParameterSpec &parameter = declared->parameters[number];
    if (parameter.name != entry.name)
      continue; // another name of a tied one
    ElementType type = entry.tensor.type;
    int64_t elements = parameter.getModelElements();
    result.parameters.push_back(
        {parameter.name, longNameOf(type),
         std::vector<int64_t>(parameter.getModelShape()), elements,
         elements * static_cast<int64_t>(bytesOf(type)), parameter.trainable,
         parameter.aliases});
  }
  OperatorCounter counter;
  counter.count(program.graph);
  result.ops = counter.take();
  result.numBatchNorms = counter.numBatchNorms;
  for (const DescribedOp &op : result.ops) {
    if (op.name == "aten::dropout" || op.name == "aten::dropout_" ||
        op.name == "aten::feature_dropout")
      result.numDropouts += op.count;
  }
  return result;
}

} // namespace
} // namespace exported_program

Result<ModelDescription> describeExportedProgram(StringRef path,
                                                 const ImportOptions &options) {
  POLYRANK_ASSIGN(archive, exported_program::Archive::open(path.str()));
  POLYRANK_ASSIGN(file, MappedFile::open(path.str()));
  if (file.bytes().size() != archive->size())
    return Error{path.str() + ": changes while it is read"};
  return exported_program::describe(*archive, file.bytes(), options);
}

} // namespace polyrank::frontends
