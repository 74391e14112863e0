// What fake_verbs is made of. Everything is guarded by World::mutex.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "tests/support/transports/fake_verbs.h"

namespace phub::fake_verbs {

struct Channel : ibv_comp_channel {
  int write_fd = -1;
  std::deque<ibv_cq*> events;
};

struct Queue : ibv_cq {
  std::deque<ibv_wc> done;
  bool armed = false;
};

struct Region : ibv_mr {
  int access = 0;
  std::byte* place = nullptr;  // where the device finds what requests call `addr`
  std::size_t mapped = 0;      // bytes there that are the region's own mapping

  std::byte* at(std::uint64_t address) const {
    return place + (address - reinterpret_cast<std::uint64_t>(addr));
  }
};

struct Send {
  ibv_send_wr request = {};
  std::array<ibv_sge, 2> gathered = {};
  std::uint64_t position = 0;

  std::span<const ibv_sge> sources() const {
    return std::span(gathered).first(static_cast<std::size_t>(request.num_sge));
  }
};

struct Pair : ibv_qp {
  ibv_qp_cap depths = {};
  ibv_qp_state now = IBV_QPS_RESET;
  std::uint32_t peer = 0;
  std::deque<Send> pending;  // not carried out yet
  std::deque<std::uint64_t> receives;
  std::uint64_t posted = 0;  // sends, ever
  std::uint64_t freed = 0;   // of which a polled completion has freed the place
  std::map<std::uint64_t, std::uint64_t> places;  // completions to come: number -> position
  std::uint64_t completions = 0;
};

struct World {
  std::mutex mutex;
  Behaviour behaviour;
  Counters counters;
  std::optional<ibv_wc_status> fail_next;
  bool port_down = false;
  int objects = 0;
  std::uint32_t next_pair = 17;
  std::uint32_t next_key = 1000;
  std::map<std::uint32_t, Pair*> pairs;
  std::map<std::uint32_t, Region*> regions;

  void complete(ibv_cq* queue, const ibv_wc& done);
  void carry_out(Pair& pair);
  // What becomes of one write: a status, or nothing when it has to wait.
  std::optional<ibv_wc_status> write(Pair& pair, const Send& send);
  void finish(Pair& pair, const Send& send, ibv_wc_status status);
  void break_pair(Pair& pair);
  bool may_write(const Pair& target, std::uint32_t key, std::uint64_t address,
                 std::uint64_t bytes) const;
  bool may_read(const Pair& source, const ibv_sge& range) const;
};

World& world();

// One for each call that a data path makes.
class InDevice {
 public:
  InDevice();
  ~InDevice();
  InDevice(const InDevice&) = delete;
  InDevice& operator=(const InDevice&) = delete;
};

int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad);
int post_receive(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad);
int poll(ibv_cq* cq, int entries, ibv_wc* done);
int request_notification(ibv_cq* cq, int solicited_only);

}  // namespace phub::fake_verbs
