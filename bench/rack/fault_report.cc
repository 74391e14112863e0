#include <fmt/format.h>

#include "bench/rack/fault_run.h"
#include "bench/rack/faults.h"
#include "common/text/table.h"

namespace phub::bench {
namespace {

const char* word_of(EndKind kind) {
  switch (kind) {
    case EndKind::kDone:
      return "done";
    case EndKind::kError:
      return "error";
    case EndKind::kKilled:
      return "killed";
    case EndKind::kHung:
      return "hung";
  }
  return "";
}

}  // namespace

std::string fault_report_text(const RackScenario& scenario,
                              const std::vector<FaultedWorker>& workers) {
  std::string text;
  for (const RackFault& fault : scenario.faults()) text += fault_text(fault) + "\n";
  Table table("worker|end|>after|right|what it said");
  for (const FaultedWorker& worker : workers) {
    const bool has_ended = worker.kind != EndKind::kHung;
    table.add({worker.host, word_of(worker.kind), has_ended ? human_time(worker.seconds) : "",
               worker.wrong.empty() ? "yes" : "no", worker.error});
  }
  return text + "\n" + table.to_string();
}

nlohmann::ordered_json fault_report_json(const RackScenario& scenario,
                                         const std::vector<FaultedWorker>& workers) {
  nlohmann::ordered_json faults = nlohmann::json::array();
  for (const RackFault& fault : scenario.faults()) {
    faults.push_back({{"kind", RackFault::Kind_Name(fault.kind())},
                      {"target", target_of(fault)},
                      {"at_round", fault.at_round()},
                      {"at_s", fault.at_s()}});
    if (fault.has_for_s()) faults.back()["for_s"] = fault.for_s();
  }
  nlohmann::ordered_json ends = nlohmann::json::array();
  for (const FaultedWorker& worker : workers) {
    nlohmann::ordered_json end = {{"worker", worker.host}, {"end", word_of(worker.kind)}};
    if (worker.kind != EndKind::kHung) end["seconds"] = worker.seconds;
    if (!worker.error.empty()) end["error"] = worker.error;
    end["right"] = worker.wrong.empty();
    if (!worker.wrong.empty()) end["wrong"] = worker.wrong;
    ends.push_back(std::move(end));
  }
  return {{"faults", faults},
          {"fault_deadline_s", scenario.fault_deadline_s()},
          {"ends", ends},
          {"all_right", verdict(workers).ok()}};
}

}  // namespace phub::bench
