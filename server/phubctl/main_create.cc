// `phubctl job create`.
#include <string>

#include "common/base/round_policy.h"
#include "server/phubctl/main.h"

namespace phub::phubctl {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  phubctl job create demo --workers 4 --rule mean\n"
    "  phubctl job create demo --workers 2 --rule nesterov --learning-rate 0.05 \\\n"
    "      --momentum 0.9 --key conv1.weight:500:0.0005 --key conv1.bias:20\n"
    "  phubctl job create demo --rule lars --learning-rate 4 --key conv1.weight:500 \\\n"
    "      --key conv1.bias:20 --exclude-from-lars conv1.bias\n"
    "  phubctl job create --file job.textproto       a phub.control.JobSpec\n"
    "  phubctl job create demo --racks a:4,b:4 --rack-shape auto --bytes 100e6\n"
    "  phubctl job create demo --racks a:4,b:4 --rack-compress 0.01 --rule momentum\n"
    "  phubctl job create demo --workers 8 --rule sgd --order arrival --quorum 7\n\n"
    "Without keys, the first worker that joins brings them. Workers must say the same in\n"
    "their configurations; --quorum and its options are `rounds` there\n"
    "(proto/config.proto).";

// Adds an option that contradicts --file.
class Fields {
 public:
  Fields(CLI::App& sub, CLI::Option* file) : sub_(sub), file_(file) {}

  template <typename Value>
  CLI::Option* option(const std::string& name, Value& value, const std::string& help) {
    return sub_.add_option(name, value, help)->excludes(file_);
  }
  template <typename Value>
  void field(const std::string& name, Value& value, const std::string& help) {
    option(name, value, help)->capture_default_str();
  }
  void flag(const std::string& name, bool& value, const std::string& help) {
    sub_.add_flag(name, value, help)->excludes(file_);
  }

