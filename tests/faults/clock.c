/* A clock that is wrong by as many seconds as a file says; preloaded into programs that ask for the time of day.
 * Clocks that only measure how long something takes go on as they are, as they do when somebody sets a machine's clock.
 * Whoever waits until a time of day has computed it by the wrong clock, but the kernel waits by the right one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
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

/* The same moment by the right clock. Condition variables can also wait by the clock that counts from the machine's
 * start, whose times are small. */
static struct timespec by_the_right_clock(const struct timespec *until) {
    struct timespec right = *until;
    if (wrong_by && right.tv_sec > 1000000000)
        right.tv_sec -= *wrong_by;
    return right;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) /* dlsym would find the oldest version, for condition variables of another layout */
        real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlvsym(
            RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real)
        real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlsym(
            RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec right = by_the_right_clock(until);
    return real(condition, mutex, &right);
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
    static int (*real)(pthread_mutex_t *, const struct timespec *);
    if (!real)
        real = (int (*)(pthread_mutex_t *, const struct timespec *))dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
    struct timespec right = by_the_right_clock(until);
    return real(mutex, &right);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    static int (*real)(sem_t *, const struct timespec *);
    if (!real)
        real = (int (*)(sem_t *, const struct timespec *))dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec right = by_the_right_clock(until);
    return real(semaphore, &right);
}
