#include "bench/memory/team.h"

#include <fmt/format.h>

#include "common/base/affinity.h"

namespace phub::bench {

Result<std::unique_ptr<Team>> Team::create(unsigned threads) {
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> cpus, usable_cpus());
  if (threads == 0 || threads > cpus.size()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--threads {}: use 1 to {}, a CPU of this machine for each", threads,
                              cpus.size()));
  }
  PHUB_RETURN_IF_ERROR(pin_this_thread(cpus[0]));
  std::unique_ptr<Team> team(new Team(threads));
  for (unsigned member = 1; member < threads; ++member) {
    team->threads_.emplace_back([self = team.get(), member, cpu = cpus[member]] {
      (void)pin_this_thread(cpu);
      for (;;) {
        self->meet();
        if (self->work_ == nullptr) return;
        (*self->work_)(member);
        self->meet();
      }
    });
  }
  return team;
}

Team::~Team() {
  work_ = nullptr;
  meet();
}

void Team::run(const std::function<void(unsigned)>& work) {
  work_ = &work;
  meet();
  work(0);
  meet();
}

}  // namespace phub::bench
