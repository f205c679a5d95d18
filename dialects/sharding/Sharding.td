// The sharding dialect: meshes, layouts, and the ops that change a layout.

#ifndef POLYRANK_SHARDING_TD
#define POLYRANK_SHARDING_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Sharding_Dialect : Dialect {
  let name = "sharding";
  let summary = "Layouts of tensors over a mesh";
  let description = [{
    A layout is the encoding of a ranked tensor type; the shape in the type stays
    the global one. With respect to each axis of the mesh a value is exactly one of:
    *split* (one dim), *partial* (an unfinished sum, max or min), *placed* (it lives
    at one coordinate) or *replicated* (everything not mentioned).

    The ops of this dialect are the only ones that change a layout. Each of them
    is the identity on the logical value. They obey these rules:

    - **M1** Operand i becomes result i, and there is at least one.
    - **M2** Shape and element type do not change.
    - **M3** Operands and results have layouts, on one mesh.
    - **M4** The layout changes as the op's summary says, and in nothing else; no
      op changes the place.
    - **M5** All operands of an op move over the same axes, and partial operands are
      all of one reduction kind.
  }];
  let cppNamespace = "::polyrank::sharding";
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let extraClassDeclaration = "void registerAttributes(); void registerOps();";
}

def Sharding_ReductionKind : I32EnumAttr<"ReductionKind", "how parts combine", [
  I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">,
  I32EnumAttrCase<"Min", 2, "min">]> {
  let cppNamespace = "::polyrank::sharding";
}

def Sharding_Fill : I32EnumAttr<"Fill", "what the padding of a dim holds", [
  I32EnumAttrCase<"Undefined", 0, "undefined">, I32EnumAttrCase<"Zero", 1, "zero">,
  I32EnumAttrCase<"NegInf", 2, "neg_inf">, I32EnumAttrCase<"PosInf", 3, "pos_inf">]> {
  let cppNamespace = "::polyrank::sharding";
}

class Sharding_Attr<string name, string mnemonic_, list<Trait> traits = []>
    : AttrDef<Sharding_Dialect, name, traits> {
  let mnemonic = mnemonic_;
  let hasCustomAssemblyFormat = 1;
}

def Sharding_MeshAttr : Sharding_Attr<"Mesh", "mesh"> {
  let summary = "Named axes of devices";
  let description = [{
    Device `r` has the mixed-radix digits of `r` over the axes, major to minor.

    ```mlir
    #mesh = #sharding.mesh<["data"=2, "tensor"=4]>   // device 5 is data=1, tensor=1
    ```

    The mesh is an attribute, not a symbol: a tensor type is verified where it
    is built, without a symbol table, and equal layouts are pointer-equal.

    1. Names are distinct and of letters, digits and `_`.
    2. Sizes are positive, and their product is at most 2^20.
    3. `sharding.mesh` of a module holds such an attribute.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$axisNames,
                        ArrayRefParameter<"int64_t">:$axisSizes);
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// A limit beyond any real mesh, so that products of sizes do not overflow.
    static constexpr int64_t maxDevices = 1 << 20;
    /// Returns true if `name` can name an axis.
    static bool isAxisName(::llvm::StringRef name);
    /// Number of devices: the product of the axis sizes.
    int64_t getNumDevices() const;
    /// Position of the axis called `name`, or -1.
    int32_t lookup(::llvm::StringRef name) const;
    /// The whole axis number `axis`.
    AxisRef getAxis(int32_t axis) const;
    /// Coordinate of `device` along a (sub-)axis: in [0, ref.size).
    int64_t getCoordinate(int64_t device, AxisRef ref) const;
    /// Mixed-radix index of `device` over `axes`, major to minor.
    int64_t getLinearIndex(int64_t device, ::llvm::ArrayRef<AxisRef> axes) const;
    /// Devices that differ from `device` only in `axes`, by linear index.
    ::llvm::SmallVector<int64_t> getGroup(int64_t device, ::llvm::ArrayRef<AxisRef> axes) const;
    /// `"tensor"` or `"tensor":(1)2`.
    std::string toString(AxisRef ref) const;
    /// `{"data", "tensor":(1)2}`.
    std::string toString(::llvm::ArrayRef<AxisRef> axes) const;
  }];
}

