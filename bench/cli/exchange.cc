#include "bench/exchange/exchange.h"

#include <algorithm>
#include <array>
#include <memory>

#include "bench/cli/cli.h"
#include "bench/cli/options.h"
#include "bench/compare/commands.h"
#include "bench/delay/delayed_endpoint.h"
#include "common/plan/plan.h"

namespace phub::bench {
namespace {

constexpr unsigned kMostChunkKib = 16 * 1024;
constexpr unsigned kSmallIterations = 3500;
constexpr unsigned kSmallWarmUp = 50;

struct ExchangeWords {
  ExchangeOptions options;
  std::vector<std::string> peers;
  std::vector<std::string> systems;
  std::optional<bool> roof;
};

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<SystemKind> chosen_systems(const ExchangeWords& words) {
  const bool gloo = contains(words.peers, "gloo");
  const std::array wanted = {true, gloo, gloo, contains(words.peers, "openmpi"),
                             words.roof.value_or(!words.peers.empty())};
  std::vector<SystemKind> kinds;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (words.systems.empty() ? wanted[i] : contains(words.systems, kSystemNames[i])) {
      kinds.push_back(static_cast<SystemKind>(i));
    }
  }
  return kinds;
}

Status run_words(const ExchangeWords& words) {
  ExchangeOptions options = words.options;
  options.plan = spread(options.plan);
  options.systems = chosen_systems(words);
  const bool has_phub = std::find(options.systems.begin(), options.systems.end(),
                                  SystemKind::kPhub) != options.systems.end();
  if (options.encrypt && !(has_phub && contains(options.transports, "tcp"))) {
    return {Code::kInvalidArgument,
            "--encrypt: only phub's tcp is encrypted; add tcp to --transport, and phub to "
            "--systems if that is given"};
  }
  const bool can_vote = has_phub && std::any_of(options.rules.begin(), options.rules.end(),
                                                [](RuleKind rule) { return has_parameters(rule); });
  if (options.vote && !can_vote) {
    return {Code::kInvalidArgument,
            "--vote: only phub's rules with parameters wait for votes; add sgd, momentum or "
            "nesterov to --rule, and phub to --systems if that is given"};
  }
  if (options.watch && !has_phub) {
    return {Code::kInvalidArgument,
            "--watch-values: only phub's servers do; add phub to --systems"};
  }
  const bool has_tcp = has_phub && contains(options.transports, "tcp");
  if (options.tcp_streams > 1 && !has_tcp) {
    return {Code::kInvalidArgument,
            "--tcp-streams: are phub's by tcp; add tcp to --transport, and phub to --systems if "
            "that is given"};
  }
  if (options.work.tcp_delay_us > 0 && !has_tcp) {
    return {Code::kInvalidArgument,
            "--tcp-delay-us: is of what phub sends by tcp; add tcp to --transport, and phub to "
            "--systems if that is given"};
  }
  if (options.checksums && !has_phub) {
    return {Code::kInvalidArgument, "--checksums: only phub has them; add phub to --systems"};
  }
  return run_exchange(options);
}

void add_systems(CLI::App& command, const std::shared_ptr<ExchangeWords>& words) {
  command
      .add_option(
          "--peers", words->peers,
          "run these on the same work in the same run: gloo (ring and halving-doubling over "
          "TCP on 127.0.0.1), openmpi (MPI_Allreduce in place)")
      ->delimiter(',')
      ->check(CLI::IsMember({"gloo", "openmpi"}))
      ->default_str("");
  command.add_flag(
      "--roof,!--no-roof", words->roof,
      "also run what memory allows for (workers + 2) streams, see the subcommand roof; "
      "on by default with --peers");
  command
      .add_option("--systems", words->systems,
                  "exactly these systems instead: phub, gloo-ring, gloo-halving-doubling, openmpi, "
                  "roof")
      ->delimiter(',')
      ->check(CLI::IsMember(std::vector<std::string>(kSystemNames.begin(), kSystemNames.end())))
      ->default_str("");
}

}  // namespace

