// The functions of UCX, found at run time, so that only who uses it needs it.

#pragma once

#include "support/Result.h"

#include <memory>
#include <ucp/api/ucp.h>

namespace polyrank::runtime::net {

struct UcxLibrary {
  /// The library, which is loaded by the first call and stays.
  static Result<const UcxLibrary *> get();

  decltype(&ucp_get_version) getVersion;
  decltype(&ucp_init_version) init;
  decltype(&ucp_cleanup) cleanup;
  decltype(&ucp_config_read) readConfig;
  decltype(&ucp_config_release) releaseConfig;
  decltype(&ucp_worker_create) createWorker;
  decltype(&ucp_worker_destroy) destroyWorker;
  decltype(&ucp_worker_get_address) getAddress;
  decltype(&ucp_worker_release_address) releaseAddress;
  decltype(&ucp_worker_get_efd) getDescriptor;
  decltype(&ucp_worker_arm) arm;
  decltype(&ucp_worker_progress) progress;
  decltype(&ucp_worker_set_am_recv_handler) setHandler;
  decltype(&ucp_ep_create) createEndpoint;
  decltype(&ucp_ep_close_nbx) closeEndpoint;
  decltype(&ucp_am_send_nbx) send;
  decltype(&ucp_am_recv_data_nbx) receive;
  decltype(&ucp_am_data_release) releaseData;
  decltype(&ucp_request_check_status) checkStatus;
  decltype(&ucp_request_free) freeRequest;
  decltype(&ucs_status_string) statusString;

private:
  static Result<UcxLibrary> load();
};

/// Contexts and workers, destroyed with these.
/// @{
struct UcxCleanup {
  const UcxLibrary *library;
  void operator()(ucp_context *context) const { library->cleanup(context); }
  void operator()(ucp_worker *worker) const { library->destroyWorker(worker); }
};
using UcxContext = std::unique_ptr<ucp_context, UcxCleanup>;
using UcxWorker = std::unique_ptr<ucp_worker, UcxCleanup>;
/// @}

} // namespace polyrank::runtime::net
