// `phubctl job create`.
#include <cstdint>
#include <string>
#include <vector>

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

// A flag that has a field of its own. Others are set by --set.
struct Flag {
  const char* flag;
  const char* field;
  const char* help;
};

constexpr Flag kFlags[] = {
    {"--workers", "workers", "Workers that it waits for; left out: 1"},
    {"--rule", "rule",
     "sum, mean, sgd, momentum, nesterov, lars, adam, adamw, adagrad, lamb or elastic; left out: "
     "sum"},
    {"--wire-type", "wire_type", "fp32, fp16 or bf16; left out: fp32"},
    {"--encoding", "encoding",
     "What workers push: dense, sparse, int8 or int4 (train.compress); left out: dense"},
    {"--watch-values", "watch_values",
     "Who pushes NaNs and infinities: off, name (tell it), or fail (and end the job); left out: "
     "off"},
    {"--tcp-streams", "tcp_streams",
     "Connections by tcp from each worker to each core, 1 to 16, for long fat links"},
    {"--order", "order", "deterministic or arrival; left out: deterministic"},
    {"--learning-rate", "learning_rate",
     "As in the workers' configuration; worker 0 may change it later. Of elastic: train.outer's "
     "elasticity. Sum and mean have none"},
    {"--momentum", "momentum", "Of momentum, nesterov and lars; others have none"},
    {"--gradient-scale", "gradient_scale",
     "Of the summed gradient; 0: 1 / workers (with --quorum: 1 / the pushes of a round)"},
    {"--trust-coefficient", "trust_coefficient",
     "Of lars: a step's share of a tensor's norm; left out: 0.001"},
    {"--trust-epsilon", "trust_epsilon", "Of lars: added to the gradient's norm; left out: 0"},
    {"--beta1", "beta1", "Of adam, adamw and lamb: left out: 0.9"},
    {"--beta2", "beta2", "Of adam, adamw and lamb: left out: 0.999"},
    {"--epsilon", "epsilon", "Of adam, adamw, adagrad and lamb; left out: 1e-8, 1e-8, 1e-10, 1e-6"},
    {"--clip-norm", "clip_norm", "Of all keys' averaged gradients at most; left out: no bound"},
    {"--ema-decay", "ema_decay", "Of the parameters' moving average; left out: there is none"},
    {"--quorum", "rounds.quorum",
     "Pushes that complete a round, below --workers, so that nobody waits for the slowest: backup "
     "workers (N - b), asynchronous (1, with --late add), stale synchronous parallel (the same, "
     "with --staleness). Needs --order arrival. Left out: every worker's"},
    {"--grace-ms", "rounds.grace_ms",
     "Of --late drop: after these, how long more are waited for; left out: 0"},
    {"--patience-ms", "rounds.patience_ms",
     "Of --late drop: so long after its first push a round goes on without its quorum; longer than "
     "workers are apart; left out: 10000"},
    {"--staleness", "rounds.staleness",
     "So many rounds a worker may be ahead of the slowest, for which its reply waits; left out: "
     "any"},
    {"--late", "rounds.late",
     "What becomes of a push whose round is over: drop (counted, and replied to with the current "
     "parameters), or add (it is one of the round that is under way, and nobody waits for a "
     "round's end); left out: drop"},
    {"--push-weight", "rounds.weight",
     "What a push is multiplied by: one, staleness (1 / (1 + s), if s rounds have passed since its "
     "parameters), or samples (the worker's batch); left out: one"},
    {"--rack-hybrid-bytes", "rack_hybrid_bytes",
     "Of hybrid: keys of at most so many bytes are small; left out: those that share chunks"},
    {"--rack-selector", "rack_compress.selector",
     "How the largest are found: histogram, exact, mstopk; left out: histogram"},
};

// Flags without a value.
struct Switch {
  Flag flag;
  const char* text;
};
constexpr Switch kSwitches[] = {
    {{"--checksums", "checksums",
      "Workers send a checksum with each chunk; the servers compare it, and another one ends the "
      "job with worker, key and round"},
     "true"},
    {{"--turns", "rounds.turns",
      "Of --quorum 1 --late add: a worker is replied to when the one before it has pushed, so that "
      "one computes at a time"},
     "true"},
    {{"--hogwild", "rounds.hogwild",
      "Of --quorum 1 --late add, over shm: workers change the shared parameters themselves, "
      "without locks"},
     "true"},
    {{"--rack-no-feedback", "rack_compress.error_feedback",
      "What does not go up is lost, instead of added to the next round's sum; to compare with"},
     "false"},
};

