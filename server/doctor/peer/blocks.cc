#include "server/doctor/peer/blocks.h"

#include <chrono>

namespace phub::doctor {
namespace {

constexpr std::uint32_t kBatch = 16;  // writes in one post

}  // namespace

Status ping(transport::LinkEnd& end, std::uint32_t count, std::uint32_t bytes,
            std::vector<double>& halves) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto start = std::chrono::steady_clock::now();
    PHUB_RETURN_IF_ERROR(end.send(1, 1, bytes));
    PHUB_RETURN_IF_ERROR(end.receive(1));
    halves.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 2);
  }
  return {};
}

Status pong(transport::LinkEnd& end, std::uint32_t count, std::uint32_t bytes) {
  for (std::uint32_t i = 0; i < count; ++i) {
    PHUB_RETURN_IF_ERROR(end.receive(1));
    PHUB_RETURN_IF_ERROR(end.send(1, 1, bytes));
  }
  return {};
}

Status send_bursts(transport::LinkEnd& end, std::uint32_t count, std::uint32_t bytes) {
  std::uint32_t acknowledged = 0;
  for (std::uint32_t sent = 0; sent < count; ++sent) {
    if (sent - acknowledged == kBurstsOnTheirWay) {
      PHUB_RETURN_IF_ERROR(end.receive(1));
      ++acknowledged;
    }
    PHUB_RETURN_IF_ERROR(end.send(kBurst, kBatch, bytes));
  }
  return end.receive(count - acknowledged);
}

Status receive_bursts(transport::LinkEnd& end, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    PHUB_RETURN_IF_ERROR(end.receive(kBurst));
    PHUB_RETURN_IF_ERROR(end.send(1, 1, kPingBytes));
  }
  return {};
}

}  // namespace phub::doctor