def Sharding_DimAttr : Sharding_Attr<"Dim", "dim"> {
  let summary = "How one dim is laid out; printed inside its layout";
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilderWithInferredContext<(ins "MeshAttr":$mesh,
        "::llvm::ArrayRef<AxisRef>":$axes, CArg<"int64_t", "0">:$padded,
        CArg<"Fill", "Fill::Undefined">:$fill, CArg<"int64_t", "0">:$haloLow,
        CArg<"int64_t", "0">:$haloHigh, CArg<"bool", "false">:$spills), [{
      return $_get(mesh.getContext(), merged(mesh, axes), padded, fill, haloLow, haloHigh,
                   spills && (haloLow || haloHigh));
    }]>
  ];
  let parameters = (ins ArrayRefParameter<"AxisRef">:$axes,
                        "int64_t":$padded, "Fill":$fill,
                        "int64_t":$haloLow, "int64_t":$haloHigh,
                        // True if the borders are sums for the neighbours.
                        "bool":$spills);
  let extraClassDeclaration = [{
    /// Number of blocks: the product of the axes' sizes.
    int64_t getNumBlocks() const;
    /// The extent that is divided into blocks: `padded`, or else `size`.
    int64_t getExtent(int64_t size) const { return getPadded() ? getPadded() : size; }
    bool isWhole() const { return getAxes().empty() && !getPadded(); }
    bool hasHalo() const { return getHaloLow() || getHaloHigh(); }
  }];
}

def Sharding_LayoutAttr : Sharding_Attr<"Layout", "layout",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "How a tensor is laid out over a mesh";
  let description = [{
    ```mlir
    #sharding.layout<#mesh, [{"data"}, {"tensor"} ]>                       // split dims
    #sharding.layout<#mesh, [{"data"}, {} ], partial = sum {"tensor"}>     // unfinished sum
    #sharding.layout<#mesh, [{"tensor"} pad 50260 fill zero, {} ]>         // padded
    #sharding.layout<#mesh, [{"data", "tensor":(1)2}, {} ]>                // half of an axis
    #sharding.layout<#mesh, [{}, {} ], at {"pipe" = 1}>                    // placed
    #sharding.layout<#mesh, [{"data"} halo 1:2, {} ]>                      // with borders
    #sharding.layout<#mesh, [{"data"} spill 1:2, {} ]>                     // the transpose
    ```

    A dim `{a1, .., ak} pad N` of size n is divided into s = |a1| .. |ak| blocks of
    N / s elements (N = n without `pad`); the device whose mixed-radix index over a1
    .. ak is i holds block i. `"x":(p)s` is the sub-axis of `s` coordinates after
    the `p` most major ones. `halo lo:hi` widens each block by copies of its
    neighbours' borders: the `lo` elements before it and the `hi` elements after it.
    `spill lo:hi` is the transpose: each block is widened by what its device adds to
    its neighbours' borders, and the tensor is the sum of the widened blocks. Beyond
    the padded extent borders are undefined.

    Layouts are canonical: axes and sub-axes of size 1 are dropped, adjacent
    sub-axes are merged, partial axes and places are in mesh order. Equal
    layouts are equal pointers.

    1. Every sub-axis lies inside its axis: pre * size divides the axis.
    2. No two uses of an axis overlap (dims, partial, at).
    3. The number of dims is the tensor's rank, and their sizes are static.
    4. The blocks of a dim divide its extent; else the dim needs `pad`.
    5. A padded extent is larger than the dim.
    6. `fill` needs `pad`; `halo` and `spill` need a split dim, and their widths
       are not negative.
    7. A coordinate in `at` lies inside its axis.
  }];
  let parameters = (ins "MeshAttr":$mesh, ArrayRefParameter<"DimAttr">:$dims,
                        "ReductionKind":$partialKind,
                        ArrayRefParameter<"AxisRef">:$partialAxes,
                        ArrayRefParameter<"Place">:$places);
  let genVerifyDecl = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilderWithInferredContext<(ins "MeshAttr":$mesh,
        "::llvm::ArrayRef<DimAttr>":$dims,
        CArg<"ReductionKind", "ReductionKind::Sum">:$partialKind,
        CArg<"::llvm::ArrayRef<AxisRef>", "{}">:$partialAxes,
        CArg<"::llvm::ArrayRef<Place>", "{}">:$places), [{
      ::llvm::SmallVector<AxisRef> axes = normalized(mesh, partialAxes);
      ::llvm::SmallVector<Place> sorted(places);
      ::llvm::sort(sorted);
      return $_get(mesh.getContext(), mesh, dims,
                   axes.empty() ? ReductionKind::Sum : partialKind, axes, sorted);
    }]>
  ];
  let extraClassDeclaration = [{
    static LayoutAttr getReplicated(MeshAttr mesh, int64_t rank);

    int64_t getRank() const { return getDims().size(); }
    DimAttr getDim(int64_t dim) const { return getDims()[dim]; }
    bool isPartial() const { return !getPartialAxes().empty(); }
    bool isReplicated() const;
    LayoutAttr withDim(int64_t dim, DimAttr layout) const;
    LayoutAttr withDims(::llvm::ArrayRef<DimAttr> dims) const;
    LayoutAttr withPartial(ReductionKind kind, ::llvm::ArrayRef<AxisRef> axes) const;

    /// Shape of one device's block (borders included) of a tensor of this global shape.
    ::llvm::SmallVector<int64_t> getLocalShape(::llvm::ArrayRef<int64_t> shape) const;
    /// Every axis use, in no particular order.
    ::llvm::SmallVector<AxisRef> getUsedAxes() const;
    /// The text after the mesh: the dims, then `, partial = sum {"tensor"}`, then places.
    std::string toString() const;
  }];
}

