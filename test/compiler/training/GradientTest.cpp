// Gradients of every op against central differences, and parts against wholes.

#include <random>

#include "compiler/training/Autodiff.h"
#include "mlir/IR/Verifier.h"
#include "test/compiler/training/TestModule.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Tensor;

namespace {

struct Case {
  const char *name;
  const char *arguments;
  const char *result;
  const char *body; // ends in %r
};

void PrintTo(const Case &each, std::ostream *out) { *out << each.name; }

// Arguments are normal with deviation 0.5; logarithms and roots take
// exponentials. Everything is f64, so that no constant of a gradient or a
// decomposition is rounded.
const Case cases[] = {
    {"neg", "%x: tensor<2x3xf64>", "tensor<2x3xf64>",
     "%r = graph.neg %x : tensor<2x3xf64>"},
    {"log_of_exp", "%x: tensor<4xf64>", "tensor<4xf64>", R"(
      %e = graph.exp %x : tensor<4xf64>
      %s = graph.add %e, %e : tensor<4xf64>
      %l = graph.log %s : tensor<4xf64>
      %r = graph.mul %l, %l : tensor<4xf64>)"},
    {"sqrt_rsqrt", "%x: tensor<4xf64>", "tensor<4xf64>", R"(
      %e = graph.exp %x : tensor<4xf64>
      %s = graph.sqrt %e : tensor<4xf64>
      %t = graph.rsqrt %s : tensor<4xf64>
      %r = graph.sub %s, %t : tensor<4xf64>)"},
    {"tanh", "%x: tensor<5xf64>", "tensor<5xf64>",
     "%r = graph.tanh %x : tensor<5xf64>"},
    {"erf", "%x: tensor<5xf64>", "tensor<5xf64>",
     "%r = graph.erf %x : tensor<5xf64>"},
    {"sigmoid", "%x: tensor<5xf64>", "tensor<5xf64>",
     "%r = graph.sigmoid %x : tensor<5xf64>"},
    {"relu", "%x: tensor<5xf64>", "tensor<5xf64>",
     "%r = graph.relu %x : tensor<5xf64>"},
    {"abs", "%x: tensor<5xf64>", "tensor<5xf64>",
     "%r = graph.abs %x : tensor<5xf64>"},
    {"sin_cos", "%x: tensor<5xf64>", "tensor<5xf64>", R"(
      %s = graph.sin %x : tensor<5xf64>
      %c = graph.cos %x : tensor<5xf64>
      %r = graph.mul %s, %c : tensor<5xf64>)"},
    {"mul_add_sub", "%x: tensor<2x2xf64>, %y: tensor<2x2xf64>",
     "tensor<2x2xf64>", R"(
      %a = graph.add %x, %y : tensor<2x2xf64>
      %b = graph.sub %x, %y : tensor<2x2xf64>
      %r = graph.mul %a, %b : tensor<2x2xf64>)"},
    {"div_pow", "%x: tensor<3xf64>, %y: tensor<3xf64>", "tensor<3xf64>", R"(
      %e = graph.exp %y : tensor<3xf64>
      %d = graph.div %x, %e : tensor<3xf64>
      %p = graph.pow %e, %x : tensor<3xf64>
      %r = graph.add %d, %p : tensor<3xf64>)"},
    {"max_min", "%x: tensor<6xf64>, %y: tensor<6xf64>", "tensor<6xf64>", R"(
      %a = graph.max %x, %y : tensor<6xf64>
      %b = graph.min %x, %y : tensor<6xf64>
      %c = graph.mul %b, %b : tensor<6xf64>
      %r = graph.add %a, %c : tensor<6xf64>)"},
    {"select", "%x: tensor<6xf64>, %y: tensor<6xf64>", "tensor<6xf64>", R"(
      %c = graph.compare lt %x, %y : (tensor<6xf64>, tensor<6xf64>) -> tensor<6xi1>
      %r = graph.select %c, %x, %y : (tensor<6xi1>, tensor<6xf64>, tensor<6xf64>) -> tensor<6xf64>)"},
    {"convert_floor", "%x: tensor<3xf32>", "tensor<3xf64>", R"(
      %f = graph.floor %x : tensor<3xf32>
      %s = graph.sub %x, %f : tensor<3xf32>
      %r = graph.convert %s : (tensor<3xf32>) -> tensor<3xf64>)"},
    {"reshape_transpose", "%x: tensor<2x3x4xf64>", "tensor<4x6xf64>", R"(
      %t = graph.transpose %x {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf64>) -> tensor<4x2x3xf64>
      %r = graph.reshape %t : (tensor<4x2x3xf64>) -> tensor<4x6xf64>)"},
    {"broadcast", "%x: tensor<3xf64>", "tensor<2x3x4xf64>",
     "%r = graph.broadcast %x {dims = array<i64: 1>} : (tensor<3xf64>) -> "
     "tensor<2x3x4xf64>"},
    {"slice", "%x: tensor<5x4xf64>", "tensor<2x2xf64>",
     "%r = graph.slice %x {starts = array<i64: 1, 1>, limits = array<i64: 5, "
     "3>, strides = array<i64: 2, 1>} : (tensor<5x4xf64>) -> tensor<2x2xf64>"},
    {"pad", "%x: tensor<2x2xf64>", "tensor<6x2xf64>",
     "%r = graph.pad %x {low = array<i64: 1, 0>, high = array<i64: 2, 0>, "
     "interior = array<i64: 1, 0>, value = 1.0 : f64} : (tensor<2x2xf64>) -> "
     "tensor<6x2xf64>"},
    {"unfold", "%x: tensor<2x9xf64>", "tensor<2x3x3xf64>",
     "%r = graph.unfold %x {dim = 1 : i64, size = 3 : i64, stride = 2 : i64, "
     "dilation = 2 : i64} : (tensor<2x9xf64>) -> tensor<2x3x3xf64>"},
    {"unfold_padded", "%x: tensor<2x9xf64>", "tensor<2x5x3xf64>",
     "%r = graph.unfold %x {dim = 1 : i64, size = 3 : i64, stride = 2 : i64, "
     "dilation = 1 : i64, low = 1 : i64, high = 1 : i64, value = 1.0 : f64} : "
     "(tensor<2x9xf64>) -> tensor<2x5x3xf64>"},
    {"fold", "%x: tensor<2x4x3xf64>", "tensor<2x9xf64>",
     "%r = graph.fold %x {dim = 1 : i64, stride = 2 : i64, dilation = 2 : i64, "
     "low = 1 : i64} : (tensor<2x4x3xf64>) -> tensor<2x9xf64>"},
    {"reduce_first", "%x: tensor<2x4x3xf64>", "tensor<2x3xf64>",
     "%r = graph.reduce max %x over [1] {first} : (tensor<2x4x3xf64>) -> "
     "tensor<2x3xf64>"},
    {"concat", "%x: tensor<2x2xf64>, %y: tensor<2x3xf64>", "tensor<2x5xf64>",
     "%r = graph.concat %x, %y {dim = 1 : i64} : (tensor<2x2xf64>, "
     "tensor<2x3xf64>) -> tensor<2x5xf64>"},
    {"gather", "%x: tensor<4x3xf64>, %i: tensor<2x2xi64>", "tensor<2x2x3xf64>",
     "%r = graph.gather %x, %i {axis = 0 : i64, batch_dims = 0 : i64} : "
     "(tensor<4x3xf64>, tensor<2x2xi64>) -> tensor<2x2x3xf64>"},
    {"gather_batch", "%x: tensor<2x4x3xf64>, %i: tensor<2x5xi64>",
     "tensor<2x5x3xf64>",
     "%r = graph.gather %x, %i {axis = 1 : i64, batch_dims = 1 : i64} : "
     "(tensor<2x4x3xf64>, tensor<2x5xi64>) -> tensor<2x5x3xf64>"},
    {"scatter_add_into",
     "%i: tensor<5xi64>, %x: tensor<5x3xf64>, %t: tensor<3x3xf64>",
     "tensor<3x3xf64>",
     "%r = graph.scatter_add %i, %x, %t {axis = 0 : i64, batch_dims = 0 : i64} "
     ": (tensor<5xi64>, tensor<5x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>"},
    {"scatter_add", "%i: tensor<5xi64>, %x: tensor<5x3xf64>", "tensor<3x3xf64>",
     "%r = graph.scatter_add %i, %x {axis = 0 : i64, batch_dims = 0 : i64} : "
     "(tensor<5xi64>, tensor<5x3xf64>) -> tensor<3x3xf64>"},
    {"matmul", "%x: tensor<2x3xf64>, %y: tensor<3x4xf64>", "tensor<2x4xf64>",
     "%r = graph.matmul %x, %y batch [] x [] contract [1] x [0] : "
     "(tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>"},
    {"matmul_general", "%x: tensor<3x2x4x5xf64>, %y: tensor<5x2x3x2xf64>",
     "tensor<2x4x2xf64>",
     "%r = graph.matmul %x, %y batch [1] x [1] contract [0, 3] x [2, 0] : "
     "(tensor<3x2x4x5xf64>, tensor<5x2x3x2xf64>) -> tensor<2x4x2xf64>"},
    {"matmul_wider", "%x: tensor<2x3xbf16>, %y: tensor<3x4xbf16>",
     "tensor<2x4xf32>",
     "%r = graph.matmul %x, %y batch [] x [] contract [1] x [0] : "
     "(tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xf32>"},
    {"matmul_wider_general", "%x: tensor<3x2x4x5xf16>, %y: tensor<5x2x3x2xf16>",
     "tensor<2x4x2xf32>",
     "%r = graph.matmul %x, %y batch [1] x [1] contract [0, 3] x [2, 0] : "
     "(tensor<3x2x4x5xf16>, tensor<5x2x3x2xf16>) -> tensor<2x4x2xf32>"},
    {"grouped_matmul_wider",
     "%x: tensor<4x3xbf16>, %w: tensor<2x3x2xbf16>, %g: tensor<4xi64>, "
     "%e: tensor<2xi64>",
     "tensor<4x2xf32>",
     "%r = graph.grouped_matmul %x, %w, %g, %e : (tensor<4x3xbf16>, "
     "tensor<2x3x2xbf16>, tensor<4xi64>, tensor<2xi64>) -> tensor<4x2xf32>"},
    {"grouped_outer_wider",
     "%x: tensor<4x3xf16>, %y: tensor<4x2xf16>, %g: tensor<4xi64>, "
     "%e: tensor<2xi64>",
     "tensor<2x3x2xf32>",
     "%r = graph.grouped_outer %x, %y, %g, %e : (tensor<4x3xf16>, "
     "tensor<4x2xf16>, tensor<4xi64>, tensor<2xi64>) -> tensor<2x3x2xf32>"},
    {"grouped_matmul",
     "%x: tensor<4x3xf64>, %w: tensor<2x3x2xf64>, %g: tensor<4xi64>, "
     "%e: tensor<2xi64>",
     "tensor<4x2xf64>",
     "%r = graph.grouped_matmul %x, %w, %g, %e : (tensor<4x3xf64>, "
     "tensor<2x3x2xf64>, tensor<4xi64>, tensor<2xi64>) -> tensor<4x2xf64>"},
    {"grouped_outer",
     "%x: tensor<4x3xf64>, %y: tensor<4x2xf64>, %g: tensor<4xi64>, "
     "%e: tensor<2xi64>",
     "tensor<2x3x2xf64>",
     "%r = graph.grouped_outer %x, %y, %g, %e : (tensor<4x3xf64>, "
     "tensor<4x2xf64>, tensor<4xi64>, tensor<2xi64>) -> tensor<2x3x2xf64>"},
    {"reduce_sum", "%x: tensor<2x3x4xf64>", "tensor<3xf64>",
     "%r = graph.reduce sum %x over [0, 2] : (tensor<2x3x4xf64>) -> "
     "tensor<3xf64>"},
    {"reduce_max", "%x: tensor<3x4xf64>", "tensor<3xf64>",
     "%r = graph.reduce max %x over [1] : (tensor<3x4xf64>) -> tensor<3xf64>"},
    {"reduce_min", "%x: tensor<3x4xf64>", "tensor<4xf64>",
     "%r = graph.reduce min %x over [0] : (tensor<3x4xf64>) -> tensor<4xf64>"},
    {"softmax", "%x: tensor<2x5xf64>", "tensor<2x5xf64>",
     "%r = graph.softmax %x {dim = 1 : i64} : (tensor<2x5xf64>) -> "
     "tensor<2x5xf64>"},
    {"softmax_inner", "%x: tensor<2x3x4xf64>", "tensor<2x3x4xf64>",
     "%r = graph.softmax %x {dim = 1 : i64} : (tensor<2x3x4xf64>) -> "
     "tensor<2x3x4xf64>"},
    {"layer_norm",
     "%x: tensor<2x3x4xf64>, %s: tensor<4xf64>, %b: tensor<4xf64>",
     "tensor<2x3x4xf64>",
     "%r, %m, %d = graph.layer_norm %x, %s, %b {epsilon = 1.0e-5 : f64} : "
     "(tensor<2x3x4xf64>, tensor<4xf64>, tensor<4xf64>) -> (tensor<2x3x4xf64>, "
     "tensor<2x3xf64>, tensor<2x3xf64>)"},
    {"layer_norm_two_dims",
     "%x: tensor<3x2x4xf64>, %s: tensor<2x4xf64>, %b: tensor<2x4xf64>",
     "tensor<3x2x4xf64>",
     "%r, %m, %d = graph.layer_norm %x, %s, %b {epsilon = 0.1 : f64} : "
     "(tensor<3x2x4xf64>, tensor<2x4xf64>, tensor<2x4xf64>) -> "
     "(tensor<3x2x4xf64>, tensor<3xf64>, tensor<3xf64>)"},
    {"rms_norm", "%x: tensor<2x3x4xf64>, %s: tensor<4xf64>",
     "tensor<2x3x4xf64>",
     "%r, %d = graph.rms_norm %x, %s {epsilon = 1.0e-5 : f64} : "
     "(tensor<2x3x4xf64>, tensor<4xf64>) -> (tensor<2x3x4xf64>, "
     "tensor<2x3xf64>)"},
    {"rms_norm_two_dims", "%x: tensor<3x2x4xf64>, %s: tensor<2x4xf64>",
     "tensor<3x2x4xf64>",
     "%r, %d = graph.rms_norm %x, %s {epsilon = 0.1 : f64} : "
     "(tensor<3x2x4xf64>, tensor<2x4xf64>) -> (tensor<3x2x4xf64>, "
     "tensor<3xf64>)"},
    {"silu", "%x: tensor<6xf64>", "tensor<6xf64>",
     "%r = graph.silu %x : tensor<6xf64>"},
    {"gelu_erf", "%x: tensor<6xf64>", "tensor<6xf64>",
     "%r = graph.gelu erf %x : tensor<6xf64>"},
    {"gelu_tanh", "%x: tensor<6xf64>", "tensor<6xf64>",
     "%r = graph.gelu tanh %x : tensor<6xf64>"},
    {"attention",
     "%q: tensor<2x2x3x4xf64>, %k: tensor<2x2x5x4xf64>, %v: "
     "tensor<2x2x5x3xf64>",
     "tensor<2x2x3x3xf64>",
     "%r, %l = graph.attention %q, %k, %v {scale = 0.5 : f64, causal = false} "
     ": (tensor<2x2x3x4xf64>, tensor<2x2x5x4xf64>, tensor<2x2x5x3xf64>) -> "
     "(tensor<2x2x3x3xf64>, tensor<2x2x3xf64>)"},
    {"attention_causal",
     "%q: tensor<1x2x4x3xf64>, %k: tensor<1x2x4x3xf64>, %v: "
     "tensor<1x2x4x2xf64>",
     "tensor<1x2x4x2xf64>",
     "%r, %l = graph.attention %q, %k, %v {scale = 0.7 : f64, causal = true} : "
     "(tensor<1x2x4x3xf64>, tensor<1x2x4x3xf64>, tensor<1x2x4x2xf64>) -> "
     "(tensor<1x2x4x2xf64>, tensor<1x2x4xf64>)"},
    {"attention_masked", // the second query sees nothing
     "%q: tensor<2x1x2x3xf64>, %k: tensor<2x1x3x3xf64>, %v: "
     "tensor<2x1x3x2xf64>",
     "tensor<2x1x2x2xf64>", R"(
      %m = graph.constant dense<[[[[true, false, true], [false, false, false]]]]> : tensor<1x1x2x3xi1>
      %r, %l = graph.attention %q, %k, %v mask %m {scale = 1.0 : f64, causal = false} : (tensor<2x1x2x3xf64>, tensor<2x1x3x3xf64>, tensor<2x1x3x2xf64>, tensor<1x1x2x3xi1>) -> (tensor<2x1x2x2xf64>, tensor<2x1x2xf64>))"},
    {"attention_masked_causal",
     "%q: tensor<1x2x2x3xf64>, %k: tensor<1x2x3x3xf64>, %v: "
     "tensor<1x2x3x2xf64>",
     "tensor<1x2x2x2xf64>", R"(
      %m = graph.constant dense<[[[[true, false, true], [true, true, true]], [[true, true, true], [false, true, true]]]]> : tensor<1x2x2x3xi1>
      %r, %l = graph.attention %q, %k, %v mask %m {scale = 1.0 : f64, causal = true} : (tensor<1x2x2x3xf64>, tensor<1x2x3x3xf64>, tensor<1x2x3x2xf64>, tensor<1x2x2x3xi1>) -> (tensor<1x2x2x2xf64>, tensor<1x2x2xf64>))"},
    {"attention_groups",
     "%q: tensor<2x6x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: "
     "tensor<2x2x4x3xf64>",
     "tensor<2x6x3x3xf64>",
     R"(
      %r, %l = graph.attention %q, %k, %v {scale = 0.7 : f64, causal = false} : (tensor<2x6x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>) -> (tensor<2x6x3x3xf64>, tensor<2x6x3xf64>))"},
    {"attention_one_group",
     "%q: tensor<1x4x3x2xf64>, %k: tensor<1x1x3x2xf64>, %v: "
     "tensor<1x1x3x3xf64>",
     "tensor<1x4x3x3xf64>",
     R"(
      %r, %l = graph.attention %q, %k, %v {scale = 0.7 : f64, causal = true} : (tensor<1x4x3x2xf64>, tensor<1x1x3x2xf64>, tensor<1x1x3x3xf64>) -> (tensor<1x4x3x3xf64>, tensor<1x4x3xf64>))"},
    {"attention_bias",
     "%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: "
     "tensor<2x2x4x3xf64>, %b: tensor<1x2x3x4xf64>",
     "tensor<2x2x3x3xf64>",
     R"(
      %r, %l = graph.attention %q, %k, %v bias %b {scale = 0.7 : f64, causal = false} : (tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>, tensor<1x2x3x4xf64>) -> (tensor<2x2x3x3xf64>, tensor<2x2x3xf64>))"},
    {"attention_bias_whole",
     "%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: "
     "tensor<2x2x4x3xf64>, %b: tensor<2x2x3x4xf64>",
     "tensor<2x2x3x3xf64>",
     R"(
      %r, %l = graph.attention %q, %k, %v bias %b {scale = 0.7 : f64, causal = false} : (tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>, tensor<2x2x3x4xf64>) -> (tensor<2x2x3x3xf64>, tensor<2x2x3xf64>))"},
    {"attention_bias_of_keys",
     "%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: "
     "tensor<2x2x4x3xf64>, %b: tensor<2x1x1x4xf64>",
     "tensor<2x2x3x3xf64>",
     R"(
      %r, %l = graph.attention %q, %k, %v bias %b {scale = 0.7 : f64, causal = true} : (tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>, tensor<2x1x1x4xf64>) -> (tensor<2x2x3x3xf64>, tensor<2x2x3xf64>))"},
    {"attention_bias_of_queries",
     "%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: "
     "tensor<2x2x4x3xf64>, %b: tensor<1x2x3x1xf64>",
     "tensor<2x2x3x3xf64>",
     R"(
      %r, %l = graph.attention %q, %k, %v bias %b {scale = 0.7 : f64, causal = false} : (tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>, tensor<1x2x3x1xf64>) -> (tensor<2x2x3x3xf64>, tensor<2x2x3xf64>))"},
    {"attention_added", // the queries of the second sample see nothing
     "%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: "
     "tensor<2x2x4x3xf64>",
     "tensor<2x2x3x3xf64>",
     R"(
      %m = graph.constant dense<[[[[true, false, true, true]]], [[[false, false, false, false]]]]> : tensor<2x1x1x4xi1>
      %r, %l = graph.attention %q, %k, %v mask %m masked add {scale = 0.7 : f64, causal = false, fill = -3.0 : f64} : (tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>, tensor<2x1x1x4xi1>) -> (tensor<2x2x3x3xf64>, tensor<2x2x3xf64>))"},
    {"attention_replaced",
     "%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: "
     "tensor<2x2x4x3xf64>",
     "tensor<2x2x3x3xf64>",
     R"(
      %m = graph.constant dense<[[[[true, false, true, true]]], [[[false, false, false, false]]]]> : tensor<2x1x1x4xi1>
      %r, %l = graph.attention %q, %k, %v mask %m masked replace {scale = 0.7 : f64, causal = false, fill = -3.0 : f64} : (tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>, tensor<2x1x1x4xi1>) -> (tensor<2x2x3x3xf64>, tensor<2x2x3xf64>))"},
    {"attention_zero",
     "%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: "
     "tensor<2x2x4x3xf64>",
     "tensor<2x2x3x3xf64>",
     R"(
      %m = graph.constant dense<[[[[true, false, true, true]]], [[[false, false, false, false]]]]> : tensor<2x1x1x4xi1>
      %r, %l = graph.attention %q, %k, %v mask %m {scale = 0.7 : f64, causal = false} : (tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>, tensor<2x1x1x4xi1>) -> (tensor<2x2x3x3xf64>, tensor<2x2x3xf64>))"},
    {"attention_causal_added", // one number for keys that both hide
     "%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: "
     "tensor<2x2x4x3xf64>, %b: tensor<1x2x1x1xf64>",
     "tensor<2x2x3x3xf64>",
     R"(
      %m = graph.constant dense<[[[[false, false, true, true]]], [[[true, true, true, false]]]]> : tensor<2x1x1x4xi1>
      %r, %l = graph.attention %q, %k, %v bias %b mask %m masked add {scale = 0.7 : f64, causal = true, fill = -1.0 : f64} : (tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>, tensor<1x2x1x1xf64>, tensor<2x1x1x4xi1>) -> (tensor<2x2x3x3xf64>, tensor<2x2x3xf64>))"},
    {"attention_causal_replaced",
     "%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: "
     "tensor<2x2x4x3xf64>, %b: tensor<1x2x3x4xf64>",
     "tensor<2x2x3x3xf64>",
     R"(
      %m = graph.constant dense<[[[[false, false, true, true]]], [[[true, true, true, false]]]]> : tensor<2x1x1x4xi1>
      %r, %l = graph.attention %q, %k, %v bias %b mask %m masked replace {scale = 0.7 : f64, causal = true, fill = -1.0 : f64} : (tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>, tensor<1x2x3x4xf64>, tensor<2x1x1x4xi1>) -> (tensor<2x2x3x3xf64>, tensor<2x2x3xf64>))"},
    {"attention_more_queries", // the first two see nothing
     "%q: tensor<1x2x4x2xf64>, %k: tensor<1x2x2x2xf64>, %v: "
     "tensor<1x2x2x3xf64>",
     "tensor<1x2x4x3xf64>",
     R"(
      %r, %l = graph.attention %q, %k, %v {scale = 0.7 : f64, causal = true} : (tensor<1x2x4x2xf64>, tensor<1x2x2x2xf64>, tensor<1x2x2x3xf64>) -> (tensor<1x2x4x3xf64>, tensor<1x2x4xf64>))"},
    {"attention_window",
     "%q: tensor<1x2x4x2xf64>, %k: tensor<1x2x6x2xf64>, %v: "
     "tensor<1x2x6x3xf64>",
     "tensor<1x2x4x3xf64>",
     R"(
      %r, %l = graph.attention %q, %k, %v {scale = 0.7 : f64, causal = true, window = 2 : i64} : (tensor<1x2x4x2xf64>, tensor<1x2x6x2xf64>, tensor<1x2x6x3xf64>) -> (tensor<1x2x4x3xf64>, tensor<1x2x4xf64>))"},
    {"attention_window_of_all",
     "%q: tensor<1x2x4x2xf64>, %k: tensor<1x2x4x2xf64>, %v: "
     "tensor<1x2x4x3xf64>",
     "tensor<1x2x4x3xf64>",
     R"(
      %r, %l = graph.attention %q, %k, %v {scale = 0.7 : f64, causal = true, window = 9 : i64} : (tensor<1x2x4x2xf64>, tensor<1x2x4x2xf64>, tensor<1x2x4x3xf64>) -> (tensor<1x2x4x3xf64>, tensor<1x2x4xf64>))"},
    {"attention_window_added",
     "%q: tensor<1x2x4x2xf64>, %k: tensor<1x2x4x2xf64>, %v: "
     "tensor<1x2x4x3xf64>",
     "tensor<1x2x4x3xf64>",
     R"(
      %r, %l = graph.attention %q, %k, %v masked add {scale = 0.7 : f64, causal = true, window = 1 : i64, fill = -2.0 : f64} : (tensor<1x2x4x2xf64>, tensor<1x2x4x2xf64>, tensor<1x2x4x3xf64>) -> (tensor<1x2x4x3xf64>, tensor<1x2x4xf64>))"},
    {"attention_softcap",
     "%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: "
     "tensor<2x2x4x3xf64>, %b: tensor<1x2x3x4xf64>",
     "tensor<2x2x3x3xf64>",
     R"(
      %m = graph.constant dense<[[[[false, false, true, true]]], [[[true, true, true, false]]]]> : tensor<2x1x1x4xi1>
      %r, %l = graph.attention %q, %k, %v bias %b mask %m {scale = 0.7 : f64, causal = false, softcap = 0.4 : f64} : (tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>, tensor<1x2x3x4xf64>, tensor<2x1x1x4xi1>) -> (tensor<2x2x3x3xf64>, tensor<2x2x3xf64>))"},
    {"attention_dropout",
     "%q: tensor<2x6x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: "
     "tensor<2x2x4x3xf64>, %s: tensor<i64>",
     "tensor<2x6x3x3xf64>",
     R"(
      %r, %l = graph.attention %q, %k, %v dropout %s, %s, %s {scale = 0.7 : f64, causal = false, rate = 0.4 : f64, rng_id = 7 : i64} : (tensor<2x6x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<2x6x3x3xf64>, tensor<2x6x3xf64>))"},
    {"attention_all", "%q: tensor<2x4x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: tensor<2x2x4x3xf64>, %b: tensor<1x4x1x4xf64>, %s: tensor<i64>",
     "tensor<2x4x3x3xf64>",
     R"(
      %m = graph.constant dense<[[[[false, false, true, true]]], [[[true, true, true, false]]]]> : tensor<2x1x1x4xi1>
      %r, %l = graph.attention %q, %k, %v bias %b mask %m masked add dropout %s, %s, %s {scale = 0.7 : f64, causal = true, window = 3 : i64, softcap = 0.5 : f64, fill = -2.0 : f64, rate = 0.4 : f64, rng_id = 7 : i64} : (tensor<2x4x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>, tensor<1x4x1x4xf64>, tensor<2x1x1x4xi1>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<2x4x3x3xf64>, tensor<2x4x3xf64>))"},
    {"cross_entropy", "%x: tensor<2x3x4xf64>, %i: tensor<2x3xi64>",
     "tensor<2x3xf64>",
     "%r, %l = graph.cross_entropy %x, %i {axis = 2 : i64, ignore_index = -100 "
     ": i64} : (tensor<2x3x4xf64>, tensor<2x3xi64>) -> (tensor<2x3xf64>, "
     "tensor<2x3xf64>)"},
    {"cross_entropy_ignored", "%x: tensor<2x4x6xf64>, %i: tensor<2x6xi64>",
     "tensor<2x6xf64>",
     "%r, %l = graph.cross_entropy %x, %i {axis = 1 : i64, ignore_index = 2 : "
     "i64} : (tensor<2x4x6xf64>, tensor<2x6xi64>) -> (tensor<2x6xf64>, "
     "tensor<2x6xf64>)"},
    {"cross_entropy_lse", "%x: tensor<2x4x6xf64>, %i: tensor<2x6xi64>",
     "tensor<2x6xf64>",
     "%l, %r = graph.cross_entropy %x, %i {axis = 1 : i64, ignore_index = 2 : "
     "i64} : (tensor<2x4x6xf64>, tensor<2x6xi64>) -> (tensor<2x6xf64>, "
     "tensor<2x6xf64>)"},
    {"cross_entropy_both", "%x: tensor<2x4xf64>, %i: tensor<2xi64>",
     "tensor<2xf64>", R"(
      %l, %s = graph.cross_entropy %x, %i {axis = 1 : i64, ignore_index = 2 : i64} : (tensor<2x4xf64>, tensor<2xi64>) -> (tensor<2xf64>, tensor<2xf64>)
      %r = graph.mul %l, %s : tensor<2xf64>)"},
    {"scan", // products and sums are accumulated after it
     "%x: tensor<3x2x2xf64>, %h: tensor<2x2xf64>, %w: tensor<2x2xf64>, %b: "
     "tensor<2xf64>",
     "tensor<2x2xf64>", R"(
      %ys, %last = graph.scan 3 of(%x) carry(%h) uses(%w, %b) {
      ^bb0(%e: tensor<2x2xf64>, %c: tensor<2x2xf64>, %v: tensor<2x2xf64>, %u: tensor<2xf64>):
        %p = graph.matmul %c, %v batch [] x [] contract [1] x [1] : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
        %q = graph.broadcast %u {dims = array<i64: 1>} : (tensor<2xf64>) -> tensor<2x2xf64>
        %s = graph.add %e, %p : tensor<2x2xf64>
        %t = graph.add %s, %q : tensor<2x2xf64>
        %n = graph.tanh %t : tensor<2x2xf64>
        graph.scan_yield stack(%n) carry(%n) : tensor<2x2xf64>, tensor<2x2xf64>
      } : (tensor<3x2x2xf64>, tensor<2x2xf64>, tensor<2x2xf64>, tensor<2xf64>) -> (tensor<3x2x2xf64>, tensor<2x2xf64>)
      %y = graph.reduce sum %ys over [0] : (tensor<3x2x2xf64>) -> tensor<2x2xf64>
      %r = graph.add %y, %last : tensor<2x2xf64>)"},
    {"scan_reversed", // sums are carried; a stack of what comes in
     "%x: tensor<3x2xf64>, %h: tensor<2xf64>, %w: tensor<2xf64>",
     "tensor<3x2xf64>", R"(
      %k = graph.constant dense<[1, 2]> : tensor<2xi64>
      %r, %n, %c = graph.scan 3 reversed of(%x) carry(%h, %k) uses(%w) {
      ^bb0(%e: tensor<2xf64>, %s: tensor<2xf64>, %i: tensor<2xi64>, %u: tensor<2xf64>):
        %a = graph.mul %s, %u : tensor<2xf64>
        %m = graph.mul %a, %e : tensor<2xf64>
        %f = graph.convert %i : (tensor<2xi64>) -> tensor<2xf64>
        %o = graph.mul %m, %f : tensor<2xf64>
        %q = graph.add %o, %u : tensor<2xf64>
        %j = graph.add %i, %i : tensor<2xi64>
        graph.scan_yield stack(%s) carry(%q, %j) : tensor<2xf64>, tensor<2xf64>, tensor<2xi64>
      } : (tensor<3x2xf64>, tensor<2xf64>, tensor<2xi64>, tensor<2xf64>) -> (tensor<3x2xf64>, tensor<2xf64>, tensor<2xi64>))"},
    {"dropout", "%x: tensor<4x8xf64>, %s: tensor<i64>", "tensor<4x8xf64>",
     "%r = graph.dropout %x, %s, %s, %s {rate = 0.4 : f64, rng_id = 7 : i64} : "
     "(tensor<4x8xf64>, tensor<i64>, tensor<i64>, tensor<i64>) -> "
     "tensor<4x8xf64>"},
};

class GradientTest : public TrainingTest {
protected:
  /// The gradients of the float arguments of @forward, whose one result is a
  /// scalar.
  SmallVector<Tensor> gradientsOf(StringRef arguments, StringRef body,
                                  ArrayRef<std::vector<double>> values) {
    auto module =
        parse(("func.func @forward(" + arguments + ") -> tensor<f64> {\n" +
               body + "\nreturn %r : tensor<f64>\n}")
                  .str());
    SmallVector<Tensor> given = evaluate::randomArguments(function(*module), 1);
    for (auto [tensor, numbers] : llvm::zip_equal(given, values))
      for (auto [i, number] : llvm::enumerate(numbers))
        tensor.set(static_cast<int64_t>(i), number);
    differentiate(function(*module));
    return evaluate(function(*module), given);
  }

