#include "server/doctor/peer/client.h"

#include <grpcpp/create_channel.h>

#include "common/rpc/credentials.h"
#include "common/rpc/status.h"
#include "server/doctor/peer/end.h"
#include "server/doctor/peer/service.h"

namespace phub::doctor {
namespace {

using std::chrono::system_clock;

constexpr int kMostReplyBytes = 64 * 1024;
constexpr std::chrono::seconds kFarewell{1};

}  // namespace

Result<std::unique_ptr<DoctorClient>> DoctorClient::create(const MeetOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const auto credentials, channel_credentials(options.tls));
  // Says better than gRPC why nobody is reached.
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const UniqueFd reached,
                        connect_to(options.address, options.limits));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostReplyBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // How long it tries to connect, cancelled or not: a little longer than anybody waits for it.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   static_cast<int>((options.limits.message + 10 * kSlice).count()));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::unique_ptr<DoctorClient> client(new DoctorClient(
      options, grpc::CreateCustomChannel(to_string(options.address), credentials, arguments)));
  doctor_wire::Visitor visitor;
  visitor.set_host(printable(host_name(), kMostHostBytes));
  visitor.set_ticket(options.ticket);
  PHUB_ASSIGN_OR_RETURN(client->welcome_,
                        client->call(&doctor_wire::Doctor::Stub::AsyncMeet, visitor));
  return client;
}

DoctorClient::DoctorClient(const MeetOptions& options,
                           const std::shared_ptr<grpc::Channel>& channel)
    : limits_(options.limits),
      who_(to_string(options.address)),
      stub_(doctor_wire::Doctor::NewStub(channel)) {}

DoctorClient::~DoctorClient() {
  if (!welcome_.token().empty()) {
    grpc::ClientContext context;
    prepare(context);
    context.set_deadline(system_clock::now() + kFarewell);
    doctor_wire::Nothing done;
    // If it is gone, it needs no farewell.
    [[maybe_unused]] const auto left = stub_->Leave(&context, doctor_wire::Nothing(), &done);
  }
  queue_.Shutdown();
  void* tag = nullptr;
  for (bool ok = false; queue_.Next(&tag, &ok);) continue;
}

void DoctorClient::prepare(grpc::ClientContext& context) const {
  context.set_deadline(system_clock::now() + limits_.meeting);
  if (!welcome_.token().empty()) context.AddMetadata(kTokenMetadata, welcome_.token());
}

Status DoctorClient::wait(grpc::ClientContext& context) {
  const auto until = Clock::now() + limits_.message;
  Status why;
  void* tag = nullptr;
  bool ok = false;
  while (queue_.AsyncNext(&tag, &ok, system_clock::now() + kSlice) ==
         grpc::CompletionQueue::TIMEOUT) {
    why = check_stop(limits_);
    if (why.ok() && Clock::now() > until) why = {Code::kDeadlineExceeded, who_ + " is silent"};
    if (!why.ok()) context.TryCancel();
  }
  return why;
}

Status DoctorClient::meaning(const grpc::Status& status) const {
  const std::string message = printable(status.error_message());
  if (status.ok()) return {};
  if (!welcome_.token().empty()) {
    return {from_grpc(status).code(), "on the other host: " + message};
  }
  switch (status.error_code()) {
    case grpc::StatusCode::UNIMPLEMENTED:
      return {Code::kFailedPrecondition, who_ + " speaks another version of the doctor's protocol"};
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return {Code::kResourceExhausted, "it refuses: " + message};
    default:
      return {Code::kInvalidArgument,
              who_ +
                  " does not answer as a doctor of this version and of these credentials does (" +
                  message + ")"};
  }
}

}  // namespace phub::doctor
