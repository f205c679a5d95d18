// Which dims of an imported model are the batch.

#pragma once

#include "compiler/driver/Driver.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::driver {

/// Gives each input and output of `@forward` the batch in its dim 0, or one row
/// where it has none, and says in its role what the model has: `batch_dim 1` of
/// recurrent states of [layers, batch, width], `no_batch` of a mask of [length,
/// length] or a number. The file of data, and that of outputs, have arrays as
/// the model does.
///
/// The batch is the size that all inputs have in dim 0. Where they differ it is
/// the size of a dim whose indices are followed through the model into the most
/// outputs, and of such sizes the one that most outputs, then inputs, have in
/// dim 0. An input that has another size in dim 0 and this size in one other
/// dim has its batch there; one without a dim of this size has none. Where that
/// is not what is meant, or several dims have the size, `--shard` says it: the
/// batch is the dim that it splits over a batch axis (`state=[-,data,-]`), and
/// an input with another size in dim 0 has none if it splits none
/// (`mask=[-,-]`). Of an output the samples are followed from the inputs.
///
/// An input or output that has the batch and another dim in one, [batch *
/// length], is taken apart. A remark names each that is changed. Fails where an
/// input may have its batch in several dims.
mlir::LogicalResult findBatch(mlir::ModuleOp module, const Options &options);

} // namespace polyrank::driver
