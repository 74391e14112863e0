// The data path of fake_verbs: posting, carrying out, completing.
#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "tests/support/transports/fake_verbs_world.h"

namespace phub::fake_verbs {

World& world() {
  static World instance;
  return instance;
}

namespace {
thread_local bool inside = false;
}  // namespace

InDevice::InDevice() { inside = true; }
InDevice::~InDevice() { inside = false; }
bool in_device() { return inside; }

void World::complete(ibv_cq* cq, const ibv_wc& done) {
  auto& queue = *static_cast<Queue*>(cq);
  PHUB_CHECK(queue.done.size() < static_cast<std::size_t>(queue.cqe),
             "a completion queue overflows: hardware would end every connection");
  queue.done.push_back(done);
  if (!queue.armed) return;
  queue.armed = false;
  auto& channel = *static_cast<Channel*>(queue.channel);
  channel.events.push_back(cq);
  const char byte = 1;
  PHUB_CHECK(::write(channel.write_fd, &byte, 1) == 1, "write to a pipe");
}

bool World::may_write(const Pair& target, std::uint32_t key, std::uint64_t address,
                      std::uint64_t bytes) const {
  const auto found = regions.find(key);
  if (found == regions.end()) return false;
  const Region& region = *found->second;
  const auto start = reinterpret_cast<std::uint64_t>(region.addr);
  return region.pd == target.pd && (region.access & IBV_ACCESS_REMOTE_WRITE) != 0 &&
         address >= start && bytes <= region.length && address - start <= region.length - bytes;
}

bool World::may_read(const Pair& source, const ibv_sge& range) const {
  const auto found = regions.find(range.lkey);
  if (found == regions.end()) return false;
  const Region& region = *found->second;
  const auto start = reinterpret_cast<std::uint64_t>(region.addr);
  return region.pd == source.pd && range.addr >= start &&
         range.addr + range.length <= start + region.length;
}

std::optional<ibv_wc_status> World::write(Pair& pair, const Send& send) {
  if (fail_next) return std::exchange(fail_next, std::nullopt);
  const auto found = pairs.find(pair.peer);
  if (port_down || found == pairs.end()) return IBV_WC_RETRY_EXC_ERR;
  Pair& target = *found->second;
  if (target.now != IBV_QPS_RTR && target.now != IBV_QPS_RTS) return IBV_WC_RETRY_EXC_ERR;
  const bool notifies = send.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (notifies && target.receives.empty()) {
    ++counters.not_ready;
    return std::nullopt;
  }
  std::uint64_t bytes = 0;
  for (const ibv_sge& source : send.sources()) {
    bytes += source.length;
    if (source.length > 0 && !may_read(pair, source)) return IBV_WC_LOC_PROT_ERR;
  }
  if (bytes > 0) {
    const std::uint64_t address = send.request.wr.rdma.remote_addr;
    if (!may_write(target, send.request.wr.rdma.rkey, address, bytes)) {
      break_pair(target);
      return IBV_WC_REM_ACCESS_ERR;
    }
    const Region& to = *regions.at(send.request.wr.rdma.rkey);
    std::uint64_t place = address;
    for (const ibv_sge& source : send.sources()) {
      std::memcpy(to.at(place), regions.at(source.lkey)->at(source.addr), source.length);
      place += source.length;
    }
  }
  if (notifies) {
    ibv_wc arrived = {};
    arrived.wr_id = target.receives.front();
    arrived.status = IBV_WC_SUCCESS;
    arrived.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    arrived.byte_len = static_cast<std::uint32_t>(bytes);
    arrived.imm_data = send.request.imm_data;
    arrived.wc_flags = IBV_WC_WITH_IMM;
    arrived.qp_num = target.qp_num;
    target.receives.pop_front();
    complete(target.recv_cq, arrived);
  }
  return IBV_WC_SUCCESS;
}

void World::finish(Pair& pair, const Send& send, ibv_wc_status status) {
  if (status == IBV_WC_SUCCESS && (send.request.send_flags & IBV_SEND_SIGNALED) == 0) return;
  ibv_wc done = {};
  done.wr_id = send.request.wr_id;
  done.status = status;
  done.opcode = IBV_WC_RDMA_WRITE;
  done.qp_num = pair.qp_num;
  done.vendor_err = static_cast<std::uint32_t>(pair.completions);  // lets poll free the place
  pair.places[pair.completions++] = send.position;
  complete(pair.send_cq, done);
}

void World::break_pair(Pair& pair) {
  if (pair.now == IBV_QPS_ERR) return;
  pair.now = IBV_QPS_ERR;
  for (; !pair.pending.empty(); pair.pending.pop_front()) {
    finish(pair, pair.pending.front(), IBV_WC_WR_FLUSH_ERR);
  }
  for (; !pair.receives.empty(); pair.receives.pop_front()) {
    ibv_wc done = {};
    done.wr_id = pair.receives.front();
    done.status = IBV_WC_WR_FLUSH_ERR;
    done.qp_num = pair.qp_num;
    complete(pair.recv_cq, done);
  }
}

void World::carry_out(Pair& pair) {
  while (!behaviour.hold && pair.now == IBV_QPS_RTS && !pair.pending.empty()) {
    const Send send = pair.pending.front();
    const auto status = write(pair, send);
    if (!status) return;  // receiver not ready: tried again when it posts receives
    pair.pending.pop_front();
    finish(pair, send, *status);
    if (*status != IBV_WC_SUCCESS) break_pair(pair);
  }
}

int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) {
  const InDevice in_device;
  World& all = world();
  const std::lock_guard lock(all.mutex);
  auto& pair = *static_cast<Pair*>(qp);
  ++all.counters.send_doorbells;
  for (ibv_send_wr* request = requests; request != nullptr; request = request->next) {
    *bad = request;
    if (pair.now != IBV_QPS_RTS && pair.now != IBV_QPS_ERR) return EINVAL;
    if (pair.posted - pair.freed >= pair.depths.max_send_wr) return ENOMEM;
    Send send{.request = *request, .position = ++pair.posted};
    const auto most = std::min<std::size_t>(pair.depths.max_send_sge, send.gathered.size());
    if (static_cast<std::size_t>(request->num_sge) > most) return EINVAL;
    std::copy_n(request->sg_list, request->num_sge, send.gathered.begin());
    ++all.counters.sends;
    if ((request->send_flags & IBV_SEND_SIGNALED) != 0) ++all.counters.signaled;
    if (pair.now == IBV_QPS_ERR) {
      all.finish(pair, send, IBV_WC_WR_FLUSH_ERR);
    } else {
      pair.pending.push_back(send);
    }
  }
  all.carry_out(pair);
  return 0;
}

