// Batch norms that an exporter merged into the preceding convolutions.

#include "frontends/onnx/FoldedNorms.h"

#include <cmath>
#include <set>

#include "frontends/onnx/ParameterNames.h"
#include "frontends/onnx/ParameterViews.h"
#include "support/Names.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

namespace {

using Kind = Expression::Kind;

/// A batch norm of the parameter file; scale and shift may be absent.
struct Norm {
  std::string module;
  size_t mean, variance;
  std::optional<size_t> scale, shift;
};

/// How the weight and bias of a convolution are computed.
struct Fold {
  size_t weight;
  std::optional<size_t> bias;
  const Norm *norm;
  double epsilon;
};

class NormFinder {
public:
  NormFinder(const Model &model, const ExportRecord &record,
             const NamedTensors &named, NamedParameters &parameters,
             ModelState &state)
      : model(model), record(record), named(named), parameters(parameters),
        state(state) {}

  void run() {
    findNorms();
    if (norms.empty())
      return;
    StringMap<const StoredTensor *> stored;
    for (const StoredTensor &tensor : model.graph.initializers)
      stored[tensor.name] = &tensor;
    std::vector<const Node *> nodes;
    forEachNode(model.graph, [&](const Node &node) {
      if (node.type == "Conv" && node.domain.empty() && node.inputs.size() >= 3)
        nodes.push_back(&node);
    });
    for (const Node *node : nodes) {
      const StoredTensor *weight = stored.lookup(node->inputs[1]),
                         *bias = stored.lookup(node->inputs[2]);
      if (weight && bias && isFloat(weight->type) && isFloat(bias->type) &&
          weight->dims.size() >= 3 && bias->dims.size() == 1)
        recover(*node, *weight, *bias);
    }
    if (!recovered.empty())
      state.notes.push_back(
          "batch norms that the exporter merged into convolutions are computed "
          "from their parameters again, with the statistics that they have: " +
          groupNames(recovered));
  }

private:
  std::optional<size_t> find(const Twine &name) const {
    return state.find(parameters.toExported(name.str()));
  }

  static bool isBatchNorm(const Node &node) {
    return node.type == "BatchNormalization" && node.domain.empty();
  }

  /// The parameters that are the statistics of batch norms in the graph.
  std::set<size_t> findStatistics() const {
    std::set<size_t> result;
    forEachNode(model.graph, [&](const Node &node) {
      for (size_t i = 3; isBatchNorm(node) && i < node.inputs.size(); ++i) {
        if (auto use = state.operands.find({&node, i});
            use != state.operands.end())
          result.insert(use->second.index);
        else if (auto value = state.values.find(StringRef(node.inputs[i]));
                 value != state.values.end())
          result.insert(value->second.index);
      }
    });
    return result;
  }

  /// The norms of the parameter file that the graph lacks.
  void findNorms() {
    std::set<size_t> present = findStatistics();
    for (const MadeTensor &tensor : named.tensors) {
      StringRef name(tensor.name);
      if (leafOf(name) != "running_mean")
        continue;
      std::string module = moduleOf(name).str();
      auto mean = find(name), variance = find(nameIn(module, "running_var"));
      if (mean && variance && !present.contains(*mean) &&
          !present.contains(*variance))
        norms.push_back({module, *mean, *variance,
                         find(nameIn(module, "weight")),
                         find(nameIn(module, "bias"))});
    }
  }

  /// The elements of a parameter according to the parameter file.
  const StoredFloats *load(size_t index) {
    auto [entry, isNew] = loaded.try_emplace(index);
    if (isNew) {
      const StoredTensor *tensor = fileTensor(index);
      StoredFloats floats;
      if (tensor && loadFloats(model, *tensor, false, floats))
        entry->second = std::move(floats);
    }
    return entry->second ? &*entry->second : nullptr;
  }

  const StoredTensor *fileTensor(size_t index) const {
    for (const MadeTensor &tensor : named.tensors)
      if (find(tensor.name) == index)
        return &tensor;
    return nullptr;
  }

