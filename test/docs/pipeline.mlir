// Values of two stages, and numbers that both need. No other op takes them together.

// RUN: polyrank-opt %s --evaluate=distributed --seed=1 | FileCheck %s --check-prefix=VALUES
// RUN: sed 's/= pipeline.join sum \(.*\) : .*/= graph.add \1 : (!stage0, !stage1) -> !joined/' %s | not polyrank-opt 2>&1 | FileCheck %s --check-prefix=APART
// VALUES: result0: tensor<8x64xf32>
// VALUES: result1: tensor<f32>
// APART: error: {{.*}}every device computes the whole of it

#mesh = #sharding.mesh<["data"=2, "pipe"=2]>
!stage0 = tensor<f32, #sharding.layout<#mesh, [], at {"pipe" = 0}>>
!stage1 = tensor<f32, #sharding.layout<#mesh, [], at {"pipe" = 1}>>
!joined = tensor<f32, #sharding.layout<#mesh, [], partial = sum {"pipe"}>>
!everywhere = tensor<f32, #sharding.layout<#mesh, []>>

func.func @stages(%x: tensor<8x64xf32, #sharding.layout<#mesh, [{"data"}, {}], at {"pipe" = 0}>>, %of_stage_0: !stage0, %of_stage_1: !stage1)
    -> (tensor<8x64xf32, #sharding.layout<#mesh, [{"data"}, {}], at {"pipe" = 1}>>, !everywhere) {
%y = pipeline.transfer %x from 0 to 1 : tensor<8x64xf32, #sharding.layout<#mesh, [{"data"}, {}], at {"pipe" = 0}>>
                                     -> tensor<8x64xf32, #sharding.layout<#mesh, [{"data"}, {}], at {"pipe" = 1}>>
%norm = pipeline.join sum %of_stage_0, %of_stage_1 : (!stage0, !stage1) -> !joined   // partial over pipe
%all = sharding.all_reduce %norm : (!joined) -> !everywhere
  return %y, %all : tensor<8x64xf32, #sharding.layout<#mesh, [{"data"}, {}], at {"pipe" = 1}>>, !everywhere
}
