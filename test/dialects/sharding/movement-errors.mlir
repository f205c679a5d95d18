// RUN: polyrank-opt %s --split-input-file --verify-diagnostics
// A collective whose result has another layout than it leads to.

#mesh = #sharding.mesh<["x"=2, "y"=2]>
!rows = tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {}]>>
!columns = tensor<8x8xf32, #sharding.layout<#mesh, [{}, {"x"}]>>
func.func @gather_that_splits(%x: !rows) -> !columns {
  // expected-error @+1 {{[M4] operand 0 of layout [{"x"}, {}] cannot become [{}, {"x"}]: dim 0 goes from {"x"} to {}, but all_gather removes the most minor axes of one dim; sharding.all_to_all does this}}
  %y = sharding.all_gather %x : (!rows) -> !columns
  return %y : !columns
}

// -----

#mesh = #sharding.mesh<["x"=2, "y"=2]>
!sum = tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"x"}>>
!rows = tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>
func.func @reduction_that_splits(%x: !sum) -> !rows {
  // expected-error @+1 {{dim 0 goes from {} to {"x"}, but all_reduce removes axes from 'partial'; sharding.reduce_scatter does this}}
  %y = sharding.all_reduce %x : (!sum) -> !rows
  return %y : !rows
}

// -----

#mesh = #sharding.mesh<["x"=2, "y"=2]>
!whole = tensor<8xf32, #sharding.layout<#mesh, [{}]>>
func.func @doubled_reduction(%x: !whole) -> !whole {
  // expected-error @+1 {{the layouts are equal, but all_reduce removes axes from 'partial'; remove the op}}
  %y = sharding.all_reduce %x : (!whole) -> !whole
  return %y : !whole
}

// -----

#mesh = #sharding.mesh<["x"=2, "y"=2]>
!both = tensor<8xf32, #sharding.layout<#mesh, [{"x", "y"}]>>
!minor = tensor<8xf32, #sharding.layout<#mesh, [{"y"}]>>
func.func @gather_of_the_major_axis(%x: !both) -> !minor {
  // expected-error @+1 {{dim 0 goes from {"x", "y"} to {"y"}, but all_gather removes the most minor axes of one dim; sharding.reshard does this, and plan-reshards lowers it}}
  %y = sharding.all_gather %x : (!both) -> !minor
  return %y : !minor
}

// -----

#mesh = #sharding.mesh<["x"=2]>
!split = tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8]>>
!other = tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 10]>>
func.func @repad_of_a_split_dim(%x: !split) -> !other {
  // expected-error @+1 {{dim 0 goes from padded extent 8 to 10, but repad changes the padded extent of dims that are not split}}
  %y = sharding.repad %x : (!split) -> !other
  return %y : !other
}

// -----

#mesh = #sharding.mesh<["x"=2, "y"=2]>
!x = tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"x"}>>
!y = tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"y"}>>
!whole = tensor<8xf32, #sharding.layout<#mesh, [{}]>>
func.func @bucket_of_two_groups(%x: !x, %y: !y) -> (!whole, !whole) {
  // expected-error @+1 {{[M5] operand 1 moves over {"y"}, operand 0 over {"x"}; make them two ops}}
  %a, %b = sharding.all_reduce %x, %y : (!x, !y) -> (!whole, !whole)
  return %a, %b : !whole, !whole
}

// -----

#mesh = #sharding.mesh<["x"=2, "y"=2]>
!sum = tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"x"}>>
!max = tensor<8xf32, #sharding.layout<#mesh, [{}], partial = max {"x"}>>
!whole = tensor<8xf32, #sharding.layout<#mesh, [{}]>>
func.func @bucket_of_two_kinds(%x: !sum, %y: !max) -> (!whole, !whole) {
  // expected-error @+1 {{[M5] operand 1 is a partial max, operand 0 a sum; make them two ops}}
  %a, %b = sharding.all_reduce %x, %y : (!sum, !max) -> (!whole, !whole)
  return %a, %b : !whole, !whole
}

// -----

