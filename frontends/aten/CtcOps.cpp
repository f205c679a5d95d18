// Connectionist temporal classification.

#include <limits>

#include "frontends/aten/Reduction.h"
#include "frontends/emit/Arithmetic.h"
#include "frontends/emit/Functions.h"
#include "frontends/emit/Indices.h"
#include "frontends/emit/Scan.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

using graph::Comparison;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The lengths of the samples, from a tensor or a list: int64 [N].
FailureOr<Imported> lengthsOf(Call &c, StringRef name, int64_t samples) {
  Imported lengths = c[name].isTensor() ? c.as(c[name], ElementType::I64)
                                        : c.emit.integers(c.integers(name));
  if (lengths.getRank() == 0)
    lengths = c.emit.reshape(lengths, {1});
  if (lengths.getShape() != Shape{samples})
    return c.fail("its " + name + " of " + toString(lengths.getShape()) +
                  " for " + Twine(samples) + " samples");
  return lengths;
}

/// The labels of each sample [N, S]. Concatenated labels of samples with known
/// lengths are padded.
FailureOr<Imported> paddedTargets(Call &c, const Imported &lengths,
                                  int64_t samples) {
  Imported targets = c.as(c["targets"], ElementType::I64);
  if (targets.getRank() == 2 && targets.getShape()[0] == samples)
    return targets;
  if (targets.getRank() == 1 && samples == 1)
    return c.emit.reshape(targets, {1, targets.getShape()[0]});
  if (targets.getRank() != 1 || !lengths.isConstant())
    return c.fail("targets of " + toString(targets.getShape()) + " for " +
                  Twine(samples) +
                  " samples: pad them to one length, [samples, labels]");
  int64_t longest = 0, at = 0;
  for (int64_t length : lengths.constant->integers)
    longest = std::max(longest, length);
  SmallVector<int64_t> places;
  for (int64_t length : lengths.constant->integers) {
    for (int64_t i = 0; i < longest; ++i)
      places.push_back(i < length ? at + i : 0);
    at += length;
  }
  if (at != targets.getShape()[0])
    return c.fail("targets of " + toString(targets.getShape()) +
                  " where its target_lengths add up to " + Twine(at));
  return c.emit.reshape(c.emit.binary<graph::GatherOp>(
                            targets, c.emit.integers(places), int64_t(0)),
                        {samples, longest});
}

/// The forward variables of Graves et al. (2006, equations 6 to 8), in log
/// space: a scan over time, over the states blank, label, blank, label, ..,
/// blank of each sample. It carries the logarithm of the probability of all
/// paths that have reached a state.
struct Paths {
  Emitter &emit;
  Arithmetic a{emit};

  /// Shifts x [N, E] by `by` states; no path reaches the first ones.
  Imported shifted(const Imported &x, int64_t by) const {
    int64_t states = x.getShape()[1];
    Imported padded = emit.unary<graph::PadOp>(
        x, ArrayRef<int64_t>({0, by}), ArrayRef<int64_t>({0, 0}),
        ArrayRef<int64_t>({0, 0}), -infinity);
    return emit.slice(padded, 1, 0, states);
  }

  /// `emissions` [T, N, E]; `isActive` [T, N, E] is true up to the end of each
  /// sample; `maySkip` [N, E] is true where the blank before a state may be
  /// skipped.
  std::optional<Imported> sum(const Imported &emissions,
                              const Imported &isActive,
                              const Imported &maySkip) const {
    Shape shape = emissions.getShape(), step = {shape[1], shape[2]};
    auto row = [&](int64_t from, int64_t to) {
      return emit.slice(emissions, 0, from, to);
    };
    Imported first = emit.reshape(row(0, 1), step);
    Imported place = emit.iota(step, 1, emit.getBuilder().getI64Type());
    Imported isStart = a.is(place, Comparison::LE, 1);
    Imported start = emit.select(isStart, first, a.number(-infinity, first));
    if (shape[0] == 1)
      return start;
    Imported none = a.number(-infinity, first);
    auto scanned = scan(
        emit, {row(1, shape[0]), emit.slice(isActive, 0, 1, shape[0])}, {start},
        /*isReversed=*/false,
        [&](ArrayRef<Imported> element,
            ArrayRef<Imported> carried) -> std::optional<Scanned> {
          const Imported &before = carried[0];
          Imported all = logOfSum(emit, before, shifted(before, 1));
          all = logOfSum(emit, all,
                         emit.select(maySkip, shifted(before, 2), none));
          return Scanned{
              {}, {emit.select(element[1], a.add(all, element[0]), before)}};
        });
    if (!scanned)
      return std::nullopt;
    return scanned->carried[0];
  }
};

