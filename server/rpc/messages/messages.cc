#include "server/rpc/messages/messages.h"

#include <algorithm>
#include <string>

#include "common/job/message.h"

namespace phub::server {
namespace {

void fill(const JobCounters& counters, control::JobStatistics& message) {
  message.set_rounds(counters.rounds_before +
                     (counters.chunks == 0 ? 0 : counters.chunks_completed / counters.chunks));
  message.set_chunks_completed(counters.chunks_completed);
  message.set_bytes_received(counters.bytes_received);
  message.set_bytes_sent(counters.bytes_sent);
  message.set_memory_bytes(counters.memory_bytes);
  message.set_staging_bytes(counters.staging_bytes);
  message.set_chunks(counters.chunks);
  message.set_reserved_page_bytes(counters.reserved_page_bytes);
  message.set_rounds_skipped(counters.rounds_skipped);
  message.set_updates_skipped(counters.updates_skipped);
  if (counters.quorum.workers.empty()) return;
  control::QuorumStatistics& quorum = *message.mutable_quorum();
  quorum.set_rounds(counters.quorum.rounds);
  quorum.set_incomplete(counters.quorum.incomplete);
  quorum.set_graces(counters.quorum.graces);
  quorum.set_impatient(counters.quorum.impatient);
}

void fill(const WorkerStaleness& worker, control::WorkerStaleness& message) {
  message.mutable_pushes()->Add(worker.pushes.begin(), worker.pushes.end());
  message.set_dropped(worker.dropped);
  message.set_withheld(worker.withheld);
}

// What the member moved here: a rack both ways.
WorkerTraffic traffic_of(const JobView& view, const MemberView& member) {
  const JobCounters& counters = view.counters;
  if (member.rack.empty()) {
    return member.worker < counters.workers.size() ? counters.workers[member.worker]
                                                   : WorkerTraffic();
  }
  for (std::size_t rack = 0; rack < counters.racks.size(); ++rack) {
    if (view.spec->racks[rack].name != member.rack) continue;
    const auto& [above, below] = counters.racks[rack];
    return {.pushes = below.pushes,
            .bytes_received = above.bytes_received + below.bytes_received,
            .bytes_sent = above.bytes_sent + below.bytes_sent};
  }
  return {};
}

void fill_racks(const JobView& view, control::JobInfo& message) {
  const std::vector<RackSpec>& racks = view.spec->racks;
  if (racks.empty()) return;
  message.set_rack(racks[view.rack.own].name);
  for (std::size_t rack = 0; rack < racks.size(); ++rack) {
    if (rack == view.rack.own) continue;
    control::RackLink& link = *message.add_rack_links();
    link.set_rack(racks[rack].name);
    link.set_workers(racks[rack].workers);
    if (rack >= view.counters.racks.size()) continue;  // it has no memory yet
    const auto& [above, below] = view.counters.racks[rack];
    link.set_bytes_up_sent(above.bytes_sent);
    link.set_bytes_up_received(above.bytes_received);
    link.set_bytes_down_received(below.bytes_received);
    link.set_bytes_down_sent(below.bytes_sent);
  }
}

// Of a job of several racks: what is rooted in each.
void fill_roots(const PlanView& view, control::PlanReply& message) {
  const std::vector<RackTree> trees = rack_trees_of(*view.spec);
  if (trees.empty()) return;
  std::vector<std::uint32_t> roots;
  for (const RackTree& tree : trees) {
    const auto root = std::find(tree.parent.begin(), tree.parent.end(), RackTree::kNone);
    roots.push_back(static_cast<std::uint32_t>(root - tree.parent.begin()));
  }
  for (const RackSpec& rack : view.spec->racks) message.add_racks()->set_rack(rack.name);
  for (const Chunk& chunk : view.plan->chunks) {
    control::RackRoots& rack = *message.mutable_racks(static_cast<int>(roots[chunk.tree]));
    rack.set_chunks(rack.chunks() + 1);
    rack.set_bytes(rack.bytes() + chunk.elements * size_of(view.spec->wire_type));
  }
}

}  // namespace

std::string printable(std::string_view text, std::size_t chars_max) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7F) {
      if (!shown.empty() && shown.back() != ' ') shown += ' ';
    } else {
      shown += byte > 0x7F ? '?' : c == '"' ? '\'' : c;
    }
    if (shown.size() > chars_max) return shown.substr(0, chars_max) + "...";
  }
  if (shown.ends_with(' ')) shown.pop_back();
  return shown;
}

