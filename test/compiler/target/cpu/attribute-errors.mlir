// The text of schedules that are none.

// RUN: polyrank-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{a schedule is a map, row, column or scatter}}
func.func private @kind() attributes {s = #cpu.schedule<diagonal>}

// -----
// expected-error @+1 {{a schedule has no 'lane'}}
func.func private @part() attributes {s = #cpu.schedule<map, lane = 4>}
