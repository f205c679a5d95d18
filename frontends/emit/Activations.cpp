// Activations that are several ops, and bounds on values.

#include "frontends/emit/Activations.h"

using namespace mlir;

namespace polyrank::frontends {

Imported clipped(Emitter &emit, const Imported &x, const Imported &bound,
                 bool isLower, bool passes) {
  using graph::Comparison;
  auto beyond = isLower  ? passes ? Comparison::LT : Comparison::LE
                : passes ? Comparison::GT
                         : Comparison::GE;
  Imported spread = emit.broadcast(bound, x.getShape(), !x.isConstant());
  return emit.select(emit.binary<graph::CompareOp>(x, spread, beyond), spread,
                     x);
}

Imported softplusOf(Emitter &emit, const Imported &x) {
  Imported decay = emit.unary<graph::ExpOp>(
      emit.unary<graph::NegOp>(emit.unary<graph::AbsOp>(x)));
  Imported log = emit.unary<graph::LogOp>(
      emit.binaryOver<graph::AddOp>(decay, emit.scalar(x.getElementType(), 1)));
  Imported positive =
      emit.binaryOver<graph::MaxOp>(x, emit.scalar(x.getElementType(), 0));
  return emit.binary<graph::AddOp>(positive, log);
}

Imported exponential(Emitter &emit, const Imported &x, double scale,
                     double divisor) {
  Type type = x.getElementType();
  Imported negative = clipped(emit, x, emit.scalar(type, 0), /*isLower=*/false,
                              /*passes=*/true);
  if (divisor != 1)
    negative =
        emit.binaryOver<graph::DivOp>(negative, emit.scalar(type, divisor));
  return emit.binaryOver<graph::MulOp>(
      emit.binaryOver<graph::SubOp>(emit.unary<graph::ExpOp>(negative),
                                    emit.scalar(type, 1)),
      emit.scalar(type, scale));
}

Imported hardSigmoidOf(Emitter &emit, const Imported &x, double alpha,
                       double beta) {
  Type type = x.getElementType();
  Imported line = emit.binaryOver<graph::AddOp>(
      emit.binaryOver<graph::MulOp>(x, emit.scalar(type, alpha)),
      emit.scalar(type, beta));
  return emit.binaryOver<graph::MinOp>(emit.unary<graph::ReluOp>(line),
                                       emit.scalar(type, 1));
}

} // namespace polyrank::frontends
