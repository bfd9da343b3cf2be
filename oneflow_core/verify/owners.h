// The owners of arena bytes while a program runs, and the arrays in which a game over them
// (happens_before.h) keeps its state. An index over a program's net, which games do not change.
//
// An owner is a register, or one buffer of a member of frames, or one buffer of a register that
// fills its buffers once (frames.h). A game updates the state of a few owners at every firing and
// has thousands of firings a round. So the state is in three flat arrays, in which entries that are
// used together are neighbours: all members of a frame side by side, frame after frame.
//
//   owner     the state of an owner, all its bytes together
//   access    one count for each accessor of an owner: its writer, then its readers
//   cell      the register that has some bytes. The bytes of an arena, and those of a frame, are
//             split wherever a register begins or ends, so a register has a run of entire cells
#pragma once

#include <cstdint>
#include <vector>

#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/buffers.h"
#include "oneflow_core/verify/frames.h"

namespace oneflow {

// Location of a register's state in the flat arrays. Each buffer that is an owner has its own
// entry; `owner_step` and `access_step` are the distances from the entry of a buffer to that of the
// next.
struct Location {
  int64_t buffers = 1, first_buffer = 0;
  int owner = 0, owner_step = 0;
  int access = 0, access_step = 0;

  int64_t BufferIndex(int64_t fill) const { return CyclicIndex(first_buffer + fill, buffers); }
};

struct Owners {
  // One register that an actor reads, copied out of the plan's messages for speed.
  struct Reading {
    int reg = 0, access = 0;  // access: index of the reader among the register's accessors
    int64_t per_read = 1, initial_fills = 0;
    Location location;  // of the register
  };
  struct Writing {
    int reg = 0, frames = -1;  // frames: those of which it is a member; -1: none
    int64_t per_fill = 1;
    bool bytes = false;      // it has some
    bool conflicts = false;  // it overlaps frames of which it is not a member
    Location location;
  };
  // The writer of a register, or one of its readers.
  struct Accessor {
    int actor = -1, stream = -1;  // -1: nobody writes it
  };
  struct Cells {
    int first = 0, count = 0;  // 0: it is not written, or empty
  };
  // The entries of the first frame in each array; those of the other frames follow.
  struct Block {
    int owner = 0, owners = 0, access = 0, accesses = 0, cell = 0, cells = 0;
  };

  // Requires that the types of the program are verified: an actor writes on its own stage.
  explicit Owners(const PlanNet& net);

  int accessor_count(int reg) const { return first_accessor[reg + 1] - first_accessor[reg]; }
  // The buffer of register `reg` that contains the cell. Requires that there is one.
  int64_t BufferWith(int reg, int cell) const;

  std::vector<Frames> frames;
  std::vector<Block> blocks;                      // by frames
  std::vector<std::vector<int>> conflicts;        // by register: frames
  std::vector<Location> locations;                // by register
  std::vector<Cells> cells_of;                    // by owner
  std::vector<Accessor> accessors;                // writers, readers, by register
  std::vector<int> first_accessor;                // by register, and the end
  std::vector<Reading> readings;                  // by actor
  std::vector<Writing> writings;                  // by actor
  std::vector<int> first_reading, first_writing;  // by actor, and the end
  int owners = 0, accesses = 0, cells = 0;        // sizes of the arrays
  int arena_cells = 0;                            // those of arenas come first

 private:
  void AddAccessors(const PlanNet& net);
  void AddArenas(const PlanNet& net);
  void AddFrames(const PlanNet& net);
  void AddActors(const PlanNet& net);
};

}  // namespace oneflow