  static bool isClose(double a, double b, double magnitude) {
    return std::fabs(a - b) <= 4e-6 * std::max(std::fabs(a), magnitude) + 1e-12;
  }

  void recover(const Node &node, const StoredTensor &weight,
               const StoredTensor &bias) {
    StoredFloats merged, shifted;
    if (!loadFloats(model, weight, false, merged) ||
        !loadFloats(model, bias, false, shifted))
      return;
    std::vector<Fold> folds;
    for (const MadeTensor &tensor : named.tensors) {
      if (tensor.dims != weight.dims || !isFloat(tensor.type))
        continue;
      auto index = find(tensor.name);
      const StoredFloats *plain = index ? load(*index) : nullptr;
      // A weight that equals that of the file contains no norm.
      if (!plain || plain->values == merged.values)
        continue;
      for (const Norm &norm : norms)
        if (auto fold = match(*index, *plain, merged, shifted, norm, tensor))
          folds.push_back(*fold);
    }
    if (folds.size() > 1)
      erase_if(folds, [&](const Fold &fold) { return !isNamed(node, fold); });
    if (folds.size() != 1)
      return;
    const Fold &fold = folds.front();
    recovered.push_back(fold.norm->module);
    replace(weight, weightOf(fold, weight.dims));
    replace(bias, biasOf(fold, bias.dims[0]));
  }

  /// If several fit: the weight that has the node's name, or those that the
  /// exporter recorded.
  bool isNamed(const Node &node, const Fold &fold) {
    FxCall call = record.callOf(node);
    auto isOf = [&](size_t index) {
      StringRef name = state.parameters[index].name;
      return name == StringRef(node.inputs[1]) ||
             any_of(call.arguments, [&](const StateEntry *entry) {
               return entry && entry->name == name;
             });
    };
    return isOf(fold.weight) && (!call.isBatchNorm() || isOf(fold.norm->mean));
  }

  std::optional<Fold> match(size_t weight, const StoredFloats &plain,
                            const StoredFloats &merged,
                            const StoredFloats &shifted, const Norm &norm,
                            const MadeTensor &tensor) {
    const StoredFloats *mean = load(norm.mean), *variance = load(norm.variance);
    const StoredFloats *scale = norm.scale ? load(*norm.scale) : nullptr,
                       *shift = norm.shift ? load(*norm.shift) : nullptr;
    size_t outputs = static_cast<size_t>(plain.dims[0]);
    auto fits = [&](const StoredFloats *each) {
      return each && each->values.size() == outputs;
    };
    if (!fits(mean) || !fits(variance) || (norm.scale && !fits(scale)) ||
        (norm.shift && !fits(shift)))
      return std::nullopt;
    std::optional<double> epsilon =
        epsilonOf(plain, merged, variance->values, scale);
    if (!epsilon)
      return std::nullopt;
    size_t inner = plain.values.size() / outputs;
    auto factor = [&](size_t o) {
      return (scale ? scale->values[o] : 1.0) /
             std::sqrt(variance->values[o] + *epsilon);
    };
    for (size_t i = 0; i < plain.values.size(); ++i)
      if (!isClose(merged.values[i], plain.values[i] * factor(i / inner), 0))
        return std::nullopt;
    // If the file has no bias, the one in the model comes from the norm.
    std::optional<size_t> bias = find(nameIn(moduleOf(tensor.name), "bias"));
    if (bias && !fileTensor(*bias))
      bias.reset();
    const StoredFloats *added = bias ? load(*bias) : nullptr;
    if (bias && !fits(added))
      return std::nullopt;
    for (size_t o = 0; o < outputs; ++o) {
      double from = (added ? added->values[o] : 0.0) - mean->values[o];
      double to = shift ? shift->values[o] : 0.0;
      if (!isClose(shifted.values[o], from * factor(o) + to,
                   std::max({std::fabs(to), std::fabs(from * factor(o)),
                             std::fabs(mean->values[o] * factor(o))})))
        return std::nullopt;
    }
    return Fold{weight, bias, &norm, *epsilon};
  }

