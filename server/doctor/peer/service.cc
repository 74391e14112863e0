#include "server/doctor/peer/service.h"

#include <grpcpp/server_context.h>
#include <sys/socket.h>

#include "common/base/version.h"
#include "common/rpc/status.h"
#include "common/transport/handshake.h"
#include "common/transport/tcp/congestion.h"
#include "server/doctor/peer/blocks.h"

namespace phub::doctor {
namespace {

constexpr std::uint32_t kMostInBlock = 1U << 22U;

// "127.0.0.1:40000", "[::1]:40000".
std::string address_of(const server::ControlPeer& peer) {
  return peer.address.substr(peer.address.find(':') + 1);
}

// Takes as long wherever they differ.
bool is_same(const std::string& ticket, const std::string& given) {
  if (ticket.size() != given.size()) return false;
  unsigned differences = 0;
  for (std::size_t i = 0; i < ticket.size(); ++i) {
    differences |= static_cast<unsigned>(ticket[i] ^ given[i]);
  }
  return differences == 0;
}

// Nobody can guess it.
std::string make_token() {
  const transport::Nonce nonce = transport::random_nonce();
  std::string token(nonce.begin(), nonce.end());
  token[0] = kTokenMark;
  return token;
}

}  // namespace

Visit::Visit(const ListenOptions& options, std::string who)
    : options_(options),
      who_(std::move(who)),
      end_(Clock::now() + options.limits.meeting),
      rdma_(choose_end(options.paths, options.choices)) {}

Status Visit::interrupted() const {
  PHUB_RETURN_IF_ERROR(check_stop(options_.limits));
  if (Clock::now() < end_) return {};
  return {Code::kDeadlineExceeded, who_ + " has taken all the time of a meeting"};
}

Status Visit::open(bool verbs) {
  link_.reset();
  link_options_ = {.device = nullptr,
                   .bytes = kChunkBytes,
                   .depth = kLinkDepth,
                   .patience = options_.limits.silence,
                   .interrupted = [this] { return interrupted(); }};
  if (!verbs) return {};
  if (!rdma_.obstacle.empty()) return {Code::kFailedPrecondition, rdma_.obstacle};
  before_ = counters_of(options_.paths, rdma_);
  PHUB_ASSIGN_OR_RETURN(
      link_options_.device,
      transport::verbs::open_device(rdma_.device, static_cast<std::uint8_t>(rdma_.port),
                                    static_cast<std::uint8_t>(rdma_.gid.index)));
  return {};
}

Status Visit::connect(UniqueFd socket) {
  PHUB_ASSIGN_OR_RETURN(const auto control, transport::CongestionControl::parse("auto"));
  control.prepare(socket.get());
  control.settle(socket.get());
  PHUB_ASSIGN_OR_RETURN(link_, transport::LinkEnd::create(link_options_, 1, std::move(socket)));
  return {};
}

Status Visit::play(const doctor_wire::Block& block) {
  if (!link_) return {Code::kFailedPrecondition, "there is no connection to measure"};
  if (block.count() == 0 || block.count() > kMostInBlock) {
    return {Code::kInvalidArgument, "block.count is out of range"};
  }
  if (block.bytes() > kChunkBytes) {
    return {Code::kInvalidArgument, "block.bytes is out of range"};
  }
  if (!doctor_wire::Block::Kind_IsValid(block.kind())) {
    return {Code::kInvalidArgument, "block.kind is unknown"};
  }
  const auto part = [&]() -> Status {
    PHUB_RETURN_IF_ERROR(link_->send(1, 1, kPingBytes));
    if (block.kind() == doctor_wire::Block::PING_PONG) {
      return pong(*link_, block.count(), block.bytes());
    }
    return block.kind() == doctor_wire::Block::TO_LISTENER
               ? receive_bursts(*link_, block.count())
               : send_bursts(*link_, block.count(), block.bytes());
  };
  const Status played = part();
  if (!played.ok()) link_.reset();  // the peer notices
  return played;
}

doctor_wire::Found Visit::close() {
  doctor_wire::Found found;
  found.set_verified(link_ && link_->verified());
  if (link_options_.device) {
    for (const Counter& counter : risen(before_, counters_of(options_.paths, rdma_))) {
      doctor_wire::Counter& one = *found.add_risen();
      one.set_name(counter.name);
      one.set_value(counter.value);
    }
  }
  link_.reset();
  link_options_.device.reset();
  return found;
}

void DoctorService::offer(UniqueFd socket) {
  const std::lock_guard lock(mutex_);
  std::string first(token_.size(), '\0');
  // So few bytes come together. No byte behind them is read: those are the transport's.
  const long got = ::recv(socket.get(), first.data(), first.size(), MSG_DONTWAIT);
  if (got <= 0 || first != token_) return;
  socket_ = std::move(socket);
  has_come_.notify_one();
}

void DoctorService::look() {
  const std::lock_guard lock(mutex_);
  if (!visit_ || is_in_step_) return;
  const Status over = visit_->interrupted();
  if (!over.ok()) {
    end(over);
  } else if (Clock::now() >= heard_ + options_.limits.message) {
    end({Code::kDeadlineExceeded, "is silent"});
  }
}

void DoctorService::stop() {
  const std::lock_guard lock(mutex_);
  if (visit_) end(check_stop(options_.limits));
}

bool DoctorService::has_met() const {
  const std::lock_guard lock(mutex_);
  return visit_ || first_;
}

std::optional<Status> DoctorService::first() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

void DoctorService::end(const Status& status) {
  if (status.code() != Code::kAborted) {
    say_(visit_->who() + ": " + (status.ok() ? "done" : status.message()));
  }
  if (!first_) first_ = status.ok() ? status : status.with_context(visit_->who());
  visit_.reset();
  token_.clear();
  socket_.reset();
}

grpc::Status DoctorService::step(const Context& context, const std::function<Status()>& act,
                                 bool is_last) {
  const auto& metadata = context.client_metadata();
  const auto token = metadata.find(kTokenMetadata);
  {
    const std::lock_guard lock(mutex_);
    if (!visit_ || is_in_step_ || token == metadata.end() || token->second != token_) {
      return to_grpc({Code::kPermissionDenied, "there is no such meeting, or it has ended"});
    }
    is_in_step_ = true;
  }
  Status done = visit_->interrupted();
  if (done.ok()) done = act();
  const std::lock_guard lock(mutex_);
  is_in_step_ = false;
  heard_ = Clock::now();
  if (is_last) {
    end({});
  } else if (context.IsCancelled()) {
    end({Code::kUnavailable, "is gone"});
  }
  return to_grpc(done);
}

Result<UniqueFd> DoctorService::take(const Context& context) {
  const auto deadline = Clock::now() + options_.limits.connect + options_.limits.greeting;
  std::unique_lock lock(mutex_);
  while (!has_come_.wait_for(lock, kSlice, [this] { return static_cast<bool>(socket_); })) {
    PHUB_RETURN_IF_ERROR(check_stop(options_.limits));
    if (context.IsCancelled() || Clock::now() > deadline) {
      return Status(Code::kDeadlineExceeded, "the connection to be measured did not come");
    }
  }
  return std::move(socket_);
}

grpc::Status DoctorService::Meet(Context* context, const Visitor* visitor, Welcome* welcome) {
  const std::lock_guard lock(mutex_);
  if (!is_same(options_.ticket, visitor->ticket())) {
    return to_grpc({Code::kPermissionDenied, "its ticket is not this meeting's"});
  }
  if (visit_ || (options_.once && first_)) {
    return to_grpc({Code::kResourceExhausted,
                    visit_ ? "busy with " + visit_->who() : "it measures with one peer only"});
  }
  visit_.emplace(options_,
                 address_of(peers_.find(context->peer()).value_or(server::ControlPeer())) + " (" +
                     printable(visitor->host(), kMostHostBytes) + ")");
  token_ = make_token();
  heard_ = Clock::now();
  port_.know(context->peer(), "");  // its connection gives way to no stranger
  say_(visit_->who() + ": measuring");
  welcome->set_token(token_);
  welcome->set_software(kVersion);
  welcome->set_host(printable(host_name(), kMostHostBytes));
  *welcome->mutable_port() = to_wire(visit_->rdma());
  return {};
}

grpc::Status DoctorService::Open(Context* context, const Link* link, Nothing*) {
  return step(*context, [&] { return visit_->open(link->verbs()); });
}

grpc::Status DoctorService::Connect(Context* context, const Nothing*, Nothing*) {
  return step(*context, [&]() -> Status {
    PHUB_ASSIGN_OR_RETURN(UniqueFd socket, take(*context));
    return visit_->connect(std::move(socket));
  });
}

grpc::Status DoctorService::Play(Context* context, const Block* block, Nothing*) {
  return step(*context, [&] { return visit_->play(*block); });
}

grpc::Status DoctorService::Close(Context* context, const Nothing*, Found* found) {
  return step(*context, [&]() -> Status {
    *found = visit_->close();
    return {};
  });
}

grpc::Status DoctorService::Leave(Context* context, const Nothing*, Nothing*) {
  return step(
      *context, [] { return Status(); }, true);
}

}  // namespace phub::doctor