int post_receive(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  const InDevice in_device;
  World& all = world();
  const std::lock_guard lock(all.mutex);
  auto& pair = *static_cast<Pair*>(qp);
  ++all.counters.receive_doorbells;
  for (ibv_recv_wr* request = requests; request != nullptr; request = request->next) {
    *bad = request;
    if (pair.now == IBV_QPS_RESET) return EINVAL;
    if (pair.receives.size() >= pair.depths.max_recv_wr) return ENOMEM;
    ++all.counters.receives;
    pair.receives.push_back(request->wr_id);
  }
  const auto sender = all.pairs.find(pair.peer);
  if (sender != all.pairs.end()) all.carry_out(*sender->second);
  return 0;
}

int poll(ibv_cq* cq, int entries, ibv_wc* done) {
  const InDevice in_device;
  World& all = world();
  const std::lock_guard lock(all.mutex);
  ++all.counters.polls;
  auto& queue = *static_cast<Queue*>(cq);
  const int most = std::min(entries, all.behaviour.poll_limit);
  int count = 0;
  for (; count < most && !queue.done.empty(); ++count) {
    auto taken = queue.done.begin();
    if (all.behaviour.shuffle != 0) {  // the first completion of some queue pair
      all.behaviour.shuffle = all.behaviour.shuffle * 1664525U + 1013904223U;
      const auto other = queue.done.begin() +
                         static_cast<std::ptrdiff_t>(all.behaviour.shuffle % queue.done.size());
      taken = std::find_if(queue.done.begin(), queue.done.end(),
                           [&](const ibv_wc& wc) { return wc.qp_num == other->qp_num; });
    }
    done[count] = *taken;
    queue.done.erase(taken);
    const auto pair = all.pairs.find(done[count].qp_num);
    const bool is_send = done[count].opcode == IBV_WC_RDMA_WRITE;
    if (pair != all.pairs.end() && is_send) {
      const auto place = pair->second->places.find(done[count].vendor_err);
      pair->second->freed = std::max(pair->second->freed, place->second);
      pair->second->places.erase(place);
    }
  }
  return count;
}

int request_notification(ibv_cq* cq, int) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  static_cast<Queue*>(cq)->armed = true;
  return 0;
}

}  // namespace phub::fake_verbs