  /// The epsilon that explains the largest factor, rounded to a usual value.
  static std::optional<double> epsilonOf(const StoredFloats &plain,
                                         const StoredFloats &merged,
                                         ArrayRef<float> variance,
                                         const StoredFloats *scale) {
    size_t inner = plain.values.size() / static_cast<size_t>(plain.dims[0]);
    double best = 0;
    std::optional<double> epsilon;
    // Epsilon has the largest effect on the smallest variance.
    for (size_t i = 0; i < plain.values.size(); ++i) {
      double gain = scale ? scale->values[i / inner] : 1.0;
      double have = merged.values[i], want = plain.values[i] * gain;
      if (have == 0 || want == 0)
        continue;
      double shown = 1 / (variance[i / inner] + 1e-12);
      if (shown <= best)
        continue;
      best = shown;
      epsilon = (want / have) * (want / have) - variance[i / inner];
    }
    if (!epsilon)
      return std::nullopt;
    for (double usual : {1e-5, 1e-3, 1e-6, 1e-12, 1e-8, 1e-4})
      if (std::fabs(*epsilon - usual) <= 0.02 * usual + 2e-6 / best)
        return usual;
    return *epsilon > 0 ? epsilon : std::nullopt;
  }

  Expression viewOf(size_t parameter, std::vector<int64_t> shape) const {
    std::vector<int64_t> dims = state.parameters[parameter].getDims();
    Expression view;
    view.parameter = parameter;
    view.starts.assign(dims.size(), 0);
    view.limits = dims;
    for (size_t i = 0; i < dims.size(); ++i)
      view.permutation.push_back(static_cast<int64_t>(i));
    view.shape = std::move(shape);
    return view;
  }

  Expression factorOf(const Fold &fold, const std::vector<int64_t> &shape) {
    Expression root = Expression::of(
        Kind::Sqrt,
        {Expression::of(Kind::Add, {viewOf(fold.norm->variance, shape),
                                    Expression::ofNumber(fold.epsilon)})});
    Expression scale = fold.norm->scale ? viewOf(*fold.norm->scale, shape)
                                        : Expression::ofNumber(1);
    return Expression::of(Kind::Div, {std::move(scale), std::move(root)});
  }

  Expression weightOf(const Fold &fold, std::vector<int64_t> dims) {
    std::vector<int64_t> shape(dims.size(), 1);
    shape[0] = dims[0];
    return Expression::of(Kind::Mul, {viewOf(fold.weight, std::move(dims)),
                                      factorOf(fold, shape)});
  }

  Expression biasOf(const Fold &fold, int64_t outputs) {
    std::vector<int64_t> shape = {outputs};
    Expression mean = viewOf(fold.norm->mean, shape);
    Expression centred =
        fold.bias ? Expression::of(Kind::Sub, {viewOf(*fold.bias, shape), mean})
                  : Expression::of(Kind::Neg, {mean});
    Expression scaled =
        Expression::of(Kind::Mul, {std::move(centred), factorOf(fold, shape)});
    if (!fold.norm->shift)
      return scaled;
    return Expression::of(
        Kind::Add, {std::move(scaled), viewOf(*fold.norm->shift, shape)});
  }

  /// Replaces the parameter with the merged values by the expression.
  void replace(const StoredTensor &tensor, Expression e) {
    if (auto use = state.values.find(StringRef(tensor.name));
        use != state.values.end()) {
      if (const StoredTensor *own = fileTensor(use->second.index))
        state.parameters[use->second.index].tensor = own;
      else
        parameters.drop(use->second.index);
      state.values.erase(use);
    }
    state.folded[tensor.name] = std::move(e);
  }

  const Model &model;
  const ExportRecord &record;
  const NamedTensors &named;
  NamedParameters &parameters;
  ModelState &state;
  std::vector<Norm> norms;
  std::map<size_t, std::optional<StoredFloats>> loaded;
  std::vector<std::string> recovered;
};

} // namespace

void recoverNorms(const Model &model, const ExportRecord &record,
                  const NamedTensors &named, NamedParameters &parameters,
                  ModelState &state) {
  NormFinder(model, record, named, parameters, state).run();
}

} // namespace polyrank::frontends::onnx
