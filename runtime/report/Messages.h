// A run's messages to its user, on standard error.

#pragma once

#include <string>

namespace polyrank::runtime {

/// Writes text for people, from a thread of its own: the caller never waits for
/// the reader, and a reader that is gone, a full disk or a closed descriptor
/// does not end the run. What cannot be written is dropped.
void tell(std::string text);

/// The same for text of which only the latest matters: a text that is still
/// unwritten when the next one comes is dropped, so that a stalled reader does
/// not make them pile up.
void tellProgress(std::string text);

/// Waits until everything is written, as long as the reader takes something
/// every two seconds. To be called before the process ends.
void finishTelling();

/// Makes sure that descriptors 0, 1 and 2 are open, so that none of the user's
/// files is opened as one of them and messages are written to it. Those that
/// were closed fail when they are used. To be called first.
void takeStandardDescriptors();

/// Prints on standard output and flushes it. Returns false, with errno, if that
/// fails.
bool print(const std::string &text);

} // namespace polyrank::runtime
