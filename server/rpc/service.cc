#include "server/rpc/service.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/first_line.h"
#include "common/base/unique_fd.h"
#include "common/rpc/address.h"
#include "common/rpc/credentials.h"
#include "common/rpc/status.h"
#include "server/door/control_listener.h"
#include "server/door/control_peers.h"
#include "server/process/control_threads.h"
#include "server/process/descriptor_limit.h"
#include "server/process/ticker.h"
#include "server/rpc/admin_calls.h"
#include "server/rpc/callers.h"
#include "server/rpc/probes.h"
#include "server/rpc/racks.h"
#include "server/rpc/rendezvous.h"
#include "server/rpc/snapshots.h"

namespace phub::server {
namespace {

constexpr std::chrono::seconds kShutdownGrace{1};
constexpr int kHandshakeMs = 10'000;     // of HTTP/2; TLS and the preface are over by then
constexpr int kCallsOfConnection = 100;  // at once; more wait at the client
// Of connections, calls and their messages. Beyond it gRPC refuses connections and ends calls.
constexpr std::size_t kBytesInWork = std::size_t{1} << 30;
constexpr std::chrono::milliseconds kLateStartsInterval{50};

void bound_connections(grpc::ServerBuilder& builder, const ControlServiceOptions& options) {
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  // Callers connect again by themselves, and prove anew who they are. Calls in progress may end
  // first, however long that takes: a worker that waits for its job's start must not lose it.
  const auto age = static_cast<int>(options.connection_age.count());
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, age);
}

bool has_server_at(const Directory& directory, const std::string& host) {
  const auto is_there = [&](const std::string& server) {
    const auto address = parse_address(server);
    return address && address->host == host;
  };
  const std::vector<RackEntry> racks = directory.racks();
  return std::any_of(racks.begin(), racks.end(), [&](const RackEntry& rack) {
    return std::any_of(rack.servers.begin(), rack.servers.end(), is_there);
  });
}

// Listens where the control plane does, and calls on servers of the directory's racks.
ProberOptions prober_of(const ControlServiceOptions& options) {
  const auto address = parse_address(options.address);
  return {.host = address ? address->host : "",
          .tls = options.tls,
          .require_client_certificates = options.require_client_certificates,
          .client_tls = options.rack_tls,
          .is_known = [directory = options.directory](const std::string& host) {
            return directory != nullptr && has_server_at(*directory, host);
          }};
}

const SnapshotStore* store_of(const ControlServiceOptions& options) {
  return options.snapshotter == nullptr ? nullptr : &options.snapshotter->store();
}

class GrpcControlService final : public ControlService {
 public:
  GrpcControlService(const ControlServiceOptions& options, const Offer& offer, JobTable& table,
                     DataPlane& data_plane)
      : table_(table),
        rendezvous_(table, offer, options.snapshotter, options.tenancy, peers_, threads_,
                    options.join_patience),
        admin_(table, data_plane, options.waiting, options.tenancy,
               [this] { return certificates(); }),
        tenants_(table, options.tenancy, store_of(options)),
        admin_calls_(admin_, tenants_, options.tenancy, peers_, threads_),
        snapshots_(table, options.snapshotter, options.tenancy, peers_, threads_),
        racks_(options.directory, options.tenancy, peers_, threads_),
        probes_(prober_of(options), options.probe_file, options.tenancy, peers_, threads_),
        late_starts_(kLateStartsInterval, [&table] { table.life.end_late_starts(); }) {}

  ~GrpcControlService() override {
    if (listener_ != nullptr) listener_->stop();  // not destroyed: calls end through it
    if (server_ == nullptr) return;
    probes_.stop();
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    server_->Wait();
  }

