// `phubctl snapshot`, `snapshots` and `restore`.
#include <memory>

#include "common/plan/plan.h"
#include "server/phubctl/main.h"

namespace phub::phubctl {
namespace {

void declare_delete(CLI::App& snapshot, Command& command) {
  const auto file = std::make_shared<std::string>();
  CLI::App& remove = add_subcommand(
      snapshot, "delete", "Delete a snapshot of the server's",
      "Example:\n"
      "  phubctl snapshot delete default/demo.000000001200.safetensors\n\n"
      "Its bytes count no more to the tenant's disk quota. A job that waits to start from it\n"
      "cannot start any more. (A job that is called delete: phubctl snapshot -- delete)");
  remove.add_option("file", *file, "As `phubctl snapshots` lists it")->required();
  run_with(remove, command, file, delete_snapshot);
}

}  // namespace

void declare_snapshots(CLI::App& app, Command& command) {
  const auto snapshot = std::make_shared<SnapshotOptions>();
  CLI::App& take = add_subcommand(
      app, "snapshot", "Write a running job's parameters and state",
      "Examples:\n"
      "  phubctl snapshot demo\n"
      "  phubctl --server 10.0.0.1:7077 snapshot demo --also 10.0.0.2:7077\n"
      "                                 a job of two servers, both at the same round\n\n"
      "Training goes on; the pause is what the busiest core spent on copying. Each server\n"
      "writes a safetensors file with checksums into its state_folder and keeps the last few\n"
      "of a job. `phubctl snapshots` lists them.");
  take.add_option("job", snapshot->job, "Name of the job");
  take.add_option("--round", snapshot->round, "When this round is over; 0: as soon as possible")
      ->capture_default_str();
  take.add_option("--wait-ms", snapshot->wait_ms, "How long to wait for the round, milliseconds")
      ->check(CLI::Range(1U, 3'600'000U))
      ->capture_default_str();
  take.add_option("--also", snapshot->also, "The job's other servers")->type_name("HOST:PORT");
  declare_delete(take, command);
  take.callback([&take, &command, snapshot] {
    if (!take.get_subcommands().empty()) return;  // which has said what to do
    if (snapshot->job.empty()) throw CLI::RequiredError("job");
    command = [snapshot](const Session& session) { return take_snapshot(session, *snapshot); };
  });
  CLI::App& list = add_subcommand(app, "snapshots", "List the server's snapshots",
                                  "Examples:\n"
                                  "  phubctl snapshots\n"
                                  "  phubctl --json snapshots");
  list.callback([&command] { command = list_snapshots; });
  const auto restore = std::make_shared<RestoreOptions>();
  CLI::App& again = add_subcommand(
      app, "restore", "Make a job that starts from a snapshot",
      "Examples:\n"
      "  phubctl restore default/demo.000000001200.safetensors --as demo\n"
      "  phubctl restore default/demo.000000001200.safetensors --as demo --workers 4\n\n"
      "The job waits for its workers, which join as they join any other. Its first round, which\n"
      "otherwise takes worker 0's parameters, answers with the snapshot's. A job of that name "
      "that\n"
      "`phubctl job create` made and nobody has joined, as after a restart of the server, becomes\n"
      "that job. With another number of workers (not of a job of several racks) it says what is\n"
      "not as it was; a job of several servers is restored with as many at each.");
  again.add_option("file", restore->file, "As `phubctl snapshots` lists it")->required();
  again.add_option("--as", restore->name, "Name of the new job; left out: as it was");
  again
      .add_option("--workers", restore->workers,
                  "Workers of the new job; left out: as many as it had")
      ->check(CLI::Range(1U, kMaxWorkers));
  run_with(again, command, restore, restore_snapshot);
}

}  // namespace phub::phubctl
