#include "common/landing.h"

#include "common/wire.h"

namespace phub {

namespace {

constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kPage = 4096;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Landing make_landing(const Plan& plan, std::uint32_t server, std::uint32_t core,
                     std::size_t element_bytes) {
  Landing landing;
  landing.bytes = wire::kHyperStride;
  for (const std::uint32_t id : plan.core_chunks[server][core]) {
    landing.slots.push_back(landing.bytes);
    landing.bytes += round_up(plan.chunks[id].elements * element_bytes, kLine);
  }
  landing.bytes = round_up(landing.bytes, kPage);
  return landing;
}

}  // namespace phub
