// One message of each kind, with a value in every field.

#pragma once

#include "runtime/job/net/Messages.h"

#include <vector>

namespace polyrank::runtime::net::test {

inline NodeStatement exampleStatement() {
  return {
      netProtocol, "0.1.0", 0x0123456789abcdef, "avx2,fma", "steps=3", "data",
      "none",      2,       uint64_t(8) << 30,  1024};
}

inline RemoteRank exampleRank() {
  RemoteRank rank{4711, true, 'S', 123456789, {}, {}};
  rank.report = {RankPhase::Running, 4711, 7, 12, {7, 13}, true, 99, true, 5};
  rank.wait = {RankWait::What::Starts, {0, 3}};
  rank.barriers = 6;
  return rank;
}

inline std::vector<Message> exampleMessages() {
  return {
      JoinMessage{exampleStatement(), "10.0.0.2"},
      StartMessage{1,
                   3,
                   {{"10.0.0.1", 0, 2, 1 << 20, 1024},
                    {"fe80::1%eth0", 2, 2, 1 << 30, 4096}}},
      RefuseMessage{"the plans differ", Error::Fault::Input},
      NodePulse{{3, 17}, 0, {exampleRank(), {}}, {{5, 1234}}},
      CoordinatorPulse{{4, FrontierOrder::Phase::Stop, 17, 15}},
      PingMessage{123},
      PongMessage{123, -5},
      FailMessage{{1, 2, Error{"rank 2 died", Error::Fault::Hang}, true, 15, 7},
                  false},
      TellMessage{{"one line", "and\nanother"}},
      StopMessage{15},
      DoneMessage{17, 6},
      RanksMessage{2, {exampleRank(), {}}},
      BarrierMessage{3, 2},
      WindowMessage{1 << 20, {1, 0, 255}},
      ReportsMessage{{{2, false, "a long "}, {2, true, "line"}}},
      ExchangeMessage{4, {"10.0.0.1 4000", ""}},
      AgainMessage{uint64_t(1) << 63},
      FewerMessage{4, 3},
  };
}

} // namespace polyrank::runtime::net::test
