/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over files, so that every input that was ever found is
 * tried in every test run, without a fuzzer:
 *
 *     fuzz-NAME [-v] FILE|DIRECTORY...
 *
 * Prints how many there were; none at all is a failure.  -v prints each
 * name before it is tried. */

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* nftw() has no argument for these. */
static size_t n_files;
static bool verbose;

static int
replay(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }

    /* Exactly as large as the file, so that a sanitizer sees each byte too
     * far. */
    uint8_t *data = malloc(size ? size : 1);
    bool ok = data && fread(data, 1, size, f) == size;
    fclose(f);
    if (ok) {
        if (verbose) {
            fprintf(stderr, "%s\n", path);
        }
        LLVMFuzzerTestOneInput(data, size);
        n_files++;
    } else {
        fprintf(stderr, "%s: cannot be read\n", path);
    }
    free(data);
    return !ok;
}

static int
visit(const char *path, const struct stat *s, int type, struct FTW *ftw)
{
    (void) ftw;
    switch (type) {
    case FTW_F: return S_ISREG(s->st_mode) ? replay(path, s->st_size) : 0;
    case FTW_D: return 0;
    default: fprintf(stderr, "%s: cannot be read\n", path); return 1;
    }
}

int
main(int argc, char *argv[])
{
    int i = 1;

    if (i < argc && !strcmp(argv[i], "-v")) {
        verbose = true;
        i++;
    }
    for (; i < argc; i++) {
        if (nftw(argv[i], visit, 16, FTW_PHYS)) {
            return EXIT_FAILURE;
        }
    }
    printf("%s: %zu files replayed\n", argv[0], n_files);
    return n_files ? EXIT_SUCCESS : EXIT_FAILURE;
}
