/* Combines with an element narrower than a word, inside the word that holds it (little endian). */
DEVFN void pk_atomic_combine(volatile GLOBAL T *p, i64 at, T v) {
    const i64 per_word = 4 / (i64)sizeof(T);
    volatile GLOBAL u32 *word = (volatile GLOBAL u32 *)p + at / per_word;
    const u32 shift = (u32)(at % per_word) * 8 * (u32)sizeof(T);
    const u32 part = ((u32)1 << 8 * sizeof(T)) - 1, mask = part << shift;
    u32 seen = CAS(word, 0, 0), old;
    do {
        old = seen;
        const T both = pk_both((T)(old >> shift), v);
        seen = CAS(word, old, (old & ~mask) | ((u32)both & part) << shift);
    } while (seen != old);
}
