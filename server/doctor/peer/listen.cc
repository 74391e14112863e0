#include "server/doctor/peer/listen.h"

#include <fmt/format.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/socket.h>

#include <thread>

#include "common/rpc/credentials.h"
#include "server/doctor/peer/service.h"

namespace phub::doctor {
namespace {

using grpc::experimental::ExternalConnectionAcceptor;

constexpr int kMostRequestBytes = 4096;
constexpr int kCallsOfConnection = 1;
constexpr std::size_t kMostStrangers = 32;  // that are silent, and that have said something
constexpr std::chrono::seconds kShutdownGrace{1};

Status refused(const Address& address, const Status& error) {
  const bool is_taken = error.code() == Code::kAlreadyExists;
  const bool may_not = error.code() == Code::kPermissionDenied;
  return {is_taken ? Code::kAlreadyExists : Code::kInvalidArgument,
          fmt::format("--listen {} (an address of this host and a free port; 0: any free one): {}",
                      to_string(address),
                      is_taken  ? "the port is in use"
                      : may_not ? "ports below 1024 need privileges"
                                : "there is no such address here")};
}

// On the port's thread: whether it is a connection that is to be measured.
bool divert(UniqueFd& socket, DoctorService& service) {
  char first = kTokenMark;
  ::recv(socket.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (first != kTokenMark) return false;
  service.offer(std::move(socket));
  return true;
}

void hand_over(UniqueFd socket, ExternalConnectionAcceptor& calls) {
  ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = socket.release();
  calls.HandleNewConnection(&connection);
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::create(const ListenOptions& options) {
  std::unique_ptr<Listener> listener(new Listener(options));
  if (!options.tls.empty()) {
    PHUB_ASSIGN_OR_RETURN(const ServerTls files, read_server_tls(options.tls));
    PHUB_ASSIGN_OR_RETURN(listener->tls_,
                          server::make_tls_context(files, options.wants_certificates, ""));
  }
  // What a call may send is bounded by its one message.
  auto port = server::ControlListener::create({.address = to_string(options.address),
                                               .peers = &listener->peers_,
                                               .tls = [tls = listener->tls_] { return tls; },
                                               .silent_max = kMostStrangers,
                                               .strangers_max = kMostStrangers,
                                               .known_max = kMostStrangers,
                                               .unfinished_bytes_max = UINT64_MAX,
                                               .first_byte = options.limits.greeting,
                                               .greeting = options.limits.greeting});
  if (!port) return refused(options.address, port.error());
  listener->port_ = std::move(*port);
  return listener;
}

Status Listener::serve(const std::function<void(const std::string&)>& say) {
  DoctorService service(options_, *port_, peers_, say);
  grpc::ServerBuilder builder;
  const auto calls = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      server_credentials());
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(options_.limits.greeting.count()));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsOfConnection);
  // Who has met and stays connected keeps a place no longer than a meeting that is silent.
  builder.AddChannelArgument(
      GRPC_ARG_MAX_CONNECTION_IDLE_MS,
      static_cast<int>((options_.limits.message + options_.limits.greeting).count()));
  builder.SetMaxReceiveMessageSize(kMostRequestBytes);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) return {Code::kInternal, "--listen: gRPC does not start"};
  port_->start([&](UniqueFd socket) { hand_over(std::move(socket), *calls); },
               [&](UniqueFd& socket) { return divert(socket, service); });
  const auto patient_until = Clock::now() + options_.patience;
  const auto is_alone = [&] {
    return options_.patience > milliseconds(0) && Clock::now() > patient_until &&
           !service.has_met();
  };
  while (check_stop(options_.limits).ok() && !(options_.once && service.first()) && !is_alone()) {
    std::this_thread::sleep_for(kSlice);
    service.look();
  }
  port_->stop();
  server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  server->Wait();
  service.stop();
  port_.reset();  // who comes now is told at once that nobody listens
  const Status first = service.first().value_or(Status());
  return options_.once && first.code() != Code::kAborted ? first : Status();
}

}  // namespace phub::doctor
