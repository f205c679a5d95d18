// Recovers parameters from constants that an exporter computed from them.

#include "frontends/onnx/FoldedConstants.h"

#include "frontends/onnx/ExpressionSearch.h"
#include "frontends/onnx/Origin.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

namespace {

/// Constants and parameters with more elements are not searched.
constexpr int64_t mostElements = int64_t(1) << 28;
/// The limit for parameters that are searched without a record of the constant.
constexpr int64_t mostElementsUnrecorded = int64_t(1) << 22;

class Recovery {
public:
  Recovery(const Model &model, const ExportRecord &record,
           const Consumers &consumers, ArrayRef<size_t> beside,
           ModelState &state)
      : model(model), record(record), consumers(consumers), beside(beside),
        state(state) {}

  void run() {
    for (const StoredTensor &tensor : model.graph.initializers)
      if (isFloat(tensor.type) && !tensor.isAbsent &&
          tensor.numElements() > 0 && tensor.numElements() <= mostElements &&
          consumers.contains(tensor.name) &&
          !state.values.contains(tensor.name) &&
          !state.folded.contains(tensor.name))
        recover(tensor);
    say();
  }

private:
  const StoredFloats *load(size_t index) {
    auto [entry, isNew] = loaded.try_emplace(index);
    if (!isNew)
      return entry->second ? &*entry->second : nullptr;
    const Parameter &parameter = state.parameters[index];
    StoredFloats floats;
    if (!parameter.tensor->isAbsent &&
        parameter.tensor->numElements() <= mostElements &&
        loadFloats(model, *parameter.tensor, parameter.transposed, floats))
      entry->second = std::move(floats);
    return entry->second ? &*entry->second : nullptr;
  }

  bool isSource(const Parameter &parameter, ArrayRef<StringRef> sources) {
    return parameter.trainable && isFloat(parameter.tensor->type) &&
           (is_contained(sources, StringRef(parameter.name)) ||
            is_contained(sources, StringRef(parameter.tensor->name)) ||
            any_of(parameter.aliases, [&](const std::string &alias) {
              return is_contained(sources, StringRef(alias));
            }));
  }

  void recover(const StoredTensor &tensor) {
    ArrayRef<StringRef> sources = record.getSources(tensor.name);
    SearchedConstant constant{{}, tensor.type, {}};
    SmallVector<size_t> parameters;
    for (auto [index, parameter] : enumerate(state.parameters))
      if (isSource(parameter, sources))
        parameters.push_back(index);
    bool isRecorded = !sources.empty();
    if (isRecorded && parameters.empty()) {
      if (beside.empty())
        return;
      isRecorded = false;
    }
    if (isRecorded) {
      for (StringRef source : sources) {
        StringRef name = operatorOf(source);
        // Detached values have no gradient.
        if (name == "detach")
          return;
        if (none_of(parameters, [&](size_t index) {
              return isSource(state.parameters[index], source);
            }))
          constant.operators.push_back(name);
      }
      constant.operators.push_back(operatorOf(tensor.name));
    } else if ((record.hasRoles() && beside.empty()) ||
               tensor.numElements() < 2) {
      return;
    } else {
      for (auto [index, parameter] : enumerate(state.parameters))
        if (parameter.trainable && isFloat(parameter.tensor->type) &&
            parameter.tensor->numElements() <= mostElementsUnrecorded &&
            (!record.hasRoles() || is_contained(beside, index)))
          parameters.push_back(index);
    }
    if (!loadFloats(model, tensor, false, constant.floats))
      return;
    bool several = false;
    std::optional<Expression> found;
    if (isRecorded) {
      found = searchExpression(
          constant, parameters, [&](size_t index) { return load(index); },
          several);
    } else {
      found = findUnrecorded(constant, tensor, parameters, several);
      if (!found && !several)
        return; // it is an ordinary constant
    }
    std::string name = "`" + std::string(tensor.name) + "`";
    if (found) {
      recovered.push_back(name + " = " +
                          toString(*found, state.parameters, tensor.dims));
      separate(tensor, *found);
      state.folded[tensor.name] = std::move(*found);
      return;
    }
    const Node &node = *firstUser(tensor);
    std::string scope = originOf(node).scope;
    std::vector<std::string> names;
    for (size_t index : parameters)
      names.push_back("`" + state.parameters[index].name + "`");
    lost.push_back(
        name + " (" + std::to_string(tensor.numElements()) +
        (tensor.numElements() == 1 ? " element" : " elements") + ", used by `" +
        std::string(node.name) + "`" + (scope.empty() ? "" : " in " + scope) +
        ")" +
        (isRecorded ? ", computed from " + join(names, " and ")
                    : std::string(", which has the values of several "
                                  "parameters")) +
        (several && isRecorded ? ": more than one expression gives its values"
                               : ""));
  }