#mesh = #sharding.mesh<["x"=2, "p"=2]>
!here = tensor<8xf32, #sharding.layout<#mesh, [{}], at {"p" = 0}>>
!there = tensor<8xf32, #sharding.layout<#mesh, [{}], at {"p" = 1}>>
func.func @reshard_to_another_place(%x: !here) -> !there {
  // expected-error @+1 {{the place differs, and no op moves a value to another place}}
  %y = sharding.reshard %x : (!here) -> !there
  return %y : !there
}

// -----

#mesh = #sharding.mesh<["x"=2]>
!split = tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>
func.func @two_operands_that_become_one(%x: !split) {
  // expected-error @+1 {{[M1] has 2 operands and 1 results; operand i becomes result i, and there is at least one}}
  %y = sharding.all_gather %x, %x : (!split, !split) -> tensor<8xf32, #sharding.layout<#mesh, [{}]>>
  return
}

// -----

#mesh = #sharding.mesh<["x"=2]>
!split = tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>
func.func @result_without_a_layout(%x: !split) -> tensor<8xf32> {
  // expected-error @+1 {{'sharding.all_gather' op [M3] result 0 has no layout}}
  %y = sharding.all_gather %x : (!split) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

#mesh = #sharding.mesh<["x"=2]>
!split = tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>
func.func @gather_that_joins_shapes(%x: !split) {
  // expected-error @+1 {{[M2] operand 0 of type 'tensor<8xf32, #sharding.layout<#sharding.mesh<["x"=2]>, [{"x"}]>>' cannot become 'tensor<16xf32, #sharding.layout<#sharding.mesh<["x"=2]>, [{}]>>': shape and element type stay}}
  %y = sharding.all_gather %x : (!split) -> tensor<16xf32, #sharding.layout<#mesh, [{}]>>
  return
}

// -----

#mesh = #sharding.mesh<["x"=2]>
#other = #sharding.mesh<["y"=2]>
func.func @to_another_mesh(%x: tensor<8xf32, #sharding.layout<#mesh, [{}]>>) {
  // expected-error @+1 {{[M3] operand 0 and result 0 are laid out over two meshes, #sharding.mesh<["x"=2]> and #sharding.mesh<["y"=2]>}}
  %y = sharding.slice %x : (tensor<8xf32, #sharding.layout<#mesh, [{}]>>) -> tensor<8xf32, #sharding.layout<#other, [{"y"}]>>
  return
}

// -----

// A scatter onto a dim that a device cannot tell apart.
#mesh = #sharding.mesh<["x"=2]>
!max = tensor<8xf32, #sharding.layout<#mesh, [{}], partial = max {"x"}>>
func.func @slice_of_a_partial(%x: !max) {
  // expected-error @+1 {{dim 0 goes from {} to {"x"}, but slice adds most minor axes, over which the operand is replicated, to one dim; sharding.reduce_scatter does this}}
  %y = sharding.slice %x : (!max) -> tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>
  return
}

// -----

#mesh = #sharding.mesh<["x"=2]>
!split = tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {}]>>
func.func @exchange_within_a_dim(%x: !split) {
  // expected-error @+1 {{dim 0 goes from {"x"} to {}, but all_to_all takes the most minor axes of one dim and adds them as the most minor ones of another; sharding.all_gather does this}}
  %y = sharding.all_to_all %x : (!split) -> tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}]>>
  return
}

// -----

#mesh = #sharding.mesh<["x"=2]>
!padded = tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8]>>
func.func @fill_forgotten(%x: !padded) {
  // expected-error @+1 {{dim 0 goes from {"x"} to {}, but all_gather removes the most minor axes of one dim; sharding.reshard does this, and plan-reshards lowers it}}
  %y = sharding.all_gather %x : (!padded) -> tensor<7xf32, #sharding.layout<#mesh, [{} pad 8 fill zero]>>
  return
}

// -----

