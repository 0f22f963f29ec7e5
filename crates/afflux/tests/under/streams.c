/* A megabyte through the C library's streams, most of which never reaches a call of write(): in line
 * macros, formats, lines, characters, wide ones; some of it written only when the program ends. */
#define _GNU_SOURCE
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

static FILE *open_or_end(const char *name, const char *mode)
{
    FILE *file = fopen(name, mode);
    if (file == NULL) {
        perror(name);
        exit(1);
    }
    return file;
}

int main(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    FILE *out = open_or_end("narrow", "w");
    for (int i = 0; i < 20000; i++) {
        fprintf(out, "line %08d of many\n", i);
        fputs("a constant text of some length\n", out);
        for (const char *at = "in line"; *at; at++) {
            putc_unlocked(*at, out);
        }
        putc('\n', out);
    }
    fclose(out);
    FILE *wide = open_or_end("wide", "w");
    for (int i = 0; i < 2000; i++) {
        fputws(L"gr\u00fc\u00dfe und k\u00fcsse\n", wide);
        fputwc(L'\u20ac', wide);
    }
    for (int i = 0; i < 30000; i++) {
        fwprintf(wide, L"%d gr\u00fc\u00dfe und %ls\n", i, L"\u20ac\u20ac\u20ac\u20ac");
    }
    fclose(wide);
    FILE *in = open_or_end("narrow", "r");
    char line[256], word[256];
    char *longer = NULL;
    size_t room = 0;
    int number;
    for (int i = 0; i < 5000 && fgets(line, sizeof line, in) != NULL; i++) {
    }
    for (int i = 0; i < 5000 && getline(&longer, &room, in) > 0; i++) {
    }
    for (int i = 0; i < 2000 && fscanf(in, "%200s", word) == 1; i++) {
    }
    while (getc_unlocked(in) != EOF) {
    }
    fclose(in);
    FILE *sought = open_or_end("narrow", "r");
    for (int i = 0; i < 300; i++) {
        if (i % 3 == 0) {
            fseek(sought, i * 7919L % 900000, SEEK_SET);
        } else if (i % 3 == 1) {
            fseeko(sought, -(i * 6007L % 900000), SEEK_END);
        } else {
            fseek(sought, 5000, SEEK_CUR);
        }
        if (fread(word, 1, 100, sought) != 100) {
            return 1;
        }
    }
    fclose(sought);
    FILE *appended = open_or_end("narrow", "r+");
    char block[5000];
    if (fread(block, 1, sizeof block, appended) != sizeof block) {
        return 1;
    }
    fseek(appended, 0, SEEK_END);
    fwrite(block, 1, sizeof block, appended);
    /* Neither flushed nor closed: written after all destructors. */
    FILE *last = open_or_end("last", "w");
    fprintf(last, "the last words\n");
    return 0;
}
