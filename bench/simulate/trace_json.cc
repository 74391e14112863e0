// Our own traces: the object of `phub-worker profile --json`, alone or in a Chrome trace.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/simulate/trace.h"

namespace phub::bench::simulate {
namespace {

using Json = nlohmann::json;

// The first number that is missing or wrong ends the reading; its name is kept.
class ProfileReader {
 public:
  explicit ProfileReader(std::string file) : file_(std::move(file)) {}

  double seconds(const Json& object, const std::string& path, const char* field) {
    return number(object, path, field, kMostSeconds);
  }

  std::uint32_t count(const Json& object, const char* field) {
    const double value = number(object, "", field, kMostCount);
    if (value != std::floor(value)) refuse(field, "a whole number is wanted");
    return static_cast<std::uint32_t>(value);
  }

  void refuse(const std::string& field, const std::string& cure) {
    if (!status_.ok()) return;
    status_ = {Code::kInvalidArgument, fmt::format("{}: {}: {}", file_, field, cure)};
  }

  const Status& status() const { return status_; }

 private:
  double number(const Json& object, const std::string& path, const char* field, double most) {
    const auto found = object.find(field);
    const double value = found != object.end() && found->is_number() ? found->get<double>() : -1.0;
    if (value >= 0.0 && value <= most) return value;
    refuse(path + field,
           fmt::format("a number that is not negative and at most {:g} is wanted", most));
    return 0.0;
  }

  const std::string file_;
  Status status_;
};

TraceLayer layer_of(const Json& object, const std::string& path, bool is_local,
                    ProfileReader& reader) {
  TraceLayer layer;
  if (!object.is_object()) {
    reader.refuse(path, "an object is wanted");
    return layer;
  }
  const auto name = object.find("name");
  layer.name = name != object.end() && name->is_string() ? name->get<std::string>() : path;
  layer.forward = reader.seconds(object, path, "forward_seconds");
  layer.backward = reader.seconds(object, path, "backward_seconds");
  // Without servers the whole update is in the push.
  if (is_local) layer.update = reader.seconds(object, path, "push_seconds");
  const auto keys = object.find("key_bytes");
  const bool is_right = keys != object.end() && keys->is_array() &&
                        std::all_of(keys->begin(), keys->end(),
                                    [](const Json& key) { return key.is_number_unsigned(); });
  if (!is_right) {
    reader.refuse(path + "key_bytes", "an array of bytes is wanted");
    return layer;
  }
  for (const Json& key : *keys) layer.bytes += key.get<double>();
  if (layer.bytes > kMostLayerBytes) {
    reader.refuse(path + "key_bytes",
                  fmt::format("at most {:g} bytes are wanted", kMostLayerBytes));
  }
  return layer;
}

// Where a JSON text ends to be one.
Status syntax_error(std::string_view text, const std::string& file, std::size_t byte) {
  const std::string_view before = text.substr(0, byte > 0 ? byte - 1 : 0);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  return {Code::kInvalidArgument,
          fmt::format("{}:{}:{}: is no JSON from here on; was the file cut?", file, line, column)};
}

Result<LayerTrace> trace_in(const Json& all, const std::string& name) {
  const bool is_chrome = all.contains("traceEvents");
  if (is_chrome && !all.contains("phub_profile")) {
    return Status(Code::kInvalidArgument,
                  name +
                      ": is a trace without layers' times (phub_profile): a job's rounds, as "
                      "phubctl trace writes them, go with --measured; the layers come from "
                      "phub-worker profile MODEL --json or --trace");
  }
  const Json& profile = is_chrome ? all.at("phub_profile") : all;
  ProfileReader reader(name);
  const auto layers = profile.find("layers");
  if (!profile.is_object() || layers == profile.end() || !layers->is_array()) {
    reader.refuse("layers", "an array is wanted, as phub-worker profile MODEL --json writes it");
    return reader.status();
  }
  const auto word = [&](const char* field) {
    const auto found = profile.find(field);
    return found != profile.end() && found->is_string() ? found->get<std::string>() : "";
  };
  LayerTrace trace;
  trace.name = word("model").empty() ? name : word("model");
  const bool is_local = word("transport") == "local";
  trace.loss = reader.seconds(profile, "", "loss_seconds");
  trace.batch = reader.count(profile, "batch");
  trace.iterations = reader.count(profile, "steps");
  for (std::size_t i = 0; i < layers->size(); ++i) {
    trace.layers.push_back(layer_of((*layers)[i], fmt::format("layers[{}].", i), is_local, reader));
  }
  PHUB_RETURN_IF_ERROR(reader.status());
  return trace;
}

}  // namespace

Result<LayerTrace> parse_json_trace(std::string_view text, const std::string& name) {
  try {
    return trace_in(Json::parse(text), name);
  } catch (const Json::parse_error& error) {
    return syntax_error(text, name, error.byte);
  } catch (const Json::exception& error) {
    return Status(Code::kInvalidArgument, fmt::format("{}: {}", name, error.what()));
  }
}

}  // namespace phub::bench::simulate
