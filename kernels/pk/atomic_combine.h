/* Combines with an element of a word's size by compare-and-swap; the first look is atomic as well. */
DEVFN void pk_atomic_combine(volatile GLOBAL T *p, i64 at, T v) {
    WORD seen = CAS(p + at, 0, 0), old;
    do {
        old = seen;
        seen = CAS(p + at, old, TO_BITS(pk_both(FROM_BITS(old), v)));
    } while (seen != old);
}
