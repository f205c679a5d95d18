// Reads and writes the lines of messages.

#include "runtime/launch/TaggedMessage.h"

namespace polyrank::runtime {

std::string TaggedMessage::line() const {
  nlohmann::json object = nlohmann::json::object();
  object[kind] = body;
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<TaggedMessage> TaggedMessage::parse(std::string_view line) {
  nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object() || object.size() != 1) {
    constexpr size_t shown = 60;
    return Error{fmt::format("sends a line that is no message: '{}{}'",
                             line.substr(0, shown),
                             line.size() > shown ? ".." : ""),
                 Error::Fault::Rank};
  }
  auto member = object.begin();
  return TaggedMessage{member.key(), std::move(member.value())};
}

} // namespace polyrank::runtime
