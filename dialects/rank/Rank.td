// The rank dialect: what one device runs, on local tensors.

#ifndef POLYRANK_RANK_TD
#define POLYRANK_RANK_TD

include "dialects/rank/LibraryCallInterface.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/OpBase.td"

def Rank_Dialect : Dialect {
  let name = "rank";
  let summary = "The program of one device";
  let description = [{
    A program in local shapes that every device of a stage runs: tensors have no
    layout, and `graph` ops compute on one device's blocks. Devices differ only
    by their coordinates in the mesh, which `rank.axis_index` reads and
    collectives use to find their peers. Values are immutable until buffers are
    assigned; then `#rank.buffer` attributes say where each one lies.

    A function of this level records the global type of what crosses its
    boundary: `rank.global = tensor<8x16xf32, #sharding.layout<..>>` on each
    argument and result.

    Usually all ranks run one function. In a pipeline there is one function for each
    coordinate of the pipe axis, with the attribute `rank.at = {pipe = 1 : i64}`.
    Its arguments and results have their global number, `rank.number = 2 : i64`; the
    same number may occur in several functions.

    `rank.denormals = "flush"` of a module says that devices take denormal numbers
    (those below the least normal one, 1.2e-38 in float32) for zero, `"keep"` that
    they compute with them. A module without it flushes them. Evaluations are exact
    and ignore it.

    A machine file (`--machine`) says more than rates and links. The rest is
    `rank.reach` of the module, a dictionary of what the file states:

    | part | |
    |---|---|
    | `launch`, `host` | picoseconds of a kernel on the device, and of any command on the host that issues it |
    | `products` | the rows and columns of a tile, and the number of tiles and the depth with which a product reaches half of the rate |
    | `devices` | those of a node |
    | `node`, `network` | the links within a node and between nodes: the `latency` in picoseconds, the picoseconds `per_byte`, pairs of a size in bytes and the share of the bandwidth that it has `reached`, and the numbers of `algorithms` (0: halving, 1: ring, 2: tree) |
    | `hierarchical` | collectives may run within nodes and between them, one after the other |
    | `linked` | the axes that have a link of their own (`--link`) |

    - **R1** `rank.at` has an integer for each axis that it names.
    - **R2** `rank.denormals` is `"flush"` or `"keep"`.
    - **reach 1** `rank.reach` is a dictionary, and stands on a module.
    - **reach 2** It has the parts above: times are numbers that are not negative,
      `products` has three numbers, and there is at least one device.
    - **reach 3** `devices` and `node` stand together.
  }];
  let cppNamespace = "::polyrank::rank";
  let dependentDialects = ["::polyrank::sharding::ShardingDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
      void registerAttributes();
      void registerTypes();
      void registerOps();

    public:
      /// The target of modules without a machine (`rank.machine`), which whoever
      /// registers targets sets; null if there is none.
      ::mlir::Attribute getDefaultTarget() const { return defaultTarget; }
      void setDefaultTarget(::mlir::Attribute target) { defaultTarget = target; }

    private:
      ::mlir::Attribute defaultTarget;
  }];
}

def Rank_Region : I32EnumAttr<"Region", "who may touch a buffer", [
  I32EnumAttrCase<"Shared", 0, "shared">, I32EnumAttrCase<"Private", 1, "private">]> {
  let cppNamespace = "::polyrank::rank";
}

class Rank_Attr<string name, string mnemonic_, list<Trait> traits = []>
    : AttrDef<Rank_Dialect, name, traits> {
  let mnemonic = mnemonic_;
}

