// RUN: polyrank-opt %s --bucket-collectives | FileCheck %s
// RUN: polyrank-opt %s --bucket-collectives=mb=0.0001 | FileCheck %s --check-prefix=FEW
// RUN: polyrank-opt %s --evaluate=distributed > %t.before
// RUN: polyrank-opt %s --bucket-collectives --evaluate=distributed | diff %t.before -
// RUN: polyrank-opt %s --bucket-collectives --localize --evaluate=ranks | FileCheck %s --check-prefix=VALUE
// Buckets inside microbatches: parameters are gathered together where the first
// of them is needed, in each phase for itself, and no more at once than the
// largest has bytes; parts of their gradients are reduced together where the
// last is ready.

#mesh = #sharding.mesh<["data"=2]>
!p = tensor<4x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!w = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!dw = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!pc = tensor<4x12xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!wc = tensor<4x12xf32, #sharding.layout<#mesh, [{}, {}]>>
!dwc = tensor<4x12xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!x2 = tensor<2x6x4xf32, #sharding.layout<#mesh, [{}, {"data"}, {}]>>
!x = tensor<6x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!z = tensor<6x12xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!s = tensor<f32, #sharding.layout<#mesh, []>>
!i = tensor<i64, #sharding.layout<#mesh, []>>

// VALUE: @step ranks
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[A:.*]]: tensor<4x4xf32, {{.*}}#graph.parameter<@a>{{.*}} %[[B:.*]]: tensor<4x4xf32, {{.*}}#graph.parameter<@b>{{.*}} %[[C:.*]]: tensor<4x12xf32, {{.*}}#graph.parameter<@c>
// CHECK: graph.microbatches
// CHECK: %[[W:.*]]:2 = sharding.all_gather %[[A]], %[[B]] {why = #sharding.reason<value = "parameters of 2 tensors", user = "a; b", members = [<user = "a">, <user = "b">]>}
// CHECK-NEXT: graph.matmul %{{.*}}, %[[W]]#0
// CHECK-NEXT: graph.matmul %{{.*}}, %[[W]]#1
// CHECK: %[[WC:.*]] = sharding.all_gather %[[C]]
// CHECK: graph.matmul %{{.*}}, %[[WC]]
// CHECK: graph.seed
// CHECK: %[[DZ:.*]] = graph.mul
// CHECK: %[[AC:.*]] = graph.after %[[C]], %[[DZ]]
// CHECK: sharding.all_gather %[[AC]]
// CHECK: %[[DV:.*]] = graph.matmul %[[DZ]]
// Both wait for what the first of them waits for.
// CHECK-DAG: %[[AB:.*]] = graph.after %[[B]], %[[DV]]
// CHECK-DAG: %[[AA:.*]] = graph.after %[[A]], %[[DV]]
// CHECK: %[[AGAIN:.*]]:2 = sharding.all_gather %[[AB]], %[[AA]]
// CHECK: graph.matmul %[[DV]], %[[AGAIN]]#0
// CHECK-NOT: graph.after
// CHECK: %[[PARTS:.*]]:3 = sharding.reduce_scatter %{{.*}}, %{{.*}}, %{{.*}} {{.*}}value = "gradients of 3 tensors"
// CHECK: %[[DA:.*]] = graph.add %[[PARTS]]#2
// CHECK: graph.yield sum(%[[DA]], %[[PARTS]]#1, %[[PARTS]]#0)

// No two wholes of 64 bytes fit into 104.
// FEW-LABEL: func.func @step
// FEW-NOT: :2 = sharding

func.func @step(%a: !p {graph.role = #graph.parameter<@a>}, %b: !p {graph.role = #graph.parameter<@b>}, %c: !pc {graph.role = #graph.parameter<@c>}, %xs: !x2 {graph.role = #graph.input<"x">}) -> (!p {graph.role = #graph.next<0>}, !p {graph.role = #graph.next<1>}, !pc {graph.role = #graph.next<2>}) {
  %sa, %sb, %sc = graph.microbatches count = 2 of(%xs) carry() {
  ^bb0(%i: !i, %x: !x):
    %wa = sharding.all_gather %a {why = #sharding.reason<user = "a">} : (!p) -> !w
    %u = graph.matmul %x, %wa batch [] x [] contract [1] x [0] : (!x, !w) -> !x
    %wb = sharding.all_gather %b {why = #sharding.reason<user = "b">} : (!p) -> !w
    %v = graph.matmul %u, %wb batch [] x [] contract [1] x [0] : (!x, !w) -> !x
    %wc = sharding.all_gather %c {why = #sharding.reason<user = "c">} : (!pc) -> !wc
    %z = graph.matmul %v, %wc batch [] x [] contract [1] x [0] : (!x, !wc) -> !z
    %seed = graph.seed 1.0 : !s
    %more = graph.broadcast %seed {dims = array<i64>} : (!s) -> !z
    %dz = graph.mul %more, %z : !z
    %dc = graph.matmul %v, %dz batch [] x [] contract [0] x [0] : (!x, !z) -> !dwc
    %rc = sharding.reduce_scatter %dc {why = #sharding.reason<user = "c">} : (!dwc) -> !pc
    %ac = graph.after %c, %dz : !pc, !z
    %wc2 = sharding.all_gather %ac {why = #sharding.reason<user = "c">} : (!pc) -> !wc
    %dv = graph.matmul %dz, %wc2 batch [] x [] contract [1] x [1] : (!z, !wc) -> !x
    %db = graph.matmul %u, %dv batch [] x [] contract [0] x [0] : (!x, !x) -> !dw
    %rb = sharding.reduce_scatter %db {why = #sharding.reason<user = "b">} : (!dw) -> !p
    %ab = graph.after %b, %dv : !p, !x
    %wb2 = sharding.all_gather %ab {why = #sharding.reason<user = "b">} : (!p) -> !w
    %du = graph.matmul %dv, %wb2 batch [] x [] contract [1] x [1] : (!x, !w) -> !x
    %da = graph.matmul %x, %du batch [] x [] contract [0] x [0] : (!x, !x) -> !dw
    %ra = sharding.reduce_scatter %da {why = #sharding.reason<user = "a">} : (!dw) -> !p
    %aa = graph.after %a, %du : !p, !x
    %wa2 = sharding.all_gather %aa {why = #sharding.reason<user = "a">} : (!p) -> !w
    %sum = graph.reduce sum %wa2 over [0, 1] : (!w) -> !s
    %same = graph.broadcast %sum {dims = array<i64>} : (!s) -> !p
    %ra2 = graph.add %ra, %same {graph.phase = #graph.phase<update>} : !p
    graph.yield sum(%ra2, %rb, %rc) carry() : !p, !p, !pc
  } : (!x2) -> (!p, !p, !pc)
  return %sa, %sb, %sc : !p, !p, !pc
}
