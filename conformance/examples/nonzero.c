/* nonzero_coordinates of int32, uint8 and float32 for dmlax-conformance, in C and nothing else.

   cc -O2 -o nonzero nonzero.c
   dmlax-conformance run --command ./nonzero --operator nonzero_coordinates

   A line is JSON that the suite has checked, so this reader only looks for what it needs. */

#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIMENSIONS = 8 };

static const char *space(const char *p) {
    while (isspace((unsigned char)*p)) p++;
    return p;
}

static const char *after_string(const char *p) {
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1]) p++;
    return *p ? p + 1 : p;
}

/* Past one value, whatever it is. */
static const char *after_value(const char *p) {
    int depth = 0;
    do {
        if (*p == '"') p = after_string(p);
        else if (*p == '{' || *p == '[') depth++, p++;
        else if (*p == '}' || *p == ']') depth--, p++;
        else if (*p == ',' || *p == ':') p++;
        else p += strcspn(p, ",:[]{}\" \t\r\n");
        p = space(p);
    } while (*p && depth > 0);
    return p;
}

/* The value of a member of an object, or NULL. */
static const char *get(const char *object, const char *key) {
    size_t length = strlen(key);
    const char *p = object && *object == '{' ? space(object + 1) : "";
    while (*p == '"') {
        int is_it = !strncmp(p + 1, key, length) && p[length + 1] == '"';
        p = space(space(after_string(p)) + 1);
        if (is_it) return p;
        p = after_value(p);
        if (*p == ',') p = space(p + 1);
    }
    return NULL;
}

static int is_text(const char *value, const char *text) {
    size_t length = strlen(text);
    return value && *value == '"' && !strncmp(value + 1, text, length) && value[length + 1] == '"';
}

/* The next element of a list of numbers; `p` stands after the bracket or the last element. */
static long long next_number(const char **p) {
    char *end;
    *p = space(*p + (**p == ','));
    long long number = strtoll(*p, &end, 10);
    *p = space(end);
    return number;
}

static unsigned long next_bits(const char **p) {
    *p = space(*p + (**p == ','));
    unsigned long bits = strtoul(*p + 1, NULL, 16);
    *p = space(after_string(*p));
    return bits;
}

static int numbers(const char *list, long long *out, int most) {
    int length = 0;
    const char *p = space(list + 1);
    while (*p && *p != ']' && length < most) out[length++] = next_number(&p);
    return *p == ']' ? length : most + 1;
}

static void refuse(long long seq, const char *code, const char *field) {
    printf("{\"seq\":%lld,\"refused\":{\"code\":\"%s\",\"field\":\"%s\"}}\n", seq, code, field);
}

static void unsupported(long long seq, const char *why) {
    printf("{\"seq\":%lld,\"unsupported\":\"%s\"}\n", seq, why);
}

/* An output begins with the data type and sizes that were asked for, copied as they are. */
static void begin_tensor(const char *outputs, const char *name) {
    const char *sizes = get(get(outputs, name), "sizes");
    const char *end = after_value(sizes);
    printf("\"%s\":{\"dtype\":\"uint32\",\"sizes\":%.*s,\"data\":[", name, (int)(end - sizes),
           sizes);
}

static void print_row(long long element, const long long *sizes, int rank, int width, int first) {
    long long place[MOST_DIMENSIONS];
    for (int axis = rank - 1; axis >= 0; axis--) {
        place[axis] = element % sizes[axis];
        element /= sizes[axis];
    }
    for (int axis = rank - width; axis < rank; axis++) {
        printf("%s%lld", first ? "" : ",", place[axis]);
        first = 0;
    }
}

static void nonzero(long long seq, const char *input, const char *outputs) {
    long long sizes[MOST_DIMENSIONS], asked[MOST_DIMENSIONS + 2], elements = 1, found = 0;
    int rank = numbers(get(input, "sizes"), sizes, MOST_DIMENSIONS);
    const char *wanted = get(get(outputs, "OutputCoordinatesTensor"), "sizes");
    int asked_rank = numbers(wanted, asked, MOST_DIMENSIONS + 2);
    if (rank < 1 || rank > MOST_DIMENSIONS) {
        refuse(seq, "dimension_count", "InputTensor");
        return;
    }
    int ones = 0, is_float = is_text(get(input, "dtype"), "float32");
    while (ones < rank && sizes[ones] == 1) ones++;
    for (int axis = 0; axis < rank; axis++) elements *= sizes[axis];
    long long width = asked_rank > 0 ? asked[asked_rank - 1] : 0;
    if (width < (rank > ones ? rank - ones : 1) || width > rank) {
        refuse(seq, "sizes", "OutputCoordinatesTensor");
        return;
    }
    long long *rows = malloc((size_t)(elements + 1) * sizeof *rows);
    if (!rows) {
        unsupported(seq, "out of memory");
        return;
    }
    const char *p = space(get(input, is_float ? "bits" : "data") + 1);
    for (long long i = 0; i < elements; i++) {
        int is_nonzero = is_float ? (next_bits(&p) & 0x7fffffff) != 0 : next_number(&p) != 0;
        if (is_nonzero) rows[found++] = i;
    }
    printf("{\"seq\":%lld,\"outputs\":{", seq);
    begin_tensor(outputs, "OutputCountTensor");
    printf("%lld]},", found);
    begin_tensor(outputs, "OutputCoordinatesTensor");
    for (long long i = 0; i < found; i++) print_row(rows[i], sizes, rank, (int)width, i == 0);
    for (long long i = found * width; i < elements * width; i++) printf(i ? ",0" : "0");
    printf("]}}}\n");
    free(rows);
}

static void run(const char *line) {
    const char *p = get(line, "seq"), *of_case = get(line, "case");
    long long seq = next_number(&p);
    const char *input = get(get(of_case, "inputs"), "InputTensor"), *type = get(input, "dtype");
    if (!is_text(get(of_case, "operator"), "nonzero_coordinates"))
        unsupported(seq, "only nonzero_coordinates");
    else if (!is_text(type, "int32") && !is_text(type, "uint8") && !is_text(type, "float32"))
        unsupported(seq, "only int32, uint8 and float32");
    else
        nonzero(seq, input, get(of_case, "outputs"));
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        const char *command = get(line, "command");
        if (is_text(command, "start"))
            puts("{\"protocol\":1,\"name\":\"nonzero.c\",\"language\":\"C\",\"version\":\"1\","
                 "\"operators\":[\"nonzero_coordinates\"]}");
        else if (is_text(command, "run"))
            run(line);
        else
            break;
        fflush(stdout);
    }
    free(line);
    return 0;
}
