// phubctl: looks at and administers a phub-server.
#include "server/phubctl/main.h"

#include <fmt/format.h>
#include <grpc/support/log.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "common/base/version.h"
#include "common/text/error_line.h"
#include "common/text/help_format.h"
#include "common/text/usage.h"
#include "server/phubctl/commands/client.h"

namespace phub::phubctl {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

struct Arguments {
  std::string server = "127.0.0.1:7077";
  bool as_json = false;
  std::string credentials;
  std::string tenant;
  std::uint32_t timeout_ms = 5000;
  std::string name;
  std::uint64_t job_id = 0;
  bool with_chunks = false;
  bool explains_plan = false;
  std::uint32_t deadline_ms = 0;
  bool snapshots = false;
  JobOptions job;
};

void declare_jobs(CLI::App& app, Arguments& options, Command& command,
                  LocalCommand& local_command) {
  CLI::App& jobs = add_subcommand(app, "job", "List, inspect, explain, create, close and plan jobs",
                                  "Examples:\n"
                                  "  phubctl job list\n"
                                  "  phubctl job inspect demo\n"
                                  "  phubctl job COMMAND --help      more of each");
  jobs.require_subcommand(1);
  CLI::App& list = add_subcommand(jobs, "list", "Live jobs and the last finished ones",
                                  "Examples:\n"
                                  "  phubctl job list\n"
                                  "  phubctl --json job list");
  list.callback([&command] { command = list_jobs; });
  CLI::App& inspect = add_subcommand(jobs, "inspect", "A job, its members and its statistics",
                                     "Examples:\n"
                                     "  phubctl job inspect demo\n"
                                     "  phubctl job inspect --id 7");
  inspect.add_option("name", options.name, "Name: the live job, else the last one of that name");
  inspect.add_option("--id", options.job_id, "Id, instead of the name");
  inspect.callback([&] {
    if (options.name.empty() && options.job_id == 0) throw CLI::RequiredError("name, or --id N");
    command = [&](const Session& session) {
      return inspect_job(session, options.name, options.job_id);
    };
  });
  declare_create(jobs, options.job, command);
  declare_fields(jobs, local_command);
  CLI::App& close = add_subcommand(jobs, "close", "End a job; its workers are told",
                                   "Example:\n  phubctl job close demo");
  close.add_option("name", options.name, "Name of the job")->required();
  close.callback(
      [&] { command = [&](const Session& session) { return close_job(session, options.name); }; });
  CLI::App& plan = add_subcommand(
      jobs, "plan", "Which core has which chunks, and the load of each",
      "Examples:\n"
      "  phubctl job plan demo\n"
      "  phubctl job plan demo --chunks\n"
      "  phubctl job plan demo --explain    which shape its racks would take, and why");
  plan.add_option("name", options.name, "Name of the job")->required();
  plan.add_flag("--chunks", options.with_chunks, "List every chunk too");
  auto* const explains =
      plan.add_flag("--explain", options.explains_plan,
                    "Which shape its racks would take by the last probe, and what each would take")
          ->excludes("--chunks");
  declare_plan_options(plan, options.job.plan, explains);
  plan.callback([&] {
    command = [&](const Session& session) {
      if (options.explains_plan) return explain_plan(session, options.name, options.job.plan);
      return print_plan(session, options.name, options.with_chunks);
    };
  });
}

void declare_server(CLI::App& app, Arguments& options, Command& command) {
  CLI::App& server = add_subcommand(app, "server", "The server itself",
                                    "Examples:\n"
                                    "  phubctl server stats\n"
                                    "  phubctl --server 10.0.0.7:7077 --json server stats");
  server.require_subcommand(1);
  server.add_subcommand("stats", "Load, memory, connections, certificates and dropped input")
      ->callback([&command] { command = print_statistics; });
  CLI::App& drain_command = add_subcommand(
      app, "drain", "Take no new jobs from now on",
      "Examples:\n"
      "  phubctl drain                       running jobs may finish\n"
      "  phubctl drain --deadline-ms 60000 --snapshots\n"
      "                                      they have a minute, then are kept as files");
  drain_command
      .add_option(
          "--deadline-ms", options.deadline_ms,
          "End jobs that still run then, milliseconds; 0: let them finish. Workers are told "
          "to stop and to write their checkpoints the server's drain_timeout_ms before")
      ->capture_default_str();
  drain_command.add_flag("--snapshots", options.snapshots,
                         "Take a snapshot of each job that the deadline ends");
  drain_command.callback([&] {
    command = [&](const Session& session) {
      return drain(session, options.deadline_ms, options.snapshots);
    };
  });
}

void declare_racks(CLI::App& app, Command& command) {
  CLI::App& racks = add_subcommand(
      app, "racks", "The racks and their servers, as the server knows them",
      "Examples:\n"
      "  phubctl racks\n"
      "  phubctl --server 10.0.0.7:7077 --json racks\n\n"
      "They come from the server's configuration, or from an etcd (directory in\n"
      "proto/config.proto). While that does not answer, what was known stays, and why is said.");
  racks.callback([&command] { command = list_racks; });
}

void declare(CLI::App& app, Arguments& options, Command& command, LocalCommand& local_command) {
  app.description("phubctl: looks at and administers a phub-server.");
  app.footer(
      "Examples:\n"
      "  phubctl job list\n"
      "  phubctl job inspect demo\n"
      "  phubctl job explain demo       why is a step slow?\n"
      "  phubctl top\n"
      "  phubctl --server 10.0.0.7:7077 --json server stats\n"
      "  phubctl --credentials pki/admin tenant list\n"
      "  phubctl doctor\n\n"
      "Exit status: 0 done, 1 refused or no server answers, 2 bad usage.");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--server", options.server, "Control address of the server")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--credentials", options.credentials,
                 "Folder with ca.pem, cert.pem, key.pem, token: who you are")
      ->envname("PHUB_CREDENTIALS")
      ->type_name("FOLDER");
  app.add_option("--tenant", options.tenant,
                 "Whose jobs are meant; left out: the token's, or \"default\"")
      ->type_name("NAME");
  app.add_flag("--json", options.as_json,
               "One JSON object on one line instead of tables, and of errors");
  app.set_version_flag("--version", version_of("phubctl"));
  app.add_option("--timeout-ms", options.timeout_ms, "Deadline of the call, milliseconds")
      ->check(CLI::Range(1U, 3'600'000U))
      ->capture_default_str();
  declare_jobs(app, options, command, local_command);
  declare_server(app, options, command);
  declare_racks(app, command);
  declare_probe(app, *app.get_subcommand("job"), command);
}

