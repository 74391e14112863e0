// A running phub-server: the job table, the data plane, the control service and the reaper thread.
//
// Owned by main; its functions may be called from any control thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "common/base/status.h"
#include "server/directory/directory.h"
#include "server/http/http_server.h"
#include "server/http/site.h"
#include "server/jobs/table.h"
#include "server/metrics/collector.h"
#include "server/page/page.h"
#include "server/plane/data_plane.h"
#include "server/racks/uplinks.h"
#include "server/rpc/service.h"

namespace phub {
class ServerConfig;
}

namespace phub::server {

struct DaemonOptions {
  DataPlaneOptions data_plane;
  std::string control_address = "127.0.0.1:7077";
  HttpOptions http = {};  // without an address: no page, no metrics
  SiteHosts http_hosts = {};
  std::chrono::milliseconds heartbeat_deadline{5000};
  std::chrono::milliseconds drain_timeout{10'000};  // what a stop gives running jobs
  std::chrono::milliseconds join_secret_lifetime{60'000};
  TlsFiles tls = {};                                    // of the control plane; none: plaintext
  std::string crl_folder = {};                          // revocations; empty: none
  std::chrono::milliseconds connection_age{3'600'000};  // of a control connection, the most
  bool require_client_certificates = true;
  TenancyOptions tenancy = {};
  // Of a job, and as many that its workers asked for; 0: all. Without a state folder there are
  // none.
  std::uint32_t snapshots_kept = 3;
  std::uint64_t snapshots_limit_bytes = 0;   // of all tenants' snapshots; 0: none
  std::uint32_t snapshots_of_tenant = 0;     // files at most; 0: no bound
  std::chrono::seconds snapshots_expire{0};  // age of those whose job is over; 0: never
  bool drain_snapshots = false;              // of what still runs when the drain timeout is over
  DirectoryOptions directory = {};           // of racks
  std::string rack_transport = "auto";       // to other racks' servers
  ClientSecurity rack_security = {};         // how this server proves at other racks' who it is
  std::function<std::uint64_t()> log_lines_dropped = [] { return 0; };  // for the metrics
};

// REQUIRES: the configuration is valid (common/config/config.h).
DaemonOptions options_from(const ServerConfig& config);

class Daemon {
 public:
  // Serves when it returns. Errors: those of Tenancy::open, SnapshotStore::create,
  // DataPlane::create, ControlService::create and HttpServer::create.
  static Result<std::unique_ptr<Daemon>> create(const DaemonOptions& options);

  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  std::string control_address() const { return service_->address(); }
  std::string http_address() const { return http_ ? http_->address() : ""; }
  std::uint16_t tcp_port() const { return data_plane_->tcp_port(); }
  std::uint32_t cores() const { return data_plane_->cores(); }
  Directory& directory() { return *directory_; }

  // Takes changed certificates and revocations over now. Error: why they do not fit; what was in
  // force stays.
  Status reload() { return service_->reload(); }

  // No new jobs from now on; running ones may finish within the drain timeout and then fail.
  void drain();

  // True when no job is left, its memory is released and its workers know why; waits `timeout`.
  bool wait_until_drained(std::chrono::milliseconds timeout);

  // Fails what still runs, at once.
  void fail_all(const std::string& reason) { table_.fail_all(reason); }

 private:
  struct Parts {
    std::unique_ptr<Tenancy> tenancy;
    std::unique_ptr<SnapshotStore> snapshots;
    std::unique_ptr<Directory> directory;
    std::unique_ptr<Uplinks> uplinks;
  };
  Daemon(const DaemonOptions& options, Parts parts);
  void snapshot_before_end(const JobView& job);
  Status serve_http();
  std::optional<Reader> reader_with(std::string_view bearer_token) const;
  void reap_until_stopped();
  void expire_snapshots();
  std::chrono::milliseconds expiry_interval() const;
  std::chrono::milliseconds heartbeat_interval() const;

  const DaemonOptions options_;
  const std::unique_ptr<Tenancy> tenancy_;
  const std::unique_ptr<SnapshotStore> snapshots_;  // null: no state folder
  const std::unique_ptr<Directory> directory_;
  const std::unique_ptr<Uplinks> uplinks_;
  JobTable table_;
  std::unique_ptr<DataPlane> data_plane_;
  std::unique_ptr<Snapshotter> snapshotter_;
  std::unique_ptr<ControlService> service_;
  std::unique_ptr<PageData> page_;  // null: there is no HTTP server
  std::unique_ptr<Site> site_;
  std::unique_ptr<HttpServer> http_;
  std::atomic<bool> is_stopping_{false};  // set by the destructor, read by the reaper
  std::thread reaper_;
};

}  // namespace phub::server
