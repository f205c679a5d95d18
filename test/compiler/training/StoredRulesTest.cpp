// LAMB, Adafactor and Muon against their formulas, on stored tensors that the
// program sees in parts.

#include "compiler/training/Passes.h"
#include "dialects/graph/Boundary.h"
#include "test/compiler/training/TestModule.h"

#include <cmath>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Tensor;

namespace {

using Numbers = std::vector<double>;

double squares(const Numbers &values) {
  double sum = 0;
  for (double value : values)
    sum += value * value;
  return sum;
}

/// A stored tensor under one of the rules: [batch, rows, columns].
struct Reference {
  Numbers value;
  int batch, rows, columns;
  bool isVector = false;
  Numbers first{}, second{};
  int step = 0;

  void adam(const Numbers &gradient, double beta1, double beta2) {
    ++step;
    first.resize(value.size());
    second.resize(value.size());
    for (size_t i = 0; i < value.size(); ++i) {
      first[i] = beta1 * first[i] + (1 - beta1) * gradient[i];
      second[i] = beta2 * second[i] + (1 - beta2) * gradient[i] * gradient[i];
    }
  }
};

void adamw(Reference &each, const Numbers &gradient, double lr, double beta1,
           double beta2, double epsilon, double decay) {
  each.adam(gradient, beta1, beta2);
  for (size_t i = 0; i < gradient.size(); ++i) {
    double root = std::sqrt(each.second[i] / (1 - std::pow(beta2, each.step)));
    each.value[i] -= lr * (decay * each.value[i] +
                           each.first[i] / (1 - std::pow(beta1, each.step)) /
                               (root + epsilon));
  }
}

void lamb(Reference &each, const Numbers &gradient, double lr, double beta1,
          double beta2, double epsilon, double decay, bool corrects = true,
          bool averages = true, double least = 0, double most = 1e300) {
  each.adam(gradient, beta1, beta2);
  Numbers update;
  for (size_t i = 0; i < gradient.size(); ++i) {
    if (!averages)
      each.first[i] += beta1 * gradient[i];
    double first = each.first[i], second = each.second[i];
    if (corrects) {
      first /= 1 - std::pow(beta1, each.step);
      second /= 1 - std::pow(beta2, each.step);
    }
    update.push_back(first / (std::sqrt(second) + epsilon) +
                     decay * each.value[i]);
  }
  double w = std::sqrt(squares(each.value)), u = std::sqrt(squares(update));
  double trust = w == 0 || u == 0 ? 1 : std::min(std::max(w / u, least), most);
  for (size_t i = 0; i < gradient.size(); ++i)
    each.value[i] -= lr * trust * update[i];
}

void adafactor(Reference &each, const Numbers &gradient, double lr,
               double beta2Decay, double epsilon1, double epsilon2, double d,
               double decay) {
  size_t size = gradient.size();
  int rows = each.rows, columns = each.columns;
  double newness = std::pow(++each.step, beta2Decay);
  double length = std::max(epsilon2, std::sqrt(squares(each.value) / size));
  double largest = std::min(lr, 1 / std::sqrt(each.step));
  Numbers moments(size), update(size);
  if (each.isVector) {
    each.first.resize(size);
    for (size_t i = 0; i < size; ++i)
      moments[i] = each.first[i] +=
          newness * (gradient[i] * gradient[i] - each.first[i]);
  } else {
    each.first.resize(each.batch * rows);
    each.second.resize(each.batch * columns);
    for (int b = 0; b < each.batch; ++b) {
      Numbers ofRows(rows), ofColumns(columns);
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) {
          double g = gradient[(b * rows + i) * columns + j];
          ofRows[i] += g * g / columns;
          ofColumns[j] += g * g / rows;
        }
      double mean = 0;
      for (int i = 0; i < rows; ++i) {
        double &r = each.first[b * rows + i];
        r += newness * (ofRows[i] - r);
        mean += r / rows;
      }
      for (int j = 0; j < columns; ++j) {
        double &c = each.second[b * columns + j];
        c += newness * (ofColumns[j] - c);
        for (int i = 0; i < rows; ++i)
          moments[(b * rows + i) * columns + j] =
              each.first[b * rows + i] * c / std::max(mean, epsilon1);
      }
    }
  }
  for (size_t i = 0; i < size; ++i)
    update[i] =
        gradient[i] / std::sqrt(std::max(moments[i], epsilon1 * epsilon1));
  double excess = std::max(1.0, std::sqrt(squares(update) / size) / d);
  for (size_t i = 0; i < size; ++i)
    each.value[i] -=
        lr * decay * each.value[i] + length * largest / excess * update[i];
}

