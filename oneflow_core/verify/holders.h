// Who may hold bytes of the arenas while a program runs, and where a game over them
// (happens_before.h) keeps what it knows of each: an index over a program's net, which does not
// change as the game goes on.
//
// A holder is a register, or one place of a member of frames or of a register that fills its places
// once (frames.h). A game touches the state of a few holders at every firing and has thousands of
// firings a round, so the state lies in three flat arrays, in which what is touched together lies
// together: all members of a frame side by side, frame after frame.
//
//   holder    what is said of a holder once
//   access    one count for each who touches it: its writer, then its readers
//   cell      who has some bytes. The bytes of an arena, and those of a frame, are cut wherever a
//             register begins or ends, so a register has a run of cells, whole
#pragma once

#include <cstdint>
#include <vector>

#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/places.h"
#include "oneflow_core/verify/frames.h"

namespace oneflow {

// Where the state of a register lies: of its one holder, or of its places, so many steps apart.
struct Spot {
  int64_t places = 1, first_place = 0;
  int holder = 0, holder_step = 0;
  int access = 0, access_step = 0;

  int64_t PlaceOf(int64_t fill) const { return InTurn(first_place + fill, places); }
};

struct Holders {
  // What an actor reads and writes, out of the plan's messages.
  struct Reading {
    int reg = 0, access = 0;  // access: which of its register's is the reader's
    int64_t per_read = 1, initial_fills = 0;
    Spot spot;  // of the register
  };
  struct Writing {
    int reg = 0, frames = -1;  // frames: whose member it is
    int64_t per_fill = 1;
    bool bytes = false;  // it has some
    bool intrudes = false;
    Spot spot;
  };
  // One of those who touch a register.
  struct Toucher {
    int actor = -1, stream = -1;  // -1: nobody writes it
  };
  struct Cells {
    int first = 0, count = 0;  // 0: it is not written, or empty
  };
  // What one frame has of each array, frame after frame from where the first begins.
  struct Block {
    int holder = 0, holders = 0, access = 0, accesses = 0, cell = 0, cells = 0;
  };

  // Requires that the types of the program are verified: an actor writes on its own stage.
  explicit Holders(const PlanNet& net);

  int touchers_of(int reg) const { return first_toucher[reg + 1] - first_toucher[reg]; }
  // The place of a register that has the cell. Requires that one has.
  int64_t PlaceWith(int reg, int cell) const;

  std::vector<Frames> frames;
  std::vector<Block> blocks;                      // by frames
  std::vector<std::vector<int>> intrudes;         // by register: frames
  std::vector<Spot> spots;                        // by register
  std::vector<Cells> cells_of;                    // by holder
  std::vector<Toucher> touchers;                  // writers, readers, by register
  std::vector<int> first_toucher;                 // by register, and the end
  std::vector<Reading> readings;                  // by actor
  std::vector<Writing> writings;                  // by actor
  std::vector<int> first_reading, first_writing;  // by actor, and the end
  int holders = 0, accesses = 0, cells = 0;       // sizes of the arrays
  int arena_cells = 0;                            // those of arenas come first

 private:
  void AddTouchers(const PlanNet& net);
  void LayArenas(const PlanNet& net);
  void LayFrames(const PlanNet& net);
  void AddActors(const PlanNet& net);
};

}  // namespace oneflow