def Sharding_ConstraintAttr : Sharding_Attr<"Constraint", "constraint"> {
  let summary = "The layout that the user asks for";
  let description = [{
    ```mlir
    %w: tensor<8x6xf32> {sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{}, {"tensor"} ]> from "w=[-,tensor]">}
    ```

    The attribute is on an argument, or constrains a result of an op. An `open` dim
    may get further axes. If two constraints cannot both be kept, the one with the
    lower `priority` is kept. `from` is the text that the user wrote.

    1. There is a flag for each dim.
    2. It has the rank of the value that it constrains, and the op has the result.
    3. `sharding.constraint` holds such an attribute. The dialect's other
       attributes of ops are `sharding.mesh`, `sharding.composite` and
       `sharding.objective`, and arguments have no other.
  }];
  let parameters = (ins "LayoutAttr":$layout, ArrayRefParameter<"bool">:$open,
                        "int64_t":$priority, StringRefParameter<>:$from, "int64_t":$result);
  let genVerifyDecl = 1;
}

def Sharding_CostAttr : Sharding_Attr<"Cost", "cost"> {
  let summary = "The cost of layouts for one device in one step";
  let description = [{
    The cost has the number of `violations` of the user's constraints by level, the
    most important level first, up to the last level that is not 0; the bytes that a
    device sends; and its FLOPs. Costs are compared in this order (Objective.h).

    ```mlir
    #sharding.cost<violations = [0, 2], bytes = 4096, flops = 81920>
    #sharding.cost<bytes = 0, flops = 81920>
    ```

    1. No number is negative.
  }];
  let hasCustomAssemblyFormat = 0;
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$violations, "int64_t":$bytes, "int64_t":$flops);
  let assemblyFormat = "`<` (`violations` `=` `[` $violations^ `]` `,` ` `)? `bytes` `=` $bytes `,` `flops` `=` $flops `>`";
  let genVerifyDecl = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilder<(ins "::llvm::ArrayRef<int64_t>":$violations, "int64_t":$bytes, "int64_t":$flops), [{
      while (!violations.empty() && violations.back() == 0)
        violations = violations.drop_back();
      return $_get($_ctxt, violations, bytes, flops);
    }]>
  ];
}

def Sharding_ObjectiveAttr : Sharding_Attr<"Objective", "objective"> {
  let summary = "The cost that propagation minimised, with a lower bound";
  let description = [{
    `sharding.objective` of a function: the cost of its layouts, and a lower bound
    for all layouts.

    ```mlir
    #sharding.objective<value = <bytes = 4096, flops = 81920>, bound = <bytes = 4096, flops = 81920>>
    ```

    1. The bound is not above the value.
    2. `sharding.objective` holds such an attribute.
  }];
  let hasCustomAssemblyFormat = 0;
  let parameters = (ins "CostAttr":$value, "CostAttr":$bound);
  let assemblyFormat = "`<` `value` `=` $value `,` `bound` `=` $bound `>`";
  let genVerifyDecl = 1;
}

def Sharding_ReasonAttr : Sharding_Attr<"Reason", "reason"> {
  let summary = "The reason why a value moves, to be read by people";
  let description = [{
    `why` of an op that changes a layout, and of a collective: what moves (`value`),
    which op computes it (`producer`) in which layout (`from`), which op needs it
    (`user`) in which layout (`to`), and the user's constraint that forced the
    movement. Unknown parts are left out. If several values move together, `members`
    has the reason of each.

    ```mlir
    %y = sharding.all_reduce %x {why = #sharding.reason<user = "mul 'loss'", from = "[] partial sum over data", to = "[]">} : (tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}>>) -> tensor<f32, #sharding.layout<#mesh, []>>
    ```

    1. A member has no members.
    2. There is a member for each operand of the op, or none.
  }];
  let parameters = (ins StringRefParameter<>:$value, StringRefParameter<>:$producer, StringRefParameter<>:$user,
                        StringRefParameter<>:$from, StringRefParameter<>:$to, StringRefParameter<>:$constraint,
                        ArrayRefParameter<"ReasonAttr">:$members);
  let genVerifyDecl = 1;
}

// The `why` of an op.
def Sharding_Why : OptionalAttr<Sharding_ReasonAttr>;

#endif