  static std::vector<double> floatsOf(const Tensor &tensor) {
    return {tensor.floats.begin(), tensor.floats.end()};
  }
};

class Gradient : public GradientTest,
                 public ::testing::WithParamInterface<Case> {
protected:
  void checkParts();
  /// Builds the case as a function whose only result is a weighted sum of %r's
  /// elements.
  OwningOpRef<ModuleOp> build() {
    const Case &each = GetParam();
    auto module = parse("func.func @forward(" + std::string(each.arguments) +
                        ") -> " + each.result + " {\n" + each.body +
                        "\nreturn %r : " + each.result + "\n}");
    if (!module)
      return module;
    func::FuncOp forward = function(*module);
    Operation *terminator = forward.getBody().front().getTerminator();
    OpBuilder builder(terminator);
    Value result = terminator->getOperand(0);
    auto type = cast<RankedTensorType>(result.getType());
    Tensor weights(type);
    std::mt19937 random(17);
    for (double &weight : weights.floats)
      weight = std::normal_distribution<>()(random);
    Location location = builder.getUnknownLoc();
    Value constant =
        graph::ConstantOp::create(builder, location, weights.toAttribute());
    Value product = graph::MulOp::create(builder, location, result, constant);
    Value sum = graph::ReduceOp::create(
        builder, location, sharding::ReductionKind::Sum, product,
        llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())));
    returnValues(forward, sum);
    return module;
  }
};

} // namespace

