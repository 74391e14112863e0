// Sums a vector over several workers. Start a phub-server, then this program once for each worker:
//
//   phub-server --control 127.0.0.1:7077 &
//   example-all-reduce 127.0.0.1:7077 2 & example-all-reduce 127.0.0.1:7077 2
#include <cstdio>
#include <cstdlib>

#include "worker/client/phub.h"

namespace {

constexpr std::size_t kElements = 1'000'000;
constexpr int kRounds = 3;

phub::Status run(const char* server, std::uint32_t workers) {
  PHUB_ASSIGN_OR_RETURN(
      const auto client,
      phub::Client::connect(
          {.servers = {server},
           .job = {.name = "all-reduce", .workers = workers, .rule = phub::RuleKind::kSum}}));
  PHUB_RETURN_IF_ERROR(client->register_keys({{"numbers", kElements}}));
  for (int round = 0; round < kRounds; ++round) {
    for (float& value : client->gradient<float>(0)) {
      value = static_cast<float>(client->worker_index() + 1);
    }
    PHUB_RETURN_IF_ERROR(client->push_pull(0));
    const float expected = static_cast<float>(workers * (workers + 1)) / 2;
    for (const float value : client->parameter<float>(0)) {
      if (value != expected) return {phub::Code::kDataLoss, "a sum is wrong"};
    }
  }
  std::printf("worker %u of %u over %.*s: %d rounds of %zu sums, all right\n",
              client->worker_index(), workers, static_cast<int>(client->transport().size()),
              client->transport().data(), kRounds, kElements);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::atoi(argv[2]) < 1) {
    std::fprintf(stderr, "usage: %s HOST:PORT WORKERS\n", argv[0]);
    return 2;
  }
  const phub::Status status = run(argv[1], static_cast<std::uint32_t>(std::atoi(argv[2])));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
