// The libibverbs functions that PHub calls, for one device of one port.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "common/base/check.h"
#include "tests/support/transports/fake_verbs_world.h"

namespace phub::fake_verbs {

void reset() {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  PHUB_CHECK(all.objects == 0, "every verbs object is destroyed before reset");
  all.behaviour = {};
  all.counters = {};
  all.fail_next.reset();
  all.port_down = false;
}

Behaviour& behaviour() { return world().behaviour; }

Counters counters() {
  const std::lock_guard lock(world().mutex);
  return world().counters;
}

int live_objects() {
  const std::lock_guard lock(world().mutex);
  return world().objects;
}

void release() {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  all.behaviour.hold = false;
  for (auto& [number, pair] : all.pairs) all.carry_out(*pair);
}

void fail_next_write(ibv_wc_status status) {
  const std::lock_guard lock(world().mutex);
  world().fail_next = status;
}

void take_port_down() {
  const std::lock_guard lock(world().mutex);
  world().port_down = true;
}

namespace {

std::array<std::uint8_t, 16> gid_bytes() {  // ::ffff:192.0.2.1
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 1};
}

template <typename T>
int destroyed(T* object) {
  --world().objects;
  delete object;
  return 0;
}

// Where a registration finds the memory: the address itself, or what the module for peer memory
// says. Null: nobody can read there. The kernel's own copy tells that without a signal.
std::byte* place_of(std::byte* address, std::size_t bytes) {
  const Behaviour& behaviour = world().behaviour;
  const std::span<std::byte> peer = behaviour.peer_memory;
  if (address >= peer.data() && address + bytes <= peer.data() + peer.size() && !peer.empty()) {
    return behaviour.peer_memory_place + (address - peer.data());
  }
  std::byte read{};
  const iovec to = {&read, 1};
  const iovec from = {address, 1};
  return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == 1 ? address : nullptr;
}

// Null, with errno, when no more can be registered. REQUIRES: the lock.
Region* made_region(ibv_pd* domain, void* address, std::byte* place, std::size_t bytes,
                    int access) {
  int& left = world().behaviour.registrations;
  if (left == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  if (left > 0) --left;
  auto* region = new Region{};
  region->context = domain->context;
  region->pd = domain;
  region->addr = address;
  region->length = bytes;
  region->access = access;
  region->place = place;
  region->lkey = region->rkey = world().next_key++;
  world().regions[region->rkey] = region;
  ++world().objects;
  return region;
}

}  // namespace
}  // namespace phub::fake_verbs

using phub::fake_verbs::world;
namespace fake = phub::fake_verbs;

extern "C" {

struct ibv_device** ibv_get_device_list(int* count) {
  static ibv_device device = [] {
    ibv_device made = {};
    std::strcpy(made.name, "fake0");
    made.transport_type = IBV_TRANSPORT_IB;
    made.node_type = IBV_NODE_CA;
    return made;
  }();
  auto** list = new ibv_device* [2] { &device, nullptr };
  if (count != nullptr) *count = 1;
  return list;
}

void ibv_free_device_list(struct ibv_device** list) { delete[] list; }
const char* ibv_get_device_name(struct ibv_device* device) { return device->name; }

struct ibv_context* ibv_open_device(struct ibv_device* device) {
  auto* context = new ibv_context{};
  context->device = device;
  context->ops.post_send = fake::post_send;
  context->ops.post_recv = fake::post_receive;
  context->ops.poll_cq = fake::poll;
  context->ops.req_notify_cq = fake::request_notification;
  const std::lock_guard lock(world().mutex);
  ++world().objects;
  return context;
}

int ibv_close_device(struct ibv_context* context) {
  const std::lock_guard lock(world().mutex);
  return fake::destroyed(context);
}

int ibv_query_device(struct ibv_context*, struct ibv_device_attr* attributes) {
  *attributes = {};
  attributes->max_qp = 1024;
  attributes->max_qp_wr = world().behaviour.max_qp_wr;
  attributes->max_cqe = world().behaviour.max_cqe;
  attributes->max_mr_size = ~0ULL;
  attributes->phys_port_cnt = 1;
  return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context*, uint8_t port, struct _compat_ibv_port_attr* compat) {
  if (port != 1) return EINVAL;
  auto* attributes = reinterpret_cast<ibv_port_attr*>(compat);
  attributes->state = world().behaviour.port_active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes->active_mtu = IBV_MTU_4096;
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  attributes->gid_tbl_len = 1;
  return 0;
}

int ibv_query_gid(struct ibv_context*, uint8_t, int index, union ibv_gid* gid) {
  if (index != 0) {
    errno = EINVAL;
    return -1;
  }
  const auto bytes = fake::gid_bytes();
  std::memcpy(gid->raw, bytes.data(), bytes.size());
  return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context*, struct ibv_gid_entry* entries, size_t most,
                             uint32_t, size_t) {
  if (most < 1) return -EINVAL;
  entries[0] = {};
  const auto bytes = fake::gid_bytes();
  std::memcpy(entries[0].gid.raw, bytes.data(), bytes.size());
  entries[0].port_num = 1;
  entries[0].gid_type = IBV_GID_TYPE_ROCE_V2;
  return 1;
}

struct ibv_pd* ibv_alloc_pd(struct ibv_context* context) {
  auto* domain = new ibv_pd{};
  domain->context = context;
  const std::lock_guard lock(world().mutex);
  ++world().objects;
  return domain;
}

int ibv_dealloc_pd(struct ibv_pd* domain) {
  const std::lock_guard lock(world().mutex);
  return fake::destroyed(domain);
}

#undef ibv_reg_mr
struct ibv_mr* ibv_reg_mr(struct ibv_pd* domain, void* address, size_t bytes, int access) {
  if (const auto on_register = world().behaviour.on_register) on_register();
  const std::lock_guard lock(world().mutex);
  auto* place = fake::place_of(static_cast<std::byte*>(address), bytes);
  if (place == nullptr) {
    errno = EFAULT;
    return nullptr;
  }
  return fake::made_region(domain, address, place, bytes, access);
}

struct ibv_mr* ibv_reg_mr_iova2(struct ibv_pd* domain, void* address, size_t bytes, uint64_t,
                                unsigned int access) {
  return ibv_reg_mr(domain, address, bytes, static_cast<int>(access));
}

// The device's way to a "GPU's" memory is a mapping of its own of the descriptor's file.
struct ibv_mr* ibv_reg_dmabuf_mr(struct ibv_pd* domain, uint64_t offset, size_t bytes,
                                 uint64_t address, int fd, int access) {
  const std::lock_guard lock(world().mutex);
  if (!world().behaviour.dmabuf) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  void* place =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (place == MAP_FAILED) return nullptr;
  fake::Region* region = fake::made_region(domain, reinterpret_cast<void*>(address),
                                           static_cast<std::byte*>(place), bytes, access);
  if (region == nullptr) {
    ::munmap(place, bytes);
    errno = ENOMEM;
    return nullptr;
  }
  region->mapped = bytes;
  return region;
}

int ibv_dereg_mr(struct ibv_mr* mr) {
  const std::lock_guard lock(world().mutex);
  auto* region = static_cast<fake::Region*>(mr);
  world().regions.erase(mr->rkey);
  if (region->mapped > 0) ::munmap(region->place, region->mapped);
  return fake::destroyed(region);
}

struct ibv_comp_channel* ibv_create_comp_channel(struct ibv_context* context) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return nullptr;
  auto* channel = new fake::Channel{};
  channel->context = context;
  channel->fd = fds[0];
  channel->write_fd = fds[1];
  const std::lock_guard lock(world().mutex);
  ++world().objects;
  return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel* channel) {
  auto* own = static_cast<fake::Channel*>(channel);
  ::close(own->fd);
  ::close(own->write_fd);
  const std::lock_guard lock(world().mutex);
  return fake::destroyed(own);
}

