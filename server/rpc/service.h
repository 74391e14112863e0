// The daemon's gRPC server: Rendezvous and Admin on one port.
//
// Owned by the daemon. gRPC runs a few threads of its own, which sleep when nobody calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/tls_files.h"
#include "server/access/tenancy.h"
#include "server/directory/directory.h"
#include "server/door/control_listener.h"
#include "server/door/tls_keeper.h"
#include "server/jobs/table.h"
#include "server/plane/data_plane.h"
#include "server/rpc/admin.h"
#include "server/rpc/tenants.h"
#include "server/snapshot/snapshotter.h"

namespace phub::server {

struct ControlServiceOptions {
  std::string address = "127.0.0.1:0";  // port 0: a free one
  std::chrono::milliseconds heartbeat_interval{1000};
  std::chrono::milliseconds join_patience{60'000};  // for all messages of a join
  std::string waiting = {};                         // how cores wait, for people
  TlsFiles tls = {};                                // none: plaintext
  bool require_client_certificates = true;
  std::string crl_folder = {};  // revocations of clients' certificates; empty: none
  std::chrono::milliseconds connection_age{3'600'000};  // the most; callers then connect again
  Tenancy* tenancy = nullptr;            // null: everybody may do everything; outlives the service
  Snapshotter* snapshotter = nullptr;    // null: no snapshots; outlives the service
  const Directory* directory = nullptr;  // null: no racks are known; outlives the service
  TlsFiles rack_tls = {};                // how this server proves at other racks' who it is
  std::string probe_file = {};           // where the last probe is kept; empty: in memory
};

class ControlService {
 public:
  // `table` and `data_plane` outlive the service. Errors: kInvalidArgument (the address does not
  // parse, a file for TLS is wrong), kAlreadyExists (port in use), kUnavailable (no such address
  // here); each names the address, the field control_address and the cure.
  static Result<std::unique_ptr<ControlService>> create(const ControlServiceOptions& options,
                                                        JobTable& table, DataPlane& data_plane);

  // Ends calls in progress that do not end by themselves within a second.
  virtual ~ControlService() = default;

  ControlService() = default;
  ControlService(const ControlService&) = delete;
  ControlService& operator=(const ControlService&) = delete;

  virtual std::string address() const = 0;  // with the port that was picked
  // What the gRPC health service says of the server. Ready until it is told otherwise.
  virtual void set_ready(bool is_ready) = 0;
  // TlsKeeper::look and expiries; without TLS nothing.
  virtual Status reload() = 0;
  virtual std::vector<CertificateExpiry> certificates() const = 0;
  virtual ControlDoorCounters door_counters() const = 0;  // any thread

  // What answers the service Admin, for who asks within the process. As long as this.
  virtual AdminService& admin() = 0;
  virtual TenantAdmin& tenants() = 0;
};

}  // namespace phub::server
