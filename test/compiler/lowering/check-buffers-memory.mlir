// RUN: polyrank-opt %s --check-buffers -split-input-file -verify-diagnostics
// An arena lies in the memory of a rank, where the machine says how much that is.

module attributes {rank.machine = #rank.machine<memory = 192>} {
  func.func @fits(%x: tensor<16xf32> {rank.buffer = #rank.buffer<private, 0, 64>}) attributes {rank.arena = #rank.arena<shared = 64, private = 128>} {
    return
  }
}

// -----
module attributes {rank.machine = #rank.machine<memory = 191>} {
  // expected-error @+1 {{takes an arena of 192 bytes, and a rank of the machine has 191; split the program over more ranks, or state more memory in 'rank.machine' (--machine FILE)}}
  func.func @does_not_fit(%x: tensor<16xf32> {rank.buffer = #rank.buffer<private, 0, 64>}) attributes {rank.arena = #rank.arena<shared = 64, private = 128>} {
    return
  }
}