TEST_P(Gradient, IsTheLimitOfDifferences) {
  auto module = build();
  ASSERT_TRUE(module);
  func::FuncOp forward = function(*module);
  SmallVector<Tensor> arguments = evaluate::randomArguments(forward, 3);
  OwningOpRef<ModuleOp> other(module->clone());
  differentiate(function(*other));
  SmallVector<Tensor> gradients = evaluate(function(*other), arguments);

  constexpr double step = 1e-5;
  unsigned next = 0;
  for (Value value : floatArguments(forward)) {
    unsigned number = cast<BlockArgument>(value).getArgNumber();
    const Tensor &gradient = gradients[next++];
    for (int64_t i = 0; i < gradient.size(); ++i) {
      auto at = [&](double delta) {
        SmallVector<Tensor> moved = arguments;
        moved[number].floats[i] += delta;
        return evaluate(forward, moved)[0].floats[0];
      };
      double difference = (at(step) - at(-step)) / (2 * step);
      EXPECT_NEAR(gradient.floats[i], difference,
                  1e-7 * (1 + std::fabs(difference)))
          << "argument " << number << " element " << i;
    }
  }
}

/// Evaluates a case and its gradients, whole and in parts.
void Gradient::checkParts() {
  auto module = build();
  ASSERT_TRUE(module);
  SmallVector<Tensor> arguments =
      evaluate::randomArguments(function(*module), 5);
  auto decompose = [&](func::FuncOp function) {
    SmallVector<graph::CompositeOp> composites;
    function.walk([&](graph::CompositeOp op) { composites.push_back(op); });
    for (graph::CompositeOp op : composites) {
      OpBuilder builder(op);
      op->replaceAllUsesWith(ValueRange(op.decompose(builder)));
      op->erase();
    }
    ASSERT_TRUE(succeeded(verify(function)));
  };
  OwningOpRef<ModuleOp> parts(module->clone());
  decompose(function(*parts));
  expectEqual(evaluate(function(*parts), arguments),
              evaluate(function(*module), arguments));

  // First the backward is decomposed, with the residuals of the composite, then
  // everything.
  differentiate(function(*module));
  SmallVector<Tensor> expected = evaluate(function(*module), arguments);
  OwningOpRef<ModuleOp> both(module->clone());
  decompose(function(*both));
  expectEqual(evaluate(function(*both), arguments), expected);
  differentiate(function(*parts));
  expectEqual(evaluate(function(*parts), arguments), expected);
}

