/* SPDX-License-Identifier: Apache-2.0 */
/* Memory back to the system: the heap's by malloc_trim(), that of files by
 * madvise() on each loaded object. */

#include "ofproxyd/base/memory.h"

#include <link.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <openvswitch/compiler.h>
#include <openvswitch/util.h>

#include <util.h>

void
memory_trim(void)
{
    malloc_trim(0);
}

/* True if segments that can't be written have been changed at the start. */
static bool
has_text_relocations(const struct dl_phdr_info *info)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            const ElfW(Dyn) *dyn =
                (const void *) (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);

            for (; dyn->d_tag != DT_NULL; dyn++) {
                if (dyn->d_tag == DT_TEXTREL) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* A segment that can be written has pages of its own, which are nowhere
 * else. */
static int
drop_object(struct dl_phdr_info *info, size_t size OVS_UNUSED,
            void *page_size_)
{
    const uintptr_t *page_size = page_size_;

    if (has_text_relocations(info)) {
        return 0;
    }
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && !(p->p_flags & PF_W)) {
            uintptr_t start = info->dlpi_addr + p->p_vaddr;
            uintptr_t end = ROUND_UP(start + p->p_memsz, *page_size);

            start = ROUND_DOWN(start, *page_size);
            ignore(madvise((void *) start, end - start, MADV_DONTNEED));
        }
    }
    return 0;
}

void
memory_trim_after_start(void)
{
    uintptr_t page_size = sysconf(_SC_PAGESIZE);

    memory_trim();
    dl_iterate_phdr(drop_object, &page_size);
}
