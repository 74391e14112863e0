#include "worker/data/formats/check.h"

#include <fmt/core.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/log_value.h"
#include "common/text/table.h"
#include "worker/cli/data/data.h"
#include "worker/cli/data/set_choice.h"
#include "worker/data/formats/detect/detect.h"
#include "worker/data/images/decoder.h"

namespace phub {
namespace {

struct CheckArguments {
  SetChoice set;
  bool json = false;
};

constexpr const char* kCheckExamples = R"(
Examples:
  A folder, before a long training:
    phub-worker data check pictures
  A packed file, whose checksums are compared:
    phub-worker data check packed --split train --json
  The same on a web server with range requests:
    phub-worker data check https://host/packed
  Tar archives there; TFRecords alike:
    phub-worker data check 'https://host/train-{000..127}.tar' --split train

Every sample is read, compared with its checksum where the format has one, and decoded. Each damaged
sample is named with its file and its offset, and what is wrong with it. A table counts the images of
each class.

Exit status: 0 nothing is damaged, 1 something is or is not there, or the check was stopped, 2 wrong
usage, or a set that breaks its format's rules.)";

// Decodes the whole image, to a few pixels.
Status decode(data::Decoder& decoder, std::span<const std::uint8_t> file) {
  constexpr data::ImageSize kSmall{8, 8};
  std::array<std::uint8_t, kSmall.width * kSmall.height> pixels{};
  PHUB_ASSIGN_OR_RETURN(const data::ImageSize size, decoder.measure(file));
  const data::Window whole{0, 0, static_cast<double>(size.width), static_cast<double>(size.height)};
  return decoder.decode(file, whole, 1, kSmall, pixels);
}

// What opening a split has read. Packed files and folders tell nothing: `of` is 0.
void print_opened(const std::string& split, const data::Progress& opened) {
  if (opened.of == 0) return;
  fmt::print("{}: opened by reading {:.1f} MB of {} shards\n", split,
             static_cast<double>(opened.bytes) / 1e6, opened.of);
}

void print(const std::string& split, const data::SampleSet& set, const data::CheckReport& report) {
  Table table("CLASS|>IMAGES");
  for (std::size_t label = 0; label < report.by_class.size(); ++label) {
    table.add({one_line(set.classes()[label]), std::to_string(report.by_class[label])});
  }
  fmt::print("{}: {} images, {:.1f} MB, {} damaged\n", split, report.samples,
             static_cast<double>(report.bytes) / 1e6, report.damaged);
  for (const std::string& damage : report.damages) fmt::print("  {}\n", damage);
  if (report.damaged > report.damages.size()) {
    fmt::print("  and {} more\n", report.damaged - report.damages.size());
  }
  fmt::print("{}", table.to_string());
}

nlohmann::ordered_json json_of(const std::string& split, const data::SampleSet& set,
                               const data::CheckReport& report) {
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (std::size_t label = 0; label < report.by_class.size(); ++label) {
    classes.push_back({{"class", set.classes()[label]}, {"images", report.by_class[label]}});
  }
  return {{"split", split},
          {"images", report.samples},
          {"bytes", report.bytes},
          {"damaged", report.damaged},
          {"damages", report.damages},
          {"classes", classes}};
}

Status check(const CheckArguments& arguments) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::uint64_t damaged = 0, images = 0;
  data::Decoder decoder;
  for (const data::Split split : splits_of(arguments.set)) {
    const std::string name(name_of(split));
    data::Progress opened;
    const auto on_progress = [&, bar = progress_bar("open " + name)](const data::Progress& now) {
      opened = now;
      return bar(now);
    };
    PHUB_ASSIGN_OR_RETURN(const auto set, data::open_sample_set(arguments.set.path, split,
                                                                {.on_progress = on_progress}));
    if (!arguments.json) print_opened(name, opened);
    PHUB_ASSIGN_OR_RETURN(const data::CheckReport report,
                          data::check(*set, progress_bar("check " + name),
                                      [&](auto file) { return decode(decoder, file); }));
    damaged += report.damaged;
    images += report.samples;
    if (!arguments.json) print(name, *set, report);
    all.push_back(json_of(name, *set, report));
    if (opened.of > 0) {
      all.back()["opened"] = {{"shards", opened.of}, {"bytes", opened.bytes}};
    }
  }
  if (arguments.json) {
    // Names may be any bytes.
    fmt::print("{}\n", nlohmann::ordered_json{{"splits", all}}.dump(
                           -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }
  if (damaged == 0) return {};
  return {Code::kDataLoss, fmt::format("{} of {} images are damaged: mend or remove them, or let "
                                       "data.damaged_max of the training be at least as many",
                                       damaged, images)};
}

}  // namespace

Command add_data_check_command(CLI::App& data) {
  const auto kept = std::make_shared<CheckArguments>();
  CheckArguments& arguments = *kept;
  CLI::App* check_app = data.add_subcommand("check", "Read and decode every sample; name damage");
  check_app->footer(kCheckExamples);
  add_set_options(*check_app, arguments.set);
  check_app->add_flag("--json", arguments.json, "One JSON object instead of tables");
  return {check_app, [kept] {
            const Status status = check(*kept);
            return status.ok() ? Ending() : fail(status);
          }};
}

}  // namespace phub