TEST_P(Gradient, OfPartsIsThatOfTheWhole) { checkParts(); }

INSTANTIATE_TEST_SUITE_P(Ops, Gradient, ::testing::ValuesIn(cases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

namespace {

// The logarithm of the sum of such scores holds nothing but the number, so
// differences say nothing of gradients.
const Case lowScores[] = {
    {"added",
     "%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x4x2xf64>, %v: "
     "tensor<2x2x4x3xf64>",
     "tensor<2x2x3x3xf64>", R"(
      %m = graph.constant dense<[[[[true, false, true, true]]], [[[false, false, false, false]]]]> : tensor<2x1x1x4xi1>
      %r, %l = graph.attention %q, %k, %v mask %m masked add {scale = 0.7 : f64, causal = true, fill = -3.4e38 : f64} : (tensor<2x2x3x2xf64>, tensor<2x2x4x2xf64>, tensor<2x2x4x3xf64>, tensor<2x1x1x4xi1>) -> (tensor<2x2x3x3xf64>, tensor<2x2x3xf64>))"},
    {"bias",
     "%q: tensor<1x1x3x2xf64>, %k: tensor<1x1x4x2xf64>, %v: "
     "tensor<1x1x4x3xf64>",
     "tensor<1x1x3x3xf64>", R"(
      %b = graph.constant dense<[[[[-3.4e38], [0.0], [-3.4e38]]]]> : tensor<1x1x3x1xf64>
      %r, %l = graph.attention %q, %k, %v bias %b {scale = 0.7 : f64, causal = false} : (tensor<1x1x3x2xf64>, tensor<1x1x4x2xf64>, tensor<1x1x4x3xf64>, tensor<1x1x3x1xf64>) -> (tensor<1x1x3x3xf64>, tensor<1x1x3xf64>))"},
};

class LowScores : public Gradient {};

} // namespace

TEST_P(LowScores, HaveTheWeightsOfTheWholeInParts) { checkParts(); }

INSTANTIATE_TEST_SUITE_P(Attention, LowScores, ::testing::ValuesIn(lowScores),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

TEST_F(GradientTest, EqualExtremaShareTheGradient) {
  for (const char *kind : {"max", "min"}) {
    std::string body = std::string("%m = graph.reduce ") + kind +
                       R"( %x over [1] : (tensor<2x3xf64>) -> tensor<2xf64>
      %w = graph.constant dense<[6.0, 9.0]> : tensor<2xf64>
      %p = graph.mul %m, %w : tensor<2xf64>
      %r = graph.reduce sum %p over [0] : (tensor<2xf64>) -> tensor<f64>)";
    double sign = kind == std::string("max") ? 1 : -1;
    auto gradients = gradientsOf(
        "%x: tensor<2x3xf64>", body,
        {{sign * 1, sign * 3, sign * 3, sign * 2, sign * 2, sign * 2}});
    EXPECT_EQ(floatsOf(gradients[0]), (std::vector<double>{0, 3, 3, 3, 3, 3}))
        << kind;
  }
}

// In row-major order of the reduced dims. In the first block two equal elements
// have the same sum of positions, in the second the first one is in the last
// column, and in the third there is none before the last.
TEST_F(GradientTest, TheFirstOfEqualExtremaOverTwoDimsTakesTheGradient) {
  auto gradients = gradientsOf("%x: tensor<3x2x3xf64>", R"(
      %m = graph.reduce max %x over [1, 2] {first} : (tensor<3x2x3xf64>) -> tensor<3xf64>
      %w = graph.constant dense<[6.0, 9.0, 4.0]> : tensor<3xf64>
      %p = graph.mul %m, %w : tensor<3xf64>
      %r = graph.reduce sum %p over [0] : (tensor<3xf64>) -> tensor<f64>)",
                               {{0, 5, 1, 5, 5, 0, //
                                 0, 1, 5, 5, 0, 0, //
                                 0, 0, 0, 0, 0, 1}});
  EXPECT_EQ(floatsOf(gradients[0]), (std::vector<double>{0, 6, 0, 0, 0, 0, //
                                                         0, 0, 9, 0, 0, 0, //
                                                         0, 0, 0, 0, 0, 4}));
}

TEST_F(GradientTest, TwoOperandsThatAreEqualTakeHalfEach) {
  for (const char *op : {"max", "min"}) {
    std::string body =
        std::string("%m = graph.") + op +
        R"( %x, %y : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      %r = graph.reduce sum %m over [0] : (tensor<3xf64>) -> tensor<f64>)";
    auto gradients = gradientsOf("%x: tensor<3xf64>, %y: tensor<3xf64>", body,
                                 {{1, 2, 3}, {1, 3, 2}});
    bool isMax = op == std::string("max");
    EXPECT_EQ(floatsOf(gradients[0]),
              (std::vector<double>{0.5, isMax ? 0. : 1., isMax ? 1. : 0.}));
    EXPECT_EQ(floatsOf(gradients[1]),
              (std::vector<double>{0.5, isMax ? 1. : 0., isMax ? 0. : 1.}));
  }
}

TEST_F(GradientTest, TheRowOfThePaddingIndexGetsNone) {
  auto gradients = gradientsOf("%x: tensor<3x2xf64>, %i: tensor<4xi64>", R"(
      %g = graph.gather %x, %i {axis = 0 : i64, batch_dims = 0 : i64, padding_index = 1 : i64} : (tensor<3x2xf64>, tensor<4xi64>) -> tensor<4x2xf64>
      %r = graph.reduce sum %g over [0, 1] : (tensor<4x2xf64>) -> tensor<f64>)",
                               {{}, {2, 1, 0, 2}});
  EXPECT_EQ(floatsOf(gradients[0]), (std::vector<double>{1, 1, 0, 0, 2, 2}));
}

