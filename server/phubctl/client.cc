#include "server/phubctl/client.h"

#include <fmt/format.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>

#include <cstdio>

#include "common/address.h"
#include "common/rpc_status.h"

namespace phub::phubctl {

Result<std::unique_ptr<AdminClient>> AdminClient::create(const std::string& address,
                                                         std::chrono::milliseconds timeout) {
  const Result<Address> parsed = parse_address(address);
  if (!parsed) return parsed.error().with_context("--server");
  return std::unique_ptr<AdminClient>(new AdminClient(to_string(*parsed), timeout));
}

AdminClient::AdminClient(std::string address, std::chrono::milliseconds timeout)
    : address_(std::move(address)), timeout_(timeout) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxControlMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxControlMessageBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  channel_ = grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
  stub_ = control::Admin::NewStub(channel_);
}

Status AdminClient::explain(const grpc::Status& status) const {
  if (status.ok()) return {};
  const bool is_connected = channel_->GetState(false) == GRPC_CHANNEL_READY;
  const bool did_not_answer = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                              status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (!is_connected && did_not_answer) {
    return {Code::kUnavailable,
            fmt::format("no phub-server answers at {}: is it running? start it with "
                        "`phub-server --control {}`, or give its address with --server",
                        address_, address_)};
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return {Code::kDeadlineExceeded,
            fmt::format("the phub-server at {} did not answer within {} ms; give it longer with "
                        "--timeout-ms",
                        address_, timeout_.count())};
  }
  return from_grpc(status);
}

void print(const std::string& text) { fmt::print("{}{}", text, text.ends_with('\n') ? "" : "\n"); }

}  // namespace phub::phubctl
