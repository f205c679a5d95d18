// Meshes and layouts: the attributes of the sharding dialect.
//
// A layout answers one question for every device: which part of a global
// tensor do you hold? Dim d of extent N, split over axes a1 .. ak (major to
// minor), has s = |a1| * .. * |ak| blocks of N / s elements. A device holds
// block i, its mixed-radix index over a1 .. ak. On the mesh data=2, tensor=2:
//
//   layout of an 8-vector          device (0,0) (0,1)  (1,0)  (1,1)
//   [{"data"}]                            0-3   0-3    4-7    4-7
//   [{"data", "tensor"}]                  0-1   2-3    4-5    6-7
//   [{"tensor", "data"}]                  0-1   4-5    2-3    6-7
//   [{}], partial = sum {"data"}          four whole vectors; the value is the
//                                         sum over data, for each tensor
//   [{"data"}], at {"tensor" = 1}         -     0-3    -      4-7
//
// Layouts are part of the type, so a verifier can decide for each op alone
// whether every device can compute its part of the result (LayoutVerifier.h in
// the graph dialect). Nothing but `sharding` ops changes a layout.

#pragma once

#include "dialects/sharding/Axis.h"
#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/TensorEncoding.h"

#include "dialects/sharding/ShardingEnums.h.inc"

#include "dialects/sharding/ShardingDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/sharding/ShardingAttrs.h.inc"

namespace mlir {
class AsmParser;
} // namespace mlir

namespace polyrank::sharding {

/// `{"data", "tensor":(1)2}`.
mlir::ParseResult parseAxes(mlir::AsmParser &parser, MeshAttr mesh,
                            llvm::SmallVectorImpl<AxisRef> &axes);

/// The layout of a tensor type, or null if it has none.
LayoutAttr getLayout(mlir::Type type);
LayoutAttr getLayout(mlir::Value value);
/// `type` with another layout (null removes it).
mlir::RankedTensorType withLayout(mlir::RankedTensorType type,
                                  LayoutAttr layout);
/// The type of one device's block: local shape, no layout.
mlir::RankedTensorType getLocalType(mlir::RankedTensorType type);
/// The padding that leaves a reduction of this kind unchanged.
Fill identityFill(ReductionKind kind);
/// The value of a fill; undefined is NaN.
double fillValue(Fill fill);

} // namespace polyrank::sharding