// d x^y / dx is 0 where y is 0, and d x^y / dy is 0 where x^y is: neither is
// NaN.
/// In bf16 a sum of ones stops at 256. Only the sum is rounded to the type of
/// the table.
TEST_F(GradientTest, OfALookupInNarrowFloatsIsASumOfFloats) {
  auto module = parse(R"mlir(
func.func @forward(%t: tensor<4x2xbf16>, %i: tensor<300xi64>) -> tensor<bf16> {
  %0 = graph.gather %t, %i {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<4x2xbf16>, tensor<300xi64>) -> tensor<300x2xbf16>
  %1 = graph.reduce sum %0 over [0, 1] : (tensor<300x2xbf16>) -> tensor<bf16>
  return %1 : tensor<bf16>
}
)mlir");
  ASSERT_TRUE(module);
  differentiate(function(*module));
  auto scatters = function(*module).getOps<graph::ScatterAddOp>();
  ASSERT_TRUE(llvm::hasSingleElement(scatters));
  graph::ScatterAddOp scatter = *scatters.begin();
  EXPECT_TRUE(getElementTypeOrSelf(scatter.getUpdates()).isBF16());
  EXPECT_TRUE(getElementTypeOrSelf(scatter.getResult()).isF32());
  ASSERT_TRUE(scatter->hasOneUse());
  auto rounded = dyn_cast<graph::ConvertOp>(*scatter->user_begin());
  ASSERT_TRUE(rounded);
  EXPECT_TRUE(rounded.getType().getElementType().isBF16());
}

