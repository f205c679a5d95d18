// How a rank tells its launcher that it ends.

#pragma once

#include "runtime/launch/TaggedMessage.h"

#include <cstdint>

namespace polyrank::runtime {

/// The rank has failed.
struct RankFailed {
  Error error;
};
/// The rank has done all that it had to do.
struct RankFinished {};
/// The rank ends after this step, since the launcher has asked for it.
struct RankStopped {
  uint64_t step = 0;
};

void to_json(nlohmann::json &json, const RankFailed &message);
void from_json(const nlohmann::json &json, RankFailed &message);
void to_json(nlohmann::json &json, const RankFinished &message);
void from_json(const nlohmann::json &json, RankFinished &message);
void to_json(nlohmann::json &json, const RankStopped &message);
void from_json(const nlohmann::json &json, RankStopped &message);

using EndMessage = std::variant<RankFailed, RankFinished, RankStopped>;
inline constexpr MessageKinds<EndMessage> endKinds{"failed", "finished",
                                                   "stopped"};

} // namespace polyrank::runtime
