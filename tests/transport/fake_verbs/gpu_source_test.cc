// The ways by which an adapter comes to read a GPU's memory: their order, what each refusal says,
// and writes that come from there.
#include "common/transport/verbs/gpu_source.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "tests/support/transports/fake_device.h"
#include "tests/support/transports/verbs_pair.h"
#include "tests/support/walled_memory.h"

namespace phub::transport {
namespace {

using phub::testing::WalledMemory;
using verbs::GpuPath;

constexpr std::size_t kBytes = 3 * 4096 + 100;

void load_peer_memory(const WalledMemory& memory) {
  fake_verbs::behaviour().peer_memory = memory.bytes;
  fake_verbs::behaviour().peer_memory_place = memory.view().data();
}

}  // namespace

TEST_CASE("a dma-buf is the first way, and the only one that is tried where it works") {
  const Clean clean;
  const auto memory = WalledMemory::create(kBytes);
  fake_verbs::behaviour().dmabuf = true;
  load_peer_memory(*memory);
  const auto opened = device();
  const auto domain = std::move(*verbs::make_domain(*opened));
  const auto source = verbs::register_gpu(*domain, *memory);
  REQUIRE(source);
  CHECK(source->path == GpuPath::kDmaBuf);
  CHECK(source->refused.empty());
  CHECK(source->registration->addr == memory->bytes.data());  // what work requests say
  CHECK(source->registration->length == kBytes);
}

TEST_CASE("peer memory is the second way, with what the first was refused by") {
  const Clean clean;
  const bool exports = GENERATE(true, false);
  const auto memory = WalledMemory::create(kBytes, exports);
  fake_verbs::behaviour().dmabuf = !exports;
  load_peer_memory(*memory);
  const auto opened = device();
  const auto domain = std::move(*verbs::make_domain(*opened));
  const auto source = verbs::register_gpu(*domain, *memory);
  REQUIRE(source);
  CHECK(source->path == GpuPath::kPeerMemory);
  CHECK_THAT(source->refused,
             Catch::Contains(exports ? "registers none" : "this GPU exports none"));
}

TEST_CASE("where no way is left each refusal is told, and the cure") {
  const Clean clean;
  const auto memory = WalledMemory::create(kBytes);
  const auto opened = device();
  const auto domain = std::move(*verbs::make_domain(*opened));
  const auto source = verbs::register_gpu(*domain, *memory);
  REQUIRE_FALSE(source);
  CHECK(source.error().code() == Code::kFailedPrecondition);
  CHECK_THAT(source.error().message(),
             Catch::Contains("fake0 cannot read the GPU's memory") &&
                 Catch::Contains("Operation not supported") && Catch::Contains("Bad address") &&
                 Catch::Contains("open kernel modules") && Catch::Contains("nvidia-peermem"));
}

TEST_CASE("a device that registers dma-bufs but not this one is asked about peer memory too") {
  const Clean clean;
  const auto memory = WalledMemory::create(kBytes);
  fake_verbs::behaviour().dmabuf = true;
  fake_verbs::behaviour().registrations = 0;
  const auto opened = device();
  const auto domain = std::move(*verbs::make_domain(*opened));
  const auto source = verbs::register_gpu(*domain, *memory);
  fake_verbs::behaviour().registrations = -1;
  REQUIRE_FALSE(source);
  CHECK_THAT(source.error().message(),
             Catch::Contains("Cannot allocate memory") && Catch::Contains("IOMMU"));
}

TEST_CASE("writes of one connection come from the host's memory and from a GPU's") {
  const Clean clean;
  const bool by_dmabuf = GENERATE(true, false);
  const auto memory = WalledMemory::create(kBytes, by_dmabuf, by_dmabuf ? 8192 : 0);
  fake_verbs::behaviour().dmabuf = by_dmabuf;
  if (!by_dmabuf) load_peer_memory(*memory);
  const auto opened = device();
  const auto pair = verbs_pair(opened, opened);
  auto& registered = *static_cast<verbs::Registered*>(pair->a.kept.get());
  auto source = verbs::register_gpu(*registered.domain, *memory);
  REQUIRE(source);
  registered.gpu_source = std::move(source->registration);
  registered.gpu = memory;
  auto& endpoint = static_cast<VerbsEndpoint&>(*pair->a.endpoint);
  endpoint.use_second_source(pair->a.peer, {memory->bytes, registered.gpu_source->lkey});

  std::fill(memory->view().begin(), memory->view().end(), std::byte{7});
  memory->view().back() = std::byte{8};
  std::fill_n(pair->a.memory->data(), 100, std::byte{9});
  const std::array<Write, 3> writes = {
      Write{.data = memory->bytes.data() + kBytes - 100, .bytes = 100, .immediate = 0},
      Write{.data = pair->a.memory->data(), .bytes = 100, .immediate = 1},
      Write{.data = memory->bytes.data(), .bytes = 100, .immediate = 2}};
  for (const Write& write : writes) REQUIRE(endpoint.post(pair->a.peer, {&write, 1}) == 1);
  const auto seen = collect(*pair->b.endpoint, 3);
  REQUIRE(seen.size() == 3);
  for (const Completion& completion : seen) REQUIRE(completion.kind == CompletionKind::kArrived);
  CHECK(seen[0].data[0] == std::byte{7});
  CHECK(seen[0].data[99] == std::byte{8});
  CHECK(seen[1].data[99] == std::byte{9});
  CHECK(seen[2].data[99] == std::byte{7});
}

TEST_CASE("a GPU's memory outlives who made it for as long as it is registered") {
  const Clean clean;
  fake_verbs::behaviour().dmabuf = true;
  auto memory = WalledMemory::create(kBytes);
  const std::weak_ptr<WalledMemory> watched = memory;
  const auto opened = device();
  auto pair = verbs_pair(opened, opened);
  auto& registered = *static_cast<verbs::Registered*>(pair->a.kept.get());
  registered.gpu_source = std::move(verbs::register_gpu(*registered.domain, *memory)->registration);
  registered.gpu = std::move(memory);
  CHECK_FALSE(watched.expired());
  pair.reset();
  CHECK(watched.expired());
}

}  // namespace phub::transport