#mesh = #sharding.mesh<["x"=2]>
!whole = tensor<8xf32, #sharding.layout<#mesh, [{}]>>
func.func @partial_from_a_split(%x: tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>) {
  // expected-error @+1 {{dim 0 goes from {"x"} to {}, but to_partial makes a replicated value partial; sharding.reshard does this, and plan-reshards lowers it}}
  %y = sharding.to_partial %x : (tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"x"}>>
  return
}

// -----

#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @permute_to_another_dim(%x: tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {}]>>) {
  // expected-error @+1 {{dim 0 goes from {"x"} to {}, but permute changes the axes of dims and keeps the number of blocks of each; sharding.reshard does this, and plan-reshards lowers it}}
  %y = sharding.permute %x : (tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {}]>>) -> tensor<8x8xf32, #sharding.layout<#mesh, [{}, {"x", "y"}]>>
  return
}

// -----

#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @scatter_over_another_axis(%x: tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"x"}>>) {
  // expected-error @+1 {{dim 0 goes from {} to {"y"}, but reduce_scatter removes axes from 'partial' and adds them as the most minor ones of one dim; sharding.reshard does this, and plan-reshards lowers it}}
  %y = sharding.reduce_scatter %x : (tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"x"}>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"y"}]>>
  return
}

// -----

