/* A plain loop over Ceph's client library, to hold the rados engine against: so many requests under
 * way at each pool, the next one begun by the end of the one before. No limits, no measurements.
 *
 * usage: plain CONF POOLS write|read BYTES DEPTH SECONDS [SETTLE]
 *
 * POOLS are srv0, srv1, ... Each pool has 4 objects of 16 MiB, as the engine has for 64 MiB of a file
 * there; requests go to places of them at random. They are made once, by writes of the requests' size
 * as the engine makes them, since servers keep bytes in the pieces in which they came.
 * Prints megabytes a second.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The library's functions, declared here since its headers are in a package of their own. */
typedef void *handle;
int rados_create(handle *, const char *);
int rados_conf_read_file(handle, const char *);
int rados_connect(handle);
void rados_shutdown(handle);
int rados_ioctx_create(handle, const char *, handle *);
void rados_ioctx_destroy(handle);
int rados_aio_create_completion2(void *, void (*)(handle, void *), handle *);
void rados_aio_release(handle);
int rados_aio_get_return_value(handle);
int rados_aio_write(handle, const char *, handle, const char *, size_t, uint64_t);
int rados_aio_read(handle, const char *, handle, char *, size_t, uint64_t);
int rados_write(handle, const char *, const char *, size_t, uint64_t);
int rados_stat(handle, const char *, uint64_t *, time_t *);

enum { OBJECTS = 4, OBJECT_BYTES = 16 << 20 };

struct lane {
    handle pool, completion;
    uint64_t random;
    char *memory;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static int under_way, is_write, stopping;
static size_t bytes;
static uint64_t done;

static void fail(const char *what, int code) {
    fprintf(stderr, "plain: %s: %s\n", what, strerror(-code));
    exit(2);
}

static void ended(handle completion, void *context);

static void begin(struct lane *lane) {
    char object[32];
    uint64_t places = OBJECT_BYTES / bytes;
    lane->random ^= lane->random << 13;
    lane->random ^= lane->random >> 7;
    lane->random ^= lane->random << 17;
    uint64_t place = (lane->random >> 32) % (places * OBJECTS);
    snprintf(object, sizeof object, "plain.%d", (int)(place / places));
    int code = rados_aio_create_completion2(lane, ended, &lane->completion);
    if (code < 0) fail("completion", code);
    uint64_t offset = place % places * bytes;
    code = is_write
        ? rados_aio_write(lane->pool, object, lane->completion, lane->memory, bytes, offset)
        : rados_aio_read(lane->pool, object, lane->completion, lane->memory, bytes, offset);
    if (code < 0) fail("request", code);
}

static void ended(handle completion, void *context) {
    struct lane *lane = context;
    int code = rados_aio_get_return_value(completion);
    if (code < 0) fail("answer", code);
    rados_aio_release(completion);
    pthread_mutex_lock(&lock);
    done += bytes;
    int stop = stopping;
    if (stop && --under_way == 0) pthread_cond_signal(&idle);
    pthread_mutex_unlock(&lock);
    if (!stop) begin(lane);
}

/* Makes an object, unless it is there. */
static void make(handle pool, const char *object, const char *memory) {
    uint64_t size = 0;
    time_t time;
    rados_stat(pool, object, &size, &time);
    for (uint64_t at = size; at < OBJECT_BYTES; at += bytes) {
        int code = rados_write(pool, object, memory, bytes, at);
        if (code < 0) fail(object, code);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void rest(double seconds) {
    struct timespec time = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

int main(int count, char **words) {
    if (count < 7) {
        fprintf(stderr, "usage: plain CONF POOLS write|read BYTES DEPTH SECONDS [SETTLE]\n");
        return 1;
    }
    int pools = atoi(words[2]), depth = atoi(words[5]);
    is_write = strcmp(words[3], "write") == 0;
    bytes = (size_t)atol(words[4]);
    if (bytes == 0 || OBJECT_BYTES % bytes != 0 || pools < 1 || depth < 1) return 1;
    handle cluster, *io = calloc((size_t)pools, sizeof *io);
    int code = rados_create(&cluster, "admin");
    if (code >= 0) code = rados_conf_read_file(cluster, words[1]);
    if (code >= 0) code = rados_connect(cluster);
    if (code < 0) fail(words[1], code);
    char *memory = calloc(1, bytes);
    for (int pool = 0; pool < pools; pool++) {
        char name[32];
        snprintf(name, sizeof name, "srv%d", pool);
        if ((code = rados_ioctx_create(cluster, name, &io[pool])) < 0) fail(name, code);
        for (int object = 0; object < OBJECTS; object++) {
            snprintf(name, sizeof name, "plain.%d", object);
            make(io[pool], name, memory);
        }
    }
    under_way = pools * depth;
    for (int lane = 0; lane < pools * depth; lane++) {
        struct lane *one = calloc(1, sizeof *one);
        one->pool = io[lane % pools];
        one->random = ((uint64_t)lane + 1) * 0x9E3779B97F4A7C15ull;
        one->memory = calloc(1, bytes);
        begin(one);
    }
    rest(count > 7 ? atof(words[7]) : 1);
    pthread_mutex_lock(&lock);
    uint64_t before = done;
    pthread_mutex_unlock(&lock);
    double started = now();
    rest(atof(words[6]));
    pthread_mutex_lock(&lock);
    double rate = (done - before) / (now() - started) / 1e6;
    stopping = 1;
    while (under_way > 0) pthread_cond_wait(&idle, &lock);
    pthread_mutex_unlock(&lock);
    printf("%.2f\n", rate);
    for (int pool = 0; pool < pools; pool++) rados_ioctx_destroy(io[pool]);
    rados_shutdown(cluster);
    return 0;
}
