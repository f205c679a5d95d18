// RUN: polyrank-opt %s --split-input-file --verify-diagnostics
// Each rule B1 to B8 of dialects/graph/Graph.td, by a function that breaks it alone.

// expected-error @+1 {{[B1] argument 0: the dialect has no argument attribute 'graph.input'; what an argument is, graph.role says}}
func.func @other_name(%x: tensor<8xf32> {graph.input = "x"}) { return }

// -----

// expected-error @+1 {{[B1] argument 0: #graph.output<"x"> is no role of an argument}}
func.func @role_of_a_result(%x: tensor<8xf32> {graph.role = #graph.output<"x">}) { return }

// -----

// expected-error @+1 {{[B1] argument 0: "x" is no role of an argument}}
func.func @no_role(%x: tensor<8xf32> {graph.role = "x"}) { return }

// -----

// expected-error @+1 {{[B2] argument 2: has the role of argument 0, #graph.input<"x">}}
func.func @twice(%x: tensor<8xf32> {graph.role = #graph.input<"x">}, %y: tensor<8xf32> {graph.role = #graph.input<"y">},
                 %z: tensor<8xf32> {graph.role = #graph.input<"x">}) { return }

// -----

func.func private @helper()
// expected-error @+1 {{[B3] argument 0: @helper is no graph.parameter}}
func.func @no_parameter(%w: tensor<8xf32> {graph.role = #graph.parameter<@helper>}) { return }

// -----

// expected-error @+1 {{[B4] argument 0: a view of 2 dims has a base and 2 strides, not 2 numbers}}
func.func @short_view(%w: tensor<2x3xf32> {graph.role = #graph.parameter<@w view [0, 1]>}) { return }

// -----

// expected-error @+1 {{[B4] argument 0: the view array<i64: 5, -1> has a negative number}}
func.func @backward_view(%w: tensor<3xf32> {graph.role = #graph.parameter<@w view [5, -1]>}) { return }

// -----

graph.parameter @w : tensor<4x6xf32> at "model.onnx" offset 0 length 96
// expected-error @+1 {{[B4] argument 0: the view ends with element 24 of @w, which has 24}}
func.func @long_view(%w: tensor<3x6xf32> {graph.role = #graph.state<"m" of @w view [7, 6, 1]>}) { return }

// -----

// expected-error @+1 {{[B5] argument 0: the learning rate x1 is not one f64}}
func.func @rate_of_another_type(%r: tensor<f32> {graph.role = #graph.learning_rate<0.1 scale 1.0>}) { return }

// -----

// expected-error @+1 {{[B5] argument 0: the learning rate 0.1 is not one f64}}
func.func @several_rates(%r: tensor<2xf64> {graph.role = #graph.learning_rate<0.1>}) { return }

// -----

// expected-error @+1 {{[B5] argument 0: the learning rate -0.1 has a base or a scale that is no f64 of 0 or more}}
func.func @negative_base(%r: tensor<f64> {graph.role = #graph.learning_rate<-0.1>}) { return }

// -----

// expected-error @+1 {{[B5] argument 0: the learning rate x-2 has a base or a scale that is no f64 of 0 or more}}
func.func @negative_scale(%r: tensor<f64> {graph.role = #graph.learning_rate<0.1 scale -2.0>}) { return }

// -----

// expected-error @+1 {{[B5] argument 0: the learning rate inf has a base or a scale that is no f64 of 0 or more}}
func.func @infinite_base(%r: tensor<f64> {graph.role = #graph.learning_rate<0x7FF0000000000000 : f64>}) { return }

// -----

// expected-error @+1 {{[B5] argument 0: the learning rate 0.5 has a base or a scale that is no f64 of 0 or more}}
func.func @short_base(%r: tensor<f64> {graph.role = #graph.learning_rate<0.5 : f32>}) { return }

// -----

// expected-error @+1 {{[B5] argument 0: the learning rate 0.1 has a bad schedule: there is no schedule 'cos'}}
func.func @bad_schedule(%r: tensor<f64> {graph.role = #graph.learning_rate<0.1 schedule "cos">}) { return }

// -----

// expected-error @+1 {{[B5] argument 1: has another schedule than #graph.learning_rate<1.000000e-01 : f64>}}
func.func @two_schedules(%a: tensor<f64> {graph.role = #graph.learning_rate<0.1>},
                         %b: tensor<f64> {graph.role = #graph.learning_rate<0.1 scale 1.0 schedule "step(size=2)">}) { return }

// -----

// expected-error @+1 {{[B5] argument 2: has another base than #graph.learning_rate<1.000000e-01 : f64 scale 1.000000e+00 : f64>}}
func.func @two_bases(%a: tensor<f64> {graph.role = #graph.learning_rate<0.1 scale 1.0>},
                     %b: tensor<f64> {graph.role = #graph.learning_rate<0.2>},
                     %c: tensor<f64> {graph.role = #graph.learning_rate<0.3 scale 2.0>}) { return }

// -----

// expected-error @+1 {{[B6] result 0: the dialect has no result attribute 'graph.output'; what a result is, graph.role says}}
func.func @other_result(%x: tensor<8xf32>) -> (tensor<8xf32> {graph.output = "x"}) { return %x : tensor<8xf32> }

// -----

// expected-error @+1 {{[B6] result 0: #graph.input<"x"> is no role of a result}}
func.func @role_of_an_argument(%x: tensor<8xf32>) -> (tensor<8xf32> {graph.role = #graph.input<"x">}) { return %x : tensor<8xf32> }

// -----

// expected-error @+1 {{[B7] result 0: takes the place of argument 0, which is no parameter or state}}
func.func @next_of_an_input(%x: tensor<8xf32> {graph.role = #graph.input<"x">}) -> (tensor<8xf32> {graph.role = #graph.next<0>}) {
  return %x : tensor<8xf32>
}

// -----

// expected-error @+1 {{[B7] result 0: takes the place of argument 1, which is no parameter or state}}
func.func @next_of_nothing(%w: tensor<8xf32> {graph.role = #graph.parameter<@w>}) -> (tensor<8xf32> {graph.role = #graph.next<1>}) {
  return %w : tensor<8xf32>
}

// -----

// expected-error @+1 {{[B7] result 1: takes the place of argument 0, which result 0 takes}}
func.func @next_twice(%w: tensor<8xf32> {graph.role = #graph.parameter<@w>})
    -> (tensor<8xf32> {graph.role = #graph.next<0>}, tensor<8xf32> {graph.role = #graph.next<0>}) {
  return %w, %w : tensor<8xf32>, tensor<8xf32>
}

// -----

// expected-error @+1 {{[B7] result 0: is 'tensor<4xf32>', but takes the place of argument 0, 'tensor<8xf32>'}}
func.func @next_of_another_shape(%w: tensor<8xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<4xf32>)
    -> (tensor<4xf32> {graph.role = #graph.next<0>}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{[B7] result 0: is 'tensor<8xf64>', but takes the place of argument 0, 'tensor<8xf32>'}}
func.func @next_of_another_type(%w: tensor<8xf32> {graph.role = #graph.parameter<@w>}, %x: tensor<8xf64>)
    -> (tensor<8xf64> {graph.role = #graph.next<0>}) {
  return %x : tensor<8xf64>
}

// -----

// expected-error @+1 {{[B8] result 0: a mean without a count after it}}
func.func @mean_alone(%x: tensor<f32>) -> (tensor<f32> {graph.role = #graph.mean<"loss">}, tensor<f32> {graph.role = #graph.output<"y">}) {
  return %x, %x : tensor<f32>, tensor<f32>
}

// -----

// expected-error @+1 {{[B8] result 0: a count without its mean before it}}
func.func @count_alone(%x: tensor<f32>) -> (tensor<f32> {graph.role = #graph.count<4>}) { return %x : tensor<f32> }

// -----

// expected-error @+1 {{[B8] result 1: a count without its mean before it}}
func.func @count_behind_another(%x: tensor<f32>) -> (tensor<f32> {graph.role = #graph.output<"y">}, tensor<f32> {graph.role = #graph.count<4>}) {
  return %x, %x : tensor<f32>, tensor<f32>
}

// -----

// expected-error @+1 {{[B8] result 2: a further part of a mean without a part of "a" before it}}
func.func @further_part_of_another(%x: tensor<f32>) -> (tensor<f32> {graph.role = #graph.mean<"b">}, tensor<f32> {graph.role = #graph.count<4>}, tensor<f32> {graph.role = #graph.mean<"a" further>}, tensor<f32> {graph.role = #graph.count<4>}) {
  return %x, %x, %x, %x : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// expected-error @+1 {{[B9] argument 0: the input has its batch in dim 2 of 2}}
func.func @batch_in_no_dim(%x: tensor<4x2xf32> {graph.role = #graph.input<"x" batch_dim 2>}) { return }

// -----

// expected-error @+1 {{[B9] argument 0: the input has no batch and is not one row}}
func.func @rows_without_a_batch(%x: tensor<4x2x1xf32> {graph.role = #graph.input<"x" no_batch>}) { return }

// -----

// expected-error @+1 {{[B9] result 0: the output has its batch in dim 1 of 1}}
func.func @batch_in_no_dim_of_an_output(%x: tensor<4xf32>) -> (tensor<4xf32> {graph.role = #graph.output<"y" batch_dim 1>}) { return %x : tensor<4xf32> }

// -----

// expected-error @+1 {{batch_dim 0: must be above 0, which it is without}}
func.func @batch_in_front(%x: tensor<4xf32> {graph.role = #graph.input<"x" batch_dim 0>}) { return }
