// Faults that tests plant to see that they are found. The state machines of the programs have none:
// what carries their messages, drives them or keeps their files makes each.
#pragma once

namespace oneflow::cluster {

struct Faults {
  // The network of exchanges (network.cc):
  bool arrived_early = false;       // a piece counts as arrived, and done is said, before its bytes
  bool ordered_links = false;       // arriving pieces of a source are matched to pulls in order
  bool pull_twice = false;          // each pull is sent twice
  bool match_across_runs = false;   // the run in a message's number is taken for the present one
  bool share_window = false;        // what arrives in a pull's window goes to another one's, too
  bool abort_entered_only = false;  // abort goes only to processes that have entered
  bool no_data_beats = false;       // nobody watches the links
  // The control network and its drivers (control.cc):
  bool accept_older_attempts = false;  // a process of an older attempt presents the newest one
  bool stop_unagreed = false;          // each process stops where it is
  bool write_without_lease = false;    // a process writes whatever the clock says
  bool suspend_beats = false;          // once a process has joined, no tick comes
  // The disk (disk.cc):
  bool manifest_before_sync = false;  // files of slices are never synced
};

}  // namespace oneflow::cluster
