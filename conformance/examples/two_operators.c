/* nonzero_coordinates of int32, uint8 and float32, and convolution_integer, for dmlax-conformance,
   in C and nothing else.

   cc -O2 -o two_operators two_operators.c
   dmlax-conformance run --command ./two_operators

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
    const char *type = get(get(outputs, name), "dtype"), *sizes = get(get(outputs, name), "sizes");
    printf("\"%s\":{\"dtype\":%.*s,\"sizes\":%.*s,\"data\":[", name,
           (int)(after_string(type) - type), type, (int)(after_value(sizes) - sizes), sizes);
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

/* -- convolution_integer: tensors are {N, C, H, W}; with three dimensions, H is 1 -------------- */

typedef struct {
    const char *type;
    long long sizes[MOST_DIMENSIONS], count, *values;
    int rank, is_there;
} Tensor;

typedef struct {
    long long stride[2], dilation[2], start[2], end[2], groups;
} Windows;

static int is_byte(const Tensor *tensor) {
    return is_text(tensor->type, "int8") || is_text(tensor->type, "uint8");
}

static int has_type_of(const Tensor *tensor, const Tensor *other) {
    return !tensor->is_there || (is_byte(tensor) && tensor->type[1] == other->type[1]);
}

static void read_tensor(const char *inputs, const char *name, Tensor *tensor) {
    const char *value = get(inputs, name), *data = get(value, "data");
    *tensor = (Tensor){.type = get(value, "dtype"), .count = 1, .is_there = value != NULL};
    if (!value) return;
    tensor->rank = numbers(get(value, "sizes"), tensor->sizes, MOST_DIMENSIONS);
    for (int i = 0; i < tensor->rank && i < MOST_DIMENSIONS; i++) tensor->count *= tensor->sizes[i];
    if (!is_byte(tensor) || !data) return;
    tensor->values = malloc((size_t)(tensor->count + 1) * sizeof *tensor->values);
    if (!tensor->values) exit(1);
    const char *p = space(data + 1);
    for (long long i = 0; i < tensor->count; i++) tensor->values[i] = next_number(&p);
}

/* Whether a parameter is one value, or one for each of K channels in any shape of ones. */
static int has_length(const Tensor *tensor, long long channels) {
    long long others = 0;
    for (int i = 0; i < tensor->rank && i < MOST_DIMENSIONS; i++) others += tensor->sizes[i] != 1;
    return !tensor->is_there || tensor->count == 1 || (others == 1 && tensor->count == channels);
}

/* An option has an entry for each spatial axis; a single entry is that of W. */
static int read_option(const char *attributes, const char *name, int axes, long long low,
                       long long *option) {
    long long entries[MOST_DIMENSIONS];
    if (numbers(get(attributes, name), entries, MOST_DIMENSIONS) != axes) return 0;
    option[0] = low;
    for (int i = 0; i < axes; i++) {
        if (entries[i] < low) return 0;
        option[2 - axes + i] = entries[i];
    }
    return 1;
}

static int read_windows(const char *attributes, int axes, Windows *w, const char **field) {
    const char *groups = get(attributes, "GroupCount");
    w->groups = next_number(&groups);
    if (!read_option(attributes, *field = "Strides", axes, 1, w->stride)) return 0;
    if (!read_option(attributes, *field = "Dilations", axes, 1, w->dilation)) return 0;
    if (!read_option(attributes, *field = "StartPadding", axes, 0, w->start)) return 0;
    if (!read_option(attributes, *field = "EndPadding", axes, 0, w->end)) return 0;
    *field = "GroupCount";
    return w->groups >= 1;
}

static void as_image(Tensor *tensor) {
    if (tensor->rank == 3) tensor->sizes[3] = tensor->sizes[2], tensor->sizes[2] = 1;
}

static long long value_for(const Tensor *parameter, long long channel) {
    if (!parameter->is_there) return 0;
    return parameter->values[parameter->count == 1 ? 0 : channel];
}

/* The sum of one output. What is padded is the zero point, and adds nothing. */
static long long sum_at(const Tensor *x, const Tensor *f, const Windows *w, long long zero,
                        long long filter_zero, const long long *at) {
    long long sum = 0, first = at[1] / (f->sizes[0] / w->groups) * f->sizes[1];
    for (long long c = 0; c < f->sizes[1]; c++)
        for (long long i = 0; i < f->sizes[2]; i++)
            for (long long j = 0; j < f->sizes[3]; j++) {
                long long row = at[2] * w->stride[0] + i * w->dilation[0] - w->start[0];
                long long column = at[3] * w->stride[1] + j * w->dilation[1] - w->start[1];
                if (row < 0 || row >= x->sizes[2] || column < 0 || column >= x->sizes[3]) continue;
                long long image = (at[0] * x->sizes[1] + first + c) * x->sizes[2] + row;
                long long tap = ((at[1] * f->sizes[1] + c) * f->sizes[2] + i) * f->sizes[3] + j;
                sum += (x->values[image * x->sizes[3] + column] - zero) *
                       (f->values[tap] - filter_zero);
            }
    return sum;
}

