// The fields of messages.

#include "runtime/session/RankMessage.h"

#include "runtime/checkpoint/Checksum.h"

#include <stdexcept>

namespace polyrank::runtime {

void to_json(nlohmann::json &json, const StepMessage &message) {
  json = message.report;
  if (message.measured)
    json["measured"] = *message.measured;
}

void from_json(const nlohmann::json &json, StepMessage &message) {
  json.get_to(message.report);
  message.measured.reset();
  if (json.contains("measured"))
    message.measured = json["measured"].get<RankStep>();
}

void to_json(nlohmann::json &json, const ShardReport &message) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const std::vector<uint64_t> &each : message.checksums) {
    nlohmann::json blocks = nlohmann::json::array();
    for (uint64_t checksum : each)
      blocks.push_back(toHex(checksum));
    tensors.push_back(std::move(blocks));
  }
  json = {{"step", message.step},
          {"bytes", message.bytes},
          {"copy_seconds", message.copySeconds},
          {"wait_seconds", message.waitSeconds},
          {"write_seconds", message.writeSeconds},
          {"checksums", std::move(tensors)},
          {"error", message.error}};
}

void from_json(const nlohmann::json &json, ShardReport &message) {
  json.at("step").get_to(message.step);
  json.at("bytes").get_to(message.bytes);
  json.at("copy_seconds").get_to(message.copySeconds);
  json.at("wait_seconds").get_to(message.waitSeconds);
  json.at("write_seconds").get_to(message.writeSeconds);
  json.at("error").get_to(message.error);
  message.checksums.clear();
  for (const nlohmann::json &tensor : json.at("checksums")) {
    std::vector<uint64_t> &blocks = message.checksums.emplace_back();
    for (const nlohmann::json &block : tensor) {
      auto text = block.get<std::string>();
      std::optional<uint64_t> checksum = checksumFromHex(text);
      if (!checksum)
        throw std::invalid_argument(fmt::format("'{}' is no checksum", text));
      blocks.push_back(*checksum);
    }
  }
}

void to_json(nlohmann::json &json, const DamageMessage &message) {
  json = {{"reason", message.reason}};
}

void from_json(const nlohmann::json &json, DamageMessage &message) {
  json.at("reason").get_to(message.reason);
}

void to_json(nlohmann::json &json, const StuckMessage &message) {
  json = {{"step", message.step}};
  if (message.stored)
    json["stored"] = *message.stored;
}

void from_json(const nlohmann::json &json, StuckMessage &message) {
  json.at("step").get_to(message.step);
  message.stored.reset();
  if (json.contains("stored"))
    message.stored = json["stored"].get<uint32_t>();
}

void to_json(nlohmann::json &json, const SkippedSaveMessage &message) {
  json = {{"step", message.step}};
}

void from_json(const nlohmann::json &json, SkippedSaveMessage &message) {
  json.at("step").get_to(message.step);
}

void to_json(nlohmann::json &json, const KeptMessage &message) {
  json = {{"step", message.step}};
}

void from_json(const nlohmann::json &json, KeptMessage &message) {
  json.at("step").get_to(message.step);
}

void to_json(nlohmann::json &json, const TracedMessage &message) {
  json = {{"steps", message.steps}};
}

void from_json(const nlohmann::json &json, TracedMessage &message) {
  json.at("steps").get_to(message.steps);
}

void to_json(nlohmann::json &json, const TracePieceMessage &message) {
  json = {{"text", message.text}};
}

void from_json(const nlohmann::json &json, TracePieceMessage &message) {
  json.at("text").get_to(message.text);
}

TaggedMessage toTagged(const RankMessage &message) {
  return toTagged(message, rankMessageKinds);
}

Result<RankMessage> rankMessageFrom(const TaggedMessage &message) {
  return fromTagged<RankMessage>(message, rankMessageKinds);
}

} // namespace polyrank::runtime
