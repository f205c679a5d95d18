// Norms.

#include "frontends/emit/Normalization.h"

#include "frontends/aten/Call.h"
#include "frontends/emit/Arithmetic.h"
#include "frontends/emit/Functions.h"
#include "frontends/emit/Scatter.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

/// A parameter over the last dims of x; filled with `otherwise` if it is None.
FailureOr<Imported> affine(Call &c, StringRef name, ArrayRef<int64_t> dims,
                           double otherwise, const Imported &x) {
  if (!c.has(name))
    return c.emit.broadcast(c.emit.scalar(x.getElementType(), otherwise), dims,
                            !x.isConstant());
  Imported given = c.read(name);
  if (ArrayRef<int64_t>(given.getShape()) != dims)
    return c.fail("its " + name + " of " + toString(given.getShape()) +
                  " does not fit " + toString(dims));
  return given;
}

LogicalResult needLastDims(Call &c, const Imported &x, ArrayRef<int64_t> dims) {
  Shape shape = x.getShape();
  if (!dims.empty() && dims.size() <= shape.size() &&
      ArrayRef<int64_t>(shape).take_back(dims.size()) == dims)
    return success();
  return c.fail("normalized_shape " + toString(dims) + " of " +
                toString(shape));
}

LogicalResult layerNorm(Call &c) {
  Imported x = c.read("input");
  SmallVector<int64_t> dims = c.integers("normalized_shape");
  if (failed(needLastDims(c, x, dims)))
    return failure();
  auto scale = affine(c, "weight", dims, 1, x),
       bias = affine(c, "bias", dims, 0, x);
  if (failed(scale) || failed(bias))
    return failure();
  SmallVector<Imported> results = c.emit.emit(
      {x, *scale, *bias}, [&](OpBuilder &b, ValueRange v) -> Operation * {
        return graph::LayerNormOp::create(b, c.emit.getLocation(), v[0], v[1],
                                          v[2], c.number("eps"));
      });
  return c.give(results[0], c.typeOf("input"));
}

/// The default epsilon is that of the type of x.
LogicalResult rmsNorm(Call &c) {
  Imported x = c.read("input");
  SmallVector<int64_t> dims = c.integers("normalized_shape");
  if (failed(needLastDims(c, x, dims)))
    return failure();
  auto scale = affine(c, "weight", dims, 1, x);
  if (failed(scale))
    return failure();
  double epsilon =
      c.has("eps") ? c.number("eps") : std::numeric_limits<float>::epsilon();
  SmallVector<Imported> results =
      c.emit.emit({x, *scale}, [&](OpBuilder &b, ValueRange v) -> Operation * {
        return graph::RmsNormOp::create(b, c.emit.getLocation(), v[0], v[1],
                                        epsilon);
      });
  return c.give(results[0], c.typeOf("input"));
}

/// Gives `count` statistics that only PyTorch's backward uses. They are empty:
/// any other use is refused, since its gradient would be lost.
LogicalResult giveNothing(Call &c, int count) {
  for (int i = 0; i < count; ++i)
    if (failed(c.give(Value())))
      return failure();
  return success();
}

LogicalResult nativeLayerNorm(Call &c) {
  return failed(layerNorm(c)) ? failure() : giveNothing(c, 2);
}

LogicalResult nativeGroupNorm(Call &c) {
  if (failed(c.give(normalizeGroups(c.emit, c.read("input"), c.integer("group"),
                                    c.read("weight"), c.read("bias"),
                                    /*perGroup=*/false, c.number("eps")),
                    c.typeOf("input"))))
    return failure();
  return giveNothing(c, 2);
}

LogicalResult groupNorm(Call &c) {
  return c.give(normalizeGroups(c.emit, c.read("input"),
                                c.integer("num_groups"), c.read("weight"),
                                c.read("bias"), /*perGroup=*/false,
                                c.number("eps")),
                c.typeOf("input"));
}

//===-- batch normalization ----------------------------------------------===//