/// Adding one to 256 changes nothing in bf16.
TEST_F(GradientTest, OfWhatAllIterationsUseIsASumOfFloats) {
  auto module = parse(R"mlir(
func.func @forward(%w: tensor<2xbf16>, %x: tensor<300x2xbf16>) -> tensor<bf16> {
  %ys = graph.scan 300 of(%x) carry() uses(%w) {
  ^bb0(%e: tensor<2xbf16>, %u: tensor<2xbf16>):
    %y = graph.mul %e, %u : tensor<2xbf16>
    graph.scan_yield stack(%y) carry() : tensor<2xbf16>
  } : (tensor<300x2xbf16>, tensor<2xbf16>) -> tensor<300x2xbf16>
  %1 = graph.reduce sum %ys over [0, 1] : (tensor<300x2xbf16>) -> tensor<bf16>
  return %1 : tensor<bf16>
}
)mlir");
  ASSERT_TRUE(module);
  SmallVector<Tensor> ones;
  for (Type type : function(*module).getArgumentTypes())
    ones.push_back(Tensor::splat(cast<RankedTensorType>(type), 1));
  differentiate(function(*module));
  auto gradients = evaluate::evaluateGlobal(function(*module), ones,
                                            graph::Rounding::OfTypes);
  ASSERT_TRUE(succeeded(gradients));
  EXPECT_EQ(gradients->front().floats, std::vector<double>(2, 300));
}

