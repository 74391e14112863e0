#include "bench/report/sections.h"

#include <fmt/format.h>

#include <array>
#include <map>

namespace phub::bench::report {
namespace {

struct KnownKind {
  std::string_view kind;
  SectionMaker section;
  bool is_bench;  // known by the field "bench"
};

constexpr std::array<KnownKind, 17> kKnown = {{{"exchange", exchange_section, true},
                                               {"chunks", chunks_section, true},
                                               {"roof", roof_section, true},
                                               {"aggregate", aggregate_section, true},
                                               {"bars", bars_section, true},
                                               {"tenants", tenants_section, true},
                                               {"transport", transport_section, true},
                                               {"rack", rack_section, true},
                                               {"replay", replay_section, true},
                                               {"simulate", simulate_section, true},
                                               {"dollars", dollars_section, true},
                                               {"step", step_section, true},
                                               {"training", training_section, false},
                                               {"profile", profile_section, false},
                                               {"device steps", device_steps_section, false},
                                               {"rounds", rounds_section, false},
                                               {"machine", machine_section, false}}};

bool has_array(const Record& record, const char* field) {
  const auto found = record.find(field);
  return found != record.end() && found->is_array();
}

// lscpu's list of {"field": "Model name:", "data": "..."}, flat or in "children".
void collect(const Record& list, std::map<std::string, std::string>& fields, int depth) {
  constexpr int kDeepest = 4;
  if (!list.is_array() || depth > kDeepest) return;
  for (const Record& entry : list) {
    if (!entry.is_object()) continue;
    std::string name = word_in(entry, "field");
    if (!name.empty() && name.back() == ':') name.pop_back();
    fields.emplace(name, word_in(entry, "data"));
    if (entry.contains("children")) collect(entry["children"], fields, depth + 1);
  }
}

std::map<std::string, std::string> machine_fields(const Record& machine) {
  std::map<std::string, std::string> fields;
  collect(machine.at("lscpu"), fields, 0);
  return fields;
}

}  // namespace

std::string kind_of(const Record& record) {
  if (!record.is_object()) return {};
  const std::string bench = word_in(record, "bench");
  if (!bench.empty()) {
    for (const KnownKind& known : kKnown) {
      if (known.is_bench && known.kind == bench) return bench;
    }
    return {};
  }
  if (has_array(record, "lscpu")) return "machine";
  if (has_array(record, "traceEvents")) {
    const auto profile = record.find("phub_profile");
    if (profile != record.end()) return kind_of(*profile) == "profile" ? "profile" : "";
    const auto other = record.find("otherData");
    const bool is_ours = other != record.end() && other->is_object() && other->contains("job");
    return is_ours ? "rounds" : "";
  }
  if (word_in(record, "profile") == "steps" && has_array(record, "steps")) return "device steps";
  if (number_in(record, "profile") && has_array(record, "layers")) return "profile";
  for (const char* event : {"start", "step", "epoch", "end"}) {
    if (word_in(record, "event") == event) return "training";
  }
  return {};
}

SectionMaker section_maker(std::string_view kind) {
  for (const KnownKind& known : kKnown) {
    if (known.kind == kind) return known.section;
  }
  return nullptr;
}

std::string processor_of(const Record& machine) {
  auto fields = machine_fields(machine);
  return fmt::format("{}, family {} model {}, {} CPUs", fields["Model name"], fields["CPU family"],
                     fields["Model"], fields["CPU(s)"]);
}

Section machine_section(const Records& records) {
  Section section{"Machine", {}, {}};
  for (const Record& machine : records) {
    auto fields = machine_fields(machine);
    std::vector<Fact> facts;
    for (const char* name :
         {"Model name", "Vendor ID", "Architecture", "CPU family", "Model", "CPU(s)",
          "Thread(s) per core", "Core(s) per socket", "CPU max MHz", "Hypervisor vendor",
          "L1d cache", "L1d", "L2 cache", "L2", "L3 cache", "L3", "NUMA node(s)"}) {
      if (fields.contains(name)) facts.push_back({name, fields[name]});
    }
    section.html += facts_html(facts);
  }
  return section;
}

}  // namespace phub::bench::report
