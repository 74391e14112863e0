#include "common/exchange/exchange.h"

#include <cstring>

#include "common/protocol/wire.h"

namespace phub::client {

using transport::Completion;
using transport::CompletionKind;

Exchange::Exchange(std::shared_ptr<const Plan> plan, DataType wire_type, bool leader,
                   const std::vector<std::uint32_t>& streams)
    : plan_(std::move(plan)),
      leader_(leader),
      source_{.plan = *plan_, .element_bytes = size_of(wire_type)},
      due_(*plan_, wire_type),
      connections_(*plan_, streams),
      needed_(connections_.all().size()),
      lanes_(due_, static_cast<std::uint32_t>(needed_.size())) {
  if (connections_.have_streams()) lanes_.expect_streams();
}

void Exchange::use_memory(const ExchangeMemory& memory) {
  connections_.use_lines(memory.hyper);
  if (memory.norms != nullptr) {
    norms_.emplace();
    std::byte* norm = memory.norms;
    for (CoreConnection& connection : connections_.firsts()) {
      norms_->add(!connection.chunks().empty());
      connection.hear_norms_at(norm);
      norm += wire::kHyperStride;
    }
  }
  source_.gradients = memory.gradients;
  source_.checksums = memory.checksums;
  lanes_.use_checksums(memory.checksums);
  due_.land_in(memory.parameters);
  due_.land_sparse_in(memory.sparse_replies);
}

void Exchange::start(KeyId key) {
  const std::span<CoreConnection> all = connections_.all();
  if (connections_.have_streams()) {
    return due_.push(key, [&](const Chunk& chunk) {
      all[connections_.stream_of(chunk)].push(chunk.slot, due_.least_bytes_of(chunk));
    });
  }
  due_.push(key, [&](const Chunk& chunk) {
    all[connections_.first_of(chunk)].push(chunk.slot, due_.least_bytes_of(chunk));
  });
}

void Exchange::set_hyper(const Hyper& hyper) {
  if (!leader_) return;
  for (CoreConnection& connection : connections_.all()) connection.set_hyper(hyper);
}

void Exchange::vote(const Vote& vote) {
  for (CoreConnection& connection : connections_.firsts()) {
    if (!connection.chunks().empty()) connection.vote(vote);
  }
}

bool Exchange::run_once() {
  for (CoreConnection& connection : connections_.all()) {
    if (connection.has_something_to_send()) bytes_pushed_.add(connection.send(source_));
  }
  bool any = false;
  for (const auto& lane : lanes_.all()) any = drain(*lane) || any;
  return any;
}

bool Exchange::drain(EndpointLane& lane) {
  const std::size_t count = lane.endpoint().poll(completions_);
  for (std::size_t i = 0; i < count; ++i) {
    const Completion& completion = completions_[i];
    CoreConnection& connection = *lane.at(completion.peer).connection;
    if (completion.kind == CompletionKind::kArrived) {
      on_reply(connection, completion);
    } else if (completion.kind == CompletionKind::kPeerLost) {
      fail(connection, completion.loss);
    }
  }
  return count > 0;
}

void Exchange::on_reply(CoreConnection& connection, const Completion& arrived) {
  if (!wire::same_epoch(arrived.immediate, connection.where().epoch)) return;
  if (norms_ && wire::slot_of(arrived.immediate) == wire::kNormSlot) {
    return on_norm(connection, arrived);
  }
  const transport::Loss loss = due_.take(connection.chunks(), arrived);
  if (loss != transport::Loss::kNone) return fail(connection, loss);
  bytes_received_.add(arrived.bytes);
  if (!due_.may_be_sparse()) return connection.on_reply(arrived.bytes);
  const std::uint32_t id = connection.chunks()[wire::reply_slot_of(arrived.immediate)];
  connection.on_reply(due_.least_bytes_of(plan_->chunks[id]));
}

// When the last core has told its part, all are told the sum.
void Exchange::on_norm(const CoreConnection& connection, const transport::Completion& arrived) {
  const std::size_t index = connections_.index_of(connection);
  double squares = 0.0;
  if (arrived.bytes != sizeof(squares)) return fail(connection, transport::Loss::kBadLength);
  std::memcpy(&squares, arrived.data, sizeof(squares));
  if (!norms_->hear(index, squares)) return fail(connection, transport::Loss::kBadFrame);
  if (!norms_->is_whole()) return;
  const double sum = norms_->take_sum();
  const std::span<CoreConnection> cores = connections_.firsts();
  for (std::size_t other = 0; other < cores.size(); ++other) {
    if (norms_->tells(other)) cores[other].tell_norm(sum);
  }
}

void Exchange::fail(const CoreConnection& connection, transport::Loss loss) {
  if (loss_) return;
  loss_ = ConnectionLoss{connection.where().server, connection.where().core, loss};
}

void Exchange::expect(std::optional<KeyId> key) {
  if (norms_) return expect_any();  // what a core tells is to be passed on at once
  if (!key) {
    for (CoreConnection& connection : connections_.all()) connection.expect(connection.due());
    return;
  }
  needed_.assign(needed_.size(), {});
  const std::uint32_t first = plan_->first_chunk[*key];
  for (std::uint32_t id = first; id < first + plan_->chunk_count[*key]; ++id) {
    const Chunk& chunk = plan_->chunks[id];
    if (due_.is_due(id)) needed_[connections_.stream_of(chunk)].add(due_.least_bytes_of(chunk));
  }
  const std::span<CoreConnection> all = connections_.all();
  for (std::size_t i = 0; i < needed_.size(); ++i) all[i].expect(needed_[i]);
}

void Exchange::expect_any() {
  for (CoreConnection& connection : connections_.all()) connection.expect({.count = 1, .bytes = 0});
}

}  // namespace phub::client
