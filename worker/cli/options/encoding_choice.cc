#include "worker/cli/options/encoding_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/cost/compression.h"
#include "worker/cli/options/exchange_probe.h"
#include "worker/cli/options/run_options.h"
#include "worker/compress/compressor.h"
#include "worker/compress/encoder_figures.h"
#include "worker/train/measure/noise.h"
#include "worker/train/measure/step_bench.h"

namespace phub {
namespace {

constexpr std::uint32_t kComputedSteps = 3;  // and one before them
constexpr std::array kEncodings = {Encoding::kDense, Encoding::kSparse, Encoding::kInt8,
                                   Encoding::kInt4};
constexpr float kNever = 1e9F;  // seconds that an encoder takes which is not to be chosen

// What a worker tells the others.
enum Figure : std::size_t { kLatency, kDenseByte, kReplyByte, kCompute, kFirstEncoding };
enum FigureOfEncoding : std::size_t { kPushBytes, kReplyBytes, kEncode, kAdd, kOfEncoding };
static_assert(kFirstEncoding + kEncodings.size() * kOfEncoding <= ExchangeProbe::kFigures);

struct ModelKeys {
  std::vector<KeySpec> keys;
  Plan plan;
};

// Cut as the job's; where chunks are placed does not matter.
Result<ModelKeys> keys_of_model(const nn::Graph& graph, const ClientOptions& client) {
  ModelKeys model;
  PlanInput input{.key_elements = {},
                  .wire_type = client.job.wire_type,
                  .chunk_bytes = client.job.chunk_bytes,
                  .cores_per_server = {1}};
  for (const nn::Layer& layer : graph.layers()) {
    for (const nn::ParameterSpec& spec : layer.parameters) {
      model.keys.push_back({.name = spec.name, .elements = spec.elements()});
      input.key_elements.push_back(spec.elements());
    }
  }
  if (model.keys.empty()) return model;  // the training says so
  PHUB_ASSIGN_OR_RETURN(model.plan, make_plan(input));
  return model;
}

// Of a step, all of its batches.
Result<double> compute_seconds(const train::SessionOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const auto times, train::bench_steps(*options.graph,
                                                             {.executor = options.executor,
                                                              .rule = RuleKind::kSgd,
                                                              .warm_up = 1,
                                                              .steps = kComputedSteps},
                                                             [](std::uint32_t) {}));
  std::vector<double> seconds;
  for (const train::StepTimes& step : times) seconds.push_back(step.total - step.update);
  return train::median(seconds) * options.update.accumulate;
}

// Sparse pushes come late, and the momentum of other rules makes that worse.
bool may_encode(Encoding encoding, const ModelKeys& model, const ClientOptions& client) {
  if (encoding != Encoding::kSparse) return true;
  CompressOptions options = client.compress;
  options.encoding = encoding;
  return client.job.rule == RuleKind::kSgd &&
         std::ranges::all_of(model.keys, [&](const KeySpec& key) {
           return compress::Compressor::key_fault(key.elements, options).empty();
         });
}

// Whether a sparse push is sure to have a sparse reply: of rule sgd without weight decay, which
// changes all.
bool has_sparse_replies(JobSpec job, float weight_decay, const std::string& transport) {
  job.encoding = Encoding::kSparse;
  return (transport == "tcp" || transport == "verbs") && job.rule == RuleKind::kSgd &&
         weight_decay == 0.0F && phub::has_sparse_replies(job);
}

void add_encoders(const ModelKeys& model, const ClientOptions& client, bool sparse_replies,
                  std::span<float> figures) {
  for (std::size_t i = 0; i < kEncodings.size(); ++i) {
    float* const own = figures.data() + kFirstEncoding + i * kOfEncoding;
    own[kEncode] = kNever;
    if (!may_encode(kEncodings[i], model, client)) continue;
    CompressOptions options = client.compress;
    options.encoding = kEncodings[i];
    const auto found = compress::measure_encoder(model.plan, model.keys, client.job.wire_type,
                                                 options, client.job.workers);
    own[kPushBytes] = static_cast<float>(found.push_bytes);
    own[kReplyBytes] =
        static_cast<float>(sparse_replies ? found.sparse_reply_bytes : found.dense_bytes);
    own[kEncode] = static_cast<float>(found.encode_seconds);
    own[kAdd] = static_cast<float>(found.add_seconds);
  }
}

// Workers of different words would wait for each other in vain.
Status check_same_links(ExchangeProbe& probe, float mbit) {
  const std::array<float, 2> own = {mbit, -mbit};
  PHUB_ASSIGN_OR_RETURN(const std::vector<float> largest, probe.largest(own));
  if (largest[0] == -largest[1]) return {};
  return {Code::kInvalidArgument,
          fmt::format("train.compress.link_mbit: is {} at one worker and {} at another: give the "
                      "same at each, or none",
                      -largest[1], largest[0])};
}

Result<cost::ExchangeFigures> links_of(ExchangeProbe& probe, double mbit) {
  if (mbit <= 0.0) return probe.measure();
  const double byte = 8.0 / (mbit * 1e6);
  return cost::ExchangeFigures{.latency = 0.0, .dense_byte = byte, .reply_byte = byte};
}

struct Prediction {
  cost::TrainingStep training;
  std::vector<cost::EncodedGradients> candidates;  // those that may be chosen; dense first
  cost::EncodingChoice choice;
};

Prediction predict_from(std::span<const float> figures, std::uint32_t workers) {
  Prediction prediction{.training = {.exchange = {.latency = figures[kLatency],
                                                  .dense_byte = figures[kDenseByte],
                                                  .reply_byte = figures[kReplyByte]},
                                     .compute_seconds = figures[kCompute],
                                     .workers = workers},
                        .candidates = {},
                        .choice = {}};
  for (std::size_t i = 0; i < kEncodings.size(); ++i) {
    const auto own = figures.subspan(kFirstEncoding + i * kOfEncoding, kOfEncoding);
    if (own[kEncode] >= kNever) continue;
    prediction.candidates.push_back({.encoding = kEncodings[i],
                                     .push_bytes = own[kPushBytes],
                                     .reply_bytes = own[kReplyBytes],
                                     .encode_seconds = own[kEncode],
                                     .add_seconds = own[kAdd]});
  }
  prediction.choice = cost::choose_encoding(prediction.training, prediction.candidates);
  return prediction;
}

std::string describe(const Prediction& prediction, const std::string& wire_type) {
  const auto& [chosen, predicted] = prediction.choice;
  std::string steps;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    steps += fmt::format("{}{} {:.4g} ms", i == 0 ? "" : ", ",
                         name_of(prediction.candidates[i].encoding), 1e3 * predicted[i].step);
  }
  return fmt::format(
      "train.compress: auto takes {} ({}); a step is predicted to take: {}; of that {:.4g} ms are "
      "compute, and an exchange of {:.4g} MB takes {:.4g} ms",
      name_of(prediction.candidates[chosen].encoding), wire_type, steps,
      1e3 * prediction.training.compute_seconds, 1e-6 * prediction.candidates[0].push_bytes,
      1e3 * predicted[0].exchange);
}