/// [n, m] times [m, k].
Numbers product(const Numbers &a, const Numbers &b, int n, int m, int k) {
  Numbers result(n * k);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j)
      for (int l = 0; l < m; ++l)
        result[i * k + j] += a[i * m + l] * b[l * k + j];
  return result;
}

/// The products are always from the left, for tall matrices too. What is not a
/// matrix is updated by AdamW.
void muon(Reference &each, const Numbers &gradient, double lr, double decay,
          double momentum, bool nesterov, Numbers abc, double epsilon,
          int steps, bool isOriginal) {
  if (each.isVector || each.batch > 1)
    return adamw(each, gradient, 1e-3, 0.9, 0.999, 1e-8, 0.01);
  int n = each.rows, m = each.columns;
  double ratio = isOriginal ? std::sqrt(std::max(1.0, double(n) / m))
                            : 0.2 * std::sqrt(std::max(n, m));
  each.first.resize(gradient.size());
  Numbers x;
  for (size_t i = 0; i < gradient.size(); ++i) {
    each.first[i] = momentum * each.first[i] + (1 - momentum) * gradient[i];
    x.push_back(nesterov
                    ? (1 - momentum) * gradient[i] + momentum * each.first[i]
                    : each.first[i]);
  }
  double norm = std::max(std::sqrt(squares(x)), epsilon);
  for (double &value : x)
    value /= norm;
  for (int step = 0; step < steps; ++step) {
    Numbers transposed(x.size());
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < m; ++j)
        transposed[j * n + i] = x[i * m + j];
    Numbers gram = product(x, transposed, n, m, n);
    Numbers square = product(gram, gram, n, n, n);
    for (int i = 0; i < n * n; ++i)
      gram[i] = abc[1] * gram[i] + abc[2] * square[i];
    Numbers more = product(gram, x, n, n, m);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = abc[0] * x[i] + more[i];
  }
  for (size_t i = 0; i < x.size(); ++i)
    each.value[i] -= lr * (decay * each.value[i] + ratio * x[i]);
}

using Update = void (*)(Reference &, const Numbers &);

struct RuleCase {
  const char *text;
  Update update;
};

const Numbers quintic{3.4445, -4.7750, 2.0315};

const RuleCase ruleCases[] = {
    {"lamb",
     [](Reference &each, const Numbers &gradient) {
       lamb(each, gradient, 1e-3, 0.9, 0.999, 1e-6, 0.01);
     }},
    {"lamb(0.1,(0.8,0.9),1e-3,0.25,max_coeff=0.5)",
     [](Reference &each, const Numbers &gradient) {
       lamb(each, gradient, 0.1, 0.8, 0.9, 1e-3, 0.25, true, true, 0, 0.5);
     }},
    {"lamb(lr=0.1,weight_decay=0,bias_correction=False,grad_averaging=False,"
     "min_coeff=3)",
     [](Reference &each, const Numbers &gradient) {
       lamb(each, gradient, 0.1, 0.9, 0.999, 1e-6, 0, false, false, 3);
     }},
    {"lamb(lr=0.1,weight_decay=0,use_nvlamb=False)",
     [](Reference &each, const Numbers &gradient) {
       lamb(each, gradient, 0.1, 0.9, 0.999, 1e-6, 0, true, true, 1, 1);
     }},
    {"adafactor",
     [](Reference &each, const Numbers &gradient) {
       adafactor(each, gradient, 0.01, -0.8, std::ldexp(1, -52), 1e-3, 1, 0);
     }},
    {"Adafactor(0.8, -0.5, (0.5, 2), 1.25, 0.25)",
     [](Reference &each, const Numbers &gradient) {
       adafactor(each, gradient, 0.8, -0.5, 0.5, 2, 1.25, 0.25);
     }},
    {"adafactor(lr=0.5,eps=(None,0.125),weight_decay=0.5,maximize=True)",
     [](Reference &each, const Numbers &gradient) {
       Numbers negative(gradient);
       for (double &value : negative)
         value = -value;
       adafactor(each, negative, 0.5, -0.8, std::ldexp(1, -52), 0.125, 1, 0.5);
     }},
    {"muon",
     [](Reference &each, const Numbers &gradient) {
       muon(each, gradient, 1e-3, 0.1, 0.95, true, quintic, 1e-7, 5, true);
     }},
    {"Muon(0.1, 0.25, 0.5, False, (2, -1.5, 0.5), 8, 2, \"match_rms_adamw\")",
     [](Reference &each, const Numbers &gradient) {
       muon(each, gradient, 0.1, 0.25, 0.5, false, {2, -1.5, 0.5}, 8, 2, false);
     }},
    {"muon(adamw=w*,adamw_lr=0.05,adamw_betas=(0.8,0.9),adamw_eps=1e-4,"
     "adamw_weight_decay=0.25)",
     [](Reference &each, const Numbers &gradient) {
       adamw(each, gradient, 0.05, 0.8, 0.9, 1e-4, 0.25);
     }},
};