LogicalResult ctcLoss(Call &c) {
  Imported x = c.as(c["log_probs"], Call::floatOf(c.typeOf("log_probs")));
  Shape shape = x.getShape();
  if (shape.size() == 2) // a single sample
    shape.insert(shape.begin() + 1, 1);
  if (shape.size() != 3 || llvm::is_contained(shape, 0))
    return c.fail("logarithms of probabilities of " + toString(x.getShape()) +
                  ", which are [time, samples, classes]");
  x = c.emit.reshape(x, shape);
  int64_t time = shape[0], samples = shape[1], classes = shape[2],
          blank = c.integer("blank");
  if (blank < 0 || blank >= classes)
    return c.fail("its blank is " + Twine(blank) + " of " + Twine(classes) +
                  " classes");
  auto times = lengthsOf(c, "input_lengths", samples),
       lengths = lengthsOf(c, "target_lengths", samples);
  if (failed(times) || failed(lengths))
    return failure();
  auto labels = paddedTargets(c, *lengths, samples);
  if (failed(labels))
    return failure();
  c.emit.limitIndices(*labels, classes);

  Emitter &emit = c.emit;
  Arithmetic a{emit};
  Type integer = emit.getBuilder().getI64Type();
  int64_t count = labels->getShape()[1], states = 2 * count + 1;
  Shape all = {time, samples, states}, row = {samples, states};
  if (failed(emit.fits(all)))
    return failure();
  // The states are blank, label, blank, label, .., blank.
  Imported blanks = a.number(static_cast<double>(blank), *labels);
  auto column = [&](const Imported &y) {
    return emit.reshape(y, {samples, count, 1});
  };
  Imported states0 = emit.reshape(
      emit.concat({column(blanks), column(*labels)}, 2), {samples, 2 * count});
  Imported sequence = emit.concat(
      {states0, emit.broadcast(emit.scalar(integer, static_cast<double>(blank)),
                               {samples, 1}, !states0.isConstant())},
      1);
  Imported place = emit.iota(row, 1, integer);
  Paths paths{emit};
  Imported isOther;
  if (states > 2) {
    Imported earlier = emit.concat(
        {emit.slice(sequence, 1, 0, 2), emit.slice(sequence, 1, 0, states - 2)},
        1);
    isOther = a.is(sequence, Comparison::NE, earlier);
  } else {
    isOther = a.is(sequence, Comparison::NE, static_cast<double>(blank));
  }
  Imported maySkip =
      a.both(a.both(a.is(place, Comparison::GE, 2), isOther),
             a.is(sequence, Comparison::NE, static_cast<double>(blank)));
  auto emissions = gatherAlong(
      emit, x,
      emit.broadcast(emit.reshape(sequence, {1, samples, states}), all, true),
      2);
  if (failed(emissions))
    return failure();
  Imported isActive = a.is(emit.iota(all, 0, integer), Comparison::LT,
                           emit.reshape(*times, {1, samples, 1}));
  auto reached = paths.sum(*emissions, isActive, maySkip);
  if (!reached)
    return c.fail("it is inside of a loop");

  // The paths that end in the last label or in the blank after it.
  Imported end = emit.reshape(a.mul(*lengths, 2), {samples, 1});
  auto last = gatherAlong(emit, *reached, end, 1);
  Imported beforeEnd = a.add(end, -1);
  auto label = gatherAlong(
      emit, *reached,
      emit.binary<graph::MaxOp>(beforeEnd, a.number(0, beforeEnd)), 1);
  if (failed(last) || failed(label))
    return failure();
  Imported isThere = a.is(end, Comparison::GT, 0);
  Imported loss = a.neg(emit.reshape(
      logOfSum(emit, *last, a.where(isThere, *label, -infinity)), {samples}));
  if (c.flag("zero_infinity"))
    loss = a.where(a.is(loss, Comparison::LT, infinity), loss, 0);
  if (c.integer("reduction") == 1) {
    Imported length =
        emit.convert(emit.binary<graph::MaxOp>(*lengths, a.number(1, *lengths)),
                     loss.getElementType());
    loss = a.div(loss, length);
  } else if (c.tensor("log_probs")->getRank() == 2) {
    loss = emit.reshape(loss, {});
  }
  return giveReduced(c, loss, Call::floatOf(c.typeOf("log_probs")));
}

const OperatorRow rows[] = {
    {"ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, "
     "int[] target_lengths, int blank=0, int reduction=1, bool "
     "zero_infinity=False) -> Tensor",
     ctcLoss},
    {"ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, "
     "Tensor target_lengths, int blank=0, int reduction=1, bool "
     "zero_infinity=False) -> Tensor",
     ctcLoss},
};

} // namespace

ArrayRef<OperatorRow> getCtcRows() { return rows; }

} // namespace polyrank::frontends::aten
