// What a rank tells its launcher while it runs, one type for each message.

#pragma once

#include "runtime/exec/CheckpointSaver.h"
#include "runtime/launch/TaggedMessage.h"
#include "runtime/report/RankSteps.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>

namespace polyrank::runtime {

/// A step, as the first rank of a program reports it. It also has the time of
/// that rank if the times of ranks are measured; other ranks report a RankStep.
struct StepMessage {
  StepReport report;
  std::optional<RankStep> measured;
};

/// The checkpoint that the rank was to load is damaged.
struct DamageMessage {
  std::string reason;
};

/// A step could neither be applied nor skipped.
struct StuckMessage {
  uint64_t step = 0;
  /// The first stored tensor of which this rank's gradient was not finite, by
  /// its number in the plan; nothing if there is none on this rank.
  std::optional<uint32_t> stored;
};

/// All ranks have skipped the checkpoint of a step, since the disk is slow.
struct SkippedSaveMessage {
  uint64_t step = 0;
};

/// All files of weights are written as after this step, although the samples of
/// the next step could not be read.
struct KeptMessage {
  uint64_t step = 0;
};

/// The trace has all steps up to this one.
struct TracedMessage {
  uint64_t steps = 0;
};

/// A piece of the trace, of a rank on another machine than the trace's file.
struct TracePieceMessage {
  std::string text;
};

/// @{ The bodies of messages; from_json throws if a field is missing or of
/// another type.
void to_json(nlohmann::json &json, const StepMessage &message);
void from_json(const nlohmann::json &json, StepMessage &message);
void to_json(nlohmann::json &json, const ShardReport &message);
void from_json(const nlohmann::json &json, ShardReport &message);
void to_json(nlohmann::json &json, const DamageMessage &message);
void from_json(const nlohmann::json &json, DamageMessage &message);
void to_json(nlohmann::json &json, const StuckMessage &message);
void from_json(const nlohmann::json &json, StuckMessage &message);
void to_json(nlohmann::json &json, const SkippedSaveMessage &message);
void from_json(const nlohmann::json &json, SkippedSaveMessage &message);
void to_json(nlohmann::json &json, const KeptMessage &message);
void from_json(const nlohmann::json &json, KeptMessage &message);
void to_json(nlohmann::json &json, const TracedMessage &message);
void from_json(const nlohmann::json &json, TracedMessage &message);
void to_json(nlohmann::json &json, const TracePieceMessage &message);
void from_json(const nlohmann::json &json, TracePieceMessage &message);
/// @}

using RankMessage =
    std::variant<ReadyReport, StepMessage, RankStep, SaveReport, ShardReport,
                 DamageMessage, EvaluationReport, StuckMessage, PatienceReport,
                 SkippedSaveMessage, KeptMessage, TracedMessage,
                 TracePieceMessage, RankUse>;
inline constexpr MessageKinds<RankMessage> rankMessageKinds{
    "ready",   "step",       "rank_step",   "saving",   "shard",
    "damaged", "evaluation", "stuck",       "patience", "skipped_save",
    "kept",    "traced",     "trace_piece", "use"};

/// How a rank sends its messages.
using Reporter = std::function<void(const RankMessage &message)>;

TaggedMessage toTagged(const RankMessage &message);
/// Fails if no message is of this kind, or if its body cannot be read.
Result<RankMessage> rankMessageFrom(const TaggedMessage &message);

} // namespace polyrank::runtime
