/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OFPROXYD_BASE_MEMORY_H
#define OFPROXYD_BASE_MEMORY_H 1

/* Memory that is not needed any more, back to the system. */

/* Returns free heap memory, which free() alone leaves undone. */
void memory_trim(void);

/* Does the same and drops the pages of the program and its libraries that are
 * as they are in their files: most of them served the start only.  What is
 * used again is mapped again, from the page cache as long as it is there.
 * Takes below 1 ms, and some ms more over the next turns. */
void memory_trim_after_start(void);

#endif /* ofproxyd/base/memory.h */
