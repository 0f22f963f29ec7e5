/* What programs seldom do with streams: pushing bytes back, changing buffers, wide characters
 * through the standard streams. Copies its standard input, in wide characters, and reads the file
 * "in" once more. */
#define _GNU_SOURCE
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <wchar.h>

#define EXPECT(what)                                             \
    do {                                                         \
        if (!(what)) {                                           \
            fprintf(stderr, "%d: %s fails\n", __LINE__, #what);  \
            exit(1);                                             \
        }                                                        \
    } while (0)

static int print_wide(const wchar_t *format, ...)
{
    va_list rest;
    va_start(rest, format);
    int printed = vwprintf(format, rest);
    va_end(rest);
    return printed;
}

static int scan_wide(const wchar_t *format, ...)
{
    va_list rest;
    va_start(rest, format);
    int scanned = vwscanf(format, rest);
    va_end(rest);
    return scanned;
}

static void wide(void)
{
    int number;
    EXPECT(scan_wide(L"number %d\n", &number) == 1 && number == 42);
    EXPECT(print_wide(L"number %d\n", number) == 10);
    for (long at = 0;; at++) {
        wint_t character = at % 2 ? getwchar() : getwchar_unlocked();
        if (character == WEOF) {
            break;
        }
        if (at % 5 == 0) {
            ungetwc(L'\u20ac', stdin);
            EXPECT(getwchar() == L'\u20ac');
        }
        EXPECT((at % 3 ? putwchar(character) : putwchar_unlocked(character)) == character);
    }
}

static void pushed_back(void)
{
    static char buffer[1000], line[100];
    FILE *in = fopen("in", "r");
    setvbuf(in, buffer, _IOFBF, sizeof buffer);
    int byte;
    for (long at = 0; (byte = getc(in)) != EOF; at++) {
        if (at % 7 == 0) {
            EXPECT(ungetc('Z', in) == 'Z' && getc(in) == 'Z');
        }
        if (at % 11 == 0) {
            EXPECT(ungetc(byte, in) == byte && getc(in) == byte);
        }
        if (at % 501 == 0) {
            EXPECT(ungetc('\n', in) == '\n' && fgets(line, sizeof line, in) == line);
            EXPECT(strcmp(line, "\n") == 0);
        }
    }
    fclose(in);
}

static void buffers(void)
{
    static char buffer[5000];
    FILE *out = fopen("buffers", "w");
    for (int at = 0; at < 2000; at++) {
        fputs("words ", out);
        for (const char *in_line = "in line"; *in_line; in_line++) {
            putc_unlocked(*in_line, out);
        }
        switch (at % 100) {
        case 10: setvbuf(out, NULL, _IONBF, 0); break;
        case 20: setvbuf(out, buffer, _IOFBF, sizeof buffer); break;
        case 40: setlinebuf(out); break;
        case 60: setbuf(out, NULL); break;
        case 80: setbuffer(out, buffer, 100); break;
        }
    }
    fclose(out);
}

static void mapped(void)
{
    FILE *in = fopen("in", "r");
    char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(in), 0);
    EXPECT(at != MAP_FAILED && memcmp(at, "number 42\n", 10) == 0);
    char *moved = mremap(at, 4096, 8192, MREMAP_MAYMOVE);
    EXPECT(moved != MAP_FAILED && memcmp(moved, "number 42\n", 10) == 0);
    munmap(moved, 8192);
    fclose(in);
}

int main(void)
{
    EXPECT(setlocale(LC_ALL, "C.UTF-8") != NULL);
    wide();
    pushed_back();
    buffers();
    mapped();
    return 0;
}
