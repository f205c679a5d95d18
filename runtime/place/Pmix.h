// An exchange between the tasks of mpirun or srun, by PMIx.

#pragma once

#include "runtime/place/MachineExchange.h"

namespace polyrank::runtime {

/// Exchanges texts through the PMIx server of the launcher. The library is
/// loaded by the first call, so that nobody else needs it, and the connection
/// ends with the call: afterwards the launcher treats the task as any program.
class PmixExchange : public TaskExchange {
public:
  /// The number of tasks that take part.
  explicit PmixExchange(int tasks) : tasks(tasks) {}
  Result<std::vector<std::string>> gather(const std::string &mine) override;

private:
  int tasks;
};

} // namespace polyrank::runtime