  /// Finds a view of one parameter; if several have these values, the one in
  /// the module that uses the constant.
  std::optional<Expression> findUnrecorded(const SearchedConstant &constant,
                                           const StoredTensor &tensor,
                                           ArrayRef<size_t> parameters,
                                           bool &several) {
    std::vector<Expression> found = searchViews(
        constant, parameters, [&](size_t index) { return load(index); },
        several);
    if (found.size() > 1) {
      std::string scope = originOf(*firstUser(tensor)).scope;
      erase_if(found, [&](const Expression &e) {
        StringRef name = state.parameters[e.parameter].name;
        return name.rsplit('.').first != scope;
      });
      several = found.size() != 1;
    }
    return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
  }

  const Node *firstUser(const StoredTensor &tensor) const {
    return consumers.lookup(tensor.name).front().first;
  }

  /// Separates constants that were merged because their elements were equal,
  /// although they were computed from different parameters. If the record of a
  /// use does not name the parameter of `e`, but exactly one other with equal
  /// elements, the use is of that parameter.
  void separate(const StoredTensor &tensor, const Expression &e) {
    const Expression *view = onlyView(e);
    const StoredFloats *floats = view ? load(view->parameter) : nullptr;
    if (!floats)
      return;
    size_t parameter = view->parameter;
    for (auto [node, operand] : consumers.lookup(tensor.name)) {
      FxCall call = record.callOf(*node);
      if (record.isRewritten(*node) ||
          is_contained(call.names, StringRef(tensor.name)))
        continue;
      SmallVector<size_t> others;
      bool isNamed = false;
      for (const StateEntry *entry : call.arguments) {
        auto index = entry ? state.find(entry->name) : std::nullopt;
        if (!index)
          continue;
        isNamed |= *index == parameter;
        const StoredFloats *other =
            state.parameters[*index].trainable ? load(*index) : nullptr;
        if (other && other->dims == floats->dims &&
            other->values == floats->values)
          others.push_back(*index);
      }
      if (isNamed || others.size() != 1)
        continue;
      Expression own = e;
      setParameter(own, others.front());
      recovered.push_back("`" + std::string(tensor.name) + "` in " +
                          originOf(*node).scope + " = " +
                          toString(own, state.parameters, tensor.dims));
      state.foldedOperands[{node, operand}] = std::move(own);
    }
  }

  /// The only view in `e`; null if there are several.
  static const Expression *onlyView(const Expression &e) {
    if (e.kind == Expression::Kind::View)
      return &e;
    const Expression *only = nullptr;
    for (const Expression &operand : e.operands)
      if (operand.kind != Expression::Kind::Number) {
        if (only)
          return nullptr;
        only = onlyView(operand);
        if (!only)
          return nullptr;
      }
    return only;
  }

  static void setParameter(Expression &e, size_t parameter) {
    if (e.kind == Expression::Kind::View)
      e.parameter = parameter;
    for (Expression &operand : e.operands)
      setParameter(operand, parameter);
  }

  static std::string listOf(ArrayRef<std::string> lines) {
    constexpr size_t shown = 8;
    std::string text;
    for (const std::string &line : lines.take_front(shown))
      text += "\n  " + line;
    if (lines.size() > shown)
      text += "\n  and " + std::to_string(lines.size() - shown) + " more";
    return text;
  }

  void say() {
    if (!recovered.empty())
      state.notes.push_back(
          "constants that the exporter computed from parameters are computed "
          "from them again, so that their gradients are whole:" +
          listOf(recovered));
    if (!lost.empty())
      state.warnings.push_back(
          "constants that the exporter computed from parameters stay "
          "constants: "
          "these uses of the parameters have no gradient, and keep their "
          "values in training:" +
          listOf(lost) +
          "\n  Export it with torch.onnx.export(model, args, \"model.onnx\", "
          "dynamo=True, optimize=False) to keep all");
  }

  const Model &model;
  const ExportRecord &record;
  const Consumers &consumers;
  const ArrayRef<size_t> beside;
  ModelState &state;
  std::map<size_t, std::optional<StoredFloats>> loaded;
  std::vector<std::string> recovered, lost;
};

} // namespace

void recoverFolded(const Model &model, const ExportRecord &record,
                   const Consumers &consumers, ArrayRef<size_t> beside,
                   ModelState &state) {
  Recovery(model, record, consumers, beside, state).run();
}

} // namespace polyrank::frontends::onnx
