/* Adds to an element narrower than a word, inside the word that holds it (little endian). */
DEVFN void pk_atomic_add(volatile GLOBAL T *p, i64 at, T v) {
    const i64 per_word = 4 / (i64)sizeof(T);
    volatile GLOBAL u32 *word = (volatile GLOBAL u32 *)p + at / per_word;
    const u32 shift = (u32)(at % per_word) * 8 * (u32)sizeof(T);
    const u32 mask = (u32)(T)~(T)0 << shift;
    u32 seen = CAS(word, 0, 0), old;
    do {
        old = seen;
        const T sum = SUM((T)(old >> shift), v);
        seen = CAS(word, old, (old & ~mask) | (u32)sum << shift);
    } while (seen != old);
}