void add_exchange(CLI::App& app, Run& run) {
  auto words = std::make_shared<ExchangeWords>();
  CLI::App* command = app.add_subcommand(
      "exchange", "time the exchange of a model's gradients, beside other systems");
  command->footer(
      "One iteration: each worker, a process of its own, pushes all keys, last first, and waits "
      "for\n"
      "all. Its time runs from the moment the last worker ended the iteration before to the "
      "moment\n"
      "the last worker ends this one. Lists (--transport shm,tcp --workers 4,8 --rule "
      "sum,nesterov)\n"
      "run every combination, all taking turns.\n\n"
      "  phub-bench exchange --transport shm --workers 4 --peers gloo,openmpi\n"
      "  phub-bench exchange --transport shm,tcp --elements 8192 --iterations 7000 --peers gloo\n"
      "  phub-bench exchange --transport tcp --workers 4,8 --rule nesterov --json\n"
      "  phub-bench exchange --transport tcp --encrypt\n"
      "  phub-bench exchange --rule momentum --dtype fp16 --vote");
  command->add_option("--transport", words->options.transports, "shm, tcp, verbs or several")
      ->delimiter(',')
      ->check(CLI::IsMember({"shm", "tcp", "verbs"}));
  command->add_option("--workers,-N", words->options.workers, "worker processes")
      ->delimiter(',')
      ->check(worker_range());
  add_rules(*command, words->options.rules);
  command->add_flag("--encrypt", words->options.encrypt,
                    "also run phub over encrypted tcp (security.encrypt_data), taking turns with "
                    "phub over plain tcp");
  command->add_flag(
      "--vote", words->options.vote,
      "also run phub with a vote of each worker at the end of each round, as a dynamic "
      "loss scale needs it, taking turns with phub without");
  command->add_flag("--watch-values", words->options.watch,
                    "also run phub whose servers look who pushes what is not finite, taking turns "
                    "with phub that does not");
  command->add_flag("--checksums", words->options.checksums,
                    "also run phub with a checksum of each push, taking turns with phub without");
  command
      ->add_option("--tcp-streams", words->options.tcp_streams,
                   "also run phub over tcp with so many streams of each worker to each core, "
                   "taking turns with phub with one")
      ->check(CLI::Range(1U, kMaxTcpStreams));
  command
      ->add_option("--tcp-delay-us", words->options.work.tcp_delay_us,
                   "what phub sends by tcp leaves so much later, as on a link that is so long")
      ->check(CLI::Range(0U, kDelayUsMax));
  add_work(*command, words->options.work);
  command->add_option("--chunk-kib", words->options.work.chunk_kib, "size of a chunk in KiB")
      ->check(CLI::Range(1U, kMostChunkKib));
  add_plan(*command, words->options.plan);
  add_systems(*command, words);
  command->add_flag("--json", words->options.json, "one JSON object a line instead of tables");
  runs(*command, run, [words] { return run_words(*words); });
}

void add_chunks(CLI::App& app, Run& run) {
  auto options = std::make_shared<ChunksOptions>();
  CLI::App* command = app.add_subcommand("chunks", "time the exchange with chunks of each size");
  command->footer("  phub-bench chunks --transport tcp --workers 4");
  command->add_option("--transport", options->work.transport, "shm, tcp or verbs")
      ->check(CLI::IsMember({"shm", "tcp", "verbs"}));
  command->add_option("--workers,-N", options->work.workers, "worker processes")
      ->check(worker_range());
  add_rule(*command, options->work.rule);
  add_work(*command, options->work);
  command->add_option("--sizes", options->sizes_kib, "chunk sizes in KiB")
      ->delimiter(',')
      ->check(CLI::Range(1U, kMostChunkKib));
  add_plan(*command, options->plan);
  command->add_flag("--json", options->json, "one JSON object a line instead of a table");
  runs(*command, run, [options] {
    options->plan = spread(options->plan);
    return run_chunks(*options);
  });
}

void add_bars(CLI::App& app, Run& run) {
  auto options = std::make_shared<BarsOptions>();
  options->small_plan.iterations = kSmallIterations;
  options->small_plan.warm_up = kSmallWarmUp;
  CLI::App* command = app.add_subcommand(
      "bars", "every bar that PHub is held to, in one run: 4 and 8 workers, shm and tcp");
  command->footer(
      "Needs both peers and some 10 GiB of memory for ResNet-50.\n\n"
      "  phub-bench bars");
  add_work(*command, options->work);
  add_plan(*command, options->plan);
  command
      ->add_option("--small-iterations", options->small_plan.iterations,
                   "timed iterations of the one-chunk exchanges")
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", options->json, "one JSON object a line instead of tables");
  runs(*command, run, [options] {
    options->small_plan.blocks = options->plan.blocks;
    options->small_plan = spread(options->small_plan);
    options->plan = spread(options->plan);
    return run_bars(*options);
  });
}

}  // namespace phub::bench
