// polyrank-run as a process, and a small training to run it on.

#pragma once

#include "support/arrays/Npz.h"
#include "test/runtime/PlanBuilder.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace polyrank::runtime::test {

using Clock = std::chrono::steady_clock;

/// A running polyrank-run, with its standard error in a file.
class Process {
public:
  /// `prepare` runs in the new process, before it becomes polyrank-run.
  Process(std::vector<std::string> arguments, const std::string &errors,
          const std::function<void()> &prepare = {})
      : errors(errors) {
    arguments.insert(arguments.begin(), POLYRANK_RUN);
    std::vector<char *> argv;
    for (std::string &argument : arguments)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid = fork();
    if (pid == 0) {
      int file = open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(file, STDOUT_FILENO);
      dup2(file, STDERR_FILENO);
      close(file);
      if (prepare)
        prepare();
      execv(argv[0], argv.data());
      _exit(126);
    }
  }
  ~Process() {
    if (pid > 0) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  /// Waits for the process. Returns the exit status, or minus the signal.
  int wait() {
    int status = 0;
    waitpid(pid, &status, 0);
    pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string output() const { return readFile(errors); }

  /// The processes of the ranks, in the order in which they were started.
  std::vector<pid_t> children() const {
    std::set<pid_t> found;
    std::string number = std::to_string(pid);
    std::istringstream list(
        readFile("/proc/" + number + "/task/" + number + "/children"));
    for (pid_t child; list >> child;)
      found.insert(child);
    return {found.begin(), found.end()};
  }

  pid_t pid = -1;

private:
  std::string errors;
};

inline std::vector<nlohmann::json> recordsOf(const std::string &path) {
  std::vector<nlohmann::json> records;
  std::istringstream file(readFile(path));
  for (std::string line; std::getline(file, line);)
    records.push_back(nlohmann::json::parse(line, nullptr, false));
  return records;
}

/// Returns the records of steps.
inline std::vector<nlohmann::json> linesOf(const std::string &path) {
  std::vector<nlohmann::json> lines = recordsOf(path);
  std::erase_if(lines, [](const nlohmann::json &record) {
    return record.is_object() && record.contains("run");
  });
  return lines;
}

class RunTest : public testing::Test {
protected:
  static constexpr int64_t samples = 32;
  TemporaryDirectory directory;
  std::string plan = directory / "linear.plan", data = directory / "data.npz",
              log = directory / "log.jsonl", errors = directory / "errors.txt",
              saved = directory / "saved.safetensors",
              weights = directory / "weights.bin";
  std::vector<float> w, x, t;

  void SetUp() override {
    for (int i = 0; i < targets * features; ++i)
      w.push_back(0.1f * static_cast<float>(i % 5) - 0.2f);
    for (int i = 0; i < samples * features; ++i)
      x.push_back(static_cast<float>(i * 7 % 11) / 5 - 1);
    for (int i = 0; i < samples * targets; ++i)
      t.push_back(static_cast<float>(i * 5 % 13) / 6 - 1);
    std::vector<float> file(4, 0);
    file.insert(file.end(), w.begin(), w.end());
    writeFile(weights, file.data(), 4 * file.size());
    writeData(x);
  }

  void writeData(const std::vector<float> &inputs) {
    auto writer = NpzWriter::create(data);
    ASSERT_TRUE(writer);
    for (auto [name, values, width] :
         {std::tuple("x", &inputs, features), {"labels", &t, targets}}) {
      std::vector<int64_t> shape{samples, width};
      ASSERT_TRUE(writer->add(name, ElementType::F32, shape,
                              std::as_bytes(std::span(*values))));
    }
    ASSERT_TRUE(writer->commit());
  }

  void makePlan(int64_t dataAxis, int64_t tensor, int64_t microbatches,
                bool forward = false) {
    LinearModel model;
    model.data = dataAxis, model.tensor = tensor;
    model.microbatches = microbatches;
    model.batch = 8 / microbatches;
    model.weights = weights;
    auto written = writePlan(plan, serialise(forward ? linearForwardPlan(model)
                                                     : linearPlan(model)));
    ASSERT_TRUE(written) << written.error().message;
  }

  std::vector<std::string> training(const std::string &steps) {
    return {plan, "--data",  data,         "--steps", steps, "--log",
            log,  "--order", "sequential", "--save",  saved};
  }

  /// Runs a training to its end. Returns the exit status.
  int runTraining(const std::string &steps = "5") {
    Process process(training(steps), errors);
    return process.wait();
  }

  /// Computes five steps of gradient descent by plain loops.
  void reference(std::vector<double> &weight, std::vector<double> &losses) {
    weight.assign(w.begin(), w.end());
    for (int step = 0; step < 5; ++step) {
      std::vector<double> gradient(weight.size());
      double loss = 0;
      for (int b = 0; b < 8; ++b) {
        int sample = (8 * step + b) % samples;
        for (int j = 0; j < targets; ++j) {
          double d = -t[sample * targets + j];
          for (int i = 0; i < features; ++i)
            d += weight[j * features + i] * x[sample * features + i];
          loss += d * d;
          for (int i = 0; i < features; ++i)
            gradient[j * features + i] += d * x[sample * features + i];
        }
      }
      losses.push_back(loss);
      for (size_t i = 0; i < weight.size(); ++i)
        weight[i] -= 0.01 * gradient[i];
    }
  }

  /// Starts an endless training and waits until it has logged steps.
  std::unique_ptr<Process>
  startEndless(const std::vector<std::string> &more = {},
               const std::function<void()> &prepare = {}) {
    auto arguments = training("1000000000");
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto process = std::make_unique<Process>(arguments, errors, prepare);
    EXPECT_TRUE(eventually([&] { return linesOf(log).size() >= 3; }))
        << process->output();
    return process;
  }

  /// Returns true if the condition becomes true within a minute.
  static bool eventually(const std::function<bool()> &condition) {
    auto limit = Clock::now() + std::chrono::seconds(60);
    while (!condition())
      if (Clock::now() > limit)
        return false;
      else
        usleep(1000);
    return true;
  }

  /// Expects that all of `ranks` are gone within two seconds from `since`.
  static void expectGone(const std::vector<pid_t> &ranks,
                         Clock::time_point since) {
    for (pid_t rank : ranks)
      EXPECT_TRUE(kill(rank, 0) != 0 && errno == ESRCH) << rank;
    EXPECT_LT(Clock::now() - since, std::chrono::seconds(2));
  }

  static std::set<std::string> sharedMemoryFiles() {
    std::set<std::string> names;
    if (DIR *folder = opendir("/dev/shm")) {
      while (dirent *entry = readdir(folder))
        if (std::string_view(entry->d_name).find("polyrank") !=
            std::string_view::npos)
          names.insert(entry->d_name);
      closedir(folder);
    }
    return names;
  }
};

} // namespace polyrank::runtime::test
