// Ops of one device: its coordinates, library calls, kernels. Collectives are in
// CollectiveOps.td, attention in AttentionOps.td.

#ifndef POLYRANK_RANK_OPS_TD
#define POLYRANK_RANK_OPS_TD

include "dialects/rank/AttentionOps.td"
include "dialects/rank/CollectiveOps.td"
include "dialects/rank/TransferOps.td"
include "dialects/sharding/Sharding.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

defvar Rank_mayBeView = "::std::optional<::polyrank::rank::View> getView(unsigned result);";

def Rank_ConstantOp : Rank_Command<"constant", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "A constant that the plan holds: a whole tensor, or the block of this device";
  let description = [{
    ```mlir
    %c = rank.constant dense<[1.0, 2.0]> : tensor<2xf32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value, OptionalAttr<Rank_BufferArray>:$buffers);
  let results = (outs Rank_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let extraClassDeclaration = "bool isWrittenAtLoad() { return true; }";
}

def Rank_AxisIndexOp : Rank_Command<"axis_index", [Pure]> {
  let summary = "This device's linear index over axes";
  let description = [{
    ```mlir
    %i = rank.axis_index <#mesh, {"data"}> : tensor<i64>
    ```
  }];
  let arguments = (ins Rank_AxesAttr:$axes, OptionalAttr<Rank_BufferArray>:$buffers);
  let results = (outs Rank_Index:$result);
  let assemblyFormat = "$axes attr-dict `:` type($result)";
  let extraClassDeclaration = "bool isWrittenAtLoad() { return true; }";
}

def Rank_SliceOp : Rank_Command<"slice", [Pure]> {
  let summary = "This device's block of dim `dim`, by its index over `axes`";
  let description = [{
    ```mlir
    %y = rank.slice %x dim 0 over <#mesh, {"data"}> : (tensor<8x4xf32>) -> tensor<4x4xf32>
    ```

    1. The result has the operand's type, but dim `dim` is g times smaller.
  }];
  let arguments = (ins Rank_Tensor:$input, I64Attr:$dim, Rank_AxesAttr:$axes, OptionalAttr<Rank_BufferArray>:$buffers);
  let results = (outs Rank_Tensor:$result);
  let assemblyFormat = "$input `dim` $dim `over` $axes attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = Rank_mayBeView;
}

def Rank_ViewOp : Rank_Command<"view", [Pure]> {
  let summary = "Consecutive elements, in row-major order, under another shape";
  let description = [{
    The result is elements [offset, offset + size) of the operand and shares its
    buffer: no command runs.

    ```mlir
    %y = rank.view %x offset 16 : (tensor<8x4xf32>) -> tensor<2x2x4xf32>
    ```

    1. Element types are equal.
    2. The range lies inside the operand.
  }];
  let arguments = (ins Rank_Tensor:$input, DefaultValuedAttr<I64Attr, "0">:$offset,
                       OptionalAttr<Rank_BufferArray>:$buffers);
  let results = (outs Rank_Tensor:$result);
  let assemblyFormat = "$input `offset` $offset attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = Rank_mayBeView;
}

def Rank_CopyOp : Rank_Command<"copy"> {
  let summary = "Copies the operand to another buffer; inserted when buffers are assigned";
  let description = [{
    ```mlir
    %y = rank.copy %x {buffers = [#rank.buffer<private, 64, 32>]} : (tensor<8xf32>) -> tensor<8xf32>
    ```

    1. `buffers` has one entry for each result.
    2. The result has the operand's type.
  }];
  let arguments = (ins Rank_Tensor:$input, OptionalAttr<Rank_BufferArray>:$buffers);
  let results = (outs Rank_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Rank_WaitOp : Rank_Command<"wait", [AttrSizedOperandSegments]> {
  let summary = "Waits for the results of a collective that was started";
  let description = [{
    Returns when the collective has ended: its results are available, and its
    operands may be overwritten. The op names these operands to keep their buffers
    alive until then.

    ```mlir
    %p = rank.all_reduce sum %x over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> !rank.pending<tensor<4xf32>>
    ...
    %y = rank.wait %p of %x : (!rank.pending<tensor<4xf32>>, tensor<4xf32>) -> tensor<4xf32>
    ```

    1. It waits for all results of one collective, in order.
    2. `of` are the collective's operands.
    3. Results are the tensors that were in flight.
    4. It is in the collective's block.
  }];
  let arguments = (ins Variadic<Rank_PendingType>:$pending, Variadic<Rank_Tensor>:$of,
                       OptionalAttr<Rank_BufferArray>:$buffers);
  let results = (outs Variadic<Rank_Tensor>:$outputs);
  let assemblyFormat = "$pending `of` $of attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = Rank_mayBeView # [{
    CollectiveOp getCollective() { return getPending().front().getDefiningOp<CollectiveOp>(); }
  }];
}

def Rank_GemmOp : Rank_LibraryCall<"gemm", [Pure, AttrSizedOperandSegments]> {
  let summary = "Matrix product of operands read with strides: one library call";
  let description = [{
    Operands and result are taken as their elements in row-major order; strides and
    offsets count elements. With sizes [m, n, k], a at [oa, am, ak], b at [ob, bk,
    bn], row c and batch dims (count, sa, sb, sc), outermost first:

        result[i c + j + sum_d t_d sc_d] = addend[the same] + alpha * sum_l
            a[oa + i am + l ak + sum_d t_d sa_d] * b[ob + l bk + j bn + sum_d t_d sb_d]

    for i < m, j < n, l < k, t_d < count_d. Transposes, reshapes and slices of
    operands are strides, so they cost nothing. When buffers are assigned, the
    result takes the addend's buffer. `call` is the target's choice of how to
    compute it (such as `#cpu.call`), and `scratch` is the memory that the call works
    in.

    With `grouped` it is a grouped GEMM (`graph.grouped_matmul`, `grouped_outer`):
    the outermost batch dim is that of the groups, and product t_0 includes only the
    rows i (`#rank.grouped<rows>`), or the inner indices l (`inner`), whose number
    in `groups` is `ids[t_0]`.

    ```mlir
    // y[b, s, o] = sum_i x[b, s, i] w[o, i]
    %y = rank.gemm %x at [0, 16, 1], %w at [0, 1, 16] sizes [8, 32, 16] row 32 batch []
       : (tensor<2x4x16xf32>, tensor<32x16xf32>) -> tensor<2x4x32xf32>
    ```

    Products are added in the `accumulator`'s type; without it that of `a` and `b`.

    1. `a` and `b` have one float type. The accumulator has it too or is wider, and
       the result has one of the two.
    2. One of an operand's two strides is 1, and the other is at least the extent of
       the dim of stride 1; a dim of extent 1 may have any stride.
    3. No element outside an operand is read.
    4. Every element of the result is written exactly once; with grouped rows once
       by each group, all to the same places.
    5. The addend has the result's type.
    6. `batch` has four numbers per dim.
    7. A grouped product has `groups`, an i64 for each row i or index l, and `ids`,
       one for each product of its only batch dim; other products have neither.
  }];
  let arguments = (ins Rank_Tensor:$a, Rank_Tensor:$b, Optional<Rank_Tensor>:$addend,
                       Optional<Rank_Tensor>:$groups, Optional<Rank_Tensor>:$ids,
                       DenseI64ArrayAttr:$a_access, DenseI64ArrayAttr:$b_access,
                       DenseI64ArrayAttr:$sizes, I64Attr:$row, DenseI64ArrayAttr:$batch,
                       DefaultValuedAttr<F64Attr, "1.0">:$alpha, OptionalAttr<TypeAttrOf<AnyFloat>>:$accumulator,
                       OptionalAttr<Rank_GroupedAttr>:$grouped, OptionalAttr<AnyAttr>:$call, OptionalAttr<Rank_BufferAttr>:$scratch, OptionalAttr<Rank_BufferArray>:$buffers);
  let results = (outs Rank_Tensor:$result);
  let assemblyFormat = [{
    $a `at` $a_access `,` $b `at` $b_access (`add` $addend^)? (`groups` $groups^ `ids` $ids)?
    `sizes` $sizes `row` $row `batch` $batch attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    struct BatchDim { int64_t count, aStride, bStride, resultStride; };
    ::llvm::SmallVector<BatchDim> getBatchDims();
    int64_t getM() { return getSizes()[0]; }
    int64_t getN() { return getSizes()[1]; }
    int64_t getK() { return getSizes()[2]; }
    /// An operand as BLAS sees it: rows with leading dimension `leading`, or
    /// columns if it is transposed.
    struct Form { bool isTransposed; int64_t leading; };
    Form getAForm();
    Form getBForm();
    /// The type of the elements of `a` and `b`, and that in which their products
    /// are added.
    ::mlir::Type getElementType() { return getA().getType().getElementType(); }
    ::mlir::Type getAccumulatorType() {
      return getAccumulator() ? ::mlir::Type(*getAccumulator()) : getElementType();
    }
    ::polyrank::runtime::InPlace getInPlace(unsigned operand, unsigned result);
    ::std::optional<unsigned> getAddendNumber();
    int64_t getReadBegin(unsigned operand);
    /// 2 m n k times the number of batches; each row or index l of a grouped
    /// product counts in one batch only.
    int64_t getFlops();
    int64_t getBytes();
    /// Operands of equal form have one key, whatever their shapes.
    ::mlir::Attribute getKey();
    ::std::string getText();
    ::llvm::LogicalResult evaluate(::llvm::ArrayRef<::polyrank::graph::Tensor> operands,
                                   ::llvm::MutableArrayRef<::polyrank::graph::Tensor> results);
  }];
}

def Rank_KernelOp : Rank_Op<"kernel", [IsolatedFromAbove, FunctionOpInterface, Symbol]> {
  let summary = "Graph ops on local tensors that become one machine-code function";
  let description = [{
    Kernels are at module level; structurally equal ones are one kernel with many
    launches. Results have buffers of their own, disjoint from each other.

    ```mlir
    rank.kernel @add_mul(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<8x4xf32>
        attributes {in_place = [array<i64: 0, 1>]} {
      %0 = graph.add %x, %y : ...
      rank.return %0 : tensor<8x4xf32>
    }
    ```

    `in_place[r]` lists the arguments whose buffer result r may take. It is the
    decision of the target that schedules the kernel, since what runs at the same
    time is its own: before bytes of the result are written, all that is read of the
    same bytes of the argument has been read. The argument has at least the result's
    size in bytes.

    1. The body ends in `rank.return` of the result types.
    2. `in_place` has one list per result, of arguments at least as large.
    3. Tensors have no layout.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<ArrayAttr>:$in_place,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// Arguments whose buffer result `result` may take.
    ::llvm::ArrayRef<int64_t> getInPlace(unsigned result);
  }];
}

def Rank_ReturnOp : Rank_Op<"return", [Pure, Terminator, ReturnLike, ParentOneOf<["KernelOp"]>]> {
  let summary = "The results of a kernel";
  let description = [{
    ```mlir
    rank.return %y : tensor<8xf32>
    ```
  }];
  let arguments = (ins Variadic<Rank_Tensor>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
}

def Rank_LaunchOp : Rank_Command<"launch", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a kernel";
  let description = [{
    ```mlir
    %y:2 = rank.launch @kernel(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<f32>)
    ```

    1. The kernel exists and has these operand and result types.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Rank_Tensor>:$inputs,
                       OptionalAttr<Rank_BufferArray>:$buffers);
  let results = (outs Variadic<Rank_Tensor>:$outputs);
  let assemblyFormat = "$kernel `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)";
  let extraClassDeclaration = "::polyrank::runtime::InPlace getInPlace(unsigned operand, unsigned result);";
}

def Rank_MicrobatchesOp : Rank_Command<"microbatches",
    [AttrSizedOperandSegments, SingleBlock, NoTerminator]> {
  let summary = "Segments and the order in which they run for the microbatches";
  let description = [{
    The body holds segments. The attribute `schedule` lists the runs in order, each
    a segment and a microbatch: `0:2` is segment 0 for microbatch 2. A segment takes
    element i of dim 0 of each `of` operand, i being the microbatch, and values of
    the op's results that other runs have left; it gives new values of results.
    `getSource` says what each argument stands for. Results are of three kinds:

    - A *stash* hands a value from one segment to another segment of the same
      microbatch. It has k slots along dim 0, enough for all microbatches between
      the two segments: microbatch i uses slot i mod k.
    - A *carried* value starts as its `carry` operand, and each microbatch leaves it
      to the next. Carried values are the last results, as many as `carry` operands.
    - A *sum* has no operand: the first run that gives it starts it.

    ```mlir
    // Two microbatches go forward before the first goes backward.
    %loss, %kept, %stats1 = rank.microbatches [0:0, 1:1, 2:0, 1:2, 3:1, 3:2] of(%ids) carry(%stats) stashes [1] {
      rank.segment "forward first" takes [2] gives [1, 2] {
      ^bb0(%ids_i: tensor<8x128xi64>, %stats_i: tensor<16xf32>):
        ...
        rank.yield %kept_i, %stats_next : tensor<8x64xf32>, tensor<16xf32>
      }
      rank.segment "forward" takes [2] gives [1, 2] { ... }
      rank.segment "backward first" takes [1] gives [0] { ... }
      rank.segment "backward" takes [0, 1] gives [0] { ... }
    } : (tensor<3x8x128xi64>, tensor<16xf32>) -> (tensor<f32>, tensor<2x8x64xf32>, tensor<16xf32>)
    ```

    1. The body holds segments, and each of them runs.
    2. The runs name existing segments, and microbatches that dim 0 of each `of`
       operand has; no pair occurs twice.
    3. There are at most as many `carry` operands as results. Stashes are other
       results, in ascending order, with slots along dim 0.
    4. A value that a segment takes exists. For a stash, the same microbatch has
       given it, and no later microbatch has used its slot since; for other results,
       an earlier run has given it or it is carried in. Either all runs of a segment
       take a given value or all take a carried-in one.
    5. Sums and carried values are given by microbatches in ascending order, and
       each result is given by some microbatch.
  }];
  let arguments = (ins DenseI64ArrayAttr:$schedule, Variadic<Rank_Tensor>:$of, Variadic<Rank_Tensor>:$carry,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$stashes, OptionalAttr<Rank_BufferArray>:$buffers);
  let results = (outs Variadic<Rank_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    custom<Schedule>($schedule) `of` `(` $of `)` `carry` `(` $carry `)` (`stashes` $stashes^)? $body attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// One run of a segment.
    struct Run { int64_t segment, microbatch; };
    ::llvm::SmallVector<Run> getRuns();
    /// A shorter list of runs that suffices to check what lies where: a stretch
    /// that repeats for later microbatches is shortened to as many repetitions as
    /// let every microbatch of a cycle of slots occur once more.
    ::llvm::SmallVector<Run> getRunsToCheck();
    ::llvm::SmallVector<SegmentOp, 4> getSegments();
    /// The number of runs of each segment.
    ::llvm::SmallVector<int64_t> countRuns();
    /// The blocks of the segments.
    ::llvm::SmallVector<::mlir::Block *> getBlocks();
    /// One more than the last microbatch that is run.
    int64_t getCount();
    /// The number of slots of a stash; 0 for other results.
    int64_t getSlots(unsigned result);
    /// What an argument of a segment stands for: element i of dim 0 in
    /// microbatch i (of `slots`: element i mod slots), or all of it.
    struct Source { ::mlir::Value value; bool isSlice = false; int64_t slots = 0; };
    Source getSource(::mlir::BlockArgument argument);
    /// The operand with which a carried result starts; null for others.
    ::mlir::Value getInitial(unsigned result);
  }];
  let hasVerifier = 1;
}

def Rank_SegmentOp : Rank_Op<"segment", [SingleBlock, ParentOneOf<["MicrobatchesOp"]>]> {
  let summary = "A part of a microbatch that runs as a whole";
  let description = [{
    `takes` and `gives` are numbers of results of the surrounding
    `rank.microbatches`. The block's arguments are the slices for its microbatch and
    the values that it takes.

    ```mlir
    rank.segment "backward" takes [0, 1] gives [0] {
    ^bb0(%ids_i: tensor<8xi64>, %sum: tensor<f32>, %kept_i: tensor<8x4xf32>):
      ...
      rank.yield %next : tensor<f32>
    }
    ```

    1. `takes` and `gives` name results.
    2. Arguments are the slices and the values that it takes, of a stash one slot.
    3. It yields the values that it gives.
  }];
  let arguments = (ins StrAttr:$name, DenseI64ArrayAttr:$takes, DenseI64ArrayAttr:$gives);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$name `takes` $takes `gives` $gives $body attr-dict";
  let extraClassDeclaration = [{
    YieldOp getYield();
  }];
}

def Rank_LoopOp : Rank_Command<"loop", [AttrSizedOperandSegments, IsolatedFromAbove, SingleBlock]> {
  let summary = "Commands that run once per element of dim 0, in sequence";
  let description = [{
    A `graph.scan` on one device. Iteration i takes element i of dim 0 of each `of`
    operand (with `reversed` the last one comes first), the carried values, which
    start as the `carry` operands, and the `uses`. It gives element i of each stack,
    and the next carried values; results are the stacks, then the carried values.
    The elements of a stack are adjacent in memory, and a carried value stays in one
    buffer.

    ```mlir
    %ys, %last = rank.loop 16 of(%xs) carry(%h) uses(%w) {
    ^bb0(%x: tensor<4x8xf32>, %before: tensor<4x8xf32>, %weight: tensor<8x8xf32>):
      %sum = rank.gemm %before at [0, 8, 1], %weight at [0, 8, 1] add %x sizes [4, 8, 8] row 8 batch []
         : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %next = rank.launch @tanh(%sum) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      rank.yield %next, %next : tensor<4x8xf32>, tensor<4x8xf32>
    } : (tensor<16x4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> (tensor<16x4x8xf32>, tensor<4x8xf32>)
    ```

    1. There are at least two iterations, and each `of` operand and each stack has
       as many elements along dim 0.
    2. Block arguments are the elements, the carried values, the uses.
    3. It yields the elements of the stacks, then the carried values, whose types
       do not change.
    4. The body neither communicates nor holds a loop.
  }];
  let arguments = (ins I64Attr:$count, Variadic<Rank_Tensor>:$of, Variadic<Rank_Tensor>:$carry,
                       Variadic<Rank_Tensor>:$uses, UnitAttr:$reversed, OptionalAttr<Rank_BufferArray>:$buffers);
  let results = (outs Variadic<Rank_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $count (`reversed` $reversed^)? `of` `(` $of `)` `carry` `(` $carry `)` `uses` `(` $uses `)` $body attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    unsigned getNumStacks() { return getNumResults() - getCarry().size(); }
    YieldOp getYield();
    /// What an argument of the body stands for: of an `of` operand, the element
    /// of the iteration.
    struct Source { ::mlir::Value value; bool isElement = false; };
    Source getSource(::mlir::BlockArgument argument);
    /// The offset of the first iteration's element, of `bytes` bytes.
    int64_t getFirst(int64_t bytes) { return getReversed() ? (getCount() - 1) * bytes : 0; }
    /// The distance from one iteration's element to that of the next.
    int64_t getEach(int64_t bytes) { return getReversed() ? -bytes : bytes; }
    /// The buffer of the iteration's `element` in the value at `whole`, which has
    /// one element for each iteration.
    BufferAttr getElementBuffer(BufferAttr whole, ::mlir::Value element);
    ::polyrank::runtime::InPlace getInPlace(unsigned operand, unsigned result);
  }];
  let hasVerifier = 1;
}

def Rank_YieldOp : Rank_Op<"yield", [Pure, Terminator, ParentOneOf<["SegmentOp", "LoopOp"]>]> {
  let summary = "The values that a segment or an iteration gives";
  let description = [{
    ```mlir
    rank.yield %loss, %stats : tensor<f32>, tensor<16xf32>
    ```
  }];
  let arguments = (ins Variadic<Rank_Tensor>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
}

#endif
