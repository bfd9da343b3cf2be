// Painter: knows which bytes of a process's arena an exchange gives back when it is over, and which
// it will write: these may be painted over then, so that whoever reads them too late, or relies on
// what was never written, computes other numbers.
//
// It paints inputs that no other actor reads, and outputs that are not updated in place and are
// disjoint from the inputs. If several registers of a program have one address, it paints the bytes
// that all allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>

#include "proto/plan.pb.h"

namespace oneflow::cluster {

class Painter {
 public:
  // `arena`: of the device, which is of stage `stage`.
  Painter(const proto::Plan& plan, int stage, std::byte* arena);

  // The part of the input or output at an address that may be painted while this program runs.
  int64_t found() const { return found_; }  // addresses for which there was something to paint
  void SetProgram(const std::string& name) { program_ = name; }
  std::span<std::byte> Input(const std::byte* address) const { return Find(inputs_, address); }
  std::span<std::byte> Output(const std::byte* address) const { return Find(outputs_, address); }

  // A pattern that is no number of any type.
  static void Paint(std::span<std::byte> bytes);

 private:
  // Bytes at an offset of the arena; 0: none may be painted.
  using Buffers = std::map<int64_t, int64_t>;
  std::span<std::byte> Find(const std::map<std::string, Buffers>& of,
                            const std::byte* address) const;
  static void Add(const proto::Register& reg, bool may_paint, Buffers* buffers);

  std::byte* const arena_;
  std::string program_;
  mutable int64_t found_ = 0;
  std::map<std::string, Buffers> inputs_, outputs_;  // by program
};

}  // namespace oneflow::cluster
