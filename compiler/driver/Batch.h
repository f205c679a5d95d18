// Finds which dims of an imported model are the batch.

#pragma once

#include "compiler/driver/Driver.h"
#include "frontends/import/Options.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::driver {

/// Moves the batch of each input and output of `@forward` to dim 0, or adds a
/// dim 0 of one row if it has no batch. The role records the model's form:
/// `batch_dim 1` for recurrent states of [layers, batch, width], `no_batch` for
/// a mask of [length, length] or a number. The arrays in files of data and of
/// outputs have the model's form.
///
/// The batch is the size that all inputs have in dim 0. If these differ, it is
/// the size of the dim whose indices the analysis can follow through the model
/// into the most outputs; of several such sizes, the one that most outputs,
/// then inputs, have in dim 0, or leave open in some dim. If no output follows
/// dim 0, and the file fixes it but leaves open a dim that outputs do follow,
/// that dim is the batch. An input with another size in dim 0 and this size in
/// one other dim has its batch there; one without a dim of this size has no
/// batch.
///
/// Where the file names the open dim that is the batch (`batch` in ONNX, `s77`
/// in a .pt2), the name decides, so that a mask of [length, length] has no
/// batch even if length and batch have the same size: the dim of that name is
/// the batch, and neither a dim that the file fixes nor one of a name that
/// another input has beside it. `--shard` overrides this and resolves inputs
/// with several dims of the size: the batch is the dim that it splits over a
/// batch axis
/// (`state=[-,data,-]`), and an input with another size in dim 0 has no batch
/// if it splits no dim (`mask=[-,-]`). For an output, the samples are followed
/// from the inputs.
///
/// An input or output that merges the batch with another dim, [batch * length],
/// is split into both. A remark names each input and output that is changed.
/// Fails if an input may have its batch in several dims.
mlir::LogicalResult
findBatch(mlir::ModuleOp module, const Options &options,
          const llvm::StringMap<frontends::OpenDims> &openDims);

} // namespace polyrank::driver