/// A gradient takes the statistics as the forward gives them.
TEST_F(GradientTest, CompositesOfNarrowFloatsAreBuiltWithStatisticsOfFloats) {
  auto module = parse(R"mlir(
func.func @forward(%x: tensor<3x4xbf16>, %s: tensor<4xbf16>, %l: tensor<3xi64>) -> tensor<3x4xbf16> {
  return %x : tensor<3x4xbf16>
}
)mlir");
  ASSERT_TRUE(module);
  Block &body = function(*module).getBody().front();
  OpBuilder builder(body.getTerminator());
  Location location = builder.getUnknownLoc();
  Value x = body.getArgument(0), scale = body.getArgument(1);
  auto layer =
      graph::LayerNormOp::create(builder, location, x, scale, scale, 1e-5);
  auto square = graph::RmsNormOp::create(builder, location, layer.getResult(),
                                         scale, 1e-5);
  auto loss = graph::CrossEntropyOp::create(
      builder, location, square.getResult(), body.getArgument(2), 1, -100);
  ASSERT_TRUE(succeeded(verify(*module)));
  returnValues(
      function(*module),
      {graph::ReduceOp::create(builder, location, sharding::ReductionKind::Sum,
                               loss.getLoss(), ArrayRef<int64_t>{0})});
  differentiate(function(*module));
}

