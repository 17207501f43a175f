/* Planes of one element size: T a type of that size, S the suffix. */
#define FN2(name, s) name##_##s
#define FN1(name, s) FN2(name, s)
#define FN(name) FN1(name, S)

/* A row of elements between any two steps. Rows are often short, so it stays a plain loop. */
static inline void FN(row)(char *d, int64_t d_col, const char *s, int64_t s_col, int64_t cols) {
    if (d_col == sizeof(T) && s_col == sizeof(T)) {
        if (cols >= 32) {
            memcpy(d, s, (size_t)cols * sizeof(T));
            return;
        }
        for (int64_t j = 0; j < cols; j++) ((T *)d)[j] = ((const T *)s)[j];
    } else if (d_col == sizeof(T) && s_col == 0) {
        T value = *(const T *)s;
        for (int64_t j = 0; j < cols; j++) ((T *)d)[j] = value;
    } else {
        for (int64_t j = 0; j < cols; j++) *(T *)(d + j * d_col) = *(const T *)(s + j * s_col);
    }
}

/* The source runs along the rows: blocks of 8 x 16 keep both sides in the first-level cache, also
 * where a power-of-two stride puts them all in one set. */
static void FN(transpose_blocks)(char *d, int64_t d_row, const char *s, int64_t s_col, int64_t rows,
                          int64_t cols) {
    for (int64_t i0 = 0; i0 < rows; i0 += 16)
        for (int64_t j0 = 0; j0 < cols; j0 += 8) {
            int64_t i1 = i0 + 16 < rows ? i0 + 16 : rows, j1 = j0 + 8 < cols ? j0 + 8 : cols;
            for (int64_t i = i0; i < i1; i++)
                for (int64_t j = j0; j < j1; j++)
                    ((T *)(d + i * d_row))[j] = ((const T *)(s + j * s_col))[i];
        }
}

static void FN(transpose)(char *d, int64_t d_row, const char *s, int64_t s_col, int64_t rows,
                          int64_t cols) {
    int64_t i = 0, j = 0;
    if (sizeof(T) == 4) {
        i = rows / SQUARE * SQUARE;
        j = cols / SQUARE * SQUARE;
        transpose_squares(d, d_row, s, s_col, i, j);
        FN(transpose_blocks)(d + j * 4, d_row, s + j * s_col, s_col, i, cols - j);
    }
    s += i * (int64_t)sizeof(T);
    FN(transpose_blocks)(d + i * d_row, d_row, s, s_col, rows - i, cols);
}

static void FN(plane)(char *d, int64_t d_row, int64_t d_col, const char *s, int64_t s_row,
                      int64_t s_col, int64_t rows, int64_t cols) {
    if (d_col == sizeof(T) && s_row == sizeof(T) && s_col != sizeof(T) && rows > 1) {
        FN(transpose)(d, d_row, s, s_col, rows, cols);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        FN(row)(d + i * d_row, d_col, s + i * s_row, s_col, cols);
}

#undef FN2
#undef FN1
#undef FN
#undef T
#undef S
