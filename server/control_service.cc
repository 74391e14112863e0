#include "server/control_service.h"

#include <fmt/format.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <fstream>
#include <utility>

#include "common/address.h"
#include "common/base/unique_fd.h"
#include "common/rpc_credentials.h"
#include "common/rpc_status.h"
#include "server/control_service_admin.h"
#include "server/control_service_rendezvous.h"
#include "server/control_service_snapshots.h"
#include "server/control_service_state.h"

namespace phub::server {
namespace {

constexpr std::chrono::seconds kShutdownGrace{1};
constexpr int kThreadsMax = 512;  // a worker that waits for the start holds one

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

// gRPC does not say why it could not listen, so the bind is tried again by hand.
Status explain_bind_failure(const Address& address) {
  const std::string what = fmt::format("control_address: cannot listen on {}", to_string(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  if (const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
      error != 0) {
    return {Code::kUnavailable,
            fmt::format("{}: {}; is the host name right?", what, gai_strerror(error))};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  const UniqueFd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int error = socket.get() < 0 ? errno : 0;
  if (error == 0 && bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0) error = errno;
  switch (error) {
    case EADDRINUSE:
      return {Code::kAlreadyExists,
              fmt::format("{}: the port is in use, perhaps by another phub-server; stop that one, "
                          "or set control_address (--control) to another port, or to port 0 for "
                          "a free one",
                          what)};
    case EADDRNOTAVAIL:
      return {Code::kUnavailable,
              fmt::format("{}: this machine has no such address; `ip address` shows those it has",
                          what)};
    case EACCES:
      return {Code::kPermissionDenied,
              fmt::format("{}: ports below 1024 need privileges; choose a higher one", what)};
    default:
      errno = error;
      return error == 0 ? Status(Code::kUnavailable, what + "; try again") : errno_status(what);
  }
}

class GrpcControlService final : public ControlService {
 public:
  GrpcControlService(const ControlServiceOptions& options, const Offer& offer, JobTable& table,
                     DataPlane& data_plane)
      : table_(table),
        rendezvous_(table, offer, options.snapshotter, options.tenancy),
        admin_(table, data_plane, options.waiting, options.tenancy,
               options.snapshotter == nullptr ? nullptr : &options.snapshotter->store()),
        snapshots_(table, options.snapshotter, options.tenancy) {}

  ~GrpcControlService() override {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    server_->Wait();
  }

  Status listen(Address address, const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(to_string(address), credentials, &port);
    // Without this a second daemon would share the port silently.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(kMaxControlMessageBytes);
    builder.SetMaxSendMessageSize(kMaxControlMessageBytes);
    builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
    grpc::ResourceQuota quota("phub-control");
    quota.SetMaxThreads(kThreadsMax);
    builder.SetResourceQuota(quota);
    builder.RegisterService(&rendezvous_);
    builder.RegisterService(&admin_);
    builder.RegisterService(&snapshots_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port <= 0) return explain_bind_failure(address);
    address.port = static_cast<std::uint16_t>(port);
    address_ = to_string(address);
    return {};
  }

  std::string address() const override { return address_; }

  std::string state_json(const std::string& tenant) override {
    return server::state_json(admin_, table_, tenant);
  }

 private:
  const JobTable& table_;
  RendezvousService rendezvous_;
  AdminService admin_;
  SnapshotService snapshots_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;  // last: it calls the services
};

}  // namespace

Result<std::unique_ptr<ControlService>> ControlService::create(const ControlServiceOptions& options,
                                                               JobTable& table,
                                                               DataPlane& data_plane) {
  Result<Address> address = parse_address(options.address);
  if (!address) return address.error().with_context("control_address");
  const Offer offer{
      .cores = data_plane.cores(),
      .tcp_port = data_plane.tcp_port(),
      .shm_socket = data_plane.shm_socket(),
      .rdma = data_plane.verbs_ports(),
      .boot_id = boot_id(),
      .heartbeat_interval_ms = static_cast<std::uint32_t>(options.heartbeat_interval.count()),
      .encrypts_data = data_plane.encrypts_tcp()};
  auto service = std::make_unique<GrpcControlService>(options, offer, table, data_plane);
  PHUB_ASSIGN_OR_RETURN(const auto credentials,
                        server_credentials(options.tls, options.require_client_certificates));
  PHUB_RETURN_IF_ERROR(service->listen(*address, credentials));
  return std::unique_ptr<ControlService>(std::move(service));
}

}  // namespace phub::server
