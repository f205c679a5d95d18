// Turns what the user fixed into constraints on arguments and ops.

#pragma once

#include "compiler/sharding/ParameterDims.h"
#include "compiler/sharding/ShardPattern.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/Phase.h"
#include "dialects/sharding/Constraint.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Names.h"
#include "llvm/ADT/MapVector.h"

namespace polyrank::sharding {

class Strategy {
public:
  Strategy(mlir::ModuleOp module, mlir::func::FuncOp function, MeshAttr mesh,
           llvm::StringRef batchAxes)
      : module(module), function(function), mesh(mesh), phases(function),
        givenBatchAxes(batchAxes) {}

  /// Adds the constraints of a pattern; a text of the form PATTERN=DIMS is
  /// parsed.
  /// @{
  mlir::LogicalResult add(const ShardPattern &pattern);
  mlir::LogicalResult add(llvm::StringRef text);
  /// @}
  /// Splits the batch of inputs that nothing constrains over the batch axes.
  mlir::LogicalResult addBatchDefault();
  mlir::LogicalResult checkAxesAreUsed();
  void emitRemarks();

private:
  std::string findExample(llvm::StringRef axis);
  std::string explainUnusedAxis(llvm::StringRef axis) const;
  struct Found {
    LayoutAttr layout;
    llvm::SmallVector<bool> open;
  };

  mlir::InFlightDiagnostic error() { return mlir::emitError(module.getLoc()); }
  mlir::RankedTensorType typeOf(unsigned argument) {
    return llvm::cast<mlir::RankedTensorType>(
        function.getArgument(argument).getType());
  }
  mlir::LogicalResult constrainArgument(unsigned argument,
                                        const ShardPattern &pattern,
                                        graph::ParameterOp parameter);
  mlir::FailureOr<bool> constrainOutputs(const ShardPattern &pattern,
                                         std::vector<std::string> &scopes);
  /// Marks the dims of one part of a fused matrix if they are together as large
  /// as one block of another part.
  void markOneBlocks(unsigned argument, graph::ParameterOp parameter,
                     llvm::ArrayRef<llvm::SmallVector<int64_t>> dimsOf,
                     llvm::MutableArrayRef<DimUse> uses);
  /// What a pattern constrains. All but an input's batch may be padded.
  enum class Kind { Parameter, Input, Output };
  /// A tensor that a pattern lays out.
  struct Laid {
    mlir::RankedTensorType type;
    llvm::ArrayRef<DimUse> uses;
    llvm::StringRef name;
    Kind kind;
  };
  /// The axes over which a pattern splits its dim `d`.
  mlir::FailureOr<llvm::SmallVector<AxisRef>>
  axesOf(const ShardPattern &pattern, size_t d);
  /// Lays out dim `d` of the pattern, which consists of the tensor's dims
  /// `list`, major to minor: splits one of them, in `dims`.
  mlir::LogicalResult layOutDim(const ShardPattern &pattern, size_t d,
                                llvm::SmallVector<AxisRef> axes,
                                llvm::ArrayRef<int64_t> list, const Laid &laid,
                                llvm::MutableArrayRef<DimAttr> dims);
  /// `dimsOf`: per dim of the pattern, the dims of `type` of which it consists.
  mlir::FailureOr<Found>
  layOut(const ShardPattern &pattern, mlir::RankedTensorType type,
         llvm::ArrayRef<llvm::SmallVector<int64_t>> dimsOf,
         llvm::ArrayRef<DimUse> uses, llvm::StringRef name, Kind kind);
  mlir::LogicalResult checkDims(const ShardPattern &pattern,
                                llvm::StringRef name,
                                llvm::ArrayRef<int64_t> shape);
  /// Returns true if `pattern` replaces the constraint `given` on `name`;
  /// remarks on a conflict.
  bool replaces(const ShardPattern &pattern, llvm::StringRef name,
                ConstraintAttr given);
  ConstraintAttr toConstraint(LayoutAttr layout, llvm::ArrayRef<bool> open,
                              int64_t priority, llvm::StringRef from) {
    return ConstraintAttr::get(module.getContext(), layout, open, priority,
                               from, 0);
  }
  /// Stores a remark on a name; equal remarks on layers that are alike become
  /// one.
  void remark(llvm::StringRef name, const std::string &text);

  mlir::ModuleOp module;
  mlir::func::FuncOp function;
  MeshAttr mesh;
  graph::Phases phases;
  llvm::StringRef givenBatchAxes;
  int64_t lowest = 0;
  llvm::SmallVector<AxisRef> batchAxes;
  llvm::MapVector<std::string, std::pair<LayerNames, std::string>,
                  std::map<std::string, unsigned>>
      remarks;
};

} // namespace polyrank::sharding