/// A scatter's updates are narrow and its result is not: the gradient passes
/// through a conversion.
TEST_F(GradientTest, OfNarrowUpdatesHasTheirType) {
  auto module = parse(R"mlir(
func.func @forward(%x: tensor<3x2xf16>, %i: tensor<3xi64>) -> tensor<f32> {
  %0 = graph.scatter_add %i, %x {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<3xi64>, tensor<3x2xf16>) -> tensor<4x2xf32>
  %1 = graph.mul %0, %0 : tensor<4x2xf32>
  %2 = graph.reduce sum %1 over [0, 1] : (tensor<4x2xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}
)mlir");
  ASSERT_TRUE(module);
  differentiate(function(*module));
  ASSERT_TRUE(succeeded(verify(*module)));
  Value gradient =
      function(*module).getBody().front().getTerminator()->getOperand(0);
  EXPECT_EQ(getElementTypeOrSelf(gradient),
            Float16Type::get(module->getContext()));
}

/// lse is a result with a gradient of its own, in f32.
TEST_F(GradientTest, ThroughTheSumOfALossInNarrowFloatsHasTheirType) {
  auto module = parse(R"mlir(
func.func @forward(%x: tensor<3x5xbf16>, %l: tensor<3xi64>) -> tensor<f32> {
  %0:2 = graph.cross_entropy %x, %l {axis = 1 : i64, ignore_index = -100 : i64} : (tensor<3x5xbf16>, tensor<3xi64>) -> (tensor<3xbf16>, tensor<3xf32>)
  %1 = graph.convert %0#0 : (tensor<3xbf16>) -> tensor<3xf32>
  %2 = graph.add %1, %0#1 : tensor<3xf32>
  %3 = graph.reduce sum %2 over [0] : (tensor<3xf32>) -> tensor<f32>
  return %3 : tensor<f32>
}
)mlir");
  ASSERT_TRUE(module);
  differentiate(function(*module));
  ASSERT_TRUE(succeeded(verify(*module)));
  Value gradient =
      function(*module).getBody().front().getTerminator()->getOperand(0);
  EXPECT_TRUE(getElementTypeOrSelf(gradient).isBF16());
}

TEST_F(GradientTest, PowersOfZeroHaveFiniteGradients) {
  auto gradients = gradientsOf("%x: tensor<3xf64>, %y: tensor<3xf64>", R"(
      %p = graph.pow %x, %y : tensor<3xf64>
      %r = graph.reduce sum %p over [0] : (tensor<3xf64>) -> tensor<f64>)",
                               {{0, 0, 2}, {0, 2, 2}});
  EXPECT_EQ(gradients[0].floats[0], 0);
  EXPECT_EQ(gradients[0].floats[1], 0);
  EXPECT_EQ(gradients[0].floats[2], 4);
  EXPECT_EQ(gradients[1].floats[1], 0);
}

// The numbers are the same for the same four values, and differ if one of them
// differs.
TEST_F(TrainingTest, DropoutDependsOnSeedStepMicrobatchAndOp) {
  auto drawn = [&](const char *id, int64_t seed, int64_t step,
                   int64_t microbatch) {
    auto module = parse(
        std::string(R"(
      func.func @forward(%x: tensor<64xf32>, %a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>) -> tensor<64xf32> {
        %r = graph.dropout %x, %a, %b, %c {rate = 0.5 : f64, rng_id = )") +
        id +
        R"( : i64} : (tensor<64xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<64xf32>
        return %r : tensor<64xf32>
      })");
    SmallVector<Tensor> arguments =
        evaluate::randomArguments(function(*module), 1);
    llvm::fill(arguments[0].floats, 1);
    arguments[1].integers[0] = seed;
    arguments[2].integers[0] = step;
    arguments[3].integers[0] = microbatch;
    return evaluate(function(*module), arguments)[0].floats;
  };
  auto same = drawn("0", 5, 6, 7);
  EXPECT_EQ(drawn("0", 5, 6, 7), same);
  EXPECT_NE(drawn("1", 5, 6, 7), same);
  EXPECT_NE(drawn("0", 4, 6, 7), same);
  EXPECT_NE(drawn("0", 5, 7, 7), same);
  EXPECT_NE(drawn("0", 5, 6, 8), same);
  EXPECT_NE(drawn("0", 5, 7, 6), same);
}

TEST_F(TrainingTest, DropoutDrawsPhilox) {
  // Salmon et al. 2011, known answer: key 0, counter 0 gives 6627e8d5 first.
  constexpr double share = 0x6627e8d5 / 4294967296.0;
  auto keeps = [&](double rate) {
    auto module =
        parse("func.func @forward(%x: tensor<1xf32>, %z: tensor<i64>) -> "
              "tensor<1xf32> {\n"
              "%r = graph.dropout %x, %z, %z, %z {rate = " +
              std::to_string(rate) +
              " : f64, rng_id = 0 : i64} : (tensor<1xf32>, tensor<i64>, "
              "tensor<i64>, tensor<i64>) -> tensor<1xf32>\n"
              "return %r : tensor<1xf32>\n}");
    SmallVector<Tensor> arguments =
        evaluate::randomArguments(function(*module), 1);
    arguments[0].floats[0] = 1;
    arguments[1].integers[0] = 0;
    return evaluate(function(*module), arguments)[0].floats[0] != 0;
  };
  EXPECT_TRUE(keeps(share - 1e-6));
  EXPECT_FALSE(keeps(share + 1e-6));
}