/// The views of a stored tensor: shapes, and their bases and strides.
struct View {
  std::vector<int64_t> shape, numbers;
};
struct ViewCase {
  const char *name;
  std::vector<int64_t> stored;
  std::vector<View> views;
};

const ViewCase viewCases[] = {
    {"Whole", {6, 4}, {{{6, 4}, {}}}},
    {"WideAsItIs", {4, 6}, {{{4, 6}, {}}}},
    {"HeadsBehindTheInput", {6, 4}, {{{4, 3, 2}, {0, 1, 8, 4}}}},
    {"AllInOneRow", {6, 4}, {{{24}, {0, 1}}}},
    {"UnequalParts", {6, 4}, {{{2, 2, 4}, {0, 8, 4, 1}}, {{4, 2}, {16, 1, 4}}}},
    {"PartsOfEachGroup",
     {6, 4},
     {{{2, 2, 4}, {0, 12, 4, 1}}, {{4, 2}, {8, 1, 12}}}},
    {"EverySecondColumn",
     {6, 4},
     {{{6, 2}, {0, 4, 2}}, {{1, 2, 6}, {1, 3, 2, 4}}}},
    {"CutInBothDims",
     {6, 4},
     {{{6, 1}, {0, 4, 1}}, {{2, 3}, {1, 4, 1}}, {{4, 3}, {9, 4, 1}}}},
    {"LastDimsMerged", {2, 3, 4}, {{{2, 12}, {0, 12, 1}}}},
    {"FirstDimsMerged", {2, 3, 4}, {{{4, 6}, {0, 1, 4}}}},
    {"Vector", {6}, {{{2, 2}, {0, 2, 1}}, {{2}, {4, 1}}}},
};

class StoredRulesTest
    : public TrainingTest,
      public ::testing::WithParamInterface<std::tuple<int, int>> {
protected:
  static std::string typeOf(llvm::ArrayRef<int64_t> shape,
                            llvm::StringRef batch = "") {
    std::string text = "tensor<" + batch.str();
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + "f64>";
  }

  /// A loss whose gradient with respect to each view is an input.
  static std::string moduleOf(const ViewCase &each) {
    std::string head = "graph.parameter @w : " + typeOf(each.stored) +
                       " at \"m.onnx\" offset 0 length 192 {trainable}\n"
                       "func.func @forward(",
                body;
    for (auto [i, view] : llvm::enumerate(each.views)) {
      std::string n = std::to_string(i), type = typeOf(view.shape),
                  given = typeOf(view.shape, "1x"), numbers;
      for (int64_t number : view.numbers)
        numbers +=
            (numbers.empty() ? " view [" : ", ") + std::to_string(number);
      head += (i ? ", " : "") + ("%g" + n) + ": " + given +
              " {graph.role = #graph.input<\"g" + n + "\">}, %w" + n + ": " +
              type + " {graph.role = #graph.parameter<@w" + numbers +
              (numbers.empty() ? "" : "]") + ">}";
      std::string dims;
      for (size_t d = 0; d < view.shape.size(); ++d)
        dims += (d ? ", " : "") + std::to_string(d);
      body += "%r" + n + " = graph.reshape %g" + n + " : (" + given + ") -> " +
              type + "\n%p" + n + " = graph.mul %r" + n + ", %w" + n + " : " +
              type + "\n%s" + n + " = graph.reduce sum %p" + n + " over [" +
              dims + "] : (" + type + ") -> tensor<f64>\n";
      body += i ? "%t" + n + " = graph.add %t" + std::to_string(i - 1) +
                      ", %s" + n + " : tensor<f64>\n"
                : "%t0 = graph.reshape %s0 : (tensor<f64>) -> tensor<f64>\n";
    }
    return head +
           ") -> (tensor<f64> {graph.role = #graph.output<\"loss\">}) {\n" +
           body + "return %t" + std::to_string(each.views.size() - 1) +
           " : tensor<f64>\n}\n";
  }

  std::string build(ModuleOp module, llvm::StringRef optimizer) {
    AttachLossPassOptions loss;
    loss.loss = "output(loss)";
    EXPECT_EQ(run(module, createAttachLossPass(loss)), "");
    BuildStepPassOptions step;
    step.optimizer = optimizer.str();
    return run(module, createBuildStepPass(step));
  }

  /// Returns the stored positions of a view's elements, in their order.
  static std::vector<int64_t> placesOf(const View &view) {
    std::vector<int64_t> places;
    SmallVector<int64_t> strides = graph::getStrides(view.shape);
    graph::forEachIndex(view.shape, [&](llvm::ArrayRef<int64_t> index) {
      int64_t place = view.numbers.empty() ? 0 : view.numbers[0];
      for (auto [d, i] : llvm::enumerate(index))
        place += i * (view.numbers.empty() ? strides[d] : view.numbers[d + 1]);
      places.push_back(place);
    });
    return places;
  }
};

} // namespace

