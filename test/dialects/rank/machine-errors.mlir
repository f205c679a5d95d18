// RUN: polyrank-opt %s -split-input-file -verify-diagnostics
// Every numbered constraint of what a module runs on.

// A machine at the limits of all numbers is accepted.
module attributes {sharding.mesh = #sharding.mesh<["data"=2, "tensor"=2]>,
                   rank.machine = #rank.machine<#cpu.target<"native">, threads = 1, links = [<"tensor", latency = 0.0, bandwidth = 1.0e-6>, <"data", latency = 1.0e6, bandwidth = 1.0e6>],
                                                rates = [<f32, 1.0e-3>, <bf16, 1.0e7>, <i8, 1.0>], bandwidth = 1.0e-3, memory = 1>} {}

// -----
// expected-error @+1 {{[link 1] the link along "data" has a latency of -1.0}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, links = [<"data", latency = -1.0, bandwidth = 1.0>]>} {}

// -----
// expected-error @+1 {{[link 1] the link along "data" has a latency of 2.000000e+06 microseconds; 0 to 1e6 are possible}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, links = [<"data", latency = 2.0e6, bandwidth = 1.0>]>} {}

// -----
// expected-error @+1 {{[link 2] the link along "data" has a bandwidth of 0.0}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, links = [<"data", latency = 1.0, bandwidth = 0.0>]>} {}

// -----
// expected-error @+1 {{[link 2] the link along "data" has a bandwidth of 2.000000e+06 GB/s; 1e-6 to 1e6 are possible}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, links = [<"data", latency = 1.0, bandwidth = 2.0e6>]>} {}

// -----
// expected-error @+1 {{[rate 1] a rate is that of products of floats or integers, not of 'index'}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, rates = [<index, 1.0>]>} {}

// -----
// expected-error @+1 {{[rate 2] products of 'f32' run at 0.0}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, rates = [<f32, 0.0>]>} {}

// -----
// expected-error @+1 {{[rate 2] products of 'f32' run at 2.000000e+07 GFLOP/s; 1e-3 to 1e7 are possible}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, rates = [<f32, 2.0e7>]>} {}

// -----
// expected-error @+1 {{[machine 1] a rank has 0 threads}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, threads = 0>} {}

// -----
// expected-error @+1 {{[machine 2] two links lie along "data"}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, links = [<"data", latency = 1.0, bandwidth = 1.0>, <"tensor", latency = 1.0, bandwidth = 1.0>, <"data", latency = 2.0, bandwidth = 2.0>]>} {}

// -----
// expected-error @+1 {{[machine 3] products of 'f32' have two rates}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, rates = [<f32, 1.0>, <bf16, 1.0>, <f32, 2.0>]>} {}

// -----
// expected-error @+1 {{[machine 4] memory is read at 0.0}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, bandwidth = 0.0>} {}

// -----
// expected-error @+1 {{[machine 4] memory is read at 2.000000e+06 GB/s; 1e-3 to 1e6 are possible}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, bandwidth = 2.0e6>} {}

// -----
// expected-error @+1 {{[machine 5] a rank has 0 bytes of memory}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, memory = 0>} {}

// -----
// expected-error @+1 {{[machine 6] rank.machine is a #rank.machine of a module, not #cpu.target<"native"> of builtin.module}}
module attributes {rank.machine = #cpu.target<"native">} {}

// -----
// expected-error @+1 {{[machine 6] rank.machine is a #rank.machine of a module, not #rank.machine<#cpu.target<"native">> of func.func}}
func.func private @elsewhere() attributes {rank.machine = #rank.machine<#cpu.target<"native">>}

// -----
// expected-error @+1 {{[machine 7] a link lies along "pipe", which is no axis of #sharding.mesh<["data"=2]>}}
module attributes {sharding.mesh = #sharding.mesh<["data"=2]>, rank.machine = #rank.machine<#cpu.target<"native">, links = [<"data", latency = 1.0, bandwidth = 1.0>, <"pipe", latency = 1.0, bandwidth = 1.0>]>} {}

// -----
// The text: numbers are numbers, and each is stated once.
// expected-error @+1 {{a machine has threads, links, rates, bandwidth and memory, and no cores}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, cores = 2>} {}

// -----
// expected-error @+1 {{expected valid keyword}}
module attributes {rank.machine = #rank.machine<threads = 2, #cpu.target<"native">>} {}

// -----
// expected-error @+1 {{a machine states its threads once}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, threads = 2, threads = 3>} {}

// -----
// expected-error @+2 {{expected floating point literal}}
// expected-error @+1 {{failed to parse Rank_LinkAttr parameter 'latency'}}
module attributes {rank.machine = #rank.machine<#cpu.target<"native">, links = [<"data", latency = "10", bandwidth = 1.0>]>} {}
