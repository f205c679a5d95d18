// The kernel dialect: loops over elements.

#ifndef POLYRANK_KERNEL_OPS_TD
#define POLYRANK_KERNEL_OPS_TD

include "dialects/sharding/Sharding.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Kernel_Dialect : Dialect {
  let name = "kernel";
  let summary = "Kernels as loops over elements";
  let description = [{
    The level between ops on tensors and machine code: one set of loops, index
    arithmetic that is linear in the loop variables, and the ops of `arith` and
    `math` on elements. The order and the vectors in which a machine runs the loops
    are not part of it: they are a kernel schedule, which the target chooses.
  }];
  let cppNamespace = "::polyrank::kernel";
}

// A constant plus a sum of loop variables with coefficients, such as `3 + d0 * 4 +
// d1`.
def Kernel_AffineProp : Property<"::polyrank::kernel::Affine", "linear expression of loop variables",
                                 "const ::polyrank::kernel::Affine &"> {
  let hashProperty = "hashAffine($_storage)";
}
def Kernel_VariablesProp : Property<"::llvm::SmallVector<::polyrank::kernel::Variable>", "loop variables",
                                    "::llvm::ArrayRef<::polyrank::kernel::Variable>"> {
  let convertFromStorage = "::llvm::ArrayRef<::polyrank::kernel::Variable>($_storage)";
  let assignToStorage = "$_storage.assign($_value.begin(), $_value.end())";
  let hashProperty = "hashVariables($_storage)";
}
def Kernel_Tensor : RankedTensorOf<[AnyFloat, AnySignlessInteger]>;
def Kernel_Element : AnyTypeOf<[AnyFloat, AnySignlessInteger]>;

class Kernel_Op<string mnemonic, list<Trait> traits = []> : Op<Kernel_Dialect, mnemonic, traits>;

def Kernel_LoopsOp : Kernel_Op<"loops", [SingleBlock, NoTerminator, NoRegionArguments, RecursiveMemoryEffects]> {
  let summary = "All results as functions of one set of loop variables";
  let description = [{
    Variables over which no reduction runs are *parallel*. The others are *reduced*,
    and every reduction runs over all of them. Shape ops have become index
    arithmetic: a tensor is a row-major array of its elements. A softmax over the
    rows of a 256x1024 tensor:

    ```mlir
    %y = kernel.loops [256, reduce 1024] (%x : tensor<256x1024xf32>) -> tensor<256x1024xf32> {
      %0 = kernel.load %x[d0 * 1024 + d1] : tensor<256x1024xf32>
      %1 = kernel.reduce max %0 : f32
      %2 = arith.subf %0, %1 : f32
      %3 = math.exp %2 : f32
      %4 = kernel.reduce sum %3 : f32
      %5 = arith.divf %3, %4 : f32
      kernel.store %5 to 0[d0 * 1024 + d1] : f32
    }
    ```

    `schedule` is the kernel schedule that a target chose (an attribute of the
    target).

    1. Sizes are at least 1, and expressions mention only existing variables.
    2. The body holds ops of `arith`, `math` and this dialect without regions;
       what they read from outside are the operands.
    3. Every result is stored once: each element by exactly one point of the
       parallel variables, or of all variables. Alternatively the only op that
       writes is a `kernel.scatter_add`, and the single result has its shape from
       that.
    4. A load without a condition or an index stays within its tensor, and a
       `kernel.scatter_add` within the result.
    5. Floats of less than 32 bits are only moved, selected and converted: a
       formula computes with them in f32, and its result is rounded once.
  }];
  let arguments = (ins Variadic<Kernel_Tensor>:$arguments, Kernel_VariablesProp:$variables,
                       OptionalAttr<AnyAttr>:$schedule);
  let results = (outs Variadic<Kernel_Tensor>);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$results, "::mlir::ValueRange":$arguments,
                                 "::llvm::ArrayRef<::polyrank::kernel::Variable>":$variables)>];
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    /// The number of values in the loops: nodes of the expression.
    size_t countValues();
    ::llvm::SmallVector<int64_t> getSizes();
    /// The number of points of the reduced variables, or of the parallel ones.
    int64_t getNumPoints(bool ofReduced);
    bool hasReductions();
    ::mlir::RankedTensorType getArgumentType(unsigned argument);
    ::mlir::RankedTensorType getResultType(unsigned result);
    /// Which operand a load reads.
    unsigned getArgumentNumber(::mlir::Value tensor);
    ::std::vector<StoreOp> getStores();
    /// Null if results are stored.
    ScatterAddOp getScatter();
    /// Returns true if the store has an element for each point of all variables,
    /// false if only for each parallel point.
    bool isFull(StoreOp store);
    /// Merges variables that every expression could address as one variable.
    void mergeVariables();
    /// Evaluates the results point by point; a sum, also one that is scattered,
    /// is rounded once.
    ::llvm::LogicalResult evaluate(::llvm::ArrayRef<::polyrank::graph::Tensor> operands,
                                   ::llvm::MutableArrayRef<::polyrank::graph::Tensor> results,
                                   ::polyrank::graph::Rounding rounding = ::polyrank::graph::Rounding::Exact);
  }];
}

