// What programs of different ranks hand to each other while they run.

#pragma once

#include "compiler/evaluate/Evaluator.h"
#include "compiler/evaluate/Turns.h"

#include <deque>
#include <map>

namespace polyrank::evaluate {

/// Of the programs of `joint`, which take turns.
class Exchange {
public:
  Exchange(const rank::Programs &programs, std::optional<uint64_t> seed)
      : programs(programs), turns(programs.getFunctions().size(), seed) {}

  /// The devices that run program `number`.
  llvm::SmallVector<int64_t> getDevices(size_t number) const;

  /// A collective of a group whose members run several programs.
  struct Meeting {
    struct Member {
      rank::CollectiveOp op; // null until it has come
      llvm::SmallVector<Tensor> operands;
    };
    std::map<int64_t, Member> members; // by device
  };
  /// Program `number` comes to a collective, with the operands of `devices`.
  Meeting &come(size_t number, rank::CollectiveOp op,
                llvm::ArrayRef<int64_t> devices,
                llvm::function_ref<const Tensor &(mlir::Value, int64_t)> at);
  /// Returns when all members of the groups of `devices` have come. Emits an
  /// error where they have come to another collective.
  mlir::LogicalResult awaitAll(size_t number, rank::CollectiveOp op,
                               llvm::ArrayRef<int64_t> devices,
                               Meeting &meeting);

  /// What was sent and not received, by id and the device that sends.
  std::deque<Tensor> &getSent(int64_t id, int64_t sender) {
    return sent[{id, sender}];
  }

  const rank::Programs &programs;
  Turns turns;

private:
  std::map<std::pair<int64_t, int64_t>, std::deque<Tensor>> sent;
  /// By axes, and how many came before over these.
  std::map<std::pair<const void *, int64_t>, Meeting> meetings;
  std::map<std::pair<const void *, size_t>, int64_t> counts; // by program
};

} // namespace polyrank::evaluate