  Status listen(const ControlServiceOptions& options) {
    PHUB_RETURN_IF_ERROR(open_port(options));
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    connections_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        server_credentials());
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> watchers;
    watchers.push_back(watch_callers(*listener_, payers(options.tenancy)));
    builder.experimental().SetInterceptorCreators(std::move(watchers));
    bound_connections(builder, options);
    // No client of ours compresses, and what is read counts by its bytes on the wire.
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
    builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
    builder.SetMaxSendMessageSize(kMaxControlMessageBytes);
    grpc::ResourceQuota quota("phub-control");
    quota.Resize(kBytesInWork);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsOfConnection);
    // A window that grows with the link would let each stream hold megabytes that nobody reads.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.SetResourceQuota(quota);
    builder.RegisterService(&rendezvous_);
    builder.RegisterService(&admin_calls_);
    builder.RegisterService(&snapshots_);
    builder.RegisterService(&racks_);
    builder.RegisterService(&probes_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return {Code::kInternal, "control_address: gRPC does not start"};
    threads_.publish();
    listener_->start([this](UniqueFd socket) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.fd = socket.release();
      connections_->HandleNewConnection(&connection);
    });
    return {};
  }

  std::string address() const override { return listener_->address(); }

  void set_ready(bool is_ready) override {
    server_->GetHealthCheckService()->SetServingStatus(is_ready);
  }

  AdminService& admin() override { return admin_; }
  TenantAdmin& tenants() override { return tenants_; }

  Status reload() override { return tls_ ? tls_->look() : Status(); }

  std::vector<CertificateExpiry> certificates() const override {
    return tls_ ? tls_->expiries() : std::vector<CertificateExpiry>();
  }

  ControlDoorCounters door_counters() const override { return listener_->counters(); }

 private:
  PayerOf payers(Tenancy* tenancy) const {
    return [tenancy, authorizer = std::make_shared<const Authorizer>(tenancy, peers_),
            &table = table_](const grpc::ServerContextBase& context,
                             std::uint64_t job_id) -> std::optional<std::string> {
      if (tenancy == nullptr) return "";
      return job_id == 0 ? authorizer->payer_of(context) : table.views.tenant_of(job_id);
    };
  }

  Status open_port(const ControlServiceOptions& options) {
    const DescriptorShares shares = descriptor_shares();
    ControlListenerOptions port{.address = options.address,
                                .peers = &peers_,
                                .silent_max = shares.control_silent,
                                .strangers_max = shares.control_strangers,
                                .known_max = shares.control_known};
    if (!options.tls.empty()) {
      PHUB_ASSIGN_OR_RETURN(
          tls_,
          TlsKeeper::create(options.tls, options.require_client_certificates, options.crl_folder));
      port.tls = [this] { return tls_->context(); };
    }
    PHUB_ASSIGN_OR_RETURN(listener_, ControlListener::create(port));
    return {};
  }

  const JobTable& table_;
  ControlPeers peers_;
  CallThreads threads_;
  RendezvousService rendezvous_;
  AdminService admin_;
  TenantAdmin tenants_;
  AdminCalls admin_calls_;
  SnapshotService snapshots_;
  RackService racks_;
  ProbeService probes_;
  const Ticker late_starts_;
  std::unique_ptr<TlsKeeper> tls_;  // null: plaintext
  std::unique_ptr<ControlListener> listener_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;  // last: it calls the services
};

}  // namespace

Result<std::unique_ptr<ControlService>> ControlService::create(const ControlServiceOptions& options,
                                                               JobTable& table,
                                                               DataPlane& data_plane) {
  const Offer offer{
      .cores = data_plane.cores(),
      .tcp_port = data_plane.tcp_port(),
      .shm_socket = data_plane.shm_socket(),
      .rdma = data_plane.verbs_ports(),
      .boot_id = first_line(kBootId),
      .heartbeat_interval_ms = static_cast<std::uint32_t>(options.heartbeat_interval.count()),
      .encrypts_data = data_plane.encrypts_tcp()};
  auto service = std::make_unique<GrpcControlService>(options, offer, table, data_plane);
  PHUB_RETURN_IF_ERROR(service->listen(options));
  return std::unique_ptr<ControlService>(std::move(service));
}

}  // namespace phub::server