def Kernel_LoadOp : Kernel_Op<"load", [Pure, AttrSizedOperandSegments]> {
  let summary = "Reads an element of an argument";
  let description = [{
    The value is element `offset + sum_k indices[k] * strides[k]`. If the predicate
    is false nothing is read, and the value is zero.

    ```mlir
    %0 = kernel.load %x[1 + d0 * 8] : tensor<64xf32>
    %1 = kernel.load %table[d1] + [%i * 64] if %inside : tensor<100x64xf32>
    ```

    1. The result is an element of the tensor, and each index has a stride.
  }];
  let arguments = (ins Kernel_Tensor:$source, Variadic<I64>:$indices, Optional<I1>:$predicate,
                       Kernel_AffineProp:$offset, ArrayProp<I64Prop>:$strides);
  let results = (outs Kernel_Element:$result);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$source, "const ::polyrank::kernel::Affine &":$offset,
                                 "::mlir::ValueRange":$indices, "::llvm::ArrayRef<int64_t>":$strides,
                                 "::mlir::Value":$predicate)>];
}

def Kernel_IndexOp : Kernel_Op<"index", [Pure]> {
  let summary = "The value of an expression of the loop variables";
  let description = [{
    ```mlir
    %0 = kernel.index [7 + d0 * 2]
    ```
  }];
  let arguments = (ins Kernel_AffineProp:$value);
  let results = (outs I64:$result);
  let assemblyFormat = "` ` `[` custom<Affine>($value) `]` attr-dict";
}

def Kernel_InRangeOp : Kernel_Op<"in_range", [Pure]> {
  let summary = "lower <= expression < upper";
  let description = [{
    ```mlir
    %0 = kernel.in_range [-1 + d0] from 0 to 8
    ```
  }];
  let arguments = (ins Kernel_AffineProp:$value, I64Prop:$lower, I64Prop:$upper);
  let results = (outs I1:$result);
  let assemblyFormat = "` ` `[` custom<Affine>($value) `]` `from` $lower `to` $upper attr-dict";
}

def Kernel_ReduceOp : Kernel_Op<"reduce", [Pure]> {
  let summary = "A reduction over all points of the reduced variables";
  let description = [{
    Each element is converted to the type of the result, the accumulator, and
    combined with the others in that type, so that a sum of narrow floats is
    rounded only where the program rounds it. The kernel schedule determines the
    order, on which the bits of sums depend.

    ```mlir
    %1 = kernel.reduce sum %0 : f32
    %2 = kernel.reduce sum %x : bf16 into f32
    ```

    1. The accumulator is the input's type, or a wider float for floats.
    2. Floats of less than 32 bits have a wider accumulator.
  }];
  let arguments = (ins Sharding_ReductionKind:$kind, Kernel_Element:$input);
  let results = (outs Kernel_Element:$result);
  let assemblyFormat = "$kind $input attr-dict `:` custom<ReducedTypes>(type($input), type($result))";
  let hasVerifier = 1;
}

def Kernel_PhiloxOp : Kernel_Op<"philox", [Pure]> {
  let summary = "First word of Philox-4x32-10";
  let description = [{
    The random bits of an element, counted by its index in the global tensor, under
    a key made of the seed and the op's `id`, at a step and microbatch (Salmon et
    al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011).

    ```mlir
    %0 = kernel.philox 7(%index, %seed, %step, %microbatch)
    ```
  }];
  let arguments = (ins I64Prop:$id, I64:$index, I64:$seed, I64:$step, I64:$microbatch);
  let results = (outs I32:$result);
  let assemblyFormat = "$id `(` $index `,` $seed `,` $step `,` $microbatch `)` attr-dict";
}

def Kernel_StoreOp : Kernel_Op<"store", [HasParent<"LoopsOp">]> {
  let summary = "Writes an element of a result";
  let description = [{
    ```mlir
    kernel.store %v to 0[d0 * 1024 + d1] : f32
    ```

    1. The value is an element of that result.
  }];
  let arguments = (ins Kernel_Element:$value, I64Prop:$number, Kernel_AffineProp:$offset);
  let assemblyFormat = "$value `to` $number `[` custom<Affine>($offset) `]` attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Kernel_ScatterAddOp : Kernel_Op<"scatter_add", [HasParent<"LoopsOp">]> {
  let summary = "Adds to elements of the result";
  let description = [{
    The result starts as `init`, or as zeros. For every point of the variables in
    ascending order, the update is added to element offset + index * stride if the
    index lies in [0, limit).

    ```mlir
    kernel.scatter_add %update at %index to [d1] stride 64 limit 100 init(%table : tensor<100x64xf32>) : i64, f32
    ```

    1. The one result has the update's element type, and the type of `init`.
    2. Floats have at least 32 bits: others are converted before they are added.
  }];
  let arguments = (ins Kernel_Element:$update, AnySignlessInteger:$index, Optional<Kernel_Tensor>:$init,
                       Kernel_AffineProp:$offset, I64Prop:$stride, I64Prop:$limit);
  let assemblyFormat = [{
    $update `at` $index `to` ` ` `[` custom<Affine>($offset) `]` `stride` $stride `limit` $limit
    (`init` `(` $init^ `:` type($init) `)`)? attr-dict `:` type($index) `,` type($update)
  }];
  let hasVerifier = 1;
}

#endif
