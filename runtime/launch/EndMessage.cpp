// The fields of the messages with which ranks end.

#include "runtime/launch/EndMessage.h"

#include <stdexcept>

namespace polyrank::runtime {

void to_json(nlohmann::json &json, const RankFailed &message) {
  json = {{"message", message.error.message},
          {"fault", int(message.error.fault)}};
}

void from_json(const nlohmann::json &json, RankFailed &message) {
  json.at("message").get_to(message.error.message);
  int fault = json.at("fault");
  if (fault < int(Error::Fault::Input) || fault > int(Error::Fault::NotFinite))
    throw std::invalid_argument(fmt::format("there is no fault {}", fault));
  message.error.fault = Error::Fault(fault);
}

void to_json(nlohmann::json &json, const RankFinished &) {
  json = nlohmann::json::object();
}

void from_json(const nlohmann::json &json, RankFinished &) {
  if (!json.is_object())
    throw std::invalid_argument("it is no object");
}

void to_json(nlohmann::json &json, const RankStopped &message) {
  json = {{"step", message.step}};
}

void from_json(const nlohmann::json &json, RankStopped &message) {
  json.at("step").get_to(message.step);
}

} // namespace polyrank::runtime
