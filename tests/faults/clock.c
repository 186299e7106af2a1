/* A clock that is wrong by as many seconds as a file says; preloaded into programs that ask for the time of day.
 * Clocks that only measure how long something takes go on as they are, as they do when somebody sets a machine's clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *wrong_by;

__attribute__((constructor)) static void look(void) {
    const char *path = getenv("SKYBAND_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *seen = mmap(NULL, sizeof *wrong_by, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (seen != MAP_FAILED)
        wrong_by = seen;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && wrong_by && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *wrong_by;
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec told;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &told))
        return -1;
    now->tv_sec = told.tv_sec;
    now->tv_usec = told.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec told;
    if (clock_gettime(CLOCK_REALTIME, &told))
        return (time_t)-1;
    if (where)
        *where = told.tv_sec;
    return told.tv_sec;
}
