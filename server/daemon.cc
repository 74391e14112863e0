#include "server/daemon.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "common/base/log_value.h"

namespace phub::server {
namespace {

using std::chrono::milliseconds;

constexpr int kHeartbeatsPerDeadline = 5;
constexpr milliseconds kReapIntervalMin{10};
constexpr milliseconds kSnapshotBeforeEnd{10'000};
constexpr milliseconds kReapIntervalMax{250};
constexpr milliseconds kExpiryIntervalMin{1'000};
constexpr milliseconds kExpiryIntervalMax{60'000};

std::string describe(const Waiting& waiting) {
  if (!waiting.sleep) return "poll";
  return fmt::format("adaptive (spin {}, yield {}, then sleep)", waiting.spin_iterations,
                     waiting.yield_iterations);
}

JobStore store_of_jobs(Store& store) {
  return {.add = [&store](const StoredJob& job) { return store.add_job(job); },
          .remove = [&store](std::uint64_t job_id) { return store.remove_job(job_id); },
          .reserve_ids = [&store](std::uint64_t count) { return store.reserve_job_ids(count); }};
}

}  // namespace

Daemon::Daemon(const DaemonOptions& options, Parts parts)
    : options_(options),
      tenancy_(std::move(parts.tenancy)),
      snapshots_(std::move(parts.snapshots)),
      directory_(std::move(parts.directory)),
      uplinks_(std::move(parts.uplinks)),
      table_({.heartbeat_deadline = options.heartbeat_deadline,
              .connections_per_core = options.data_plane.connections_per_core,
              .join_secret_lifetime = options.join_secret_lifetime,
              .tenants = &tenancy_->directory,
              .store = store_of_jobs(*tenancy_->store),
              .snapshots = snapshots_.get(),
              .rack = directory_->own_rack(),
              .links = uplinks_.get(),
              .end_notice = std::max(milliseconds(1), options.drain_timeout),
              .before_drain_ends = [this](const JobView& job) { snapshot_before_end(job); }}) {}

Result<std::unique_ptr<Daemon>> Daemon::create(const DaemonOptions& options) {
  Parts parts;
  PHUB_ASSIGN_OR_RETURN(parts.tenancy, Tenancy::open(options.tenancy));
  if (!options.tenancy.state_folder.empty()) {
    PHUB_ASSIGN_OR_RETURN(
        parts.snapshots,
        SnapshotStore::create({.folder = options.tenancy.state_folder + "/snapshots",
                               .kept = options.snapshots_kept,
                               .limit_bytes = options.snapshots_limit_bytes,
                               .files_of_tenant = options.snapshots_of_tenant}));
  }
  PHUB_ASSIGN_OR_RETURN(parts.directory, Directory::create(options.directory));
  parts.uplinks =
      std::make_unique<Uplinks>(UplinkOptions{.security = options.rack_security,
                                              .transport = options.rack_transport,
                                              .heartbeat_deadline = options.heartbeat_deadline},
                                *parts.directory);
  std::unique_ptr<Daemon> daemon(new Daemon(options, std::move(parts)));
  PHUB_ASSIGN_OR_RETURN(daemon->data_plane_,
                        DataPlane::create(options.data_plane, daemon->table_.members));
  daemon->table_.attach(*daemon->data_plane_);
  daemon->uplinks_->attach(*daemon->data_plane_, daemon->table_.members);
  if (daemon->snapshots_) {
    daemon->snapshotter_ = std::make_unique<Snapshotter>(*daemon->data_plane_, *daemon->snapshots_);
  }
  PHUB_ASSIGN_OR_RETURN(const std::vector<StoredJob> jobs, daemon->tenancy_->store->take_jobs());
  daemon->table_.life.restore(jobs);
  const ControlServiceOptions service{
      .address = options.control_address,
      .heartbeat_interval = daemon->heartbeat_interval(),
      .waiting = describe(options.data_plane.waiting),
      .tls = options.tls,
      .require_client_certificates = options.require_client_certificates,
      .crl_folder = options.crl_folder,
      .connection_age = options.connection_age,
      .tenancy = daemon->tenancy_.get(),
      .snapshotter = daemon->snapshotter_.get(),
      .directory = daemon->directory_.get(),
      .rack_tls = options.rack_security.tls,
      .probe_file = options.tenancy.state_folder.empty()
                        ? ""
                        : options.tenancy.state_folder + "/probe.textproto"};
  PHUB_ASSIGN_OR_RETURN(daemon->service_,
                        ControlService::create(service, daemon->table_, *daemon->data_plane_));
  if (!options.http.address.empty()) PHUB_RETURN_IF_ERROR(daemon->serve_http());
  daemon->directory_->announce(daemon->service_->address());
  daemon->reaper_ = std::thread([daemon = daemon.get()] { daemon->reap_until_stopped(); });
  return daemon;
}

Status Daemon::serve_http() {
  const MetricsCollector metrics{.table = table_,
                                 .data_plane = *data_plane_,
                                 .certificates = [this] { return service_->certificates(); },
                                 .control_door = [this] { return service_->door_counters(); },
                                 .log_lines_dropped = options_.log_lines_dropped,
                                 .directory = directory_.get()};
  page_ = std::make_unique<PageData>(service_->admin(), service_->tenants(), table_, *data_plane_,
                                     snapshots_.get());
  site_ = std::make_unique<Site>(
      SiteSources{
          .state_json = [this](const Reader& reader) { return page_->state_json(reader); },
          .records_json = [this](const Reader& reader) { return page_->records_json(reader); },
          .history_json = [this](const Reader& reader) { return page_->history_json(reader); },
          .metrics_text = [metrics](const Reader& reader) { return metrics.text(reader.tenant); },
          .reads = [this](std::string_view token) { return reader_with(token); },
          .not_ready =
              [this] { return std::string(table_.views.is_draining() ? "draining" : ""); }},
      options_.http_hosts);
  PHUB_ASSIGN_OR_RETURN(http_,
                        HttpServer::create(options_.http, [this](const HttpRequest& request) {
                          return site_->reply_to(request);
                        }));
  return {};
}

// Whom a token makes an administrator or an observer, everything, and everybody where no tokens are
// required; a tenant's token its own.
std::optional<Reader> Daemon::reader_with(std::string_view bearer_token) const {
  const auto caller =
      tenancy_->access.authenticate({.token = std::string(bearer_token), .peer = "http"});
  if (!caller || !has_right(caller->role, Right::kRead)) return std::nullopt;
  if (caller->role == Role::kTenant) {
    return Reader{.tenant = caller->tenant, .tenant_id = caller->tenant_id};
  }
  return Reader{.sees_audit = has_right(caller->role, Right::kAdminister)};
}

Daemon::~Daemon() {
  is_stopping_.store(true, std::memory_order_relaxed);  // pairs with the load in the reaper
  if (reaper_.joinable()) reaper_.join();
  uplinks_->close_all();
}

milliseconds Daemon::heartbeat_interval() const {
  return std::max(milliseconds(1), options_.heartbeat_deadline / kHeartbeatsPerDeadline);
}

void Daemon::reap_until_stopped() {
  const milliseconds interval =
      std::clamp(options_.heartbeat_deadline / (2 * kHeartbeatsPerDeadline), kReapIntervalMin,
                 kReapIntervalMax);
  bool is_ready = true;
  std::chrono::steady_clock::time_point looked;            // at snapshots that may expire
  while (!is_stopping_.load(std::memory_order_relaxed)) {  // pairs with the destructor
    if (is_ready == table_.views.is_draining()) service_->set_ready(is_ready = !is_ready);
    table_.reap();
    if (snapshots_ && std::chrono::steady_clock::now() - looked >= expiry_interval()) {
      expire_snapshots();
      looked = std::chrono::steady_clock::now();
    }
    if (page_) page_->look();
    table_.wait_for_work(interval);
  }
}

milliseconds Daemon::expiry_interval() const {
  return std::clamp<milliseconds>(options_.snapshots_expire, kExpiryIntervalMin,
                                  kExpiryIntervalMax);
}

void Daemon::expire_snapshots() {
  if (options_.snapshots_expire.count() == 0) return;
  const auto gone = snapshots_->expire(options_.snapshots_expire, table_.views.needed_snapshots());
  for (const std::string& file : gone) {
    spdlog::info("event=snapshot_expired file={} older_than_s={}", log_value(file),
                 options_.snapshots_expire.count());
  }
}

// A timeout of 0 would let jobs run for ever: the least is a millisecond.
void Daemon::drain() {
  table_.drain(std::max(milliseconds(1), options_.drain_timeout), options_.drain_snapshots);
}

void Daemon::snapshot_before_end(const JobView& job) {
  if (!snapshotter_) return;
  const auto take = [&]() -> Status {
    PHUB_ASSIGN_OR_RETURN(const AdmittedCopy admitted, table_.usage.admit_copy_of(job.id));
    return snapshotter_
        ->take({.job_id = job.id,
                .label = to_string(name_of(job)),
                .spec = job.spec,
                .tenant = admitted.tenant,
                .plan = admitted.plan,
                .server_index = admitted.server_index,
                .moment = {.timeout = kSnapshotBeforeEnd}})
        .error();
  };
  const Status taken = take();
  if (!taken.ok()) {
    spdlog::warn("event=no_snapshot id={} reason={}", job.id, log_value(taken.message()));
  }
}

bool Daemon::wait_until_drained(milliseconds timeout) {
  if (!table_.wait_until_idle(timeout)) return false;
  // Workers ask at their next heartbeat; one that does not is gone.
  static_cast<void>(table_.wait_until_told(2 * heartbeat_interval()));
  return true;
}

}  // namespace phub::server