constexpr const char *needsMode =
    "batch normalization was saved in evaluation mode; say what training does: "
    "--batch-norm batch (statistics of the global batch, as one process has "
    "them), --batch-norm local=G (of G samples each, as "
    "DistributedDataParallel has them) or --batch-norm frozen; or save the "
    "model after model.train()";

/// The updated running statistic, which moves towards that of the batch.
Imported followed(Call &c, StringRef name, const Imported &batch) {
  return movedTowards(c.emit, c.tensor(name)->read(c.emit), batch,
                      1 - c.number("momentum"));
}

LogicalResult follow(Call &c, StringRef name, const Imported &batch) {
  if (!c.has(name))
    return success();
  const TensorRef &stored = c.tensor(name);
  if (std::string why = stored->prepareToWrite(); !why.empty())
    return c.fail(why);
  stored->write(c.emit, followed(c, name, batch));
  return success();
}

/// Normalizes by the batch or by the stored statistics; in the second case the
/// result has no statistics of the batch.
FailureOr<BatchStatistics> normalize(Call &c, bool saysTraining) {
  Imported x = c.read("input");
  if (x.getRank() < 2 || !isFloat(c.typeOf("input")))
    return c.fail("batch normalization of " + c["input"].describe());
  ++c.context.numBatchNorms;
  bool hasStatistics = c.has("running_mean") && c.has("running_var");
  BatchNormalization norm{
      c.read("weight"), c.read("bias"), {}, {}, c.number("eps")};
  for (const Imported *each : {&norm.scale, &norm.bias})
    if (*each && each->getShape() != Shape{x.getShape()[1]})
      return c.fail("its weight or bias of " + toString(each->getShape()) +
                    " does not fit " + Twine(x.getShape()[1]) + " channels");
  bool byBatch = !hasStatistics;
  if (c.options.batchNorm == BatchNorm::Batch)
    byBatch = true;
  else if (c.options.batchNorm == BatchNorm::Unset && saysTraining)
    byBatch = true;
  else if (c.options.batchNorm == BatchNorm::Unset && hasStatistics &&
           c.options.training)
    return c.fail(needsMode);
  if (!byBatch) {
    norm.mean = c.read("running_mean");
    norm.variance = c.read("running_var");
    return BatchStatistics{normalizeByStored(c.emit, x, norm), {}, {}};
  }
  return normalizeByBatch(c.emit, x, norm, c.options.batchNormGroup);
}

LogicalResult followBatch(Call &c, bool saysTraining) {
  auto result = normalize(c, saysTraining);
  if (failed(result) ||
      (result->mean && (failed(follow(c, "running_mean", result->mean)) ||
                        failed(follow(c, "running_var", result->variance)))))
    return failure();
  return c.give(result->normalized, c.typeOf("input"));
}

LogicalResult batchNorm(Call &c) { return followBatch(c, c.flag("training")); }

/// From decomposed programs, in evaluation mode.
LogicalResult batchNormWithoutTraining(Call &c) {
  return failed(followBatch(c, false)) ? failure() : giveNothing(c, 2);
}

LogicalResult nativeBatchNorm(Call &c) {
  return failed(followBatch(c, c.flag("training"))) ? failure()
                                                    : giveNothing(c, 2);
}

/// A norm without running statistics, which instance normalization decomposes
/// into: it uses the statistics of the given samples, whatever `--batch-norm`
/// says.
LogicalResult normWithoutStatistics(Call &c) {
  BatchNormalization norm{
      c.read("weight"), c.read("bias"), {}, {}, c.number("eps")};
  auto result = normalizeByBatch(c.emit, c.read("input"), norm, 0);
  if (failed(result) || failed(c.give(result->normalized, c.typeOf("input"))))
    return failure();
  return giveNothing(c, 2);
}

