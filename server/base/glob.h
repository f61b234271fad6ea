/* server/base/glob.h - globs, as Python's fnmatchcase reads them.
 *
 *   *  any characters, '/' too      ?  one      [abc] [a-z]  one of a set      [!abc]  one that is not
 *
 * A '[' that no ']' closes stands for itself; so does a ']' that comes first in its set. Bytes are compared,
 * case counts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_GLOB_H
#define TD_SERVER_BASE_GLOB_H

#include <stdbool.h>

/* Whether the pattern takes the whole of the text. */
bool td_glob(const char *pattern, const char *text);

#endif
