#include "worker/train/console.h"

#include <fmt/core.h>

#include <cstdio>

namespace phub::train {

std::string epoch_line(const EpochReport& report, std::uint64_t epochs) {
  const auto width = std::to_string(epochs).size();
  std::string line = fmt::format("epoch {:>{}}/{}  loss {:.4f}  train {:5.1f} %", report.epoch + 1,
                                 width, epochs, report.loss, 100.0 * report.train_accuracy);
  if (report.test_accuracy >= 0.0) {
    line += fmt::format("  test {:5.2f} %", 100.0 * report.test_accuracy);
  }
  if (report.skipped_steps > 0) line += fmt::format("  skipped {}", report.skipped_steps);
  const double share = report.seconds > 0.0 ? report.exchange_seconds / report.seconds : 0.0;
  return line + fmt::format("  {:6.0f} images/s  exchange {:.2f} s ({:.0f} %)",
                            report.images_per_second, report.exchange_seconds, 100.0 * share);
}

void Console::step(const StepReport& report) {
  constexpr std::chrono::milliseconds kRedraw{100};
  constexpr std::uint64_t kBarWidth = 30;
  if (options_.quiet || !options_.bar) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawn_ < kRedraw) return;
  last_drawn_ = now;
  const std::uint64_t done = report.step % options_.steps_per_epoch + 1;
  const std::uint64_t filled = done * kBarWidth / options_.steps_per_epoch;
  fmt::print(stderr, "\repoch {}/{} [{:=>{}}{:>{}}] {}/{}  loss {:.4f} ", report.epoch + 1,
             options_.epochs, "", filled, "", kBarWidth - filled, done, options_.steps_per_epoch,
             report.loss);
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
  if (options_.quiet) return;
  clear_bar();
  fmt::print("{}\n", epoch_line(report, options_.epochs));
  std::fflush(stdout);
}

}  // namespace phub::train
