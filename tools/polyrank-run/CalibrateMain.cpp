// Measures, fits, writes and tells what came out.

#include "tools/polyrank-run/CalibrateMain.h"

#include "runtime/report/Messages.h"
#include "support/CpuName.h"
#include "support/OutputFile.h"
#include "support/Outputs.h"
#include "tools/polyrank-run/ErrorFile.h"
#include "tools/polyrank-run/FitMachine.h"

#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

/// "AMD EPYC, 2 devices of 1 thread".
std::string nameOf(const Measurements &measured) {
  std::string cpu = cpuName();
  auto count = [](int number, const char *what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
  };
  return fmt::format("{}, {} of {}", cpu.empty() ? "a CPU without a name" : cpu,
                     count(measured.devices, "device"),
                     count(measured.threads, "thread"));
}

Result<void> runCalibration(const RunOptions &options) {
  OutputUse use{"-o", options.output, FileKind::Machine};
  if (Result<void> right = checkOutputs({}, {&use, 1}); !right)
    return right;
  POLYRANK_ASSIGN(file, OutputFile::create(options.output));
  POLYRANK_ASSIGN(measured, calibrate(calibrationOf(options)));
  FittedMachine fitted = fitMachine(measured, nameOf(measured));
  fitted.machine.path = options.output;
  std::string text =
      "# Measured by polyrank-run --calibrate. docs/cost.md says what the "
      "numbers mean.\n" +
      fitted.machine.toText();
  if (Result<void> written =
          writeAt(file.descriptor(), file.path(), 0, text.data(), text.size());
      !written)
    return written;
  if (Result<void> committed = file.commit(); !committed)
    return committed;
  if (std::string noisy = describeNoise(measured); !noisy.empty())
    tell(fmt::format("polyrank-run: warning: the machine was busy: {} vary by "
                     "more than {:.0f} %; measure again when nothing else "
                     "runs, or give --calibrate-seconds more\n",
                     noisy, 100 * noisyShare));
  if (!options.quiet)
    print(fmt::format("{}{}\nwrote {}\n", describeErrors(fitted.rows),
                      fitted.machine.describe(), options.output));
  return {};
}

} // namespace

CalibrationOptions calibrationOf(const RunOptions &options) {
  return {options.threads == 0 ? 1 : options.threads, options.calibrateSeconds,
          options.binding, options.quiet, options.arguments};
}

int calibrateMain(const RunOptions &options) {
  Result<void> result;
  try {
    result = runCalibration(options);
  } catch (const std::exception &exception) {
    result = Error{exception.what(), Error::Fault::Rank};
  }
  if (result)
    return 0;
  tell(fmt::format("polyrank-run: {}\n", result.error().message));
  writeErrorFile(result.error());
  return int(result.error().fault);
}

} // namespace polyrank::runtime
