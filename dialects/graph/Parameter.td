// Parameters: tensors of the user's file, known by name.

#ifndef POLYRANK_GRAPH_PARAMETER_TD
#define POLYRANK_GRAPH_PARAMETER_TD

include "dialects/graph/Graph.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"

def Graph_ParameterOp : Op<Graph_Dialect, "parameter", [Symbol]> {
  let summary = "A stored tensor of the user's model";
  let description = [{
    A module-level symbol with the model's own name for the tensor. Its elements
    stay where they are: `path`, `offset` and `length` (bytes) are a span of the
    user's file, row-major of type `type`; if the file holds a matrix `transposed`,
    its dims are swapped in the file. Elements that the file encodes one by one lie
    in no span and are the `value`. `aliases` are further names of the same tensor
    (tied weights). A tensor of `complex` numbers has an additional last dim here,
    for real and imaginary part.

    ```mlir
    graph.parameter @"h.0.attn.c_attn.weight" : tensor<768x2304xf32>
      at "model.onnx.data" offset 4096 length 7077888 {trainable}
    graph.parameter @freqs_cis : tensor<64x16x2xf32>
      at "model.pt2" offset 4096 length 8192 {complex}
    ```

    1. The parts of complex numbers are of f32 or f64.
    2. The last dim of complex numbers is 2.
    3. Complex numbers are not `transposed`.
    4. Complex numbers are not `trainable`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Graph_Tensor>:$type,
                       StrAttr:$path, I64Attr:$offset, I64Attr:$length,
                       UnitAttr:$trainable, OptionalAttr<StrArrayAttr>:$aliases,
                       UnitAttr:$transposed, OptionalAttr<ElementsAttr>:$value,
                       UnitAttr:$complex);
  let assemblyFormat = "$sym_name `:` $type `at` $path `offset` $offset `length` $length attr-dict";
  let hasVerifier = 1;
}

#endif
