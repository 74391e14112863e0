#include "worker/train/report/metrics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/base/whole_file.h"

namespace phub::train {

using Json = nlohmann::ordered_json;

Result<std::unique_ptr<Metrics>> Metrics::open(const std::filesystem::path& path, bool append) {
  PHUB_ASSIGN_OR_RETURN(const UniqueFd reader, reader_of(path));
  const auto mode = append ? std::ios::app : std::ios::trunc;
  std::unique_ptr<Metrics> metrics(new Metrics(path, std::ios::out | mode));
  if (!metrics->file_) {
    return errno_status("cannot write metrics to " + path.string() +
                        " (does the directory exist?)");
  }
  return metrics;
}

void Metrics::start(const RunDescription& run) {
  Json line = {{"event", "start"},           {"model", run.model},
               {"transport", run.transport}, {"worker", run.worker_index},
               {"workers", run.workers},     {"batch", run.batch},
               {"seed", run.seed},           {"first_step", run.first_step}};
  if (!run.encoding.empty()) line["encoding"] = run.encoding;
  for (const PredictedEncoding& each : run.predicted) {
    line["predicted"].push_back({{"encoding", each.encoding},
                                 {"step_seconds", each.step_seconds},
                                 {"exchange_seconds", each.exchange_seconds}});
  }
  file_ << line << std::endl;
}

void Metrics::step(const StepReport& report) {
  file_ << Json{{"event", "step"},
                {"step", report.step},
                {"epoch", report.epoch},
                {"loss", report.loss},
                {"correct", report.correct},
                {"learning_rate", report.learning_rate},
                {"loss_scale", report.loss_scale},
                {"skipped_steps", report.skipped_steps},
                {"seconds", report.seconds},
                {"exchange_seconds", report.exchange_seconds},
                {"input_seconds", report.input_seconds}}
        << '\n';
}

void Metrics::epoch(const EpochReport& report) {
  Json line = {{"event", "epoch"},
               {"epoch", report.epoch},
               {"steps", report.steps},
               {"loss", report.loss},
               {"train_accuracy", report.train_accuracy}};
  if (report.test_accuracy >= 0.0) line["test_accuracy"] = report.test_accuracy;
  line["skipped_steps"] = report.skipped_steps;
  line["seconds"] = report.seconds;
  line["exchange_seconds"] = report.exchange_seconds;
  line["input_seconds"] = report.input_seconds;
  line["images_per_second"] = report.images_per_second;
  if (report.reads.all() > 0) {
    line["reads"] = {{"source", report.reads.source},
                     {"disk", report.reads.disk},
                     {"memory", report.reads.memory}};
  }
  file_ << line << std::endl;
}

void Metrics::samples(const data::EpochDeliveries& epoch, const data::SpreadCounts& counts) {
  // As text: numbers of JSON are exact to 2^53.
  file_ << Json{{"event", "samples"},
                {"epoch", epoch.epoch},
                {"whole", epoch.is_whole},
                {"sum", fmt::format("{:016x}", epoch.sum)},
                {"own", epoch.own},
                {"peer", epoch.peer},
                {"source", epoch.source},
                {"source_samples", counts.read.samples},
                {"source_bytes", counts.read.bytes}}
        << std::endl;
}

Status Metrics::close(const ExchangeStatistics& statistics) {
  file_ << Json{{"event", "end"},
                {"bytes_pushed", statistics.bytes_pushed},
                {"bytes_received", statistics.bytes_received}}
        << '\n';
  file_.close();
  if (file_) return {};
  return {Code::kInternal, "could not write all metrics to " + path_.string() +
                               ": is the disk full, or has its reader ended?"};
}

}  // namespace phub::train
