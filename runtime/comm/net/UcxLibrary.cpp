// Loads UCX, and refuses one that is too old.

#include "runtime/comm/net/UcxLibrary.h"

#include "runtime/comm/net/Ucx.h"

#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace polyrank::runtime::net {
namespace {

constexpr const char *libraryName = "libucp.so.0";
/// The oldest version that the wire was tested with.
constexpr std::pair<unsigned, unsigned> oldest{1, 13};

/// How UCX behaves in a rank, unless the user says otherwise. It would install
/// handlers of signals, which are the runtime's, print to standard output,
/// which is the user's, and start a thread that shows its state as files.
constexpr std::pair<const char *, const char *> settings[] = {
    {"UCX_HANDLE_ERRORS", "none"}, {"UCX_ERROR_SIGNALS", ""},
    {"UCX_DEBUG_SIGNO", "0"},      {"UCX_LOG_LEVEL", "fatal"},
    {"UCX_LOG_FILE", "stderr"},    {"UCX_WARN_UNUSED_ENV_VARS", "n"},
    {"UCX_VFS_ENABLE", "n"}};

std::string waysOut(const std::string &package) {
  return ": " + package + ", or use --wire tcp";
}

} // namespace

Result<UcxLibrary> UcxLibrary::load() {
  for (auto [name, value] : settings)
    setenv(name, value, 0);
  // It stays loaded: its threads and hooks may outlive a call.
  void *handle = dlopen(libraryName, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return Error{std::string("--wire ucx needs UCX, and ") + libraryName +
                 " cannot be loaded (" + dlerror() + ")" +
                 waysOut("install it (Debian: libucx0)")};
  UcxLibrary library{};
  std::string missing;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        dlsym(handle, name));
    if (!function && missing.empty())
      missing = name;
  };
  std::string newer = "install UCX " + std::to_string(oldest.first) + "." +
                      std::to_string(oldest.second) + " or newer";
  find(library.getVersion, "ucp_get_version");
  if (library.getVersion) {
    unsigned major = 0, minor = 0, release = 0;
    library.getVersion(&major, &minor, &release);
    if (std::pair(major, minor) < oldest)
      return Error{std::string("--wire ucx: ") + libraryName + " is UCX " +
                   std::to_string(major) + "." + std::to_string(minor) + "." +
                   std::to_string(release) + ", which is too old" +
                   waysOut(newer)};
  }
  find(library.init, "ucp_init_version");
  find(library.cleanup, "ucp_cleanup");
  find(library.readConfig, "ucp_config_read");
  find(library.releaseConfig, "ucp_config_release");
  find(library.createWorker, "ucp_worker_create");
  find(library.destroyWorker, "ucp_worker_destroy");
  find(library.getAddress, "ucp_worker_get_address");
  find(library.releaseAddress, "ucp_worker_release_address");
  find(library.getDescriptor, "ucp_worker_get_efd");
  find(library.arm, "ucp_worker_arm");
  find(library.progress, "ucp_worker_progress");
  find(library.setHandler, "ucp_worker_set_am_recv_handler");
  find(library.createEndpoint, "ucp_ep_create");
  find(library.closeEndpoint, "ucp_ep_close_nbx");
  find(library.send, "ucp_am_send_nbx");
  find(library.receive, "ucp_am_recv_data_nbx");
  find(library.releaseData, "ucp_am_data_release");
  find(library.checkStatus, "ucp_request_check_status");
  find(library.freeRequest, "ucp_request_free");
  find(library.statusString, "ucs_status_string"); // of a library it needs
  if (!missing.empty())
    return Error{std::string("--wire ucx: ") + libraryName + " has no " +
                 missing + waysOut(newer)};
  return library;
}

Result<const UcxLibrary *> UcxLibrary::get() {
  static const Result<UcxLibrary> library = load();
  if (!library)
    return library.error();
  return &*library;
}

Result<void> loadUcx() {
  Result<const UcxLibrary *> library = UcxLibrary::get();
  return library ? Result<void>() : Result<void>(library.error());
}

} // namespace polyrank::runtime::net
