// PyTorch's masked_scatter, as its exporters write it.

#pragma once

#include <map>
#include <set>

#include "frontends/onnx/NodeImporter.h"

namespace polyrank::frontends::onnx {

/// NonZero finds the true elements of the mask, Slice takes as many elements of
/// the source, and ScatterND writes these to those:
///
/// ```
/// places = Transpose(NonZero(mask))
/// count = Gather(Shape(places), [0])
/// y = ScatterND(x, places, Slice(source, [0], count, [0]))
/// ```
///
/// The number of true elements depends on the mask, and no value here may have
/// such a shape. So these nodes are imported as one.
struct MaskedScatter {
  const Node *nonZero, *slice; // operand 0: the mask; the 1-d source
};

struct MaskedScatters {
  /// The patterns, by their ScatterND node.
  std::map<const Node *, MaskedScatter> scatters;
  /// The other nodes of the patterns, unless something else uses them.
  std::set<const Node *> parts;
};

/// Searches the nodes of the main graph.
MaskedScatters findMaskedScatters(const Model &model);

/// The row that imports one, from x, mask and source.
const OpRow &getMaskedScatterRow();

} // namespace polyrank::frontends::onnx
