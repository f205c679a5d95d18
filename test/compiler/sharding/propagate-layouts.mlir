// RUN: polyrank-opt %s --propagate-layouts | FileCheck %s
// RUN: polyrank-opt %s --propagate-layouts=report=true 2>&1 | FileCheck %s --check-prefix=REPORT
// From a constraint on one weight to a layout of every tensor: the product of
// the split dim is a partial sum, which a reshard completes for the output.

#mesh = #sharding.mesh<["tensor"=2]>
module attributes {sharding.mesh = #mesh} {

// REPORT: remark: layouts: {{[0-9]+}} bytes sent and {{[0-9]+}} FLOPs by each device a step; nothing less is possible (gap 0)
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8x6xf32, #sharding.layout<#mesh, [{"tensor"}, {}]>>
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>
// CHECK-NOT: sharding.constraint
// CHECK-SAME: sharding.objective = #sharding.objective<value = {{.*}}, bound = {{.*}}>
// CHECK: %[[P:.*]] = graph.matmul %[[X]], %[[W]]
// CHECK-SAME: -> tensor<4x6xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"tensor"}>>
// CHECK: %[[Y:.*]] = sharding.reshard %[[P]]
// CHECK-SAME: constraint = "w=[tensor,-]"
// CHECK-SAME: -> tensor<4x6xf32, #sharding.layout<#mesh, [{}, {}]>>
// CHECK: return %{{.*}}, %[[Y]]
func.func @step(
    %w: tensor<8x6xf32> {graph.role = #graph.parameter<@w>, sharding.constraint = #sharding.constraint<#sharding.layout<#mesh, [{"tensor"}, {}]> from "w=[tensor,-]">},
    %x: tensor<4x8xf32> {graph.role = #graph.input<"x">})
    -> (tensor<8x6xf32> {graph.role = #graph.next<0>}, tensor<4x6xf32> {graph.role = #graph.output<"y">}) {
  %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %w, %y : tensor<8x6xf32>, tensor<4x6xf32>
}
}
