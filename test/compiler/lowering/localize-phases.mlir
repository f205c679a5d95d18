// RUN: polyrank-opt %s --localize | FileCheck %s
// RUN: polyrank-opt %s --localize --form-segments | FileCheck %s --check-prefix=SEGMENTS
// All that a device computes for an op is of its phase, and so is what adds up
// the parts of a gradient; where a device stands in the mesh is of none.

#mesh = #sharding.mesh<["data"=2]>
!s = tensor<f32, #sharding.layout<#mesh, []>>
!i = tensor<i64, #sharding.layout<#mesh, []>>
!x = tensor<6x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!sum = tensor<6x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!xs = tensor<3x6x4xf32, #sharding.layout<#mesh, [{}, {}, {}]>>

// CHECK-LABEL: func.func @step
// CHECK: rank.axis_index <#mesh, {"data"}> : tensor<i64>
// CHECK: graph.microbatches
// CHECK: graph.tanh %{{.*}} : tensor<6x4xf32>
// CHECK: graph.seed 1.000000e+00 {graph.phase = #graph.phase<backward>}
// CHECK: graph.compare {{.*}}graph.phase = #graph.phase<backward>
// CHECK: graph.select {{.*}}graph.phase = #graph.phase<backward>
// CHECK: graph.yield
// CHECK: rank.all_reduce {{.*}}graph.phase = #graph.phase<backward>
// CHECK: graph.neg %{{.*}} {graph.phase = #graph.phase<update>}

// SEGMENTS: rank.segment "rest"
// SEGMENTS: graph.add {{.*}} {graph.phase = #graph.phase<backward>}
func.func @step(%xs: !xs {graph.role = #graph.input<"x">}) -> (!x {graph.role = #graph.output<"a">}) {
  %d = graph.microbatches count = 3 of(%xs) carry() {
  ^bb0(%i: !i, %x: !x):
    %a = graph.tanh %x : !x
    %seed = graph.seed 1.0 : !s
    %b = graph.broadcast %seed {dims = array<i64>} : (!s) -> !x
    %c = graph.mul %a, %b : !x
    %p = sharding.to_partial %c : (!x) -> !sum
    graph.yield sum(%p) carry() : !sum
  } : (!xs) -> (!sum)
  %r = sharding.all_reduce %d : (!sum) -> !x
  %n = graph.neg %r {graph.phase = #graph.phase<update>} : !x
  return %n : !x
}