static void print_sums(const Tensor *x, const Tensor *f, const Windows *w, const Tensor *zero,
                       const Tensor *filter_zero, const long long *spatial) {
    long long at[4];
    const char *comma = "";
    for (at[0] = 0; at[0] < x->sizes[0]; at[0]++)
        for (at[1] = 0; at[1] < f->sizes[0]; at[1]++)
            for (at[2] = 0; at[2] < spatial[0]; at[2]++)
                for (at[3] = 0; at[3] < spatial[1]; at[3]++) {
                    long long sum = sum_at(x, f, w, value_for(zero, 0),
                                           value_for(filter_zero, at[1]), at);
                    printf("%s%ld", comma, (long)(int)(unsigned)sum); /* 32 bits, which wrap */
                    comma = ",";
                }
}

/* The rules, in the order in which the suite asks for the first that is broken. */
static void convolve(long long seq, const char *of_case) {
    const char *inputs = get(of_case, "inputs"), *field;
    Tensor x, f, zero, filter_zero;
    Windows w;
    long long spatial[2] = {0, 0};
    read_tensor(inputs, "InputTensor", &x);
    read_tensor(inputs, "FilterTensor", &f);
    read_tensor(inputs, "InputZeroPointTensor", &zero);
    read_tensor(inputs, "FilterZeroPointTensor", &filter_zero);
    if (!is_byte(&x)) refuse(seq, "data_type", "InputTensor");
    else if (!is_byte(&f)) refuse(seq, "data_type", "FilterTensor");
    else if (!has_type_of(&zero, &x)) refuse(seq, "data_type", "InputZeroPointTensor");
    else if (!has_type_of(&filter_zero, &f)) refuse(seq, "data_type", "FilterZeroPointTensor");
    else if (x.rank != 3 && x.rank != 4) refuse(seq, "dimension_count", "InputTensor");
    else if (f.rank != x.rank) refuse(seq, "dimension_count", "FilterTensor");
    else if (!read_windows(get(of_case, "attributes"), x.rank - 2, &w, &field))
        refuse(seq, "option", field);
    else if (x.sizes[1] != f.sizes[1] * w.groups) refuse(seq, "sizes", "FilterTensor");
    else if (f.sizes[0] % w.groups) refuse(seq, "sizes", "GroupCount");
    else {
        as_image(&x), as_image(&f);
        w.start[0] *= x.rank == 4, w.end[0] *= x.rank == 4;
        for (int i = 0; i < 2; i++) {
            long long span = (f.sizes[2 + i] - 1) * w.dilation[i] + 1;
            long long room = x.sizes[2 + i] + w.start[i] + w.end[i] - span;
            spatial[i] = room < 0 ? 0 : room / w.stride[i] + 1;
        }
        if (spatial[0] < 1 || spatial[1] < 1) refuse(seq, "sizes", "FilterTensor");
        else if (!has_length(&zero, 1)) refuse(seq, "sizes", "InputZeroPointTensor");
        else if (!has_length(&filter_zero, f.sizes[0]))
            refuse(seq, "sizes", "FilterZeroPointTensor");
        else {
            printf("{\"seq\":%lld,\"outputs\":{", seq);
            begin_tensor(get(of_case, "outputs"), "OutputTensor");
            print_sums(&x, &f, &w, &zero, &filter_zero, spatial);
            printf("]}}}\n");
        }
    }
    free(x.values), free(f.values), free(zero.values), free(filter_zero.values);
}

static void run(const char *line) {
    const char *p = get(line, "seq"), *of_case = get(line, "case");
    long long seq = next_number(&p);
    const char *name = get(of_case, "operator");
    const char *input = get(get(of_case, "inputs"), "InputTensor"), *type = get(input, "dtype");
    if (is_text(name, "convolution_integer"))
        convolve(seq, of_case);
    else if (!is_text(name, "nonzero_coordinates"))
        unsupported(seq, "only nonzero_coordinates and convolution_integer");
    else if (!is_text(type, "int32") && !is_text(type, "uint32") && !is_text(type, "uint8") &&
             !is_text(type, "float32"))
        unsupported(seq, "only int32, uint32, uint8 and float32");
    else
        nonzero(seq, input, get(of_case, "outputs"));
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        const char *command = get(line, "command");
        if (is_text(command, "start"))
            puts("{\"protocol\":1,\"name\":\"two_operators.c\",\"language\":\"C\",\"version\":\"1\","
                 "\"operators\":[\"nonzero_coordinates\",\"convolution_integer\"],\"dtypes\":"
                 "{\"nonzero_coordinates\":[\"int32\",\"uint8\",\"float32\",\"uint32\"]}}");
        else if (is_text(command, "run"))
            run(line);
        else
            break;
        fflush(stdout);
    }
    free(line);
    return 0;
}
