#include "worker/data/spread/memory_share.h"

#include <algorithm>
#include <string>

#include "common/transport/tcp/sealed_stream.h"
#include "worker/data/formats/sample_set.h"
#include "worker/data/spread/holder.h"
#include "worker/data/spread/peer_wire.h"

namespace phub::data {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
// Tables and queues of the links to a member, beside the buffers that are named.
constexpr std::uint64_t kTableBytes = 4096;
// Answers that are under way get at most this part of the memory.
constexpr std::uint64_t kWindowShare = 8;

}  // namespace

std::uint64_t most_own_samples(std::uint64_t samples, std::uint32_t members) {
  return (samples + members - 1) / members;
}

std::uint64_t link_bytes(std::uint32_t readers, bool encrypts) {
  const std::uint64_t sealed = encrypts ? 2 * transport::SealedStream::buffer_bytes() : 0;
  return sealed + kTableBytes + std::uint64_t{readers} * 2 * sizeof(PeerRequest);
}

Result<MemoryShare> share_memory(const MemoryNeeds& needs) {
  const std::uint64_t own = most_own_samples(needs.samples, needs.members);
  const std::uint64_t index = own * Holder::kIndexBytes;
  const std::uint64_t links = needs.link_bytes * (needs.members - 1);
  const std::uint64_t window =
      needs.members == 1 ? 0
                         : std::min(needs.bytes / kWindowShare, needs.readers * kMaxSampleBytes);
  if (needs.bytes > index + links + window) {
    return MemoryShare{.held_bytes = needs.bytes - index - links - window,
                       .largest_bytes = static_cast<std::uint32_t>(window / needs.readers)};
  }
  const std::uint64_t rest = needs.members == 1 ? kWindowShare : kWindowShare - 1;
  const std::uint64_t least = (index + links) * kWindowShare / rest / kMiB + 1;
  return Status(Code::kInvalidArgument,
                "data.spread.memory_mib: " + std::to_string(needs.bytes / kMiB) +
                    " leaves nothing for samples: the index of " + std::to_string(own) +
                    " samples takes " + std::to_string(index) + " bytes, links to " +
                    std::to_string(needs.members - 1) + " workers take " + std::to_string(links) +
                    ", and answers under way take " + std::to_string(window) + "; give at least " +
                    std::to_string(least));
}

}  // namespace phub::data
