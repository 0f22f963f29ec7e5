/* The variadic functions of the C library that stable Rust cannot define. Each gathers its arguments
 * and calls the function that takes them gathered, which this library defines in Rust. The names of
 * the C library are given to them in Rust, by jumps, since only Rust's own names leave the library. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <wchar.h>
#include <alloca.h>

#define HIDDEN __attribute__((visibility("hidden")))

int __vfprintf_chk(FILE *, int, const char *, va_list);
int __vdprintf_chk(int, int, const char *, va_list);
int __vfwprintf_chk(FILE *, int, const wchar_t *, va_list);
int __isoc99_vfscanf(FILE *, const char *, va_list);
int __isoc99_vfwscanf(FILE *, const wchar_t *, va_list);
int afflux_exec_list(const char *, char *const *, char *const *, int);

/* NAME(parameters), whose last is LAST, as CALL with the arguments gathered in `rest`. */
#define GATHERED(NAME, PARAMETERS, LAST, CALL) \
    HIDDEN int afflux_##NAME PARAMETERS        \
    {                                          \
        va_list rest;                          \
        va_start(rest, LAST);                  \
        int result = CALL;                     \
        va_end(rest);                          \
        return result;                         \
    }

GATHERED(fprintf, (FILE * file, const char *format, ...), format, vfprintf(file, format, rest))
GATHERED(printf, (const char *format, ...), format, vfprintf(stdout, format, rest))
GATHERED(dprintf, (int fd, const char *format, ...), format, vdprintf(fd, format, rest))
GATHERED(fprintf_chk, (FILE * file, int flag, const char *format, ...), format,
         __vfprintf_chk(file, flag, format, rest))
GATHERED(printf_chk, (int flag, const char *format, ...), format,
         __vfprintf_chk(stdout, flag, format, rest))
GATHERED(dprintf_chk, (int fd, int flag, const char *format, ...), format,
         __vdprintf_chk(fd, flag, format, rest))
GATHERED(fwprintf, (FILE * file, const wchar_t *format, ...), format,
         vfwprintf(file, format, rest))
GATHERED(wprintf, (const wchar_t *format, ...), format, vfwprintf(stdout, format, rest))
GATHERED(fwprintf_chk, (FILE * file, int flag, const wchar_t *format, ...), format,
         __vfwprintf_chk(file, flag, format, rest))
GATHERED(wprintf_chk, (int flag, const wchar_t *format, ...), format,
         __vfwprintf_chk(stdout, flag, format, rest))
GATHERED(isoc99_fscanf, (FILE * file, const char *format, ...), format,
         __isoc99_vfscanf(file, format, rest))
GATHERED(isoc99_scanf, (const char *format, ...), format, __isoc99_vfscanf(stdin, format, rest))
GATHERED(isoc99_fwscanf, (FILE * file, const wchar_t *format, ...), format,
         __isoc99_vfwscanf(file, format, rest))
GATHERED(isoc99_wscanf, (const wchar_t *format, ...), format,
         __isoc99_vfwscanf(stdin, format, rest))

/* The functions of old programs, whose format has a GNU meaning; the headers would rename them. */
int afflux_vfscanf_gnu(FILE *, const char *, va_list) __asm__("vfscanf");
int afflux_vfwscanf_gnu(FILE *, const wchar_t *, va_list) __asm__("vfwscanf");

GATHERED(fscanf, (FILE * file, const char *format, ...), format,
         afflux_vfscanf_gnu(file, format, rest))
GATHERED(scanf, (const char *format, ...), format, afflux_vfscanf_gnu(stdin, format, rest))
GATHERED(fwscanf, (FILE * file, const wchar_t *format, ...), format,
         afflux_vfwscanf_gnu(file, format, rest))
GATHERED(wscanf, (const wchar_t *format, ...), format, afflux_vfwscanf_gnu(stdin, format, rest))

/* The functions of programs that were built for the C standard of 2023. A C library that lacks them
 * has no such programs. */
int __isoc23_vfscanf(FILE *, const char *, va_list);
int __isoc23_vfwscanf(FILE *, const wchar_t *, va_list);

GATHERED(isoc23_fscanf, (FILE * file, const char *format, ...), format,
         __isoc23_vfscanf(file, format, rest))
GATHERED(isoc23_scanf, (const char *format, ...), format, __isoc23_vfscanf(stdin, format, rest))
GATHERED(isoc23_fwscanf, (FILE * file, const wchar_t *format, ...), format,
         __isoc23_vfwscanf(file, format, rest))
GATHERED(isoc23_wscanf, (const wchar_t *format, ...), format,
         __isoc23_vfwscanf(stdin, format, rest))

/* The list of a variadic exec: `first` and what follows up to a null pointer. */
#define LISTED(NAME, SEARCHED, HAS_ENVIRONMENT)                                  \
    HIDDEN int afflux_##NAME(const char *path, const char *first, ...)           \
    {                                                                            \
        va_list counted, rest;                                                   \
        va_start(rest, first);                                                   \
        va_copy(counted, rest);                                                  \
        size_t count = 1;                                                        \
        for (const char *at = first; at != NULL; at = va_arg(counted, char *)) { \
            count++;                                                             \
        }                                                                        \
        va_end(counted);                                                         \
        char **list = alloca(count * sizeof(char *));                            \
        list[0] = (char *)first;                                                 \
        for (size_t at = 1; at < count; at++) {                                  \
            list[at] = va_arg(rest, char *);                                     \
        }                                                                        \
        char *const *environment = HAS_ENVIRONMENT ? va_arg(rest, char *const *) : NULL; \
        va_end(rest);                                                            \
        return afflux_exec_list(path, list, environment, SEARCHED);              \
    }

LISTED(execl, 0, 0)
LISTED(execlp, 1, 0)
LISTED(execle, 0, 1)

/* Where the C library keeps the stack pointer in a buffer for long jumps. It is garbled by a key,
 * and on x86-64 turned as well. */
#if defined(__x86_64__)
enum { STACK_POINTER = 6, TURNED = 17 };
#define READ_STACK_POINTER(place) __asm__ volatile("mov %%rsp, %0" : "=r"(place))
#elif defined(__aarch64__)
enum { STACK_POINTER = 13, TURNED = 0 };
#define READ_STACK_POINTER(place) __asm__ volatile("mov %0, sp" : "=r"(place))
#endif

HIDDEN uintptr_t afflux_place_in(const void *buffer)
{
    uintptr_t word = ((const uintptr_t *)buffer)[STACK_POINTER];
    return TURNED == 0 ? word : word >> TURNED | word << (64 - TURNED);
}

HIDDEN __attribute__((noinline)) uintptr_t afflux_garbled_place(uintptr_t *place)
{
    jmp_buf here;
    READ_STACK_POINTER(*place);
    return _setjmp(here) == 0 ? afflux_place_in(here) : 0;
}
