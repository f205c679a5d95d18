// The text of ops: what is printed is read as the same, and types stand once
// where they are all the same.

// RUN: polyrank-opt %s | FileCheck %s
// RUN: polyrank-opt %s > %t
// RUN: polyrank-opt %t | diff %t -
// RUN: polyrank-opt %S/sharding-rules.mlir > %t
// RUN: polyrank-opt %t | diff %t -

#mesh = #sharding.mesh<["data"=2]>
!x = tensor<4x3xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!p = tensor<4x3xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!r = tensor<4x3xf32, #sharding.layout<#mesh, [{}, {}]>>

// CHECK: graph.parameter @freqs : tensor<3x2xf32> at "model.pt2" offset 64 length 24 {complex}
graph.parameter @freqs : tensor<3x2xf32> at "model.pt2" offset 64 length 24 {complex}

// CHECK-LABEL: func.func @types
func.func @types(%x: !x, %y: !x, %p: !p, %i: tensor<4xi64>) -> (!x, !x, !x, tensor<4xf32>) {
  // CHECK: graph.add %{{.+}}, %{{.+}} {graph.scope = "s"} : tensor<4x3xf32, #sharding.layout<#mesh, [{"data"}, {}]>>{{$}}
  %0 = graph.add %x, %y {graph.scope = "s"} : !x
  // CHECK: graph.exp %{{.+}} : tensor<4x3xf32, #sharding.layout<#mesh, [{"data"}, {}]>>{{$}}
  %1 = graph.exp %0 : (!x) -> !x
  // CHECK: graph.gelu erf %{{.+}} : tensor<4x3xf32, #sharding.layout<#mesh, [{"data"}, {}]>>{{$}}
  %2 = graph.gelu erf %1 : !x
  // CHECK: graph.gelu_grad tanh %{{.+}}, %{{.+}} : tensor<4x3xf32, #sharding.layout<#mesh, [{"data"}, {}]>>{{$}}
  %3 = graph.gelu_grad tanh %2, %1 : !x
  // CHECK: graph.silu_grad %{{.+}}, %{{.+}} : tensor<4x3xf32, #sharding.layout<#mesh, [{"data"}, {}]>>{{$}}
  %4 = graph.silu_grad %3, %1 : !x
  // CHECK: graph.convert %{{.+}} : (tensor<4xi64>) -> tensor<4xf32>
  %5 = graph.convert %i : (tensor<4xi64>) -> tensor<4xf32>
  return %2, %3, %4, %5 : !x, !x, !x, tensor<4xf32>
}

// CHECK-LABEL: func.func @constants
func.func @constants() -> (!r, tensor<2xi64>) {
  // CHECK: graph.constant dense<1.000000e+00> : tensor<4x3xf32, #sharding.layout<#mesh, [{}, {}]>> {graph.scope = "s"}
  %0 = graph.constant dense<1.0> : !r {graph.scope = "s"}
  // CHECK: graph.constant dense<[1, 2]> : tensor<2xi64>{{$}}
  %1 = graph.constant dense<[1, 2]> : tensor<2xi64>
  return %0, %1 : !r, tensor<2xi64>
}

// Types that differ stand each in its place.
// CHECK-LABEL: func.func @partial
// CHECK: graph.mul %{{.+}}, %{{.+}} : ({{.*}}partial = sum {"data"}{{.*}}) -> {{.*}}partial
func.func @partial(%p: !p, %r: !r) -> !p {
  %0 = graph.mul %p, %r : (!p, !r) -> !p
  return %0 : !p
}
