// What a run tells its user, on standard error.

#pragma once

#include <string>

namespace polyrank::runtime {

/// Writes text for people, from a thread of its own: nobody waits for whoever
/// reads it, and a reader that is gone, a full disk or a closed descriptor ends
/// nothing. What cannot be written is dropped.
void tell(std::string text);

/// The same for text that only the latest of is of interest: what has not been
/// written when the next one comes is dropped, so that a reader that stalls
/// does not make them pile up.
void tellProgress(std::string text);

/// Waits until everything is written, as long as the reader takes something
/// every two seconds. Before the process ends.
void finishTelling();

/// Makes sure that descriptors 0, 1 and 2 are taken, so that no file of the
/// user's is opened as one of them and then written messages into; those that
/// were closed fail when they are used. First of all.
void takeStandardDescriptors();

/// Prints on standard output and flushes it; false, with errno, where it could
/// not be written.
bool print(const std::string &text);

} // namespace polyrank::runtime
