#include "worker/cli/profile_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace phub {
namespace {

using Json = nlohmann::ordered_json;
using Kind = train::ProfileSpan::Kind;

constexpr double kMillisecond = 1e3;
constexpr double kMicrosecond = 1e6;

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"forward", "backward", "push", "wait", "loss"};
  return kNames[static_cast<std::size_t>(kind)];
}

// A row of the table; the sums are one too.
train::LayerProfile sum_of(const train::Profile& profile) {
  train::LayerProfile sum;
  for (const train::LayerProfile& layer : profile.layers) {
    sum.forward += layer.forward;
    sum.backward += layer.backward;
    sum.push += layer.push;
    sum.wait += layer.wait;
    sum.forward_flops += layer.forward_flops;
    sum.backward_flops += layer.backward_flops;
  }
  return sum;
}

std::string row(const std::string& name, const train::LayerProfile& layer, std::size_t width,
                const train::Profile& profile) {
  const double seconds = layer.forward + layer.backward;
  const double flops = static_cast<double>(layer.forward_flops + layer.backward_flops);
  const std::string rate = flops > 0.0 && seconds > 0.0
                               ? fmt::format("{:>8.1f} {:>6.1f} %", 1e-9 * flops / seconds,
                                             100.0 * flops / seconds / profile.peak_flops)
                               : fmt::format("{:>8} {:>8}", "-", "-");
  return fmt::format("{:<{}}  {:<19}  {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>5.1f} %  {}\n",
                     name, width, layer.kind, kMillisecond * layer.forward,
                     kMillisecond * layer.backward, kMillisecond * layer.push,
                     kMillisecond * layer.wait,
                     100.0 * (seconds + layer.push + layer.wait) / profile.step, rate);
}

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::uint64_t total(const train::MemoryProfile& memory) {
  return memory.weights + memory.gradients + memory.feature_maps + memory.workspace +
         memory.dynamic;
}

Json event(const char* name, const char* category, int track, double start, double seconds) {
  return {{"name", name},
          {"cat", category},
          {"ph", "X"},
          {"ts", kMicrosecond * start},
          {"dur", kMicrosecond * seconds},
          {"pid", 1},
          {"tid", track}};
}

Json track_name(int track, const char* name) {
  return {
      {"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", track}, {"args", {{"name", name}}}};
}

}  // namespace

std::string profile_table(const ProfileSubject& subject, const train::Profile& profile) {
  std::size_t width = 5;
  for (const train::LayerProfile& layer : profile.layers) {
    width = std::max(width, layer.name.size());
  }
  const char* push = subject.transport == "local" ? "update" : "push";
  std::string text =
      fmt::format("{} on {}, {}, batch {}, threads {}, {} steps; workers {}, exchange {}\n",
                  subject.model, subject.backend, subject.compute_type, subject.batch,
                  subject.threads, subject.steps, subject.workers, subject.transport);
  text += fmt::format("{:<{}}  {:<19}  {:>10} {:>10} {:>10} {:>10} {:>7}  {:>8} {:>8}\n", "layer",
                      width, "kind", "forward ms", "backwd ms", fmt::format("{} ms", push),
                      "wait ms", "share", "GFLOP/s", "of peak");
  for (const train::LayerProfile& layer : profile.layers) {
    text += row(layer.name, layer, width, profile);
  }
  text += row("sum", sum_of(profile), width, profile);
  text += fmt::format("step {:.3f} ms (loss {:.3f} ms), {:.0f} images/s of this worker\n",
                      kMillisecond * profile.step, kMillisecond * profile.loss,
                      subject.batch / profile.step);
  text += fmt::format(
      "utilisation {:.1f} %: {:.1f} GFLOP a step, {:.1f} GFLOP/s of {:.1f} ({})\n",
      100.0 * profile.utilisation(), 1e-9 * static_cast<double>(profile.flops()),
      1e-9 * static_cast<double>(profile.flops()) / profile.step, 1e-9 * profile.peak_flops,
      profile.peak_is_measured ? "measured: the best of a large product and the layers" : "given");
  const train::MemoryProfile& memory = profile.memory;
  const auto part = [&](const char* name, std::uint64_t bytes) {
    text += fmt::format("  {:<13} {:>10.1f} MiB  {:>5.1f} %\n", name, mib(bytes),
                        100.0 * static_cast<double>(bytes) / static_cast<double>(total(memory)));
  };
  text += "memory\n";
  part("weights", memory.weights);
  part("gradients", memory.gradients);
  part("feature maps", memory.feature_maps);
  part("workspace", memory.workspace);
  part("dynamic", memory.dynamic);
  part("all", total(memory));
  return text;
}

nlohmann::ordered_json profile_json(const ProfileSubject& subject, const train::Profile& profile) {
  Json layers = Json::array();
  for (const train::LayerProfile& layer : profile.layers) {
    layers.push_back({{"name", layer.name},
                      {"kind", layer.kind},
                      {"forward_seconds", layer.forward},
                      {"backward_seconds", layer.backward},
                      {"push_seconds", layer.push},
                      {"wait_seconds", layer.wait},
                      {"forward_flops", layer.forward_flops},
                      {"backward_flops", layer.backward_flops},
                      {"key_bytes", layer.key_bytes}});
  }
  const train::MemoryProfile& memory = profile.memory;
  return {{"profile", 1},  // the version of this format
          {"model", subject.model},
          {"backend", subject.backend},
          {"compute_type", subject.compute_type},
          {"transport", subject.transport},
          {"workers", subject.workers},
          {"batch", subject.batch},
          {"threads", subject.threads},
          {"steps", subject.steps},
          {"step_seconds", profile.step},
          {"loss_seconds", profile.loss},
          {"images_per_second", subject.batch / profile.step},
          {"flops", profile.flops()},
          {"peak_flops_per_second", profile.peak_flops},
          {"peak", profile.peak_is_measured ? "measured" : "given"},
          {"utilisation", profile.utilisation()},
          {"memory_bytes",
           {{"weights", memory.weights},
            {"gradients", memory.gradients},
            {"feature_maps", memory.feature_maps},
            {"workspace", memory.workspace},
            {"dynamic", memory.dynamic}}},
          {"layers", layers}};
}

std::string profile_trace(const ProfileSubject& subject, const train::Profile& profile) {
  constexpr int kCompute = 1;
  constexpr int kExchange = 2;
  Json events = {track_name(kCompute, "layers"), track_name(kExchange, "exchange")};
  for (const train::ProfileSpan& span : profile.spans) {
    const bool is_exchange = span.kind == Kind::kPush || span.kind == Kind::kWait;
    const std::string name = span.kind == Kind::kLoss ? "loss" : profile.layers[span.layer].name;
    events.push_back(event(name.c_str(), name_of(span.kind), is_exchange ? kExchange : kCompute,
                           span.start, span.seconds));
  }
  const Json trace = {{"traceEvents", events},
                      {"displayTimeUnit", "ms"},
                      {"phub_profile", profile_json(subject, profile)}};
  return trace.dump() + "\n";
}

}  // namespace phub
