// Hosts and ports as text.

#include "runtime/place/Endpoint.h"

#include "support/Fingerprint.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <charconv>
#include <fmt/format.h>
#include <optional>

namespace polyrank::runtime {
namespace {

Error wrong(std::string_view text, std::string_view why) {
  return {fmt::format("'{}' is not HOST[:PORT]: {}", text, why)};
}

std::optional<uint16_t> portIn(std::string_view text) {
  uint16_t port = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0)
    return std::nullopt;
  return port;
}

bool isHost(std::string_view host) {
  constexpr size_t longest = 253; // of a name in DNS
  return !host.empty() && host.size() <= longest && host.front() != '-' &&
         std::all_of(host.begin(), host.end(), [](char letter) {
           return std::isalnum(static_cast<unsigned char>(letter)) ||
                  std::string_view(".-_:%").find(letter) !=
                      std::string_view::npos;
         });
}

} // namespace

std::string Endpoint::text() const {
  std::string name =
      host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port ? fmt::format("{}:{}", name, port) : name;
}

Result<Endpoint> parseEndpoint(std::string_view text) {
  Endpoint parsed;
  std::string_view rest = text;
  if (rest.starts_with('[')) {
    size_t end = rest.find(']');
    if (end == rest.npos)
      return wrong(text, "']' is missing");
    parsed.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    if (!rest.empty() && rest.front() != ':')
      return wrong(text, "after ']' comes ':' and the port");
  } else if (std::count(rest.begin(), rest.end(), ':') > 1) {
    parsed.host = rest; // IPv6, without a port
    rest = {};
  } else {
    size_t end = std::min(rest.find(':'), rest.size());
    parsed.host = rest.substr(0, end);
    rest.remove_prefix(end);
  }
  if (!isHost(parsed.host))
    return wrong(text, "the host is a name or an address");
  if (!rest.empty()) {
    std::optional<uint16_t> port = portIn(rest.substr(1));
    if (!port)
      return wrong(text, "a port is a number from 1 to 65535");
    parsed.port = *port;
  }
  return parsed;
}

uint16_t portOf(std::string_view job) {
  return static_cast<uint16_t>(20000 + digestOf(job) % 20000);
}

bool isLoopback(std::string_view host) {
  std::string name(host);
  in_addr four{};
  in6_addr six{};
  if (inet_pton(AF_INET, name.c_str(), &four) == 1)
    return ntohl(four.s_addr) >> 24 == 127;
  if (inet_pton(AF_INET6, name.c_str(), &six) == 1)
    return IN6_IS_ADDR_LOOPBACK(&six);
  return name == "localhost";
}

} // namespace polyrank::runtime