#mesh = #sharding.mesh<["x"=2]>
func.func @halo_that_splits(%x: tensor<8xf32, #sharding.layout<#mesh, [{}]>>) {
  // expected-error @+1 {{dim 0 goes from {} to {"x"}, but halo adds borders to a split dim that has none; sharding.reshard does this, and plan-reshards lowers it}}
  %y = sharding.halo %x : (tensor<8xf32, #sharding.layout<#mesh, [{}]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"x"} halo 1:1]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @halo_of_two_dims(%x: tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {"y"}]>>) {
  // expected-error @+1 {{dim 0 changes its borders, but halo adds borders to a split dim that has none; sharding.reshard does this}}
  %y = sharding.halo %x : (tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {"y"}]>>) -> tensor<8x8xf32, #sharding.layout<#mesh, [{"x"} halo 1:1, {"y"} halo 1:1]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2]>
func.func @copies_are_not_added(%x: tensor<8xf32, #sharding.layout<#mesh, [{"x"} halo 1:1]>>) {
  // expected-error @+1 {{dim 0 changes its borders, but halo_add adds the sums that a split dim holds for its neighbours to their blocks}}
  %y = sharding.halo_add %x : (tensor<8xf32, #sharding.layout<#mesh, [{"x"} halo 1:1]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @maxima_are_not_added(%x: tensor<8xf32, #sharding.layout<#mesh, [{"x"} spill 1:1], partial = max {"y"}>>) {
  // expected-error @+1 {{dim 0 changes its borders}}
  %y = sharding.halo_add %x : (tensor<8xf32, #sharding.layout<#mesh, [{"x"} spill 1:1], partial = max {"y"}>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"x"}], partial = max {"y"}>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @gather_that_reduces(%x: tensor<8xf32, #sharding.layout<#mesh, [{"x"}], partial = sum {"y"}>>) {
  // expected-error @+1 {{but all_gather removes the most minor axes of one dim; sharding.reshard does this}}
  %y = sharding.all_gather %x : (tensor<8xf32, #sharding.layout<#mesh, [{"x"}], partial = sum {"y"}>>) -> tensor<8xf32, #sharding.layout<#mesh, [{}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @gather_of_borders(%x: tensor<8xf32, #sharding.layout<#mesh, [{"x"} halo 1:1]>>) {
  // expected-error @+1 {{but all_gather removes the most minor axes of one dim}}
  %y = sharding.all_gather %x : (tensor<8xf32, #sharding.layout<#mesh, [{"x"} halo 1:1]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @gather_that_repads(%x: tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8]>>) {
  // expected-error @+1 {{but all_gather removes the most minor axes of one dim}}
  %y = sharding.all_gather %x : (tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{} pad 10]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @gather_of_two_dims(%x: tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {"y"}]>>) {
  // expected-error @+1 {{but all_gather removes the most minor axes of one dim}}
  %y = sharding.all_gather %x : (tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {"y"}]>>) -> tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @slice_of_two_dims(%x: tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}]>>) {
  // expected-error @+1 {{but slice adds most minor axes}}
  %y = sharding.slice %x : (tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}]>>) -> tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {"y"}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @slice_by_a_major_axis(%x: tensor<8xf32, #sharding.layout<#mesh, [{"y"}]>>) {
  // expected-error @+1 {{but slice adds most minor axes}}
  %y = sharding.slice %x : (tensor<8xf32, #sharding.layout<#mesh, [{"y"}]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"x", "y"}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @slice_that_fills(%x: tensor<7xf32, #sharding.layout<#mesh, [{} pad 8]>>) {
  // expected-error @+1 {{but slice adds most minor axes}}
  %y = sharding.slice %x : (tensor<7xf32, #sharding.layout<#mesh, [{} pad 8]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8 fill zero]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @reduction_to_another_kind(%x: tensor<8xf32, #sharding.layout<#mesh, [{}], partial = max {"x", "y"}>>) {
  // expected-error @+1 {{but all_reduce removes axes from 'partial'}}
  %y = sharding.all_reduce %x : (tensor<8xf32, #sharding.layout<#mesh, [{}], partial = max {"x", "y"}>>) -> tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"y"}>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @reduction_of_a_whole(%x: tensor<8xf32, #sharding.layout<#mesh, [{}]>>) {
  // expected-error @+1 {{but all_reduce removes axes from 'partial'; sharding.to_partial does this}}
  %y = sharding.all_reduce %x : (tensor<8xf32, #sharding.layout<#mesh, [{}]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"x"}>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @reduction_to_other_axes(%x: tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"x"}>>) {
  // expected-error @+1 {{but all_reduce removes axes from 'partial'}}
  %y = sharding.all_reduce %x : (tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"x"}>>) -> tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"y"}>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @partial_of_a_partial(%x: tensor<8xf32, #sharding.layout<#mesh, [{}], partial = max {"x"}>>) {
  // expected-error @+1 {{but to_partial makes a replicated value partial}}
  %y = sharding.to_partial %x : (tensor<8xf32, #sharding.layout<#mesh, [{}], partial = max {"x"}>>) -> tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"x", "y"}>>
  return
}

// -----
// The identity of a maximum, which the other devices hold, is no zero.
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @partial_maximum_of_zeros(%x: tensor<7xf32, #sharding.layout<#mesh, [{} pad 8 fill zero]>>) {
  // expected-error @+1 {{but to_partial makes a replicated value partial}}
  %y = sharding.to_partial %x : (tensor<7xf32, #sharding.layout<#mesh, [{} pad 8 fill zero]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{} pad 8 fill zero], partial = max {"x"}>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @partial_sum_that_forgets_zeros(%x: tensor<7xf32, #sharding.layout<#mesh, [{} pad 8 fill zero]>>) {
  // expected-error @+1 {{but to_partial makes a replicated value partial}}
  %y = sharding.to_partial %x : (tensor<7xf32, #sharding.layout<#mesh, [{} pad 8 fill zero]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{} pad 8], partial = sum {"x"}>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @scatter_of_a_whole(%x: tensor<8xf32, #sharding.layout<#mesh, [{}]>>) {
  // expected-error @+1 {{but reduce_scatter removes axes from 'partial' and adds them as the most minor ones of one dim; sharding.slice does this}}
  %y = sharding.reduce_scatter %x : (tensor<8xf32, #sharding.layout<#mesh, [{}]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @scatter_of_less(%x: tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"x", "y"}>>) {
  // expected-error @+1 {{but reduce_scatter removes axes from 'partial'}}
  %y = sharding.reduce_scatter %x : (tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"x", "y"}>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @scatter_as_the_major_axis(%x: tensor<8xf32, #sharding.layout<#mesh, [{"y"}], partial = sum {"x"}>>) {
  // expected-error @+1 {{but reduce_scatter removes axes from 'partial'}}
  %y = sharding.reduce_scatter %x : (tensor<8xf32, #sharding.layout<#mesh, [{"y"}], partial = sum {"x"}>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"x", "y"}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @scatter_to_two_dims(%x: tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"x", "y"}>>) {
  // expected-error @+1 {{but reduce_scatter removes axes from 'partial'}}
  %y = sharding.reduce_scatter %x : (tensor<8x8xf32, #sharding.layout<#mesh, [{}, {}], partial = sum {"x", "y"}>>) -> tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {"y"}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @exchange_of_two_axes(%x: tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {}]>>) {
  // expected-error @+1 {{but all_to_all takes the most minor axes}}
  %y = sharding.all_to_all %x : (tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {}]>>) -> tensor<8x8xf32, #sharding.layout<#mesh, [{}, {"y"}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @exchange_that_reduces(%x: tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {}], partial = sum {"y"}>>) {
  // expected-error @+1 {{but all_to_all takes the most minor axes}}
  %y = sharding.all_to_all %x : (tensor<8x8xf32, #sharding.layout<#mesh, [{"x"}, {}], partial = sum {"y"}>>) -> tensor<8x8xf32, #sharding.layout<#mesh, [{}, {"x"}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @exchange_of_the_major_axis(%x: tensor<8x8xf32, #sharding.layout<#mesh, [{"x", "y"}, {}]>>) {
  // expected-error @+1 {{but all_to_all takes the most minor axes}}
  %y = sharding.all_to_all %x : (tensor<8x8xf32, #sharding.layout<#mesh, [{"x", "y"}, {}]>>) -> tensor<8x8xf32, #sharding.layout<#mesh, [{"y"}, {"x"}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @exchange_that_fills(%x: tensor<8x7xf32, #sharding.layout<#mesh, [{"x"}, {} pad 8]>>) {
  // expected-error @+1 {{but all_to_all takes the most minor axes}}
  %y = sharding.all_to_all %x : (tensor<8x7xf32, #sharding.layout<#mesh, [{"x"}, {} pad 8]>>) -> tensor<8x7xf32, #sharding.layout<#mesh, [{}, {"x"} pad 8 fill zero]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @exchange_that_repads(%x: tensor<7x8xf32, #sharding.layout<#mesh, [{"x"} pad 8, {}]>>) {
  // expected-error @+1 {{but all_to_all takes the most minor axes}}
  %y = sharding.all_to_all %x : (tensor<7x8xf32, #sharding.layout<#mesh, [{"x"} pad 8, {}]>>) -> tensor<7x8xf32, #sharding.layout<#mesh, [{} pad 10, {"x"}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @permute_that_repads(%x: tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8]>>) {
  // expected-error @+1 {{but permute changes the axes of dims}}
  %y = sharding.permute %x : (tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{"y"} pad 10]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @permute_of_borders(%x: tensor<8xf32, #sharding.layout<#mesh, [{"x"} halo 1:1]>>) {
  // expected-error @+1 {{but permute changes the axes of dims}}
  %y = sharding.permute %x : (tensor<8xf32, #sharding.layout<#mesh, [{"x"} halo 1:1]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"y"} halo 1:1]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @permute_that_reduces(%x: tensor<8xf32, #sharding.layout<#mesh, [{"x"}], partial = sum {"y"}>>) {
  // expected-error @+1 {{but permute changes the axes of dims}}
  %y = sharding.permute %x : (tensor<8xf32, #sharding.layout<#mesh, [{"x"}], partial = sum {"y"}>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"y"}]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @wider_borders(%x: tensor<8xf32, #sharding.layout<#mesh, [{"x"} halo 1:1]>>) {
  // expected-error @+1 {{but halo adds borders to a split dim that has none}}
  %y = sharding.halo %x : (tensor<8xf32, #sharding.layout<#mesh, [{"x"} halo 1:1]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"x"} halo 2:2]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @borders_of_sums(%x: tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>) {
  // expected-error @+1 {{but halo adds borders to a split dim that has none}}
  %y = sharding.halo %x : (tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"x"} spill 1:1]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @halo_that_repads(%x: tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8]>>) {
  // expected-error @+1 {{but halo adds borders to a split dim that has none}}
  %y = sharding.halo %x : (tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 10 halo 1:1]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @halo_that_fills(%x: tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8]>>) {
  // expected-error @+1 {{but halo adds borders to a split dim that has none}}
  %y = sharding.halo %x : (tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8 fill zero halo 1:1]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @halo_over_another_axis(%x: tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>) {
  // expected-error @+1 {{but halo adds borders to a split dim that has none}}
  %y = sharding.halo %x : (tensor<8xf32, #sharding.layout<#mesh, [{"x"}]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"y"} halo 1:1]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @sums_added_in_part(%x: tensor<8xf32, #sharding.layout<#mesh, [{"x"} spill 2:2]>>) {
  // expected-error @+1 {{but halo_add adds the sums}}
  %y = sharding.halo_add %x : (tensor<8xf32, #sharding.layout<#mesh, [{"x"} spill 2:2]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{"x"} spill 1:1]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @repad_that_fills_only(%x: tensor<7xf32, #sharding.layout<#mesh, [{} pad 8]>>) {
  // expected-error @+1 {{but repad changes the padded extent of dims that are not split; sharding.fill does this}}
  %y = sharding.repad %x : (tensor<7xf32, #sharding.layout<#mesh, [{} pad 8]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{} pad 8 fill zero]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @repad_that_splits(%x: tensor<7xf32, #sharding.layout<#mesh, [{}]>>) {
  // expected-error @+1 {{but repad changes the padded extent}}
  %y = sharding.repad %x : (tensor<7xf32, #sharding.layout<#mesh, [{}]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @fill_that_repads(%x: tensor<7xf32, #sharding.layout<#mesh, [{} pad 8]>>) {
  // expected-error @+1 {{but fill changes what the padding of dims holds; sharding.repad does this}}
  %y = sharding.fill %x : (tensor<7xf32, #sharding.layout<#mesh, [{} pad 8]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{} pad 10 fill zero]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @fill_of_borders(%x: tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8 halo 1:1]>>) {
  // expected-error @+1 {{but fill changes what the padding of dims holds}}
  %y = sharding.fill %x : (tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8 halo 1:1]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8 fill zero halo 1:1]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @fill_that_splits(%x: tensor<7xf32, #sharding.layout<#mesh, [{} pad 8]>>) {
  // expected-error @+1 {{but fill changes what the padding of dims holds}}
  %y = sharding.fill %x : (tensor<7xf32, #sharding.layout<#mesh, [{} pad 8]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{"x"} pad 8 fill zero]>>
  return
}

// -----
#mesh = #sharding.mesh<["x"=2, "y"=2]>
func.func @gather_at_another_place(%x: tensor<8xf32, #sharding.layout<#mesh, [{"x"}], at {"y" = 0}>>) {
  // expected-error @+1 {{the place differs, and no op moves a value to another place}}
  %y = sharding.all_gather %x : (tensor<8xf32, #sharding.layout<#mesh, [{"x"}], at {"y" = 0}>>) -> tensor<8xf32, #sharding.layout<#mesh, [{}], at {"y" = 1}>>
  return
}

// -----

#mesh = #sharding.mesh<["x"=2]>
!sum = tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"x"}>>
!whole = tensor<8xf32, #sharding.layout<#mesh, [{}]>>
func.func @members(%a: !sum, %b: !sum) -> (!whole, !whole) {
  // expected-error @+1 {{[reason 2] why has 1 members, and the op 2 operands; each has its reason}}
  %y:2 = sharding.all_reduce %a, %b {why = #sharding.reason<members = [<user = "a">]>} : (!sum, !sum) -> (!whole, !whole)
  return %y#0, %y#1 : !whole, !whole
}

// -----

// expected-error @+1 {{[reason 1] a member of a reason has 1 members of its own; it is of one value}}
func.func private @nested() attributes {why = #sharding.reason<members = [<members = [<user = "a">]>]>}

// -----

// expected-error @+1 {{a reason has no 'op'}}
func.func private @name() attributes {why = #sharding.reason<op = "matmul">}