void declare_special(CLI::App& sub, JobOptions& job) {
  sub.add_option("--key", job.keys, "NAME:ELEMENTS[:WEIGHT_DECAY], in forward order")
      ->allow_extra_args(false);
  sub.add_option("--exclude-from-lars", job.exclude_from_lars,
                 "Of lars and lamb: a key at trust 1, as biases are")
      ->type_name("NAME")
      ->allow_extra_args(false);
  sub.add_option_function<std::string>(
      "--rack-shape",
      [&job](const std::string& shape) {
        job.chooses_shape = shape == "auto";
        if (!job.chooses_shape) job.settings.push_back({"--rack-shape", "rack_shape", shape});
      },
      "How the racks are joined: spread, chain, multicolour, hybrid, tree, nested (by the levels "
      "of their names, as site1/row2/rack3), or auto: by the last probe; left out: spread");
}

// FIELD=VALUE, after the flags: it is in place of theirs.
void declare_set(CLI::App& sub, JobOptions& job) {
  sub.add_option_function<std::vector<std::string>>(
         "--set",
         [&job](const std::vector<std::string>& given) {
           for (const std::string& each : given) {
             const std::size_t equals = each.find('=');
             if (equals == std::string::npos) {
               throw CLI::ValidationError("--set", "\"" + each +
                                                       "\" has no \"=\"; write "
                                                       "FIELD=VALUE, as rounds.quorum=3");
             }
             const std::string field = each.substr(0, equals);
             job.settings.push_back({"--set " + field, field, each.substr(equals + 1)});
           }
         },
         "Any field of the job (`phubctl job fields` lists them), also in place of the file's")
      ->type_name("FIELD=VALUE")
      ->allow_extra_args(false);
}

}  // namespace

void declare_chunks(CLI::App& sub, JobOptions& job) {
  sub.add_option_function<std::uint32_t>(
         "--chunk-kib",
         [&job](std::uint32_t kib) {
           job.settings.push_back(
               {"--chunk-kib", "chunk_bytes", std::to_string(std::uint64_t{kib} * 1024)});
         },
         "Size of a chunk, KiB; left out: 32")
      ->check(CLI::Range(4U, 4096U));
}

CLI::Option* add_flag(CLI::App& sub, JobOptions& job, const char* flag, const char* field,
                      const std::string& help) {
  return sub.add_option_function<std::string>(
      flag,
      [&job, flag, field](const std::string& text) {
        job.settings.push_back({flag, field, text});
      },
      help);
}

void declare_create(CLI::App& jobs, JobOptions& job, Command& command) {
  CLI::App& create =
      add_subcommand(jobs, "create", "Make a job before its workers join", kExamples);
  create.add_option("--file", job.file, "JobSpec of proto/job.proto")->type_name("FILE");
  create.add_option("name", job.name, "Name of the job (with --file: instead of the file's)");
  for (const Flag& flag : kFlags) add_flag(create, job, flag.flag, flag.field, flag.help);
  for (const Switch& one : kSwitches) {
    create.add_flag_callback(
        one.flag.flag,
        [&job, &one] {
          job.settings.push_back({one.flag.flag, one.flag.field, one.text});
        },
        one.flag.help);
  }
  declare_chunks(create, job);
  declare_special(create, job);
  declare_rack_options(create, job)->excludes("--workers");
  declare_set(create, job);
  create.callback([&] {
    if (job.file.empty() && job.name.empty()) throw CLI::RequiredError("name, or --file FILE");
    command = [&job](const Session& session) { return create_job(session, job); };
  });
}

void declare_fields(CLI::App& jobs, LocalCommand& command) {
  CLI::App& fields =
      add_subcommand(jobs, "fields", "What a job may say, and what contradicts each other",
                     "Examples:\n"
                     "  phubctl job fields\n"
                     "  phubctl job create demo --set watch_values=name\n\n"
                     "Asks no server. The fields are those of JobSpec in "
                     "proto/job.proto.");
  fields.callback([&command] {
    command = [](bool as_json, const std::string&) { return print_fields(as_json); };
  });
}

}  // namespace phub::phubctl