Status ask_server(const Arguments& options, const Command& command) {
  CredentialFiles credentials;
  if (!options.credentials.empty()) {
    PHUB_ASSIGN_OR_RETURN(credentials, find_credentials(options.credentials));
  }
  const auto connect = [&](const std::string& address) {
    return AdminClient::create(address, std::chrono::milliseconds(options.timeout_ms), credentials);
  };
  PHUB_ASSIGN_OR_RETURN(const auto client, connect(options.server));
  return command({.client = *client,
                  .as_json = options.as_json,
                  .tenant = options.tenant,
                  .connect = connect});
}

// To standard error: a sentence, or with --json an object on one line.
void say_error(const Status& status, bool as_json) {
  fmt::print(stderr, "{}\n", error_line("phubctl", status, as_json));
}

// What was wrong with the command line, before it is known whether --json was understood.
int refuse_usage(CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const bool is_refusal = error.get_exit_code() != 0;
  if (!asks_for_json(argc, argv) || !is_refusal) return app.exit(error) == 0 ? 0 : kExitUsage;
  say_error({Code::kInvalidArgument, usage_error(app, error)}, true);
  return kExitUsage;
}

int run(int argc, char** argv) {
  CLI::App app;
  app.formatter(phub::help_format());
  Arguments options;
  Command command;
  LocalCommand local_command;
  declare(app, options, command, local_command);
  declare_snapshots(app, command);
  declare_tenants(app, command);
  declare_watch(app, *app.get_subcommand("job"), command);
  declare_doctor(app, local_command);
  declare_pki(app, local_command);
  refuse_negative_counts(app);
  app.failure_message(usage_failure);
  gpr_set_log_function([](gpr_log_func_args*) {});  // what matters comes back as a Status
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return refuse_usage(app, error, argc, argv);
  }
  const Status status = local_command ? local_command(options.as_json, options.credentials)
                                      : ask_server(options, command);
  if (status.ok()) return 0;
  say_error(status, options.as_json);
  return status.code() == Code::kInvalidArgument ? kExitUsage : kExitFailure;
}

}  // namespace
}  // namespace phub::phubctl

int main(int argc, char** argv) {
  try {
    return phub::phubctl::run(argc, argv);
  } catch (const std::exception& error) {  // a library's; we throw nothing
    std::fprintf(stderr, "phubctl: %s\n", error.what());
    return 1;
  }
}