void apply(const Prediction& prediction, WorkerConfig& config, train::SessionOptions& options) {
  const auto& [chosen, predicted] = prediction.choice;
  const Encoding encoding = prediction.candidates[chosen].encoding;
  train::AgreedEncoding& report = options.report.encoding.emplace();
  report.chosen = name_of(encoding);
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    report.predicted.push_back({.encoding = std::string(name_of(prediction.candidates[i].encoding)),
                                .step_seconds = predicted[i].step,
                                .exchange_seconds = predicted[i].exchange});
  }
  if (options.note) options.note(describe(prediction, config.wire_type()));
  if (encoding == Encoding::kDense) return config.mutable_train()->clear_compress();
  config.mutable_train()->mutable_compress()->set_encoding(report.chosen);
}

}  // namespace

Status agree_on_encoding(WorkerConfig& config, train::SessionOptions& options,
                         const std::stop_token& stop) {
  if (config.train().compress().encoding() != "auto") return {};
  if (!config.has_wire_type()) config.set_wire_type(std::string(name_of(DataType::kBfloat16)));
  const ClientOptions client = client_of(config);
  PHUB_ASSIGN_OR_RETURN(const ModelKeys model, keys_of_model(*options.graph, client));
  PHUB_ASSIGN_OR_RETURN(
      const auto probe,
      ExchangeProbe::meet(config, compress::dense_bytes(model.plan, client.job.wire_type), stop));
  const float mbit = config.train().compress().link_mbit();
  PHUB_RETURN_IF_ERROR(check_same_links(*probe, mbit));
  // All are here, and measure at the same time: they may share a machine.
  std::array<float, ExchangeProbe::kFigures> figures{};
  PHUB_ASSIGN_OR_RETURN(const double compute, compute_seconds(options));
  const float decay = config.optimizer().weight_decay();
  add_encoders(model, client, has_sparse_replies(client.job, decay, probe->transport()), figures);
  PHUB_ASSIGN_OR_RETURN(const cost::ExchangeFigures links, links_of(*probe, mbit));
  figures[kLatency] = static_cast<float>(links.latency);
  figures[kDenseByte] = static_cast<float>(links.dense_byte);
  figures[kReplyByte] = static_cast<float>(links.reply_byte);
  figures[kCompute] = static_cast<float>(compute);
  PHUB_ASSIGN_OR_RETURN(const std::vector<float> all, probe->largest(figures));
  apply(predict_from(all, client.job.workers), config, options);
  return {};
}

}  // namespace phub
