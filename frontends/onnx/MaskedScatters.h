// PyTorch's masked_scatter, as its exporters write it.

#pragma once

#include <map>
#include <set>

#include "frontends/onnx/NodeImporter.h"

namespace polyrank::frontends::onnx {

/// The places where a mask is true are found by NonZero, as many elements of
/// the source are cut off, and ScatterND puts the ones at the others:
///
/// ```
/// places = Transpose(NonZero(mask))
/// count = Gather(Shape(places), [0])
/// y = ScatterND(x, places, Slice(source, [0], count, [0]))
/// ```
///
/// How many places there are depends on the mask, and no value here has such a
/// shape. So these nodes are imported as one.
struct MaskedScatter {
  const Node *nonZero, *slice; // operand 0: the mask; the source, of one dim
};

struct MaskedScatters {
  /// By the ScatterND.
  std::map<const Node *, MaskedScatter> scatters;
  /// The other nodes, as far as nothing else uses them.
  std::set<const Node *> parts;
};

/// Of the nodes of the model's own graph.
MaskedScatters findMaskedScatters(const Model &model);

/// Imports one of x, mask and source.
const OpRow &getMaskedScatterRow();

} // namespace polyrank::frontends::onnx
