#include "server/phubctl/doctor/peer/channel.h"

#include <google/protobuf/message_lite.h>
#include <poll.h>
#include <sys/socket.h>

namespace phub::phubctl::doctor {
namespace {

constexpr std::size_t kLengthBytes = 4;

// How many bytes came, 0 if there are none now. Error: the other end has closed.
Result<std::size_t> read_some(int socket, void* to, std::size_t bytes) {
  const long got = ::recv(socket, to, bytes, MSG_DONTWAIT);
  if (got > 0) return static_cast<std::size_t>(got);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::size_t{0};
  return Status(Code::kUnavailable, "has closed the connection");
}

std::string framed(const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  PHUB_CHECK(bytes.size() <= kMostMessageBytes, "our messages are short");
  std::string text;
  for (unsigned shift = 32; shift > 0;) {
    shift -= 8;
    text += static_cast<char>(bytes.size() >> shift & 0xFFU);
  }
  return text + bytes;
}

}  // namespace

Result<bool> Inbox::take(int socket) {
  while (have_ < kLengthBytes) {
    PHUB_ASSIGN_OR_RETURN(const std::size_t got,
                          read_some(socket, &length_[have_], kLengthBytes - have_));
    if (got == 0) return false;
    have_ += got;
    if (have_ < kLengthBytes) continue;
    std::size_t length = 0;
    for (const unsigned char byte : length_) length = length << 8U | byte;
    if (length > kMostMessageBytes) {
      return Status(Code::kInvalidArgument, "does not speak the doctor's protocol");
    }
    bytes_.resize(length);
  }
  while (have_ < kLengthBytes + bytes_.size()) {
    const std::size_t at = have_ - kLengthBytes;
    PHUB_ASSIGN_OR_RETURN(const std::size_t got,
                          read_some(socket, &bytes_[at], bytes_.size() - at));
    if (got == 0) return false;
    have_ += got;
  }
  return true;
}

Status Inbox::parse(google::protobuf::MessageLite& message) const {
  if (message.ParseFromString(bytes_)) return {};
  return {Code::kInvalidArgument, "does not speak the doctor's protocol"};
}

Status Channel::send(const google::protobuf::MessageLite& message) {
  const std::string bytes = framed(message);
  const auto deadline = Clock::now() + limits_.message;
  for (std::size_t sent = 0; sent < bytes.size();) {
    const long count = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EINTR) {
      PHUB_RETURN_IF_ERROR(wait_for(socket_.get(), POLLOUT, deadline, limits_, who_));
    } else {
      return {Code::kUnavailable, who_ + " has closed the connection"};
    }
  }
  return {};
}

Status Channel::receive(google::protobuf::MessageLite& message) {
  const auto deadline = Clock::now() + limits_.message;
  Inbox inbox;
  while (true) {
    const auto complete = inbox.take(socket_.get());
    if (!complete) return {complete.error().code(), who_ + " " + complete.error().message()};
    if (*complete) break;
    PHUB_RETURN_IF_ERROR(wait_for(socket_.get(), POLLIN, deadline, limits_, who_));
  }
  const Status parsed = inbox.parse(message);
  return parsed.ok() ? parsed : Status(parsed.code(), who_ + " " + parsed.message());
}

}  // namespace phub::phubctl::doctor
