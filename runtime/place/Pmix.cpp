// Loads libpmix and exchanges one text of each task.

#include "runtime/place/Pmix.h"

#include "runtime/place/PmixLayout.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

constexpr const char *libraryName = "libpmix.so.2";
constexpr const char *key = "polyrank.machine";
constexpr int mostSeconds = 300; // that tasks wait for each other

class Library {
public:
  static Result<Library> load() {
    Library library;
    // It stays loaded: its threads may outlive a call.
    void *handle = dlopen(libraryName, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      return Error{fmt::format(
          "the tasks of this launcher find each other by PMIx, and {} cannot "
          "be loaded ({}): install it (Debian: libpmix2), or start one task "
          "per machine with --machines N --machine I --rendezvous HOST",
          libraryName, dlerror())};
    bool all = true;
    auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          dlsym(handle, name));
      all = all && function;
    };
    find(library.init, "PMIx_Init");
    find(library.finalize, "PMIx_Finalize");
    find(library.put, "PMIx_Put");
    find(library.commit, "PMIx_Commit");
    find(library.fence, "PMIx_Fence");
    find(library.get, "PMIx_Get");
    find(library.errorString, "PMIx_Error_string");
    if (!all)
      return Error{
          fmt::format("{} has not the functions of PMIx", libraryName)};
    return library;
  }

  Error failure(const char *what, int status) const {
    return {fmt::format("PMIx failed to {}: {}. The tasks were to tell each "
                        "other their machines; --machines N --machine I "
                        "--rendezvous HOST does without",
                        what, errorString(status)),
            Error::Fault::Rank};
  }

  pmix::Init init = nullptr;
  pmix::Finalize finalize = nullptr;
  pmix::Put put = nullptr;
  pmix::Commit commit = nullptr;
  pmix::Fence fence = nullptr;
  pmix::Get get = nullptr;
  pmix::ErrorString errorString = nullptr;
};

pmix::Info infoOf(const char *name) {
  pmix::Info info{};
  std::strncpy(info.key, name, sizeof(info.key) - 1);
  return info;
}

Result<std::vector<std::string>> exchange(const Library &library,
                                          const pmix::Process &self, int tasks,
                                          const std::string &mine) {
  std::string text = mine;
  pmix::Value value{};
  value.type = pmix::typeString;
  value.string = text.data();
  if (int status = library.put(pmix::toAll, key, &value))
    return library.failure("publish this task's machine", status);
  if (int status = library.commit())
    return library.failure("publish this task's machine", status);
  pmix::Process all = self;
  all.rank = pmix::everyRank;
  pmix::Info options[2] = {infoOf(pmix::collectData), infoOf(pmix::timeout)};
  options[0].value.type = pmix::typeBool;
  options[0].value.flag = true;
  options[1].value.type = pmix::typeInt;
  options[1].value.integer = mostSeconds;
  if (int status = library.fence(&all, 1, options, 2))
    return library.failure("wait for all tasks", status);
  std::vector<std::string> texts;
  for (int task = 0; task < tasks; ++task) {
    pmix::Process other = self;
    other.rank = uint32_t(task);
    pmix::Value *found = nullptr;
    if (int status = library.get(&other, key, options + 1, 1, &found))
      return library.failure(
          fmt::format("read the machine of task {}", task).c_str(), status);
    texts.emplace_back(
        found->type == pmix::typeString && found->string ? found->string : "");
    if (found->type == pmix::typeString)
      std::free(found->string); // as PMIX_VALUE_RELEASE does
    std::free(found);
  }
  return std::move(texts);
}

} // namespace

Result<std::vector<std::string>> PmixExchange::gather(const std::string &mine) {
  POLYRANK_ASSIGN(library, Library::load());
  pmix::Process self{};
  if (int status = library.init(&self, nullptr, 0))
    return library.failure("connect to the launcher", status);
  Result<std::vector<std::string>> texts = exchange(library, self, tasks, mine);
  if (int status = library.finalize(nullptr, 0); status && texts)
    return library.failure("part from the launcher", status);
  return texts;
}

} // namespace polyrank::runtime
