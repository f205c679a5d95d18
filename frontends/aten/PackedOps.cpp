// Sequences of different lengths: pack_padded_sequence and pad_packed_sequence.

#include "frontends/aten/PackedSequence.h"
#include "frontends/emit/Recurrent.h"

using namespace mlir;

namespace polyrank::frontends::aten {

std::shared_ptr<const PackedSequence> packedOf(Call &c, StringRef elements,
                                               StringRef sizes) {
  auto of = [&](StringRef name) {
    return std::dynamic_pointer_cast<PackedSequence>(c[name].getObject());
  };
  std::shared_ptr<const PackedSequence> first = of(elements),
                                        second = of(sizes);
  if (first && second &&
      first->lengths.getShape() == second->lengths.getShape() &&
      first->lengths.value == second->lengths.value &&
      first->lengths.constant.getKey() == second->lengths.constant.getKey())
    return first;
  (void)c.fail("its `" + elements + "` and `" + sizes +
               "` are not of one packed sequence");
  return nullptr;
}

namespace {

LogicalResult pack(Call &c) {
  Imported x = c.read("input"), lengths = c.read("lengths");
  if (x.getRank() < 2)
    return c.fail("sequences of " + toString(x.getShape()));
  if (c.flag("batch_first")) {
    Shape order(llvm::to_vector(llvm::seq<int64_t>(0, x.getRank())));
    std::swap(order[0], order[1]);
    x = c.emit.transpose(x, order);
  }
  int64_t steps = x.getShape()[0], batch = x.getShape()[1];
  if (lengths.getShape() != Shape{batch} ||
      !isa<IntegerType>(lengths.getElementType()))
    return c.fail("lengths of " + toString(lengths.getShape()) + " for " +
                  Twine(batch) + " sequences");
  if (lengths.isConstant())
    for (int64_t length : lengths.constant->integers)
      if (length < 1 || length > steps)
        return c.fail("a length of " + Twine(length) + " for sequences of " +
                      Twine(steps) + " steps");
  auto packed = std::make_shared<PackedSequence>();
  packed->steps = x;
  packed->lengths = lengths;
  packed->type = c.typeOf("input");
  std::shared_ptr<Object> result = packed;
  if (failed(c.give(Value(result))))
    return failure();
  return c.give(Value(result));
}

LogicalResult pad(Call &c) {
  auto packed = packedOf(c, "data", "batch_sizes");
  if (!packed)
    return failure();
  Shape shape = packed->steps.getShape();
  int64_t steps = shape[0], total = c.integer("total_length");
  const Imported &lengths = packed->lengths;
  if (total != steps)
    return c.fail("a total_length of " + Twine(total) +
                  ", and the sequences had " + Twine(steps) +
                  " steps when they were packed; give pad_packed_sequence a "
                  "total_length of " +
                  Twine(steps));
  Imported alive = stepsWithin(c.emit, lengths, steps);
  Shape over = alive.getShape();
  over.resize(shape.size(), 1);
  Imported x = packed->steps;
  x = c.emit.select(c.emit.broadcast(c.emit.reshape(alive, over), shape,
                                     !alive.isConstant() || !x.isConstant()),
                    x,
                    c.emit.broadcast(c.emit.scalar(x.getElementType(),
                                                   c.number("padding_value")),
                                     shape, !x.isConstant()));
  if (c.flag("batch_first")) {
    Shape order(llvm::to_vector(llvm::seq<int64_t>(0, x.getRank())));
    std::swap(order[0], order[1]);
    x = c.emit.transpose(x, order);
  }
  if (failed(c.give(x, packed->type)))
    return failure();
  return c.give(lengths, ElementType::I64);
}

/// Element 0 of the batch sizes: all sequences have a first step, so it is the
/// batch size, which a layer needs for its first state.
LogicalResult select(Call &c) {
  auto packed = packedOf(c, "self", "self");
  if (!packed)
    return failure();
  if (c.integer("dim") != 0 || c.integer("index") != 0)
    return c.fail("the elements of a packed sequence; use it with recurrent "
                  "layers and pad_packed_sequence alone");
  return c.give(
      c.emit.reshape(c.emit.integers(packed->steps.getShape()[1]), {}),
      ElementType::I64);
}

LogicalResult size(Call &c) {
  return c.fail("the sizes of a packed sequence, which data says; give "
                "pad_packed_sequence a total_length, and count elements by the "
                "lengths");
}

const OperatorRow rows[] = {
    {"_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> "
     "(PackedSequence, PackedSequence)",
     pack},
    {"_pad_packed_sequence(PackedSequence data, PackedSequence batch_sizes, "
     "bool batch_first, Scalar padding_value, int total_length) -> (Tensor, "
     "Tensor)",
     pad},
    {"select.packed(PackedSequence self, int dim, int index) -> Tensor",
     select},
    {"size.packed(PackedSequence self, int dim) -> int", size},
};

} // namespace

ArrayRef<OperatorRow> getPackedRows() { return rows; }

} // namespace polyrank::frontends::aten