/// The new statistics are results, which the program stores itself.
LogicalResult functionalBatchNorm(Call &c) {
  auto result = normalize(c, c.flag("training"));
  if (failed(result) || failed(c.give(result->normalized, c.typeOf("input"))) ||
      failed(giveNothing(c, 2)))
    return failure();
  for (auto [name, batch] : {std::pair("running_mean", result->mean),
                             std::pair("running_var", result->variance)})
    if (failed(c.give(batch ? followed(c, name, batch) : c.read(name),
                      c.typeOf(name))))
      return failure();
  return success();
}

/// Updates the running statistics by the mean, over the samples, of each
/// sample's mean and unbiased variance.
LogicalResult followSamples(Call &c, const Imported &x) {
  SmallVector<int64_t> inner =
      llvm::to_vector(llvm::seq<int64_t>(2, x.getRank()));
  Shape shape = x.getShape();
  int64_t count = graph::numElements(ArrayRef<int64_t>(shape).drop_front(2));
  if (count < 2)
    return c.fail("the variance of a single value per channel");
  Imported mean = c.emit.mean(x, inner);
  Imported centred =
      c.emit.binaryOver<graph::SubOp>(x, c.emit.keepDims(mean, shape, inner));
  Imported variance =
      c.emit.mean(c.emit.binary<graph::MulOp>(centred, centred), inner);
  double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  variance = c.emit.binaryOver<graph::MulOp>(
      variance, c.emit.scalar(variance.getElementType(), unbiased));
  if (failed(follow(c, "running_mean", c.emit.mean(mean, {0}))))
    return failure();
  return follow(c, "running_var", c.emit.mean(variance, {0}));
}

/// Normalizes each channel of each sample separately, or by the running
/// statistics.
LogicalResult instanceNorm(Call &c) {
  Imported x = c.read("input");
  if (x.getRank() < 3)
    return c.fail("instance normalization of " + toString(x.getShape()));
  bool hasStatistics = c.has("running_mean") && c.has("running_var");
  if (!c.flag("use_input_stats")) {
    if (!hasStatistics)
      return c.fail("instance normalization without any statistics");
    BatchNormalization norm{c.read("weight"), c.read("bias"),
                            c.read("running_mean"), c.read("running_var"),
                            c.number("eps")};
    return c.give(normalizeByStored(c.emit, x, norm), c.typeOf("input"));
  }
  auto normalized =
      normalizeGroups(c.emit, x, x.getShape()[1], c.read("weight"),
                      c.read("bias"), /*perGroup=*/false, c.number("eps"));
  if (failed(normalized) || (hasStatistics && failed(followSamples(c, x))))
    return failure();
  return c.give(*normalized, c.typeOf("input"));
}

/// g v / |v|, with the norm over all dims but `dim`.
LogicalResult weightNorm(Call &c) {
  ElementType type = c.typeOf("v");
  Imported v = c.as(c["v"], type), g = c.as(c["g"], type);
  auto dim = c.dim(c.integer("dim"), v.getRank());
  if (failed(dim))
    return failure();
  SmallVector<int64_t> others;
  for (int64_t d = 0; d < v.getRank(); ++d)
    if (d != *dim)
      others.push_back(d);
  Imported sum = c.emit.reduce(sharding::ReductionKind::Sum,
                               c.emit.binary<graph::MulOp>(v, v), others),
           norm = c.emit.keepDims(rootOf(c.emit, sum), v.getShape(), others);
  if (g.getShape() != norm.getShape())
    return c.fail("a length of " + toString(g.getShape()) + " for " +
                  toString(v.getShape()));
  Imported scale = c.emit.binary<graph::DivOp>(g, norm);
  return c.give(c.emit.binaryOver<graph::MulOp>(v, scale), type);
}

//===-- bounded norms ----------------------------------------------------===//