def Rank_AxesAttr : Rank_Attr<"Axes", "axes"> {
  let summary = "Sub-axes of a mesh, major to minor";
  let description = [{
    As a number: the mixed-radix index of a device over the axes. As a group: the
    devices that differ only in these coordinates, ordered by that index.

    ```mlir
    #rank.axes<#mesh, {"data", "tensor":(1)2}>
    ```

    1. The sub-axes do not overlap.
  }];
  let parameters = (ins "::polyrank::sharding::MeshAttr":$mesh,
                        ArrayRefParameter<"::polyrank::sharding::AxisRef">:$axes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilderWithInferredContext<(ins "::polyrank::sharding::MeshAttr":$mesh,
        "::llvm::ArrayRef<::polyrank::sharding::AxisRef>":$axes), [{
      return $_get(mesh.getContext(), mesh, ::polyrank::sharding::merged(mesh, axes));
    }]>
  ];
  let extraClassDeclaration = [{
    /// Number of devices of a group.
    int64_t getGroupSize() const { return ::polyrank::sharding::product(getAxes()); }
  }];
}

def Rank_BufferAttr : Rank_Attr<"Buffer", "buffer"> {
  let summary = "A range of the arena, in bytes";
  let description = [{
    In microbatch i, on the device with index p over the axes, the range starts at
    offset + i * stride + p * step. With slots it starts at offset + (i mod slots) *
    stride + p * step, so that microbatch i reuses the place of microbatch i -
    slots. With axes the range is a block of a larger buffer, a different one on
    each device. In iteration j of a loop it starts j * each bytes further (each may
    be negative).

    ```mlir
    #rank.buffer<private, 128, 64>
    #rank.buffer<shared, 4096, 1024 stride 1024>
    #rank.buffer<private, 4096, 1024 stride 1024 slots 2>
    #rank.buffer<shared, 4096, 512 step 512 over <#mesh, {"data"}>>
    #rank.buffer<private, 960, 64 each -64>
    ```

    1. `slots` needs a stride, and is not negative.
  }];
  let parameters = (ins "::polyrank::rank::Region":$region, "int64_t":$offset,
                        "int64_t":$size, "int64_t":$stride, "int64_t":$slots,
                        "int64_t":$step,
                        OptionalParameter<"::polyrank::rank::AxesAttr">:$axes,
                        "int64_t":$each);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilder<(ins "::polyrank::rank::Region":$region, "int64_t":$offset,
                     "int64_t":$size, CArg<"int64_t", "0">:$stride,
                     CArg<"int64_t", "0">:$slots, CArg<"int64_t", "0">:$step,
                     CArg<"::polyrank::rank::AxesAttr", "{}">:$axes,
                     CArg<"int64_t", "0">:$each), [{
      return $_get($_ctxt, region, offset, size, stride, slots, step, axes, each);
    }]>
  ];
  let extraClassDeclaration = [{
    /// The number of blocks, one for each index over the axes.
    int64_t getNumBlocks() const {
      return getAxes() ? getAxes().getGroupSize() : 1;
    }
    /// The distance from the range of microbatch 0 to that of `microbatch`.
    int64_t getShift(int64_t microbatch) const {
      return (getSlots() ? microbatch % getSlots() : microbatch) * getStride();
    }
    /// The first byte in any of `iterations` of a loop, in microbatch 0.
    int64_t getBegin(int64_t iterations = 1) const {
      return getOffset() + std::min<int64_t>(0, getEach() * (iterations - 1));
    }
    /// The end (exclusive) of the bytes in any of `count` microbatches and
    /// `iterations` of a loop, on any device.
    int64_t getEnd(int64_t count, int64_t iterations = 1) const {
      int64_t places = getSlots() ? std::min(getSlots(), count) : count;
      return getOffset() + getStride() * (places - 1) +
             std::max<int64_t>(0, getEach() * (iterations - 1)) +
             getStep() * (getNumBlocks() - 1) + getSize();
    }
    /// The device's block, over `axes`, of a value here that consists of blocks of
    /// `bytes` bytes.
    BufferAttr getBlock(AxesAttr axes, int64_t bytes) const {
      return get(getContext(), getRegion(), getOffset(), bytes, getStride(), getSlots(), bytes, axes, getEach());
    }
    /// The microbatch's element of an array with elements of `bytes` bytes. With
    /// `slots` the array has that many elements, used round-robin.
    BufferAttr getElement(int64_t bytes, int64_t slots) const {
      return get(getContext(), getRegion(), getOffset(), bytes, slots == 1 ? 0 : bytes,
                 slots == 1 ? 0 : slots, getStep(), getAxes());
    }
    /// The element of a loop's iteration in an array with elements of `bytes`
    /// bytes: at `first` in the first iteration, and `each` bytes further in
    /// each following one.
    BufferAttr getIteration(int64_t bytes, int64_t first, int64_t each) const {
      return get(getContext(), getRegion(), getOffset() + first, bytes,
                 getStride(), getSlots(), getStep(), getAxes(), each);
    }
    /// `size` bytes of the range, from byte `begin` on.
    BufferAttr getPart(int64_t begin, int64_t size) const {
      return get(getContext(), getRegion(), getOffset() + begin, size,
                 getStride(), getSlots(), getStep(), getAxes(), getEach());
    }
  }];
}

