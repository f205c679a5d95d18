// Any text as Slurm's variables of a step: a list of hosts is bounded and made
// of names, and a place is possible, or a message says what is wrong.

#include "runtime/place/NodeList.h"
#include "runtime/place/JobPlace.h"
#include "test/fuzz/Input.h"

#include <map>

using namespace polyrank;
using namespace polyrank::runtime;

namespace {

void check(bool holds) {
  if (!holds)
    std::abort();
}

/// A list that was read stands for names, and the names for themselves.
void checkList(const std::string &list) {
  Result<std::vector<std::string>> hosts = expandNodeList(list);
  if (!hosts) {
    check(hosts.error().message.find(" is wrong at character ") !=
          std::string::npos);
    return;
  }
  check(!hosts->empty() && hosts->size() <= mostHosts);
  std::string again;
  for (const std::string &host : *hosts) {
    check(!host.empty() && host.size() <= longestHost &&
          host.find_first_of(",[] ") == std::string::npos);
    again += (again.empty() ? "" : ",") + host;
  }
  Result<std::vector<std::string>> same = expandNodeList(again);
  check(same && *same == *hosts);
}

/// The lines of the input are the values of these variables.
void checkPlace(std::string_view text) {
  constexpr const char *names[] = {
      "SLURM_STEP_NODELIST",   "SLURM_STEP_TASKS_PER_NODE",
      "SLURM_STEP_RESV_PORTS", "SLURM_STEP_NUM_NODES",
      "SLURM_STEP_NUM_TASKS",  "SLURM_PROCID",
      "SLURM_NODEID",          "SLURM_LOCALID"};
  std::map<std::string, std::string> values;
  for (const char *name : names) {
    size_t end = std::min(text.find('\n'), text.size());
    values[name] = std::string(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  Result<JobPlace> place = findPlace({}, [&](const char *name) {
    auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  });
  if (!place) {
    check(!place.error().message.empty());
    return;
  }
  check(place->machine >= 0 && place->machine < place->machines &&
        place->local >= 0 && place->local < place->locals &&
        !place->describe().empty());
  if (place->isOneOfSeveral())
    check(!place->rendezvous.host.empty() && place->rendezvous.port != 0);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(fuzz::text(data, size));
  checkList(text);
  if (text.find('\0') == text.npos)
    checkPlace(text);
  if (Result<Endpoint> endpoint = parseEndpoint(text)) {
    Result<Endpoint> same = parseEndpoint(endpoint->text());
    check(same && *same == *endpoint);
  }
  return 0;
}
