// Gradients that are rounded before devices add them up (--reduce-dtype), and a
// parameter that is converted before it is gathered.

// RUN: polyrank-opt %s --partition-stage="zero=0 threshold=1" 2>/dev/null | FileCheck %s --check-prefix=ZERO
// RUN: polyrank-opt %s --partition-stage="zero=1 threshold=1" 2>/dev/null | FileCheck %s --check-prefix=ONE
// RUN: polyrank-opt %s --partition-stage="zero=2 threshold=1" 2>/dev/null | FileCheck %s --check-prefix=TWO
// RUN: polyrank-opt %s --partition-stage="zero=3 threshold=1" 2>/dev/null | FileCheck %s --check-prefix=THREE
// RUN: polyrank-opt %s --evaluate=distributed > %t.before
// RUN: polyrank-opt %s --partition-stage="zero=0 threshold=1" --evaluate=distributed 2>/dev/null | diff %t.before -
// RUN: polyrank-opt %s --partition-stage="zero=2 threshold=1" --evaluate=distributed 2>/dev/null | diff %t.before -
// RUN: polyrank-opt %s --partition-stage="zero=3 threshold=1" --evaluate=distributed 2>/dev/null | diff %t.before -

#mesh = #sharding.mesh<["data"=2]>
!w = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}]>>
!w16 = tensor<4x4xbf16, #sharding.layout<#mesh, [{}, {}]>>
!dw = tensor<4x4xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!dw16 = tensor<4x4xbf16, #sharding.layout<#mesh, [{}, {}], partial = sum {"data"}>>
!b = tensor<4xf32, #sharding.layout<#mesh, [{}]>>
!b16 = tensor<4xbf16, #sharding.layout<#mesh, [{}]>>
!xs = tensor<2x6x4xf32, #sharding.layout<#mesh, [{}, {"data"}, {}]>>
!x = tensor<6x4xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!x16 = tensor<6x4xbf16, #sharding.layout<#mesh, [{"data"}, {}]>>
!i = tensor<i64, #sharding.layout<#mesh, []>>
!s = tensor<f32, #sharding.layout<#mesh, []>>

func.func @step(%w: !w {graph.role = #graph.parameter<@w>}, %b: !b {graph.role = #graph.parameter<@b>}, %xs: !xs {graph.role = #graph.input<"x">})
    -> (!w {graph.role = #graph.next<0>}, !b {graph.role = #graph.next<1>}) {
  %w16 = graph.convert %w : (!w) -> !w16
  %dw = graph.microbatches count = 2 of(%xs) carry() {
  ^bb0(%i: !i, %x: !x):
    %x16 = graph.convert %x : (!x) -> !x16
    %y = graph.matmul %x16, %w16 batch [] x [] contract [1] x [0] : (!x16, !w16) -> !x16
    %seed = graph.seed 1.0 : !s
    %one = graph.broadcast %seed {dims = array<i64>} : (!s) -> !x
    %y32 = graph.convert %y : (!x16) -> !x
    %dz = graph.mul %y32, %one : !x
    %dz16 = graph.convert %dz : (!x) -> !x16
    %dwi = graph.matmul %x16, %dz16 batch [] x [] contract [0] x [0] : (!x16, !x16) -> !dw
    graph.yield sum(%dwi) carry() : !dw
  } : (!xs) -> (!dw)
  %parts = graph.convert %dw {parts} : (!dw) -> !dw16
  %whole = sharding.reshard %parts : (!dw16) -> !w16
  %g16 = graph.gradient %whole of @w : !w16
  %g = graph.convert %g16 : (!w16) -> !w
  %new = graph.sub %w, %g : !w
  // Nobody adds this one up with others.
  %seed2 = graph.seed 1.0 : !s
  %db = graph.broadcast %seed2 {dims = array<i64>} : (!s) -> !b
  %own = graph.convert %db {parts} : (!b) -> !b16
  %gb16 = graph.gradient %own of @b : !b16
  %gb = graph.convert %gb16 : (!b16) -> !b
  %newb = graph.sub %b, %gb : !b
  return %new, %newb : !w, !b
}

// The parts are rounded, reduced in bf16, and the update reads f32. What has no
// parts is not rounded.
// ZERO: graph.matmul {{.*}} partial = sum {"data"}>>
// ZERO: %[[PARTS:.+]] = graph.convert %{{.+}} {graph.phase = {{.*}}parts}
// ZERO: %[[ALL:.+]] = sharding.all_reduce %[[PARTS]] {{.*}}xbf16
// ZERO: %[[G:.+]] = graph.convert %[[ALL]]
// ZERO: graph.sub %arg0, %[[G]]
// ZERO-NOT: 4xbf16, #sharding.layout<#mesh, [{}]>>
// ZERO: return

// ONE: %[[PARTS:.+]] = graph.convert %{{.+}} {graph.phase = {{.*}}parts}
// ONE: %[[PART:.+]] = sharding.reduce_scatter %[[PARTS]] {{.*}}xbf16
// ONE: graph.convert %[[PART]] {{.*}} -> tensor<4x4xf32

// With stage 2 the parts of each microbatch are rounded and their sum is f32.
// TWO: graph.microbatches
// TWO: %[[PARTS:.+]] = graph.convert %{{.+}} {{.*}}parts}
// TWO: %[[PART:.+]] = sharding.reduce_scatter %[[PARTS]] {{.*}}xbf16
// TWO: %[[WIDE:.+]] = graph.convert %[[PART]] {{.*}} -> tensor<4x4xf32
// TWO: graph.yield sum(%[[WIDE]]) carry() : tensor<4x4xf32
// TWO-NOT: parts}
// TWO: return

// With stage 3 a device converts its part, and bf16 is gathered.
// THREE: %[[W16:.+]] = graph.convert %arg0 {{.*}} -> tensor<4x4xbf16
// THREE: graph.microbatches
// THREE: %[[ALL:.+]] = sharding.all_gather %[[W16]] {{.*}}xbf16
// THREE: graph.matmul %{{.+}}, %[[ALL]]
// THREE-NOT: all_gather {{.*}}xf32
// THREE: return
