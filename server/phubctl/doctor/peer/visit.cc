#include "server/phubctl/doctor/peer/visit.h"

#include "common/transport/tcp/congestion.h"
#include "server/phubctl/doctor/peer/blocks.h"

namespace phub::phubctl::doctor {
namespace {

constexpr std::uint32_t kMostInBlock = 1U << 22U;

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
  before_ = read_counters(options_.paths, rdma_.device, rdma_.port);
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
    return block.kind() == doctor_wire::Block::TO_LISTENER ? receive_bursts(*link_, block.count())
                                                           : send_bursts(*link_, block.count());
  };
  const Status played = part();
  if (!played.ok()) link_.reset();  // the peer notices
  return played;
}

doctor_wire::Found Visit::close() {
  doctor_wire::Found found;
  found.set_verified(link_ && link_->verified());
  if (link_options_.device) {
    const PortCounters now = read_counters(options_.paths, rdma_.device, rdma_.port);
    for (const Counter& counter : risen(before_, now)) {
      doctor_wire::Counter& one = *found.add_risen();
      one.set_name(counter.name);
      one.set_value(counter.value);
    }
  }
  link_.reset();
  link_options_.device.reset();
  return found;
}

}  // namespace phub::phubctl::doctor
