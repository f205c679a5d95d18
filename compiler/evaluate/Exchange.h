// Exchanges tensors between the programs of different ranks while they run.

#pragma once

#include "compiler/evaluate/Evaluator.h"
#include "compiler/evaluate/Interleaving.h"

#include <deque>
#include <map>

namespace polyrank::evaluate {

/// The sends, receives and collectives between the programs of a joint
/// function, of which one runs at a time.
class Exchange {
public:
  Exchange(const rank::Programs &programs, std::optional<uint64_t> seed)
      : programs(programs), interleaving(programs.getFunctions().size(), seed) {
  }

  /// The devices that run program `number`.
  llvm::SmallVector<int64_t> getDevices(size_t number) const;

  /// A collective of a group whose members run several programs.
  struct Meeting {
    struct Member {
      rank::CollectiveOp op; // null until the member has arrived
      llvm::SmallVector<Tensor> operands;
    };
    std::map<int64_t, Member> members; // by device
  };
  /// Program `number` arrives at a collective, with the operands of `devices`.
  Meeting &come(size_t number, rank::CollectiveOp op,
                llvm::ArrayRef<int64_t> devices,
                llvm::function_ref<const Tensor &(mlir::Value, int64_t)> at);
  /// Returns once all members of the groups of `devices` have arrived. Emits an
  /// error if some have arrived at another collective.
  mlir::LogicalResult awaitAll(size_t number, rank::CollectiveOp op,
                               llvm::ArrayRef<int64_t> devices,
                               Meeting &meeting);

  /// The tensors sent but not yet received, by id and sending device.
  std::deque<Tensor> &getSent(int64_t id, int64_t sender) {
    return sent[{id, sender}];
  }

  const rank::Programs &programs;
  Interleaving interleaving;

private:
  std::map<std::pair<int64_t, int64_t>, std::deque<Tensor>> sent;
  /// Keyed by axes and the number of earlier collectives over these axes.
  std::map<std::pair<const void *, int64_t>, Meeting> meetings;
  std::map<std::pair<const void *, size_t>, int64_t> counts; // per program
};

} // namespace polyrank::evaluate
