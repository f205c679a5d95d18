// Recovers the parameters of recurrent layers whose gates an exporter put into
// ONNX's order.

#include "frontends/onnx/FoldedGates.h"

#include "frontends/onnx/GateOrder.h"
#include "frontends/onnx/Origin.h"
#include "frontends/onnx/ParameterNames.h"
#include "support/Names.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

namespace {

/// The operands with weights: the matrices of the input and of the state, and
/// the biases of both.
constexpr size_t inputMatrix = 1, stateMatrix = 2, biases = 3;

class GateFinder {
public:
  GateFinder(const Model &model, const ExportRecord &record, ModelState &state)
      : model(model), record(record), state(state) {
    for (const StoredTensor &tensor : model.graph.initializers)
      stored[tensor.name] = &tensor;
  }

  void run() {
    StringMap<int64_t> layers; // seen in each module so far
    forEachNode(model.graph, [&](const Node &node) {
      if (!node.domain.empty() || gatesOf(node.type).empty())
        return;
      int64_t layer = layers[originOf(node).scope]++;
      for (size_t operand : {inputMatrix, stateMatrix, biases})
        if (operand < node.inputs.size())
          recover(node, operand, layer);
    });
    if (!names.empty())
      state.notes.push_back(
          std::to_string(names.size()) +
          (names.size() == 1 ? " weight of a recurrent layer"
                             : " weights of recurrent layers") +
          " whose gates the exporter put in another order " +
          (names.size() == 1 ? "is a parameter" : "are parameters") +
          " again: " + groupNames(names));
  }

private:
  /// The names of the parameters in the tensor, in its order; empty if unknown.
  std::vector<std::string> namesOf(const Node &node, size_t operand,
                                   int64_t layer, StringRef tensor,
                                   int64_t directions) {
    std::vector<std::string> result;
    if (ArrayRef<StringRef> sources = record.getSources(tensor);
        !sources.empty()) {
      for (const StateEntry *entry : record.callOf(node).arguments)
        if (entry && entry->kind == StateEntry::Kind::Parameter &&
            is_contained(sources, StringRef(entry->name)))
          result.push_back(entry->name);
      return result;
    }
    if (record.hasRoles() || !tensor.starts_with("onnx::"))
      return result;
    std::string scope = originOf(node).scope;
    for (int64_t d = 0; d < directions; ++d) {
      auto add = [&](StringRef what) {
        result.push_back(nameIn(scope, (what + "_l" + Twine(layer)).str() +
                                           (d == 1 ? "_reverse" : "")));
      };
      if (operand != biases) {
        add(operand == inputMatrix ? "weight_ih" : "weight_hh");
        continue;
      }
      add("bias_ih");
      add("bias_hh");
    }
    return result;
  }

  /// Returns true if the file also has the parameter, with these dims and
  /// elements.
  bool isSame(const Parameter &parameter, const MadeTensor &made) {
    std::vector<char> bytes;
    return !parameter.transposed && parameter.tensor->type == made.type &&
           parameter.tensor->dims == made.dims && !parameter.tensor->isAbsent &&
           model.load(*parameter.tensor, bytes) && bytes == made.decoded;
  }

  void recover(const Node &node, size_t operand, int64_t layer) {
    const StoredTensor *tensor = stored.lookup(node.inputs[operand]);
    if (!tensor || !isFloat(tensor->type) || tensor->isAbsent ||
        state.values.contains(tensor->name) ||
        state.folded.contains(tensor->name) ||
        tensor->dims.size() != (operand == biases ? 2 : 3) ||
        tensor->numElements() == 0)
      return;
    ArrayRef<int64_t> gates = gatesOf(node.type);
    auto numGates = static_cast<int64_t>(gates.size());
    int64_t directions = tensor->dims[0],
            count = directions * (operand == biases ? 2 : 1),
            rows = tensor->dims[1] / (operand == biases ? 2 : 1),
            columns = operand == biases ? 1 : tensor->dims[2],
            width = rows / numGates;
    std::vector<std::string> found =
        namesOf(node, operand, layer, tensor->name, directions);
    std::vector<char> bytes;
    if (static_cast<int64_t>(found.size()) != count || rows % numGates != 0 ||
        count * rows * columns != tensor->numElements() ||
        !model.load(*tensor, bytes))
      return;

    // All parameters are compared before any is made: none is made if one of
    // them differs.
    std::vector<std::unique_ptr<MadeTensor>> made;
    SmallVector<std::optional<size_t>> known;
    size_t blockBytes = width * columns * bytesOf(tensor->type);
    for (int64_t i = 0; i < count; ++i) {
      MadeTensor &own = *made.emplace_back(std::make_unique<MadeTensor>());
      own.type = tensor->type;
      own.dims = {rows};
      if (operand != biases)
        own.dims.push_back(columns);
      for (int64_t block : gates) {
        const char *from = bytes.data() + (i * numGates + block) * blockBytes;
        own.decoded.insert(own.decoded.end(), from, from + blockBytes);
      }
      known.push_back(state.find(found[i]));
      if (known.back() && !isSame(state.parameters[*known.back()], own))
        return;
    }
    Expression all = Expression::of(Expression::Kind::Concat, {});
    for (int64_t i = 0; i < count; ++i) {
      if (!known[i]) {
        MadeTensor &own = *state.made.emplace_back(std::move(made[i]));
        own.bytes = {own.decoded.data(), own.decoded.size()};
        own.name = own.ownName = found[i];
        known[i] = state.parameters.size();
        state.parameters.push_back({&own, found[i], {}, true});
        names.push_back(found[i]);
      }
      addRows(all, *known[i], gates, width,
              operand == biases ? std::nullopt : std::optional(columns));
    }
    state.folded[tensor->name] = std::move(all);
  }

  /// Appends the rows of a parameter in ONNX's order; blocks that are adjacent
  /// in both orders are merged.
  static void addRows(Expression &all, size_t parameter,
                      ArrayRef<int64_t> gates, int64_t width,
                      std::optional<int64_t> columns) {
    int64_t end = -1;
    for (int64_t block = 0, n = gates.size(); block < n; ++block) {
      int64_t start = (find(gates, block) - gates.begin()) * width;
      if (start == end) {
        all.operands.back().limits[0] += width;
        all.operands.back().shape[0] += width;
      } else {
        Expression rows;
        rows.parameter = parameter;
        rows.starts = {start};
        rows.limits = {start + width};
        rows.permutation = {0};
        rows.shape = {width};
        if (columns) {
          rows.starts.push_back(0);
          rows.limits.push_back(*columns);
          rows.permutation.push_back(1);
          rows.shape.push_back(*columns);
        }
        all.operands.push_back(std::move(rows));
      }
      end = start + width;
    }
  }

  const Model &model;
  const ExportRecord &record;
  ModelState &state;
  StringMap<const StoredTensor *> stored;
  std::vector<std::string> names;
};

} // namespace

void recoverGates(const Model &model, const ExportRecord &record,
                  ModelState &state) {
  GateFinder(model, record, state).run();
}

} // namespace polyrank::frontends::onnx
