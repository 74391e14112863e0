// The parts of phubctl's command line, and how a subcommand becomes what is done.
//
// Main thread. `command` outlives `app`, and is set where a subcommand is given.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {

// Asks no server. `credentials`: a folder, or empty.
using LocalCommand = std::function<Status(bool as_json, const std::string& credentials)>;

inline CLI::App& add_subcommand(CLI::App& app, const std::string& name, const std::string& help,
                                const std::string& footer) {
  CLI::App& sub = *app.add_subcommand(name, help);
  sub.footer(footer);
  return sub;
}

// Where `sub` is given, `command` becomes `function(session, options)`.
template <typename Options, typename Function>
void run_with(CLI::App& sub, Command& command, const std::shared_ptr<Options>& options,
              Function function) {
  sub.callback([options, function = std::move(function), &command] {
    command = [options, function](const Session& session) { return function(session, *options); };
  });
}
// The same for a part of the options, which several subcommands share.
template <typename Options, typename Part, typename Function>
void run_with(CLI::App& sub, Command& command, const std::shared_ptr<Options>& options,
              Part Options::*part, Function function) {
  run_with(sub, command, std::shared_ptr<Part>(options, &(options.get()->*part)),
           std::move(function));
}

// `phubctl snapshot`, `snapshots` and `restore`.
void declare_snapshots(CLI::App& app, Command& command);

// `phubctl tenant` and `audit`.
void declare_tenants(CLI::App& app, Command& command);

// `phubctl top`, `job explain` and `trace`. `jobs` is the subcommand `job`.
void declare_watch(CLI::App& app, CLI::App& jobs, Command& command);

// `phubctl probe` and `job shapes`.
void declare_probe(CLI::App& app, CLI::App& jobs, Command& command);
// An option whose text is the field's: common/job/fields.h. `flag` and `field` outlive `sub`.
CLI::Option* add_flag(CLI::App& sub, JobOptions& job, const char* flag, const char* field,
                      const std::string& help);
// --chunk-kib, in KiB.
void declare_chunks(CLI::App& sub, JobOptions& job);
// --racks, and what is told of the racks for a prediction; --racks is returned.
CLI::Option* declare_rack_options(CLI::App& sub, JobOptions& job);
// What is told for a prediction; only beside `needed`.
void declare_plan_options(CLI::App& sub, PlanOptions& plan, CLI::Option* needed);

// `phubctl job create`. `jobs` is the subcommand `job`; `job` outlives `jobs`.
void declare_create(CLI::App& jobs, JobOptions& job, Command& command);
// `phubctl job fields`.
void declare_fields(CLI::App& jobs, LocalCommand& command);

// `phubctl doctor` and `pki`.
void declare_doctor(CLI::App& app, LocalCommand& command);
void declare_pki(CLI::App& app, LocalCommand& command);

}  // namespace phub::phubctl
