#include "worker/cli/options/exchange_probe.h"

#include <algorithm>
#include <chrono>

#include "common/base/check.h"
#include "worker/cli/options/meeting.h"

namespace phub {
namespace {

constexpr std::uint64_t kLeastProbed = 64 * 1024;   // elements: more than figures are
constexpr std::uint64_t kMostProbed = 1024 * 1024;  // 4 MiB: a third of a second at 100 Mbit/s
constexpr int kProbes = 4;                          // of which the first is not timed
constexpr KeyId kFiguresKey = 0;
constexpr KeyId kGradientsKey = 1;
static_assert(kLeastProbed > std::uint64_t{kMaxWorkers} * ExchangeProbe::kFigures);

// The least of them: others are of a machine, or a link, that had something else to do.
template <typename Begin>
Result<double> least_seconds(Client& client, KeyId key, const Begin& begin) {
  double least = 0.0;
  for (int probe = 0; probe < kProbes; ++probe) {
    PHUB_ASSIGN_OR_RETURN(const auto start, begin());
    PHUB_RETURN_IF_ERROR(client.wait(key));
    const auto end = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(end - start).count();
    if (probe == 1 || (probe > 1 && seconds < least)) least = seconds;
  }
  return least;
}

using ProbeTime = std::chrono::steady_clock::time_point;

}  // namespace

Result<std::unique_ptr<ExchangeProbe>> ExchangeProbe::meet(const WorkerConfig& config,
                                                           std::uint64_t model_bytes,
                                                           const std::stop_token& stop) {
  const std::uint64_t elements = std::clamp(model_bytes / sizeof(float), kLeastProbed, kMostProbed);
  std::unique_ptr<ExchangeProbe> probe(new ExchangeProbe(config, elements, stop));
  ClientOptions meeting = meeting_of(config, ".encoding");
  meeting.stop = stop;
  PHUB_ASSIGN_OR_RETURN(probe->dense_, Client::connect(meeting));
  PHUB_RETURN_IF_ERROR(probe->dense_->register_keys(
      {{.name = "figures", .elements = std::uint64_t{config.workers()} * kFigures},
       {.name = "gradients", .elements = elements}}));
  return probe;
}

Result<cost::ExchangeFigures> ExchangeProbe::measure() {
  // What is compressed to hardly anything: its replies are whole, for it is a sum.
  ClientOptions options = meeting_of(config_, ".encoding.replies");
  options.stop = stop_;
  options.compress = {.encoding = Encoding::kSparse, .density = 1e-6F, .dense_below = 1};
  PHUB_ASSIGN_OR_RETURN(const auto sparse, Client::connect(options));
  PHUB_RETURN_IF_ERROR(sparse->register_keys({{.name = "gradients", .elements = elements_}}));
  const auto timed_push = [this](KeyId key) -> Result<ProbeTime> {
    const ProbeTime start = std::chrono::steady_clock::now();
    PHUB_RETURN_IF_ERROR(dense_->push(key));
    return start;
  };
  PHUB_ASSIGN_OR_RETURN(const double little, least_seconds(*dense_, kFiguresKey, [&] {
                          return timed_push(kFiguresKey);
                        }));
  PHUB_ASSIGN_OR_RETURN(const double dense, least_seconds(*dense_, kGradientsKey, [&] {
                          return timed_push(kGradientsKey);
                        }));
  PHUB_ASSIGN_OR_RETURN(const double replies, least_seconds(*sparse, 0, [&]() -> Result<ProbeTime> {
                          PHUB_RETURN_IF_ERROR(sparse->push(0));  // and compresses it
                          return std::chrono::steady_clock::now();
                        }));
  const double bytes = static_cast<double>(elements_) * sizeof(float);
  return cost::ExchangeFigures{.latency = little,
                               .dense_byte = std::max(0.0, dense - little) / bytes,
                               .reply_byte = std::max(0.0, replies - little) / bytes};
}

// The sums of numbers that one worker has each are those numbers.
Result<std::vector<float>> ExchangeProbe::largest(std::span<const float> own) {
  PHUB_CHECK(own.size() <= kFigures, "figures have their places");
  const std::span<float> told = dense_->gradient<float>(kFiguresKey);
  std::ranges::fill(told, 0.0F);
  std::ranges::copy(own, told.begin() + std::ptrdiff_t{dense_->worker_index()} * kFigures);
  PHUB_RETURN_IF_ERROR(dense_->push_pull(kFiguresKey));
  const std::span<const float> all = dense_->parameter<float>(kFiguresKey);
  std::vector<float> largest(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own.size()));
  for (std::uint32_t worker = 1; worker < dense_->workers(); ++worker) {
    for (std::size_t i = 0; i < own.size(); ++i) {
      largest[i] = std::max(largest[i], all[worker * kFigures + i]);
    }
  }
  return largest;
}

}  // namespace phub
