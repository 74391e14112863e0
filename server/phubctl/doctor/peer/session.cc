#include "server/phubctl/doctor/peer/session.h"

#include "common/base/version.h"
#include "common/transport/handshake.h"
#include "server/phubctl/doctor/peer/blocks.h"
#include "server/phubctl/doctor/peer/hello.h"

namespace phub::phubctl::doctor {
namespace {

constexpr std::uint32_t kMostInBlock = 1U << 22U;

Status check_block(const doctor_wire::Block& block) {
  if (block.count() == 0 || block.count() > kMostInBlock) {
    return {Code::kInvalidArgument, "block.count is out of range"};
  }
  if (block.bytes() > kChunkBytes) {
    return {Code::kInvalidArgument, "block.bytes is out of range"};
  }
  return {};
}

std::string make_token() {
  const transport::Nonce nonce = transport::random_nonce();
  return {nonce.begin(), nonce.end()};
}

}  // namespace

Session::Session(const SessionOptions& options, Lobby& lobby, Visitor visitor)
    : options_(options),
      lobby_(lobby),
      hello_(std::move(visitor.hello)),
      channel_(std::move(visitor.socket), visitor.from, options.limits),
      end_(Clock::now() + options.limits.session),
      token_(make_token()) {}

Status Session::run() {
  if (hello_.protocol() != kProtocol) {
    doctor_wire::Welcome welcome = make_welcome();
    welcome.set_refusal("another version of the doctor's protocol");
    PHUB_RETURN_IF_ERROR(channel_.send(welcome));
    return {Code::kFailedPrecondition, channel_.who() + " has version " +
                                           printable(hello_.software(), kMostVersionBytes) +
                                           ", here is " + kVersion};
  }
  PHUB_RETURN_IF_ERROR(welcome());
  while (true) {
    doctor_wire::Request request;
    const Status received = channel_.receive(request);
    if (received.code() == Code::kUnavailable && !link_) return {};  // it has all it wants
    PHUB_RETURN_IF_ERROR(received);
    if (Clock::now() > end_) {
      return {Code::kDeadlineExceeded, channel_.who() + " has taken all the time of a session"};
    }
    if (request.has_open()) {
      PHUB_RETURN_IF_ERROR(on_open(request.open()));
    } else if (request.has_block()) {
      PHUB_RETURN_IF_ERROR(on_block(request.block()));
    } else if (request.has_close()) {
      PHUB_RETURN_IF_ERROR(on_close());
    } else {
      return {Code::kInvalidArgument, channel_.who() + " asks for what this version does not know"};
    }
  }
}

Status Session::welcome() {
  rdma_ = choose_end(options_.paths, options_.choices);
  doctor_wire::Welcome welcome = make_welcome();
  welcome.set_session(token_);
  *welcome.mutable_port() = to_wire(rdma_);
  return channel_.send(welcome);
}

Status Session::answer(const Status& status) {
  doctor_wire::Answer answer;
  answer.set_error(printable(status.message()));
  return channel_.send(answer);
}

Status Session::on_open(const doctor_wire::Open& open) {
  link_.reset();
  const Status opened = open_device(open.verbs());
  PHUB_RETURN_IF_ERROR(answer(opened));
  if (!opened.ok()) return {};
  const Status connected = connect();
  PHUB_RETURN_IF_ERROR(check_stop(options_.limits));
  return answer(connected);
}

Status Session::open_device(bool verbs) {
  link_options_ = {.device = nullptr,
                   .bytes = kChunkBytes,
                   .depth = kLinkDepth,
                   .patience = options_.limits.silence,
                   .interrupted = [this]() -> Status {
                     PHUB_RETURN_IF_ERROR(check_stop(options_.limits));
                     if (Clock::now() < end_) return {};
                     return {Code::kDeadlineExceeded, "the session has taken all its time"};
                   }};
  if (!verbs) return {};
  if (!rdma_.obstacle.empty()) return {Code::kFailedPrecondition, rdma_.obstacle};
  before_ = read_counters(options_.paths, rdma_.device, rdma_.port);
  PHUB_ASSIGN_OR_RETURN(
      link_options_.device,
      transport::verbs::open_device(rdma_.device, static_cast<std::uint8_t>(rdma_.port),
                                    static_cast<std::uint8_t>(rdma_.gid.index)));
  return {};
}

Result<UniqueFd> Session::next_connection() {
  const auto deadline = Clock::now() + options_.limits.connect + options_.limits.greeting;
  while (true) {
    auto visitor = lobby_.next(deadline);
    if (!visitor && visitor.error().code() == Code::kDeadlineExceeded) {
      return Status(Code::kDeadlineExceeded, "the connection to be measured did not come");
    }
    if (!visitor) return visitor.error();
    if (visitor->hello.session() == token_) return std::move(visitor->socket);
    if (visitor->hello.session().empty()) {
      refuse(std::move(*visitor), "busy with " + channel_.who() + "; try again", options_.limits);
    }
  }
}

Status Session::connect() {
  PHUB_ASSIGN_OR_RETURN(UniqueFd socket, next_connection());
  PHUB_ASSIGN_OR_RETURN(link_, transport::LinkEnd::create(link_options_, 1, std::move(socket)));
  return {};
}

Status Session::on_block(const doctor_wire::Block& block) {
  Status possible = check_block(block);
  if (!link_) possible = {Code::kFailedPrecondition, "there is no connection to measure"};
  PHUB_RETURN_IF_ERROR(answer(possible));
  if (!possible.ok()) return {};
  const Status played = play(block);
  PHUB_RETURN_IF_ERROR(check_stop(options_.limits));
  if (!played.ok()) link_.reset();  // the peer notices
  return answer(played);
}

Status Session::play(const doctor_wire::Block& block) {
  switch (block.kind()) {
    case doctor_wire::Block::PING_PONG:
      return pong(*link_, block.count(), block.bytes());
    case doctor_wire::Block::TO_LISTENER:
      return receive_bursts(*link_, block.count());
    case doctor_wire::Block::TO_PEER:
      return send_bursts(*link_, block.count());
    default:
      return {Code::kInvalidArgument, "block.kind is unknown"};
  }
}

Status Session::on_close() {
  doctor_wire::Answer answer;
  answer.set_verified(link_ && link_->verified());
  if (link_options_.device) {
    const PortCounters now = read_counters(options_.paths, rdma_.device, rdma_.port);
    for (const Counter& counter : risen(before_, now)) {
      doctor_wire::Counter& one = *answer.add_risen();
      one.set_name(counter.name);
      one.set_value(counter.value);
    }
  }
  link_.reset();
  link_options_.device.reset();
  return channel_.send(answer);
}

void refuse(Visitor visitor, const std::string& why, const Limits& limits) {
  doctor_wire::Welcome welcome = make_welcome();
  welcome.set_refusal(why);
  // If it is gone, nobody needs to know.
  [[maybe_unused]] const Status sent =
      Channel(std::move(visitor.socket), visitor.from, limits).send(welcome);
}

}  // namespace phub::phubctl::doctor
