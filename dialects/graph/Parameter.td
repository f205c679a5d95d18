// Parameters: tensors of the user's file, known by name.

#ifndef POLYRANK_GRAPH_PARAMETER_TD
#define POLYRANK_GRAPH_PARAMETER_TD

include "dialects/graph/Graph.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"

def Graph_ParameterOp : Op<Graph_Dialect, "parameter", [Symbol]> {
  let summary = "A stored tensor of the user's model";
  let description = [{
    A module-level symbol under the model's own name for it. Its elements stay
    where they are: `path`, `offset` and `length` (bytes) are a span of the
    user's file, row-major of type `type`; of a matrix that the file holds
    `transposed`, its dims are swapped there. Elements that the file encodes one
    by one lie in no span and are the `value`. `aliases` are further names of the
    same tensor (tied weights). Functions take it, whole or in parts, as
    arguments with the role `#graph.parameter<@name>`.

    ```mlir
    graph.parameter @"h.0.attn.c_attn.weight" : tensor<768x2304xf32>
      at "model.onnx.data" offset 4096 length 7077888 {trainable}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Graph_Tensor>:$type,
                       StrAttr:$path, I64Attr:$offset, I64Attr:$length,
                       UnitAttr:$trainable, OptionalAttr<StrArrayAttr>:$aliases,
                       UnitAttr:$transposed, OptionalAttr<ElementsAttr>:$value);
  let assemblyFormat = "$sym_name `:` $type `at` $path `offset` $offset `length` $length attr-dict";
}

#endif
