// RUN: polyrank-opt %s --bucket-collectives | FileCheck %s
// RUN: polyrank-opt %s --bucket-collectives=mb=0.00015 | FileCheck %s --check-prefix=FEW
// RUN: polyrank-opt %s --evaluate=distributed > %t.before
// RUN: polyrank-opt %s --bucket-collectives --evaluate=distributed | diff %t.before -
// RUN: polyrank-opt %s --bucket-collectives --localize --evaluate=ranks | FileCheck %s --check-prefix=VALUE
// Buckets inside microbatches: parameters are gathered together where the first
// of them is needed, in each phase for itself; parts of their gradients are
// reduced together where the last is ready.

#mesh = #sharding.mesh<["data"=2]>
!p = tensor<4x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!w = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!dw = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!x2 = tensor<2x6x4xf32, #sharding.layout<#mesh, [{}, {"data"}, {}]>>
!x = tensor<6x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!s = tensor<f32, #sharding.layout<#mesh, []>>
!i = tensor<i64, #sharding.layout<#mesh, []>>

// VALUE: @step ranks
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[A:.*]]: tensor<4x4xf32, {{.*}}#graph.parameter<@a>{{.*}} %[[B:.*]]: tensor<4x4xf32, {{.*}}#graph.parameter<@b>{{.*}} %[[C:.*]]: tensor<4x4xf32, {{.*}}#graph.parameter<@c>
// CHECK: graph.microbatches
// CHECK: %[[W:.*]]:3 = sharding.all_gather %[[A]], %[[B]], %[[C]] {why = {members = [{user = "a"}, {user = "b"}, {user = "c"}], user = "a; b; c", value = "parameters of 3 tensors"}}
// CHECK-NEXT: graph.matmul %{{.*}}, %[[W]]#0
// CHECK: graph.matmul %{{.*}}, %[[W]]#1
// CHECK: graph.matmul %{{.*}}, %[[W]]#2
// CHECK: graph.seed
// CHECK: %[[DZ:.*]] = graph.broadcast
// All wait for what the first of them waits for.
// CHECK: %[[AC:.*]] = graph.after %[[C]], %[[DZ]]
// CHECK-DAG: %[[AB:.*]] = graph.after %[[B]], %[[DZ]]
// CHECK-DAG: %[[AA:.*]] = graph.after %[[A]], %[[DZ]]
// CHECK: %[[AGAIN:.*]]:3 = sharding.all_gather %[[AC]], %[[AB]], %[[AA]]
// CHECK: graph.matmul %[[DZ]], %[[AGAIN]]#0
// CHECK-NOT: graph.after
// CHECK: %[[PARTS:.*]]:3 = sharding.reduce_scatter %{{.*}}, %{{.*}}, %{{.*}} {{.*}}value = "gradients of 3 tensors"
// CHECK: %[[DA:.*]] = graph.add %[[PARTS]]#2
// CHECK: graph.yield sum(%[[DA]], %[[PARTS]]#1, %[[PARTS]]#0)

// Two wholes of 64 bytes fit into 157.
// FEW-LABEL: func.func @step
// FEW: %{{.*}}:2 = sharding.all_gather %arg0, %arg1 {{.*}}
// FEW: sharding.all_gather %arg2
// FEW: %{{.*}}:2 = sharding.all_gather
// FEW: %{{.*}}:2 = sharding.reduce_scatter

func.func @step(%a: !p {graph.role = #graph.parameter<@a>}, %b: !p {graph.role = #graph.parameter<@b>}, %c: !p {graph.role = #graph.parameter<@c>}, %xs: !x2 {graph.role = #graph.input<"x">}) -> (!p {graph.role = #graph.next<0>}, !p {graph.role = #graph.next<1>}, !p {graph.role = #graph.next<2>}) {
  %sa, %sb, %sc = graph.microbatches count = 2 of(%xs) carry() {
  ^bb0(%i: !i, %x: !x):
    %wa = sharding.all_gather %a {why = {user = "a"}} : (!p) -> !w
    %u = graph.matmul %x, %wa batch [] x [] contract [1] x [0] : (!x, !w) -> !x
    %wb = sharding.all_gather %b {why = {user = "b"}} : (!p) -> !w
    %v = graph.matmul %u, %wb batch [] x [] contract [1] x [0] : (!x, !w) -> !x
    %wc = sharding.all_gather %c {why = {user = "c"}} : (!p) -> !w
    %z = graph.matmul %v, %wc batch [] x [] contract [1] x [0] : (!x, !w) -> !x
    %seed = graph.seed 1.0 : !s
    %dz = graph.broadcast %seed {dims = array<i64>, graph.origin = "loss"} : (!s) -> !x
    %dc = graph.matmul %v, %dz batch [] x [] contract [0] x [0] {graph.origin = "c"} : (!x, !x) -> !dw
    %rc = sharding.reduce_scatter %dc {why = {user = "c"}} : (!dw) -> !p
    %ac = graph.after %c, %dz : !p, !x
    %wc2 = sharding.all_gather %ac {why = {user = "c"}} : (!p) -> !w
    %dv = graph.matmul %dz, %wc2 batch [] x [] contract [1] x [1] {graph.origin = "c"} : (!x, !w) -> !x
    %db = graph.matmul %u, %dv batch [] x [] contract [0] x [0] {graph.origin = "b"} : (!x, !x) -> !dw
    %rb = sharding.reduce_scatter %db {why = {user = "b"}} : (!dw) -> !p
    %ab = graph.after %b, %dv : !p, !x
    %wb2 = sharding.all_gather %ab {why = {user = "b"}} : (!p) -> !w
    %du = graph.matmul %dv, %wb2 batch [] x [] contract [1] x [1] {graph.origin = "b"} : (!x, !w) -> !x
    %da = graph.matmul %x, %du batch [] x [] contract [0] x [0] {graph.origin = "a"} : (!x, !x) -> !dw
    %ra = sharding.reduce_scatter %da {why = {user = "a"}} : (!dw) -> !p
    %aa = graph.after %a, %du : !p, !x
    %wa2 = sharding.all_gather %aa {why = {user = "a"}} : (!p) -> !w
    %sum = graph.reduce sum %wa2 over [0, 1] {graph.origin = "a"} : (!w) -> !s
    %more = graph.broadcast %sum {dims = array<i64>, graph.origin = "a"} : (!s) -> !p
    %ra2 = graph.add %ra, %more : !p
    graph.yield sum(%ra2, %rb, %rc) carry() : !p, !p, !p
  } : (!x2) -> (!p, !p, !p)
  return %sa, %sb, %sc : !p, !p, !p
}
