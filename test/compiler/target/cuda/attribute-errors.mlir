// What is wrong with the text of the cuda dialect's attributes.

// RUN: polyrank-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{a schedule is a map, row, column or scatter}}
module attributes {a = #cuda.schedule<diagonal>} {}

// -----

// expected-error @+1 {{a schedule has no 'lane'}}
module attributes {a = #cuda.schedule<map, lane = 4>} {}
