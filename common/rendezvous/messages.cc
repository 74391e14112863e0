#include "common/rendezvous/messages.h"

#include <algorithm>

#include "common/protocol/job_enums.h"

namespace phub::client {
namespace {

// Far below what a request may have, so that what is counted roughly does not matter.
constexpr std::size_t kPartBytes = 32 * 1024;

}  // namespace

void fill(const JobDescription& job, control::JobSpec& message) {
  message.set_name(job.name);
  message.set_workers(job.workers);
  message.set_wire_type(message_of(job.wire_type));
  message.set_rule(message_of(job.rule));
  message.set_order(job.deterministic ? control::ORDER_DETERMINISTIC : control::ORDER_ARRIVAL);
  message.set_chunk_bytes(job.chunk_bytes);
  message.set_learning_rate(job.hyper.learning_rate);
  message.set_momentum(job.hyper.momentum);
  message.set_gradient_scale(job.hyper.gradient_scale);
  message.set_loss_scaling(message_of(job.loss_scale.kind));
  message.set_loss_scale(job.loss_scale.factor);
  if (job.rule == RuleKind::kLars) {
    message.set_trust_coefficient(job.lars.coefficient);
    message.set_trust_epsilon(job.lars.epsilon);
  }
}

std::size_t add_keys(const std::vector<KeySpec>& keys, std::size_t first,
                     control::JobSpec& message) {
  std::size_t bytes = 0;
  std::size_t next = first;
  for (; next < keys.size() && bytes < kPartBytes; ++next) {
    const KeySpec& key = keys[next];
    control::Key* const entry = message.add_keys();
    entry->set_name(key.name);
    entry->set_elements(key.elements);
    entry->set_weight_decay(key.weight_decay);
    entry->set_plain(key.plain);
    bytes += entry->ByteSizeLong();
  }
  return next;
}

std::optional<RdmaPort> port_from(const control::RdmaPort& message) {
  using transport::verbs::GidType;
  using transport::verbs::LinkLayer;
  RdmaPort port{.device = message.device(),
                .link_layer = message.infiniband() ? LinkLayer::kInfiniBand : LinkLayer::kEthernet,
                .gid = {}};
  if (message.gid().size() != port.gid.bytes.size() ||
      message.gid_type() > static_cast<std::uint32_t>(GidType::kRoceV2)) {
    return std::nullopt;
  }
  std::copy(message.gid().begin(), message.gid().end(), port.gid.bytes.begin());
  port.gid.type = static_cast<GidType>(message.gid_type());
  return port;
}

}  // namespace phub::client