def Rank_ArenaAttr : Rank_Attr<"Arena", "arena"> {
  let summary = "The size of a rank's memory";
  let description = [{
    `rank.arena` of a function whose values have buffers: the bytes of its two
    regions, and the `lower_bound`, the peak of the bytes that are live at once.

    ```mlir
    #rank.arena<shared = 0, private = 192, lower_bound = 192>
    ```

    1. No number is negative.
    2. Live bytes lie in the regions: lower_bound <= shared + private.
    3. `rank.arena` holds such an attribute. The dialect's other attributes of
       ops are `rank.at`, `rank.machine`, `rank.reach` and `rank.denormals`.
  }];
  let parameters = (ins "int64_t":$sharedBytes, "int64_t":$privateBytes,
                        DefaultValuedParameter<"int64_t", "0">:$lowerBound);
  let assemblyFormat = [{
    `<` `shared` `=` $sharedBytes `,` `private` `=` $privateBytes
    (`,` `lower_bound` `=` $lowerBound^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getBytes(Region region) const {
      return region == Region::Shared ? getSharedBytes() : getPrivateBytes();
    }
    int64_t getBytes() const { return getSharedBytes() + getPrivateBytes(); }
  }];
}

def Rank_BufferArray : TypedArrayAttrBase<Rank_BufferAttr, "buffers">;

def Rank_Grouped : I32EnumAttr<"Grouped", "which dim of a product is in groups", [
  I32EnumAttrCase<"Rows", 0, "rows">, I32EnumAttrCase<"Inner", 1, "inner">]> {
  let cppNamespace = "::polyrank::rank";
  let genSpecializedAttr = 0;
}

// `grouped` of a `rank.gemm`: `#rank.grouped<rows>`, `#rank.grouped<inner>`.
def Rank_GroupedAttr : EnumAttr<Rank_Dialect, Rank_Grouped, "grouped"> {
  let assemblyFormat = "`<` $value `>`";
}

// The type of a block on one device: static shape, no layout.
def Rank_Tensor : RankedTensorOf<[AnyFloat, AnySignlessInteger]>;

def Rank_PendingType : TypeDef<Rank_Dialect, "Pending"> {
  let mnemonic = "pending";
  let summary = "A tensor that a collective is still writing";
  let description = [{
    The result of a collective that is started. Only `rank.wait` takes it, so
    nothing can use a value in flight.

    ```mlir
    !rank.pending<tensor<8x4xf32>>
    ```
  }];
  let parameters = (ins "::mlir::RankedTensorType":$tensor);
  let assemblyFormat = "`<` $tensor `>`";
}
def Rank_TensorOrPending : AnyTypeOf<[Rank_Tensor, Rank_PendingType]>;
def Rank_Index : 0DTensorOf<[I64]>;

class Rank_Op<string mnemonic, list<Trait> traits = []> : Op<Rank_Dialect, mnemonic, traits>;
class Rank_Command<string mnemonic, list<Trait> traits = []>
    : Rank_Op<mnemonic, !listconcat([Rank_CommandOpInterface], traits)>;
class Rank_LibraryCall<string mnemonic, list<Trait> traits = []>
    : Rank_Command<mnemonic, !listconcat([Rank_LibraryCallOpInterface], traits)>;

include "dialects/rank/Machine.td"

#endif