/// Scales down the slices of x along `dim` whose p-norm exceeds `most`, so that
/// it becomes `most`. If `isHeld` [size] is given, only the slices where it is
/// true.
Imported renormalized(Call &c, const Imported &x, double p, int64_t dim,
                      double most, const Imported &isHeld) {
  constexpr double epsilon = 1e-7; // PyTorch's
  Arithmetic a{c.emit};
  SmallVector<int64_t> others;
  for (int64_t i = 0; i < x.getRank(); ++i)
    if (i != dim)
      others.push_back(i);
  Imported norm = normOf(c.emit, x, p, others);
  Imported isLong = a.is(norm, graph::Comparison::GT, most);
  if (isHeld)
    isLong = a.both(isLong, isHeld);
  Imported factor =
      a.where(isLong, a.div(a.number(most, norm), a.add(norm, epsilon)), 1);
  return a.mul(x, c.emit.keepDims(factor, x.getShape(), others));
}

LogicalResult renorm(Call &c) {
  Imported x = c.read("self");
  auto dim = c.dim(c.integer("dim"), x.getRank());
  if (failed(dim) || x.getRank() < 2 || !isFloat(c.typeOf("self")))
    return c.fail("norms of slices of " + c["self"].describe());
  return c.give(
      renormalized(c, x, c.number("p"), *dim, c.number("maxnorm"), {}),
      c.typeOf("self"));
}

/// Renormalizes the rows of a table that are looked up (Embedding's max_norm).
LogicalResult embeddingRenorm(Call &c) {
  Imported table = c.read("self"), indices = c.read("indices");
  if (table.getRank() != 2 || failed(c.needIntegers("indices")))
    return c.fail("rows of " + c["self"].describe());
  int64_t rows = table.getShape()[0], count = countElements(indices.getShape());
  c.emit.limitIndices(indices, rows);
  Type type = table.getElementType();
  auto counts = scatterSlices(
      c.emit, c.emit.broadcast(c.emit.scalar(type, 0), {rows}, false),
      c.emit.reshape(indices, {count}),
      c.emit.broadcast(c.emit.scalar(type, 1), {count}, true), Scatter::Add);
  if (failed(counts))
    return failure();
  return c.give(
      renormalized(c, table, c.number("norm_type"), 0, c.number("max_norm"),
                   Arithmetic{c.emit}.is(*counts, graph::Comparison::GT, 0)),
      c.typeOf("self"));
}

const OperatorRow rows[] = {
    {"renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
     renorm},
    {"embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, "
     "float norm_type) -> Tensor(a!)",
     embeddingRenorm},
    {"_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor", weightNorm},
    {"layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? "
     "weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, "
     "bool cudnn_enable=True) -> Tensor",
     layerNorm},
    {"native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? "
     "weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
     nativeLayerNorm},
    {"native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, "
     "SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
     nativeGroupNorm},
    {"rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? "
     "weight=None, float? eps=None) -> Tensor",
     rmsNorm},
    {"group_norm(Tensor input, int num_groups, Tensor? weight=None, "
     "Tensor? bias=None, float eps=1.0000000000000001e-05, bool "
     "cudnn_enabled=True) -> Tensor",
     groupNorm},
    {"batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? "
     "running_mean, Tensor? running_var, bool training, float momentum, "
     "float eps, bool cudnn_enabled) -> Tensor",
     batchNorm},
    {"_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, "
     "Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, "
     "float eps) -> (Tensor, Tensor, Tensor)",
     batchNormWithoutTraining},
    {"native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? "
     "running_mean, Tensor? running_var, bool training, float momentum, float "
     "eps) -> (Tensor, Tensor, Tensor)",
     nativeBatchNorm},
    {"_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? "
     "bias, bool training, float momentum, float eps) -> (Tensor, Tensor, "
     "Tensor)",
     normWithoutStatistics},
    {"_native_batch_norm_legit_functional(Tensor input, Tensor? weight, "
     "Tensor? bias, Tensor running_mean, Tensor running_var, bool training, "
     "float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
     functionalBatchNorm},
    {"instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? "
     "running_mean, Tensor? running_var, bool use_input_stats, float "
     "momentum, float eps, bool cudnn_enabled) -> Tensor",
     instanceNorm},
};

} // namespace

ArrayRef<OperatorRow> getNormalizationRows() { return rows; }

} // namespace polyrank::frontends::aten
