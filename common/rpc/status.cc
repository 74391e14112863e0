#include "common/rpc/status.h"

#include <array>
#include <string>
#include <string_view>

#include "common/base/visible.h"

namespace phub {
namespace {

struct CodePair {
  Code ours;
  grpc::StatusCode theirs;
};

constexpr std::array kPairs = {
    CodePair{Code::kOk, grpc::StatusCode::OK},
    CodePair{Code::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT},
    CodePair{Code::kNotFound, grpc::StatusCode::NOT_FOUND},
    CodePair{Code::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS},
    CodePair{Code::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED},
    CodePair{Code::kPermissionDenied, grpc::StatusCode::PERMISSION_DENIED},
    CodePair{Code::kFailedPrecondition, grpc::StatusCode::FAILED_PRECONDITION},
    CodePair{Code::kResourceExhausted, grpc::StatusCode::RESOURCE_EXHAUSTED},
    CodePair{Code::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED},
    CodePair{Code::kUnavailable, grpc::StatusCode::UNAVAILABLE},
    CodePair{Code::kAborted, grpc::StatusCode::ABORTED},
    CodePair{Code::kDataLoss, grpc::StatusCode::DATA_LOSS},
    CodePair{Code::kInternal, grpc::StatusCode::INTERNAL},
    // Only from gRPC to us.
    CodePair{Code::kInvalidArgument, grpc::StatusCode::OUT_OF_RANGE},
    // A call that was cut off by this end or by a server that stops: no word of the server's.
    CodePair{Code::kUnavailable, grpc::StatusCode::CANCELLED},
};

// Of a reply's message. A client takes 8 KiB of a reply's head, where a character that is not
// ASCII has nine bytes for three.
constexpr std::size_t kMessageBytesMax = 2000;

// A message may repeat what a peer has sent.
std::string shown(const std::string& message) {
  std::string text = visible(std::string_view(message).substr(0, kMessageBytesMax));
  if (message.size() > kMessageBytesMax) text += "...";
  return text;
}

}  // namespace

grpc::Status to_grpc(const Status& status) {
  for (const CodePair& pair : kPairs) {
    if (pair.ours == status.code()) return {pair.theirs, shown(status.message())};
  }
  return {grpc::StatusCode::INTERNAL, shown(status.message())};
}

Status from_grpc(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return {Code::kFailedPrecondition,
            "it does not know this call: is it a server of this version of PHub?"};
  }
  for (const CodePair& pair : kPairs) {
    if (pair.theirs == status.error_code()) return {pair.ours, status.error_message()};
  }
  return {Code::kInternal, status.error_message()};
}

}  // namespace phub
