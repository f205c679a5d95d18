// RUN: polyrank-opt %s -split-input-file -verify-diagnostics
// The numbered constraints of #sharding.mesh and #sharding.layout (Sharding.td).

// Mesh 1: names are distinct.
// expected-error @+1 {{[mesh 1] mesh axis "a" must have a name of its own}}
#mesh = #sharding.mesh<["a"=2, "a"=2]>

// -----

// Mesh 1: names are of letters, digits and _.
// expected-error @+1 {{[mesh 1] mesh axis "a-b" has other characters than letters, digits and _}}
#mesh = #sharding.mesh<["a-b"=2]>

// -----

// Mesh 2: a mesh has at most 2^20 devices.
// expected-error @+1 {{[mesh 2] a mesh has at most 1048576 devices}}
#mesh = #sharding.mesh<["a"=65536, "b"=32]>

// -----

// Mesh 2: sizes are positive.
// expected-error @+1 {{[mesh 2] mesh axis "a" has size 0; sizes are positive}}
#mesh = #sharding.mesh<["a"=0]>

// -----

// Layout 1: a sub-axis lies inside its axis.
#mesh = #sharding.mesh<["a"=4]>
// expected-error @+1 {{[layout 1] sub-axis "a":(1)3 does not divide the mesh axis of size 4}}
func.func private @f(tensor<6xf32, #sharding.layout<#mesh, [{"a":(1)3}]>>)

// -----

// Layout 2: an axis is used once: two dims.
#mesh = #sharding.mesh<["a"=4]>
// expected-error @+1 {{[layout 2] mesh axis "a" is used twice; an axis splits one dim, or is partial, or is a place}}
func.func private @f(tensor<8x8xf32, #sharding.layout<#mesh, [{"a"}, {"a"}]>>)

// -----

// Layout 2: a dim and a partial sum.
#mesh = #sharding.mesh<["a"=4]>
// expected-error @+1 {{[layout 2] mesh axis "a" is used twice}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{"a":(1)2}], partial = sum {"a"}>>)

// -----

// Layout 3: one entry per dim.
#mesh = #sharding.mesh<["a"=4]>
// expected-error @+1 {{[layout 3] layout [{"a"}] has 1 dims, the tensor 2}}
func.func private @f(tensor<8x8xf32, #sharding.layout<#mesh, [{"a"}]>>)

// -----

// Layout 4: blocks divide the extent.
#mesh = #sharding.mesh<["tensor"=4]>
// expected-error @+1 {{[layout 4] dim 0 of size 50257 cannot be split over {"tensor"} into 4 equal blocks; pad it to 50260}}
func.func private @f(tensor<50257xf32, #sharding.layout<#mesh, [{"tensor"}]>>)

// -----

// Layout 5: a padded extent is larger than the dim.
#mesh = #sharding.mesh<["a"=4]>
// expected-error @+1 {{[layout 5] dim 0 of size 8 is not padded by 'pad 8'}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{"a"} pad 8]>>)

// -----

// Layout 6: fill needs padding.
#mesh = #sharding.mesh<["a"=4]>
// expected-error @+1 {{[layout 6] 'fill' says what padding holds and needs 'pad'}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{"a"} fill zero]>>)

// -----

// Layout 6: halo needs a split dim.
#mesh = #sharding.mesh<["a"=4]>
// expected-error @+1 {{[layout 6] 'halo' needs a split dim}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{} halo 1:1]>>)

// -----

// Layout 7: a coordinate lies inside its axis.
#mesh = #sharding.mesh<["pipe"=2]>
// expected-error @+1 {{[layout 7] place 2 lies outside mesh axis "pipe" of size 2}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{}], at {"pipe" = 2}>>)

// -----

#mesh = #sharding.mesh<["a"=4]>
// expected-error @+1 {{the mesh has no axis "b"}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{"b"}]>>)

// -----

// Mesh 1: names are not empty.
// expected-error @+1 {{[mesh 1] mesh axis "" must have a name of its own}}
#mesh = #sharding.mesh<[""=2]>

// -----

// Layout 2: a dim and a place.
#mesh = #sharding.mesh<["pipe"=2]>
// expected-error @+1 {{[layout 2] mesh axis "pipe" is used twice; an axis splits one dim, or is partial, or is a place}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{"pipe"}], at {"pipe" = 0}>>)

// -----

// Layout 3: static dims.
#mesh = #sharding.mesh<["a"=4]>
// expected-error @+1 {{[layout 3] dim 0 is dynamic; layouts need static shapes}}
func.func private @f(tensor<?xf32, #sharding.layout<#mesh, [{"a"}]>>)

// -----

// Layout 4: so does a padded extent.
#mesh = #sharding.mesh<["a"=4]>
// expected-error @+1 {{[layout 4] dim 0 of size 10 cannot be split over {"a"} into 4 equal blocks; pad it to 12}}
func.func private @f(tensor<9xf32, #sharding.layout<#mesh, [{"a"} pad 10]>>)

// -----
#mesh = #sharding.mesh<["x"=2]>
// expected-error @+1 {{[layout 6] 'spill' needs a split dim}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{} spill 1:1]>>)

// -----
#mesh = #sharding.mesh<["a"=4, "b"=2]>
// expected-error @+1 {{[layout 1] sub-axis "a":(0)2 does not divide the mesh axis of size 4}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{"a":(0)2}]>>)

// -----
#mesh = #sharding.mesh<["a"=4, "b"=2]>
// expected-error @+1 {{[layout 1] sub-axis "a":(2)4 does not divide the mesh axis of size 4}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{"a":(2)4}]>>)

// -----
// The product of the two is 2^64.
#mesh = #sharding.mesh<["a"=4, "b"=2]>
// expected-error @+1 {{[layout 1] sub-axis "a":(4294967296)4294967296 does not divide the mesh axis of size 4}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{"a":(4294967296)4294967296}]>>)

// -----
#mesh = #sharding.mesh<["a"=4, "b"=2]>
// expected-error @+1 {{[layout 2] mesh axis "a":(2)2 is used twice}}
func.func private @f(tensor<8x8xf32, #sharding.layout<#mesh, [{"a"}, {"a":(2)2}]>>)

// -----
#mesh = #sharding.mesh<["a"=4, "b"=2]>
// expected-error @+1 {{[layout 2] mesh axis "a" is used twice}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {"a"}, at {"a" = 0}>>)

// -----
#mesh = #sharding.mesh<["a"=4, "b"=2]>
// expected-error @+1 {{[layout 6] the widths of borders are not negative}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{"a"} halo -1:2]>>)

// -----
#mesh = #sharding.mesh<["a"=4, "b"=2]>
// expected-error @+1 {{[layout 6] the widths of borders are not negative}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{"a"} halo 2:-1]>>)

// -----
#mesh = #sharding.mesh<["a"=4, "b"=2]>
// expected-error @+1 {{[layout 7] place -1 lies outside mesh axis "a" of size 4}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{}], at {"a" = -1}>>)

// -----
#mesh = #sharding.mesh<["a"=4, "b"=2]>
// expected-error @+1 {{'fill' is zero, neg_inf or pos_inf}}
func.func private @f(tensor<9xf32, #sharding.layout<#mesh, [{"a"} pad 12 fill one]>>)

// -----
#mesh = #sharding.mesh<["a"=4, "b"=2]>
// expected-error @+1 {{'partial' is sum, max or min}}
func.func private @f(tensor<8xf32, #sharding.layout<#mesh, [{}], partial = mean {"a"}>>)
