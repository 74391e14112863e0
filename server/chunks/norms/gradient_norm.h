// The norm of all gradients of a job that clips by it, as one core finds it.
//
// Cores of one server share squares by the job's board (norm_board.h). With several servers the
// workers tell the sum (norm_words.h). Its core's thread only; nothing grows after set-up.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/protocol/window_layout.h"
#include "kernels/clip.h"
#include "server/chunks/norms/norm_words.h"
#include "server/job/memory.h"

namespace phub::server {

class GradientNorm {
 public:
  // `memory` is the job's and outlives this; the core has `chunks` chunks.
  GradientNorm(const JobLayout& layout, std::uint32_t core, std::size_t chunks, JobMemory& memory)
      : most_(layout.clip_norm),
        core_(core),
        plan_(layout.plan),
        ids_(plan_->core_chunks[layout.server_index][core]),
        board_(memory.norms.get()) {
    if (!clips_over_servers(layout)) return;
    words_.emplace(layout.workers, chunks, memory.norm_line(core),
                   norm_line_offset(*plan_, layout.server_index, core, size_of(layout.wire_type)));
  }

  // The job clips its gradients. The functions set, post and is_known REQUIRE it.
  bool is_on() const { return most_ > 0.0F; }
  // Null: the job does not clip over several servers.
  NormWords* words() { return words_ ? &*words_ : nullptr; }
  const NormWords* words() const { return words_ ? &*words_ : nullptr; }

  // Sets the sum of squares of a chunk's gradients in a round.
  void set(std::uint32_t slot, std::uint64_t round, double squares) {
    words_ ? words_->set(slot, squares) : board_->set(round, ids_[slot], squares);
  }
  // Tells the others that all of this core's chunks are set.
  void post(std::uint64_t round) { words_ ? words_->ask() : board_->post(round, core_); }
  // The others have told theirs too.
  bool is_known(std::uint64_t round) const {
    return words_ ? words_->is_known() : board_->is_whole(round);
  }
  // Returns the factor that clips the gradients of a round, and ends the round here. A NaN: the
  // norm is not finite. 1: the job does not clip. REQUIRES: is_known.
  float find_clip(std::uint64_t round, float gradient_scale) {
    if (!is_on()) return 1.0F;
    const double squares = words_ ? words_->sum() : board_->sum(round);
    if (words_) words_->end();
    return kernels::clip_coefficient(most_, squares, gradient_scale);
  }

 private:
  const float most_;  // the norm's bound after clipping; 0: the job does not clip
  const std::uint32_t core_;
  const std::shared_ptr<const Plan> plan_;
  const std::vector<std::uint32_t>& ids_;  // of the core's chunks in the plan, by slot
  NormBoard* const board_;                 // null: the job does not clip
  std::optional<NormWords> words_;
};

}  // namespace phub::server
