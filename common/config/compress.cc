#include "common/config/compress.h"

#include <cmath>

#include "common/base/rule.h"
#include "common/config/payload.h"

namespace phub {
namespace {

// Its own fields.
void check_fields(const CompressConfig& compress, ConfigCheck& check) {
  check.one_of("encoding", compress.encoding(), {"auto", "sparse", "int8", "int4"});
  const bool is_auto = compress.encoding() == "auto";
  for (const char* const field : {"density", "warm_up_steps", "selector"}) {
    check.unused_unless(is_auto || compress.encoding() == "sparse", field,
                        "unless encoding is \"sparse\" or \"auto\"");
  }
  check.unused_unless(is_auto, "link_mbit", "unless encoding is \"auto\"");
  const float mbit = compress.link_mbit();
  check.require(!compress.has_link_mbit() || (std::isfinite(mbit) && mbit > 0.0F), "link_mbit",
                fmt::format("{} is not above 0; leave it out to have links measured", mbit));
  const float density = compress.density();
  check.require(density > 0.0F && density <= 1.0F, "density",
                fmt::format("{} is not above 0 and at most 1", density));
  const float momentum = compress.momentum();
  check.require(momentum >= 0.0F && momentum < 1.0F, "momentum",
                fmt::format("{} is not at least 0 and below 1", momentum));
  check.require(momentum == 0.0F || !is_auto, "momentum",
                "contradicts encoding: \"auto\": where gradients stay whole there would be none; "
                "choose an encoding, or remove it");
  check.require(momentum == 0.0F || compress.error_feedback(), "momentum",
                "contradicts error_feedback: false: what it adds up is lost with the rest; remove "
                "one of them");
  check.one_of("selector", compress.selector(), {"histogram", "exact", "mstopk"});
}

// What it contradicts. Of a job the servers refuse the same (common/job/check.cc), but for
// what they do not know of.
void check_beside(const WorkerConfig& config, ConfigCheck& check) {
  const TrainConfig& train = config.train();
  const bool are_deltas = train.payload() == "delta";
  const std::string outer_rule = train.outer().has_rule() ? train.outer().rule() : "nesterov";
  const std::string& rule = are_deltas ? outer_rule : config.optimizer().rule();
  check.require(
      train.compress().momentum() == 0.0F || rule == "sgd", "momentum",
      fmt::format(
          "contradicts {}.rule: \"{}\", which has a memory of its own; use rule \"sgd\", or "
          "remove it here",
          are_deltas ? "outer" : "optimizer", rule));
  check.require(train.compress().encoding() != "auto" || config.racks().empty(), "encoding",
                "\"auto\" contradicts racks: it measures the link to one rack's servers; choose "
                "sparse, int8 or int4");
  check.require(
      train.payload() != "weights", "encoding",
      "contradicts train.payload: \"weights\", of which a worker keeps what is not shared "
      "in its own parameters: it would be pushed twice; use payload: \"gradient\" or "
      "\"delta\", or remove compress");
  check.require(train.compress().encoding() != "auto" || !are_deltas, "encoding",
                "\"auto\" contradicts train.payload: \"delta\": it is predicted for an exchange in "
                "every step; choose sparse, int8 or int4");
  check.require(
      !are_deltas || !train.compress().error_feedback() || mix_of(train.outer()) == 0.0F,
      "error_feedback",
      fmt::format("contradicts train.outer.mix: {}, by which a worker keeps a part of what "
                  "was not sent in its own parameters: it would be pushed twice; set "
                  "outer.mix: 0, or error_feedback: false",
                  mix_of(train.outer())));
  check.require(train.gpu_direct() != "required", "encoding",
                "contradicts gpu_direct: \"required\": gradients are compressed in the host's "
                "memory; use gpu_direct: \"auto\", or remove compress");
}

}  // namespace

void check_compress(const WorkerConfig& config, ConfigCheck train) {
  if (!config.train().has_compress()) return;
  ConfigCheck check = train.nested("compress", config.train().compress());
  check_fields(config.train().compress(), check);
  check_beside(config, check);
}

// Of a job the servers refuse the same (common/job/check.cc).
void check_rack_compress(const WorkerConfig& config, ConfigCheck& check) {
  if (!config.has_rack_compress()) return;
  const RackCompressConfig& compress = config.rack_compress();
  ConfigCheck fields = check.nested("rack_compress", compress);
  const float density = compress.density();
  fields.require(density > 0.0F && density <= 1.0F, "density",
                 fmt::format("{} is not above 0 and at most 1", density));
  fields.one_of("selector", compress.selector(), {"histogram", "exact", "mstopk"});
}

}  // namespace phub
