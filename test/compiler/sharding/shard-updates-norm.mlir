// RUN: polyrank-opt %s --shard-updates=threshold=1 | FileCheck %s
// RUN: polyrank-opt %s --shard-updates='threshold=1 stage=0' | FileCheck %s --check-prefix=ZERO0
// RUN: polyrank-opt %s --shard-updates='threshold=1 axes=tensor' | FileCheck %s --check-prefix=AXIS
// RUN: not polyrank-opt %s --shard-updates='threshold=1 axes=tensr' 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: polyrank-opt %s --shard-updates=threshold=1 --plan-reshards --check-partition | FileCheck %s --check-prefix=PLAN
// RUN: polyrank-opt %s --shard-updates=stage=0 --plan-reshards --evaluate=distributed --outputs=%t.npz
// RUN: polyrank-opt %s --shard-updates=threshold=1 --plan-reshards --evaluate=distributed --expect=%t.npz
// RUN: polyrank-opt %s --shard-updates='threshold=1 axes=tensor' --plan-reshards --evaluate=distributed --expect=%t.npz
// What reads gradients besides the update, such as the norm that they are
// clipped by, is laid out again between parts: a norm over parts is a partial
// sum, and one number is reduced.

#mesh = #sharding.mesh<["data"=2, "tensor"=2]>
!w = tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!dw = tensor<8x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!odd = tensor<7x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!dodd = tensor<7x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!scalar = tensor<f32, #sharding.layout<#mesh, []>>

// CHECK-LABEL: func.func @clip
// CHECK-DAG: %[[GW:.*]] = sharding.reshard %{{.*}} -> tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
// CHECK-DAG: %[[GV:.*]] = sharding.reshard %{{.*}} -> tensor<28xf32, #sharding.layout<#mesh, [{"data"}]>>
// CHECK-DAG: %[[SW:.*]] = graph.mul %[[GW]], %[[GW]]
// CHECK-DAG: %[[SV:.*]] = graph.mul %[[GV]], %[[GV]]
// CHECK-DAG: %[[NW:.*]] = graph.reduce sum %[[SW]] over [0, 1] {{.*}} -> tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}>>
// CHECK-DAG: %[[NV:.*]] = graph.reduce sum %[[SV]] over [0] {{.*}} -> tensor<f32, #sharding.layout<#mesh, [], partial = sum {"data"}>>
// CHECK: %[[SUM:.*]] = graph.add %[[NW]], %[[NV]]
// CHECK: %[[ALL:.*]] = sharding.reshard %[[SUM]]
// CHECK: %[[NORM:.*]] = graph.sqrt %[[ALL]]
// CHECK: graph.broadcast %{{.*}} -> tensor<8x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
// CHECK: return {{.*}}, %[[NORM]]
// The gradients are reduced to parts, and one scalar.
// PLAN: sharding.reduce_scatter
// PLAN: sharding.reduce_scatter
// PLAN: sharding.all_reduce {{.*}} -> tensor<f32
// PLAN-NOT: sharding.all_reduce
// Without stages nothing changes, and no mark is left.
// ZERO0-LABEL: func.func @clip
// ZERO0-NOT: graph.gradient
// ZERO0-NOT: [{"data"}
// ZERO0: return
// Where both axes hold the same parameter, the user may choose another.
// AXIS: graph.sub {{.*}} : tensor<8x4xf32, #sharding.layout<#mesh, [{"tensor"}, {}]>>
// WRONG: --zero-axis: the mesh has no axis 'tensr'; it has data, tensor
func.func @clip(%w: !w {graph.role = #graph.parameter<@w>}, %v: !odd {graph.role = #graph.parameter<@v>}, %dw: !w {graph.role = #graph.input<"dw">}, %dv: !odd {graph.role = #graph.input<"dv">}) -> (!w {graph.role = #graph.next<0>}, !odd {graph.role = #graph.next<1>}, !scalar {graph.role = #graph.output<"grad_norm">}) {
  %pw = sharding.to_partial %dw : (!w) -> !dw
  %rw = sharding.reshard %pw : (!dw) -> !w
  %gw = graph.gradient %rw of @w : !w
  %pv = sharding.to_partial %dv : (!odd) -> !dodd
  %rv = sharding.reshard %pv : (!dodd) -> !odd
  %gv = graph.gradient %rv of @v : !odd
  %sw = graph.mul %gw, %gw : !w
  %nw = graph.reduce sum %sw over [0, 1] : (!w) -> !scalar
  %sv = graph.mul %gv, %gv : !odd
  %nv = graph.reduce sum %sv over [0, 1] : (!odd) -> !scalar
  %sum = graph.add %nw, %nv : !scalar
  %norm = graph.sqrt %sum : !scalar
  %fw = graph.broadcast %norm {dims = array<i64>} : (!scalar) -> !w
  %fv = graph.broadcast %norm {dims = array<i64>} : (!scalar) -> !odd
  %uw = graph.div %gw, %fw : !w
  %uv = graph.div %gv, %fv : !odd
  %nextw = graph.sub %w, %uw : !w
  %nextv = graph.sub %v, %uv : !odd
  return %nextw, %nextv, %norm : !w, !odd, !scalar
}