void fill(const JobView& view, Keys keys, control::JobInfo& message) {
  message.set_job_id(view.id);
  message.set_epoch(view.epoch);
  message.set_tenant(view.tenant);
  static_assert(control::JOB_STATE_FAILED == static_cast<int>(JobState::kFailed));
  message.set_state(static_cast<control::JobState>(view.state));
  message.set_reason(view.reason);
  message.set_cure(cure_of(view));
  fill(*view.spec, *message.mutable_spec());
  if (keys == Keys::kIncluded) add_keys(view.spec->keys, *message.mutable_spec());
  fill(view.counters, *message.mutable_statistics());
  if (view.snapshots.taken + view.snapshots.failed > 0) {
    control::SnapshotStatistics& snapshots = *message.mutable_statistics()->mutable_snapshots();
    snapshots.set_taken(view.snapshots.taken);
    snapshots.set_failed(view.snapshots.failed);
    snapshots.set_last_failure(view.snapshots.last_failure);
  }
  fill_racks(view, message);
  for (const MemberView& member : view.members) {
    control::Member* const entry = message.add_members();
    entry->set_worker_index(member.index);
    entry->set_rack(member.rack);
    entry->set_host(member.host);
    entry->set_process_id(member.process_id);
    entry->set_transport(member.transport);
    entry->set_transport_reason(member.transport_reason);
    entry->set_heartbeat_age_ms(static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(member.heartbeat_age.count(), 0, UINT32_MAX)));
    entry->set_left(member.has_left);
    entry->set_lost(member.was_lost);
    if (member.worker < view.counters.quorum.workers.size()) {
      fill(view.counters.quorum.workers[member.worker], *entry->mutable_staleness());
    }
    fill_values(view, member.worker, *entry);
    fill_corruption(view, member.worker, *entry);
    if (member.step_waits) fill(*member.step_waits, *entry->mutable_step_waits());
    const WorkerTraffic traffic = traffic_of(view, member);
    entry->set_pushes(traffic.pushes);
    entry->set_bytes_received(traffic.bytes_received);
    entry->set_bytes_sent(traffic.bytes_sent);
  }
}

void fill_loads(const PlanView& view,
                google::protobuf::RepeatedPtrField<control::CoreLoad>& loads) {
  const Plan& plan = *view.plan;
  const std::uint64_t element_bytes = size_of(view.spec->wire_type);
  for (std::uint32_t server = 0; server < plan.core_chunks.size(); ++server) {
    for (std::uint32_t core = 0; core < plan.core_chunks[server].size(); ++core) {
      const std::vector<std::uint32_t>& chunks = plan.core_chunks[server][core];
      std::uint64_t elements = 0;
      for (const std::uint32_t chunk : chunks) elements += plan.chunks[chunk].elements;
      control::CoreLoad* const load = loads.Add();
      load->set_server(server);
      load->set_core(core);
      load->set_chunks(chunks.size());
      load->set_bytes(elements * element_bytes);
    }
  }
}

void fill(const PlanView& view, control::PlanReply& message) {
  const Plan& plan = *view.plan;
  message.set_hash(plan.hash);
  message.set_chunk_bytes(view.spec->chunk_bytes);
  message.set_is_preview(view.is_preview);
  message.set_whole_keys(needs_whole_keys(view.spec->rule));
  fill_loads(view, *message.mutable_loads());
  fill_roots(view, message);
  fill_ports(view, message);
  for (std::uint32_t index = 0; index < plan.chunks.size(); ++index) {
    const Chunk& chunk = plan.chunks[index];
    control::PlanChunk* const entry = message.add_chunks();
    entry->set_chunk(index);
    entry->set_server(chunk.server);
    entry->set_core(chunk.core);
    entry->set_elements(chunk.elements);
    entry->set_first_key(view.spec->keys[plan.segments[chunk.first_segment].key].name);
    entry->set_keys(chunk.segment_count);
  }
}

}  // namespace phub::server
