// Dropout and random numbers, which are drawn from the plan's seed.

#include "frontends/emit/Random.h"

#include "frontends/aten/Call.h"
#include "frontends/aten/Dropout.h"

using namespace mlir;

namespace polyrank::frontends::aten {

FailureOr<double> dropoutRate(Call &c, double rate, bool isOn) {
  ++c.context.numDropouts;
  if (c.options.dropout) {
    rate = *c.options.dropout;
    isOn = true;
  }
  if (!(rate >= 0 && rate < 1))
    return c.fail("its rate is " + std::to_string(rate) +
                  "; it must be in [0, 1)");
  return isOn ? rate : 0;
}

namespace {

LogicalResult dropout(Call &c) {
  StringRef name = c.schema.parameters[0].name;
  auto rate = dropoutRate(c, c.number("p"), c.flag("train"));
  if (failed(rate))
    return failure();
  const TensorRef &x = c.tensor(name);
  if (!isFloat(x->getType()))
    return c.fail("dropout of " + c[name].describe());
  Imported value = x->read(c.emit);
  return c.give(*rate > 0 ? c.emit.dropout(value, *rate) : value, x->getType());
}

/// Drops whole channels: one decision per index of the first two dims.
LogicalResult featureDropout(Call &c) {
  auto rate = dropoutRate(c, c.number("p"), c.flag("train"));
  if (failed(rate))
    return failure();
  Imported x = c.read("input");
  ElementType type = c.typeOf("input");
  if (*rate == 0)
    return c.give(x, type);
  Shape shape = x.getShape();
  if (shape.size() < 2)
    return c.fail("dropout of the channels of " + toString(shape));
  std::fill(shape.begin() + 2, shape.end(), 1);
  Imported ones = c.emit.materialize(c.emit.broadcast(
      c.emit.scalar(x.getElementType(), 1), shape, /*asValue=*/true));
  return c.give(c.emit.binaryOver<graph::MulOp>(x, c.emit.dropout(ones, *rate)),
                type);
}

//===-- random numbers ---------------------------------------------------===//

/// Fails with --dropout, since stochastic depth draws numbers and compares them
/// itself.
LogicalResult mayDraw(Call &c, ArrayRef<int64_t> shape) {
  if (failed(c.emit.fits(shape)))
    return failure();
  if (c.options.dropout)
    return c.fail("--dropout does not reach random numbers that the model "
                  "draws itself; save it after model.eval(), or leave the "
                  "option out");
  return success();
}

Shape shapeOf(Call &c) {
  return c.has("size") ? Shape(c.integers("size"))
                       : c.tensor("self")->getShape();
}

FailureOr<ElementType> typeOfDraw(Call &c) {
  auto type = c.dtype(c.has("self") ? c.typeOf("self") : ElementType::F32);
  if (succeeded(type) && !isFloat(*type))
    return c.fail("random numbers of " + longNameOf(*type));
  return type;
}

/// Uniform in [0, 1), or in [from, to).
LogicalResult uniform(Call &c) {
  Shape shape = shapeOf(c);
  auto type = typeOfDraw(c);
  if (failed(type) || failed(mayDraw(c, shape)))
    return failure();
  Imported x = c.emit.uniform(shape);
  if (c.has("from")) {
    double from = c.number("from"), to = c.number("to");
    x = c.emit.binaryOver<graph::AddOp>(
        c.emit.binaryOver<graph::MulOp>(
            x, c.emit.scalar(x.getElementType(), to - from)),
        c.emit.scalar(x.getElementType(), from));
  }
  return c.give(x, *type);
}

LogicalResult normal(Call &c) {
  Shape shape = shapeOf(c);
  auto type = typeOfDraw(c);
  if (failed(type) || failed(mayDraw(c, shape)))
    return failure();
  Imported x = standardNormal(c.emit, shape);
  if (c.has("std"))
    x = c.emit.binaryOver<graph::AddOp>(
        c.emit.binaryOver<graph::MulOp>(
            x, c.emit.scalar(x.getElementType(), c.number("std"))),
        c.emit.scalar(x.getElementType(), c.number("mean")));
  return c.give(x, *type);
}

/// 1 with probability `p` or, without `p`, with the probabilities in self; else
/// 0.
LogicalResult bernoulli(Call &c) {
  const TensorRef &self = c.tensor("self");
  Shape shape = self->getShape();
  if (failed(mayDraw(c, shape)))
    return failure();
  Imported probability =
      c.as(c.has("p") ? c["p"] : c["self"], ElementType::F32);
  Imported drawn = c.emit.uniform(shape);
  return c.give(c.emit.binary<graph::CompareOp>(
                    drawn, c.emit.broadcast(probability, shape, true),
                    graph::Comparison::LT),
                self->getType());
}

const OperatorRow rows[] = {
    {"dropout(Tensor input, float p, bool train) -> Tensor", dropout},
    {"dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)", dropout},
    {"feature_dropout(Tensor input, float p, bool train) -> Tensor",
     featureDropout},
    {"feature_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)",
     featureDropout},
    {"rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     uniform},
    {"rand_like(Tensor self, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None, "
     "MemoryFormat? memory_format=None) -> Tensor",
     uniform},
    {"uniform_(Tensor(a!) self, float from=0., float to=1., *, Generator? "
     "generator=None) -> Tensor(a!)",
     uniform},
    {"randn(SymInt[] size, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     normal},
    {"randn_like(Tensor self, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None, "
     "MemoryFormat? memory_format=None) -> Tensor",
     normal},
    {"normal_(Tensor(a!) self, float mean=0., float std=1., *, Generator? "
     "generator=None) -> Tensor(a!)",
     normal},
    {"bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
     bernoulli},
    {"bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> "
     "Tensor",
     bernoulli},
    {"bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? "
     "generator=None) -> Tensor(a!)",
     bernoulli},
    {"bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? "
     "generator=None) -> Tensor(a!)",
     bernoulli},
};

} // namespace

ArrayRef<OperatorRow> getRandomRows() { return rows; }

} // namespace polyrank::frontends::aten
