#include "worker/train/report/console.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace phub::train {
namespace {

constexpr double kInputShown = 0.05;  // the share of the time from which on input is shown
constexpr double kInputTold = 0.2;    // and from which on it is the bound

// Of the terminal, less one: a full line would wrap.
std::size_t columns() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (known ? size.ws_col : kUsual) - 1;
}

}  // namespace

std::string epoch_line(const EpochReport& report, std::uint64_t epochs) {
  const auto width = std::to_string(epochs).size();
  std::string line = fmt::format("epoch {:>{}}/{}  loss {:.4f}  train {:5.1f} %", report.epoch + 1,
                                 width, epochs, report.loss, 100.0 * report.train_accuracy);
  if (report.test_accuracy >= 0.0) {
    line += fmt::format("  test {:5.2f} %", 100.0 * report.test_accuracy);
  }
  if (report.skipped_steps > 0) line += fmt::format("  skipped {}", report.skipped_steps);
  const auto share = [&](double seconds) {
    return report.seconds > 0.0 ? seconds / report.seconds : 0.0;
  };
  line += fmt::format("  {:6.0f} images/s  exchange {:.2f} s ({:.0f} %)", report.images_per_second,
                      report.exchange_seconds, 100.0 * share(report.exchange_seconds));
  if (report.reads.all() > 0) {
    const auto found = static_cast<double>(report.reads.disk + report.reads.memory);
    line +=
        fmt::format("  cache {:.0f} %", 100.0 * found / static_cast<double>(report.reads.all()));
  }
  const double input = share(report.input_seconds);
  if (input < kInputShown) return line;
  return line + fmt::format("  input {:.2f} s ({:.0f} %)", report.input_seconds, 100.0 * input);
}

std::string input_note(const EpochReport& report) {
  if (report.seconds <= 0.0 || report.input_seconds < kInputTold * report.seconds) return "";
  return fmt::format(
      "Input is the bound: training waited {:.0f} % of epoch {} for its batches. `phub-worker data "
      "bench CONFIG` shows the rate of each stage. Raise data.threads if CPUs are idle, keep "
      "decoded images (data.cache.memory_mib), copies of a slow store (data.cache.path), or pack "
      "smaller images (`phub-worker data pack`).",
      100.0 * report.input_seconds / report.seconds, report.epoch + 1);
}

std::string progress_line(const TrainingProgress& progress, std::size_t columns) {
  constexpr std::size_t kBarMax = 30;
  constexpr std::size_t kBarMin = 6;
  constexpr std::size_t kBrackets = 3;  // and a space
  const auto left = static_cast<std::uint64_t>(progress.seconds_left + 0.5);
  const std::string time =
      left >= 3600 ? fmt::format("{}:{:02}:{:02}", left / 3600, left / 60 % 60, left % 60)
                   : fmt::format("{}:{:02}", left / 60, left % 60);
  const std::string head = fmt::format("epoch {}/{} ", progress.epoch + 1, progress.epochs);
  const std::string input = progress.input_share < kInputShown
                                ? ""
                                : fmt::format("  input {:.0f} %", 100.0 * progress.input_share);
  const std::string tail =
      fmt::format("{}/{}  loss {:.4f}  {:.0f} images/s  exchange {:.0f} %{}  {} left",
                  progress.steps_done, progress.steps_per_epoch, progress.loss,
                  progress.images_per_second, 100.0 * progress.exchange_share, input, time);
  const std::size_t text = head.size() + tail.size();
  if (text + kBrackets + kBarMin > columns) return (head + tail).substr(0, columns);
  const std::size_t width = std::min(kBarMax, columns - text - kBrackets);
  const std::size_t filled = progress.steps_done * width / progress.steps_per_epoch;
  return fmt::format("{}[{:=>{}}{:>{}}] {}", head, "", filled, "", width - filled, tail);
}

void Console::step(const StepReport& report) {
  constexpr std::chrono::milliseconds kRedraw{100};
  constexpr double kNewest = 0.1;  // what the newest step weighs in the mean
  if (!options_.bar || is_quiet()) return;
  const double newest = seconds_ > 0.0 ? kNewest : 1.0;
  seconds_ += newest * (report.seconds - seconds_);
  exchange_seconds_ += newest * (report.exchange_seconds - exchange_seconds_);
  input_seconds_ += newest * (report.input_seconds - input_seconds_);
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawn_ < kRedraw) return;
  last_drawn_ = now;
  const TrainingProgress progress{
      .epoch = report.epoch,
      .epochs = options_.epochs,
      .steps_done = report.epoch_step,
      .steps_per_epoch = report.steps_per_epoch,
      .loss = report.loss,
      .images_per_second = report.images / seconds_,
      .exchange_share = exchange_seconds_ / seconds_,
      .input_share = input_seconds_ / seconds_,
      .seconds_left = static_cast<double>(options_.last_step - report.step - 1) * seconds_};
  fmt::print(stderr, "\r\x1b[K{}", progress_line(progress, columns()));
  std::fflush(stderr);
  bar_shown_ = true;
}

void Console::clear_bar() {
  if (!bar_shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  bar_shown_ = false;
}

void Console::epoch(const EpochReport& report) {
  if (is_quiet()) return;
  clear_bar();
  fmt::print("{}\n", epoch_line(report, options_.epochs));
  std::fflush(stdout);
  const std::string note = input_note(report);
  if (note.empty() || std::exchange(input_told_, true)) return;
  fmt::print(stderr, "{}\n", note);
}

}  // namespace phub::train
