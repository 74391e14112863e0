// A libibverbs that lives in the process: link it instead of the real one. Its queue pairs carry
// RDMA writes between each other, check keys, bounds, domains and queue depths as hardware does,
// and fail when they are told to. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace phub::fake_verbs {

struct Counters {
  std::uint64_t sends = 0;           // work requests
  std::uint64_t send_doorbells = 0;  // calls of ibv_post_send
  std::uint64_t receives = 0;
  std::uint64_t receive_doorbells = 0;
  std::uint64_t signaled = 0;
  std::uint64_t polls = 0;
  std::uint64_t not_ready = 0;  // writes that found no receive, each time that they were tried
};

struct Behaviour {
  int max_qp_wr = 16384;
  int max_cqe = 65536;
  bool port_active = true;
  int registrations = -1;  // that still succeed, as with a low memlock; -1: all
  bool dmabuf = false;     // the device registers dma-bufs: files that can be mapped
  // A module for peer memory: knows where this range, which no CPU can read, really is.
  std::span<std::byte> peer_memory{};
  std::byte* peer_memory_place = nullptr;
  bool refuse_resize = false;
  bool hold = false;                  // writes wait in the send queue until `release`
  int poll_limit = 1024;              // completions that one poll returns at most
  std::function<void()> on_register;  // called by each registration, which waits for it
  unsigned shuffle = 0;  // not 0: polls mix the completions of different queue pairs, by this seed
};

// Restores the defaults and the counters. REQUIRES: no object is left.
void reset();
Behaviour& behaviour();  // set it while no other thread calls verbs
Counters counters();
int live_objects();

// True while this thread is inside the fake: what it allocates there is the device's.
bool in_device();

// Lets held writes go.
void release();
// The next write that is carried out completes with `status` instead, and its queue pair breaks.
void fail_next_write(ibv_wc_status status);
// The device's port goes down: every queue pair retries in vain.
void take_port_down();

}  // namespace phub::fake_verbs
