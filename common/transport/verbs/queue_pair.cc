#include "common/transport/verbs/queue_pair.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace phub::transport::verbs {
namespace {

// A packet that is not acknowledged is sent again after 4.096 us * 2^14 = 67 ms, seven times; then
// the peer is dead: half a second to two, well within a heartbeat's deadline.
constexpr std::uint8_t kTimeout = 14;
constexpr std::uint8_t kRetries = 7;
// "Receiver not ready" is a slow peer, not a dead one: for ever (7), after 0.64 ms (12).
constexpr std::uint8_t kNotReadyRetries = 7;
constexpr std::uint8_t kNotReadyTimer = 12;
constexpr std::uint8_t kHopLimit = 64;
constexpr std::uint32_t kSequenceMask = 0xFFFFFF;
constexpr std::uint32_t kInlineBytes = 64;  // hyper-parameters fit

Status failed(const char* what, int error) {
  errno = error;
  return errno_status(what, Code::kUnavailable);
}

}  // namespace

Result<QueuePair> create_queue_pair(ibv_pd& domain, ibv_cq& completions, const Depths& depths) {
  ibv_device_attr limits = {};
  if (ibv_query_device(domain.context, &limits) != 0) return errno_status("ibv_query_device");
  const auto most = static_cast<std::uint32_t>(std::max(0, limits.max_qp_wr));
  if (depths.send > most || depths.receive > most) {
    return Status(Code::kResourceExhausted,
                  "a connection needs queues of " +
                      std::to_string(std::max(depths.send, depths.receive)) +
                      " entries, the device has " + std::to_string(most) +
                      " (max_qp_wr): use more cores or larger chunks");
  }
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = &completions;
  attributes.recv_cq = &completions;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = depths.send;
  attributes.cap.max_recv_wr = depths.receive;
  attributes.cap.max_send_sge = 2;  // a chunk and its checksum
  attributes.cap.max_recv_sge = 1;
  attributes.cap.max_inline_data = kInlineBytes;
  QueuePair pair(ibv_create_qp(&domain, &attributes));
  if (pair) return pair;
  attributes.cap.max_inline_data = 0;  // not every device can
  pair.reset(ibv_create_qp(&domain, &attributes));
  if (pair) return pair;
  return errno_status("ibv_create_qp with " + std::to_string(depths.send) + " sends and " +
                          std::to_string(depths.receive) + " receives (the device has " +
                          std::to_string(limits.max_qp) + " queue pairs in all, max_qp)",
                      Code::kResourceExhausted);
}

Status to_init(ibv_qp& pair, const PortAddress& own) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = 0;
  attributes.port_num = own.port;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int error = ibv_modify_qp(
      &pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return error == 0 ? Status() : failed("queue pair to init (is the port there?)", error);
}

Status connect(ibv_qp& pair, const PortAddress& own, std::uint32_t packet_sequence,
               const Introduction& peer) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::min(own.mtu, peer.mtu));
  attributes.dest_qp_num = peer.queue_pair;
  attributes.rq_psn = peer.packet_sequence & kSequenceMask;
  attributes.max_dest_rd_atomic = 0;  // we never read
  attributes.min_rnr_timer = kNotReadyTimer;
  attributes.ah_attr.dlid = peer.lid;
  attributes.ah_attr.port_num = own.port;
  if (own.global) {
    attributes.ah_attr.is_global = 1;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, peer.gid.data(), peer.gid.size());
    attributes.ah_attr.grh.sgid_index = own.gid_index;
    attributes.ah_attr.grh.hop_limit = kHopLimit;
  }
  int error = ibv_modify_qp(&pair, &attributes,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) {
    return failed("queue pair to ready-to-receive (can the two GIDs reach each other?)", error);
  }
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = kTimeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kNotReadyRetries;
  attributes.sq_psn = packet_sequence & kSequenceMask;
  attributes.max_rd_atomic = 0;
  error = ibv_modify_qp(&pair, &attributes,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  return error == 0 ? Status() : failed("queue pair to ready-to-send", error);
}

std::uint32_t random_packet_sequence() {
  std::uint32_t value = 0;
  PHUB_CHECK(::getrandom(&value, sizeof(value), 0) == sizeof(value), "getrandom");
  return value & kSequenceMask;
}

}  // namespace phub::transport::verbs
