/* A disk that is slow by as many microseconds as a file says, for each file that is opened for writing, renamed,
 * removed or synced; preloaded into programs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static volatile int64_t *slow_by;

__attribute__((constructor)) static void look(void) {
    const char *path = getenv("SKYBAND_SLOW_DISK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *seen = mmap(NULL, sizeof *slow_by, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (seen != MAP_FAILED)
        slow_by = seen;
}

static void wait_for_disk(void) {
    if (slow_by && *slow_by > 0)
        usleep((useconds_t)*slow_by);
}

#define REAL(name, ...) ((int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;                                      \
        va_end(more);                                                                                                  \
        if (flags & O_CREAT)                                                                                           \
            wait_for_disk();                                                                                           \
        return REAL(name, const char *, int, ...)(path, flags, mode);                                                  \
    }

#define OPENAT(name)                                                                                                   \
    int name(int folder, const char *path, int flags, ...) {                                                           \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;                                      \
        va_end(more);                                                                                                  \
        if (flags & O_CREAT)                                                                                           \
            wait_for_disk();                                                                                           \
        return REAL(name, int, const char *, int, ...)(folder, path, flags, mode);                                     \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int rename(const char *from, const char *to) {
    wait_for_disk();
    return REAL(rename, const char *, const char *)(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    wait_for_disk();
    return REAL(renameat, int, const char *, int, const char *)(from_folder, from, to_folder, to);
}

int unlink(const char *path) {
    wait_for_disk();
    return REAL(unlink, const char *)(path);
}

int fsync(int file) {
    wait_for_disk();
    return REAL(fsync, int)(file);
}

int fdatasync(int file) {
    wait_for_disk();
    return REAL(fdatasync, int)(file);
}
