#include "worker/cli/data/set_choice.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include "worker/cli/stop_signal.h"

namespace phub {
namespace {

using Clock = std::chrono::steady_clock;

class Bar {
 public:
  explicit Bar(std::string what) : what_(std::move(what)) {}

  bool operator()(const data::Progress& progress) {
    if (!stop_) stop_ = std::make_shared<StopSignal>();  // until then a signal ends the process
    const bool goes_on = !stop_->requested();
    const bool is_last = progress.samples == progress.of;
    if (isatty(STDERR_FILENO) == 1) draw(progress, is_last || !goes_on);
    return goes_on;
  }

 private:
  void draw(const data::Progress& progress, bool is_last) {
    constexpr std::chrono::milliseconds kRedraw{100};
    constexpr std::uint64_t kWidth = 30;
    const auto now = Clock::now();
    if (!is_last && now - drawn_ < kRedraw) return;
    drawn_ = now;
    if (is_last) {
      fmt::print(stderr, "\r\x1b[K");
      return;
    }
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const std::uint64_t filled = progress.samples * kWidth / progress.of;
    fmt::print(stderr, "\r\x1b[K{} [{:=>{}}{:>{}}] {}/{}  {:.0f} MB/s", what_, "", filled, "",
               kWidth - filled, progress.samples, progress.of,
               static_cast<double>(progress.bytes) / 1e6 / std::max(seconds, 1e-3));
    std::fflush(stderr);
  }

  std::string what_;
  std::shared_ptr<StopSignal> stop_;
  Clock::time_point start_ = Clock::now(), drawn_{};
};

}  // namespace

void add_set_options(CLI::App& command, SetChoice& choice) {
  command
      .add_option(
          "PATH", choice.path,
          "The set: a folder of class folders, tar archives, TFRecords or packed files; or the URL "
          "of packed files, or the URLs of shards")
      ->required()
      ->type_name("");
  command.add_option("--split", choice.splits, "train, test, or both")
      ->type_name("SPLIT")
      ->delimiter(',')
      ->check(CLI::IsMember({"train", "test"}))
      ->capture_default_str();
}

std::vector<data::Split> splits_of(const SetChoice& choice) {
  std::vector<data::Split> splits;
  for (const std::string& each : choice.splits) {
    splits.push_back(each == "train" ? data::Split::kTrain : data::Split::kTest);
  }
  return splits;
}

data::OnProgress progress_bar(const std::string& what) { return Bar(what); }

}  // namespace phub