struct ibv_cq* ibv_create_cq(struct ibv_context* context, int entries, void*,
                             struct ibv_comp_channel* channel, int) {
  auto* queue = new fake::Queue{};
  queue->context = context;
  queue->channel = channel;
  queue->cqe = entries;
  const std::lock_guard lock(world().mutex);
  ++world().objects;
  return queue;
}

int ibv_resize_cq(struct ibv_cq* queue, int entries) {
  const std::lock_guard lock(world().mutex);
  if (world().behaviour.refuse_resize || entries > world().behaviour.max_cqe) return EINVAL;
  queue->cqe = entries;
  return 0;
}

int ibv_destroy_cq(struct ibv_cq* queue) {
  const std::lock_guard lock(world().mutex);
  return fake::destroyed(static_cast<fake::Queue*>(queue));
}

int ibv_get_cq_event(struct ibv_comp_channel* channel, struct ibv_cq** queue, void** context) {
  auto* own = static_cast<fake::Channel*>(channel);
  char byte = 0;
  if (::read(own->fd, &byte, 1) != 1) return -1;
  const std::lock_guard lock(world().mutex);
  *queue = own->events.front();
  *context = nullptr;
  own->events.pop_front();
  return 0;
}

void ibv_ack_cq_events(struct ibv_cq*, unsigned int) {}

struct ibv_qp* ibv_create_qp(struct ibv_pd* domain, struct ibv_qp_init_attr* attributes) {
  const std::lock_guard lock(world().mutex);
  auto* pair = new fake::Pair{};
  pair->context = domain->context;
  pair->pd = domain;
  pair->send_cq = attributes->send_cq;
  pair->recv_cq = attributes->recv_cq;
  pair->qp_type = attributes->qp_type;
  pair->depths = attributes->cap;
  pair->qp_num = world().next_pair++;
  world().pairs[pair->qp_num] = pair;
  ++world().objects;
  return pair;
}

int ibv_modify_qp(struct ibv_qp* qp, struct ibv_qp_attr* attributes, int) {
  const std::lock_guard lock(world().mutex);
  auto* pair = static_cast<fake::Pair*>(qp);
  const ibv_qp_state next = attributes->qp_state;
  const bool forward = (pair->now == IBV_QPS_RESET && next == IBV_QPS_INIT) ||
                       (pair->now == IBV_QPS_INIT && next == IBV_QPS_RTR) ||
                       (pair->now == IBV_QPS_RTR && next == IBV_QPS_RTS);
  if (!forward) return EINVAL;
  pair->now = next;
  if (next == IBV_QPS_RTR) pair->peer = attributes->dest_qp_num;
  return 0;
}

int ibv_destroy_qp(struct ibv_qp* qp) {
  const std::lock_guard lock(world().mutex);
  world().pairs.erase(qp->qp_num);
  return fake::destroyed(static_cast<fake::Pair*>(qp));
}

}  // extern "C"