TEST_P(StoredRulesTest, UpdatesTheStoredTensorHoweverItIsSeen) {
  const RuleCase &rule = ruleCases[std::get<0>(GetParam())];
  const ViewCase &seen = viewCases[std::get<1>(GetParam())];
  auto module = parse(moduleOf(seen));
  ASSERT_TRUE(module);
  ASSERT_EQ(build(*module, rule.text), "");
  func::FuncOp step = function(*module, "step");
  graph::Boundary boundary(step);
  SmallVector<Tensor> arguments = evaluate::randomArguments(step, 5);

  int64_t rank = seen.stored.size();
  Reference reference{Numbers(graph::numElements(seen.stored)),
                      rank == 3 ? int(seen.stored[0]) : 1,
                      rank > 1 ? int(seen.stored[rank - 2]) : 1,
                      int(seen.stored[rank - 1])};
  reference.isVector = rank < 2;
  size_t count = seen.views.size();
  for (size_t v = 0; v < count; ++v)
    for (auto [i, place] : llvm::enumerate(placesOf(seen.views[v])))
      reference.value[place] = arguments[v].floats[i];
  for (int t = 0; t < 3; ++t) {
    Numbers gradient(reference.value.size());
    for (size_t v = 0; v < count; ++v)
      for (auto [i, place] : llvm::enumerate(placesOf(seen.views[v]))) {
        double &given = arguments[arguments.size() - count + v].floats[i];
        given = gradient[place] = std::sin(t + 1.0 + 3 * place) * (t + 1);
      }
    SmallVector<Tensor> results = evaluate(step, arguments);
    ASSERT_FALSE(results.empty());
    rule.update(reference, gradient);
    for (auto [i, result] : llvm::enumerate(results))
      if (std::optional<unsigned> replaced = boundary.getReplaced(i))
        arguments[*replaced] = result;
    for (size_t v = 0; v < count; ++v)
      for (auto [i, place] : llvm::enumerate(placesOf(seen.views[v])))
        EXPECT_NEAR(arguments[v].floats[i], reference.value[place], 1e-12)
            << "element " << place << " after step " << t;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StoredRulesTest,
    ::testing::Combine(::testing::Range(0, int(std::size(ruleCases))),
                       ::testing::Range(0, int(std::size(viewCases)))),
    [](const auto &info) {
      int rule = std::get<0>(info.param);
      return "rule" + std::to_string(rule) +
             viewCases[std::get<1>(info.param)].name;
    });

/// State has PyTorch's shapes; a part of a tensor has no row of its own.
TEST_F(StoredRulesTest, StateIsOfTheStoredTensorOrOfItsViews) {
  auto statesOf = [&](const ViewCase &seen, llvm::StringRef optimizer) {
    auto module = parse(moduleOf(seen));
    EXPECT_EQ(build(*module, optimizer), "");
    func::FuncOp step = function(*module, "step");
    std::string text;
    llvm::raw_string_ostream out(text);
    for (unsigned i = 0; i < step.getNumArguments(); ++i)
      if (auto state = graph::Boundary(step).getArgument<graph::StateAttr>(i);
          state && state.getOf())
        out << state.getSuffix().getValue() << " "
            << step.getArgument(i).getType() << "; ";
    return text;
  };
  EXPECT_EQ(statesOf(viewCases[4], "adafactor"),
            "row_var tensor<6x1xf64>; col_var tensor<1x4xf64>; ");
  EXPECT_EQ(statesOf(viewCases[8], "adafactor"),
            "row_var tensor<2x3x1xf64>; col_var tensor<2x1x4xf64>; ");
  EXPECT_EQ(statesOf(viewCases[10], "adafactor"),
            "variance tensor<2x2xf64>; variance tensor<2xf64>; ");
  EXPECT_EQ(statesOf(viewCases[4], "muon"),
            "momentum_buffer tensor<2x2x4xf64>; momentum_buffer "
            "tensor<4x2xf64>; ");
  EXPECT_EQ(statesOf(viewCases[8], "muon"),
            "exp_avg tensor<2x12xf64>; exp_avg_sq tensor<2x12xf64>; ");
}

TEST_F(StoredRulesTest, AnUpdateOfNothingLeavesNothingUndefined) {
  for (const char *rule : {"lamb(weight_decay=0)", "adafactor", "muon"}) {
    auto module = parse(moduleOf(viewCases[0]));
    ASSERT_EQ(build(*module, rule), "");
    func::FuncOp step = function(*module, "step");
    SmallVector<Tensor> arguments = evaluate::randomArguments(step, 5);
    llvm::fill(arguments.back().floats, 0);
    for (double value : evaluate(step, arguments)[0].floats)
      EXPECT_TRUE(std::isfinite(value)) << rule;
  }
}

TEST_F(StoredRulesTest, ErrorsSayWhatIsExpected) {
  auto expect = [&](const ViewCase &seen, llvm::StringRef optimizer,
                    llvm::StringRef part) {
    auto module = parse(moduleOf(seen));
    std::string error = build(*module, optimizer);
    EXPECT_TRUE(llvm::StringRef(error).contains(part)) << error;
  };
  const ViewCase &whole = viewCases[0];
  // Five of the first row's and the second's elements are no block.
  ViewCase across{"Across", {6, 4}, {{{5}, {0, 1}}, {{19}, {5, 1}}}};
  ViewCase shifted{"Shifted", {6, 4}, {{{3}, {2, 1}}, {{2}, {0, 1}}}};
  for (const ViewCase &seen : {across, shifted})
    for (const char *rule : {"adafactor", "muon"})
      expect(seen, rule,
             "'w' [6, 4] is cut into parts by the model across its dims");
  expect(whole, "lamb(betas=(1,0.9))", "betas must be in [0, 1)");
  expect(whole, "lamb(eps=-1)", "eps must not be negative");
  expect(whole, "lamb(min_coeff=2,max_coeff=1)",
         "min_coeff must be in [0, max_coeff]");
  expect(whole, "lamb(max_grad_norm=1.0)", "max_grad_norm is --clip-norm");
  expect(whole, "adafactor(beta2_decay=0.8)",
         "beta2_decay must not be positive");
  expect(whole, "adafactor(eps=(-1,0))", "eps must not be negative");
  expect(whole, "adafactor(eps=(0,-1))", "eps must not be negative");
  expect(whole, "adafactor(eps=1)",
         "'eps=1': expected two numbers, as in (None,1e-3)");
  expect(whole, "adafactor(d=0.5)", "d must be at least 1");
  expect(whole, "muon(momentum=-1)", "momentum must not be negative");
  expect(whole, "muon(ns_steps=100)", "ns_steps must be in [0, 100)");
  expect(whole, "muon(ns_steps=-1)", "ns_steps must be in [0, 100)");
  expect(whole, "muon(ns_coefficients=(1,2))",
         "expected three numbers, as in (3.4445,-4.775,2.0315)");
  expect(whole, "muon(adjust_lr_fn=other)",
         "adjust_lr_fn is original or match_rms_adamw");
  expect(whole, "muon(adamw_lr=-1)", "adamw_lr must not be negative");
  expect(whole, "muon(lr=0)", "adamw_lr changes in proportion to lr");
  expect(whole, "muon(lr=0,adamw_lr=1e-4)",
         "adamw_lr changes in proportion to lr");
  expect(whole, "muon(adamw_lr=x)", "'adamw_lr=x': expected a number");
  expect(whole, "muon(adamw_momentum=1)",
         "muon has no option 'adamw_momentum'");
  expect(whole, "muon(adamw=v*)", "adamw=v* matches no trainable parameter");
  expect(whole, "muon(adamw=w\\)", "bad pattern 'w\\'");
}