 private:
  CLI::App& sub_;
  CLI::Option* file_;
};

void declare_job(Fields& fields, JobOptions& job) {
  fields.field("--workers", job.workers, "Workers that it waits for");
  fields.field("--rule", job.rule,
               "sum, mean, sgd, momentum, nesterov, lars, adam, adamw, adagrad, lamb or elastic");
  fields.field("--wire-type", job.wire_type, "fp32, fp16 or bf16");
  fields.field("--encoding", job.encoding,
               "What workers push: dense, sparse, int8 or int4 (train.compress)");
  fields.field("--watch-values", job.watch_values,
               "Who pushes NaNs and infinities: off, name (tell it), or fail (and end the job)");
  fields.flag("--checksums", job.checksums,
              "Workers send a checksum with each chunk; the servers compare it, and another one "
              "ends the job with worker, key and round");
  fields.field("--tcp-streams", job.tcp_streams,
               "Connections by tcp from each worker to each core, 1 to 16, for long fat links");
  fields.field("--order", job.order, "deterministic or arrival");
  fields.field("--chunk-kib", job.chunk_kib, "Size of a chunk, KiB");
  fields.option("--key", job.keys, "NAME:ELEMENTS[:WEIGHT_DECAY], in forward order")
      ->allow_extra_args(false);
}

void declare_rule(Fields& fields, JobOptions& job) {
  fields.field(
      "--learning-rate", job.learning_rate,
      "As in the workers' configuration; worker 0 may change it later. Of elastic: train.outer's "
      "elasticity");
  fields.field("--momentum", job.momentum, "For momentum, nesterov and lars");
  fields.field("--gradient-scale", job.gradient_scale,
               "Of the summed gradient; 0: 1 / workers (with --quorum: 1 / the pushes of a round)");
  fields.option("--trust-coefficient", job.trust_coefficient,
                "Of lars: a step's share of a tensor's norm; left out: 0.001");
  fields.option("--trust-epsilon", job.trust_epsilon,
                "Of lars: added to the gradient's norm; left out: 0");
  fields
      .option("--exclude-from-lars", job.exclude_from_lars,
              "Of lars and lamb: a key at trust 1, as biases are")
      ->type_name("NAME")
      ->allow_extra_args(false);
  fields.option("--beta1", job.beta1, "Of adam, adamw and lamb: left out: 0.9");
  fields.option("--beta2", job.beta2, "Of adam, adamw and lamb: left out: 0.999");
  fields.option("--epsilon", job.epsilon,
                "Of adam, adamw, adagrad and lamb; left out: 1e-8, 1e-8, 1e-10, 1e-6");
  fields.option("--clip-norm", job.clip_norm,
                "Of all keys' averaged gradients at most; left out: no bound");
  fields.option("--ema-decay", job.ema_decay,
                "Of the parameters' moving average; left out: there is none");
}

void declare_job_rounds(CLI::App& sub, RoundOptions& rounds, CLI::Option* file) {
  CLI::Option* const quorum =
      sub.add_option("--quorum", rounds.quorum,
                     "Pushes that complete a round, below --workers, so that nobody waits for the "
                     "slowest: backup workers (N - b), asynchronous (1, with --late add), stale "
                     "synchronous parallel (the same, with --staleness). Needs --order arrival. "
                     "Left out: every worker's");
  quorum->check(CLI::PositiveNumber)->excludes(file);
  const auto option = [&](const std::string& name, auto& value, const std::string& help) {
    return sub.add_option(name, value, help)->needs(quorum);
  };
  option("--grace-ms", rounds.grace_ms, "Of --late drop: after these, how long more are waited for")
      ->check(CLI::Range(0U, std::uint32_t{kGraceMsMax}))
      ->capture_default_str();
  option("--patience-ms", rounds.patience_ms,
         "Of --late drop: so long after its first push a round goes on without its "
         "quorum; longer than workers are apart; left out: " +
             std::to_string(kPatienceMs))
      ->check(CLI::Range(1U, std::uint32_t{kGraceMsMax}));
  option("--staleness", rounds.staleness,
         "So many rounds a worker may be ahead of the slowest, for which its reply "
         "waits; left out: any");
  option("--late", rounds.late,
         "What becomes of a push whose round is over: drop (counted, and replied "
         "to with the current parameters), or add (it is one of the round that is under way, and "
         "nobody waits for a round's end)")
      ->capture_default_str();
  option("--push-weight", rounds.weight,
         "What a push is multiplied by: one, staleness (1 / (1 + s), if s rounds "
         "have passed since its parameters), or samples (the worker's batch)")
      ->capture_default_str();
  sub.add_flag("--turns", rounds.turns,
               "Of --quorum 1 --late add: a worker is replied to when the one before it has "
               "pushed, so that one computes at a time")
      ->needs(quorum);
  sub.add_flag("--hogwild", rounds.hogwild,
               "Of --quorum 1 --late add, over shm: workers change the shared parameters "
               "themselves, without locks")
      ->needs(quorum);
}

void declare_job_racks(CLI::App& sub, JobOptions& job, CLI::Option* file) {
  CLI::Option* const racks = declare_rack_options(sub, job);
  racks->excludes(file)->excludes("--workers");
  sub.add_option("--rack-shape", job.rack_shape,
                 "How the racks are joined: spread, chain, multicolour, hybrid, tree, nested (by "
                 "the levels of their names, as site1/row2/rack3), or auto: by the last probe")
      ->needs(racks)
      ->capture_default_str();
  sub.add_option("--rack-hybrid-bytes", job.rack_hybrid_bytes,
                 "Of hybrid: keys of at most so many bytes are small; left out: those that share "
                 "chunks")
      ->needs(racks);
  CLI::Option* const density = sub.get_option("--rack-compress");
  sub.add_option("--rack-selector", job.rack_compress.selector,
                 "How the largest are found: histogram, exact, mstopk")
      ->needs(density)
      ->capture_default_str();
  sub.add_flag("--rack-no-feedback", job.rack_compress.drops_rest,
               "What does not go up is lost, instead of added to the next "
               "round's sum; to compare with")
      ->needs(density);
}

}  // namespace

void declare_create(CLI::App& jobs, JobOptions& job, Command& command) {
  CLI::App& create =
      add_subcommand(jobs, "create", "Make a job before its workers join", kExamples);
  CLI::Option* const file =
      create.add_option("--file", job.file, "JobSpec of proto/job.proto")->type_name("FILE");
  create.add_option("name", job.name, "Name of the job (with --file: instead of the file's)");
  Fields fields(create, file);
  declare_job(fields, job);
  declare_rule(fields, job);
  declare_job_rounds(create, job.rounds, file);
  declare_job_racks(create, job, file);
  create.callback([&] {
    if (job.file.empty() && job.name.empty()) throw CLI::RequiredError("name, or --file FILE");
    command = [&job](const Session& session) { return create_job(session, job); };
  });
}

}  // namespace phub::phubctl
