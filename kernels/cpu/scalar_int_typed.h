/* Integer arithmetic that wraps, for one dtype: T its type, U the unsigned twin, S the suffix. */
#define FN2(name, s) pk_##name##_##s
#define FN1(name, s) FN2(name, s)
#define FN(name) FN1(name, S)

static inline T FN(add)(T a, T b) { return (T)((U)a + (U)b); }
static inline T FN(sub)(T a, T b) { return (T)((U)a - (U)b); }
static inline T FN(mul)(T a, T b) { return (T)((U)a * (U)b); }
static inline T FN(neg)(T a) { return (T)((U)0 - (U)a); }

static inline int FN(negative)(T a) {
#if SIGNED
    return a < 0;
#else
    (void)a;
    return 0;
#endif
}

static inline T FN(abs)(T a) { return FN(negative)(a) ? FN(neg)(a) : a; }

/* Floored; 0 for a zero divisor. Dividing by -1 is a negation because the minimum would trap. */
static inline T FN(idiv)(T a, T b) {
    if (b == 0) return 0;
    if (SIGNED && b == (T)-1) return FN(neg)(a);
    T q = (T)(a / b), r = (T)(a % b);
    return (T)(q - ((r != 0) & (FN(negative)(r) != FN(negative)(b))));
}

static inline T FN(mod)(T a, T b) {
    if (b == 0 || (SIGNED && b == (T)-1)) return 0;
    T r = (T)(a % b);
    return (r != 0 && FN(negative)(r) != FN(negative)(b)) ? (T)(r + b) : r;
}

/* The remainder with the dividend's sign. */
static inline T FN(fmod)(T a, T b) {
    return b == 0 || (SIGNED && b == (T)-1) ? 0 : (T)(a % b);
}

/* Euclid's algorithm on magnitudes. */
static inline T FN(gcd)(T a, T b) {
    U x = (U)FN(abs)(a), y = (U)FN(abs)(b);
    while (y) {
        U r = x % y;
        x = y;
        y = r;
    }
    return (T)x;
}

/* By squaring; a negative exponent leaves 0 except for the bases 1 and -1. */
static inline T FN(pow)(T a, T b) {
    if (FN(negative)(b)) return a == 1 ? 1 : a == (T)-1 ? ((U)b & 1 ? a : 1) : 0;
    U result = 1, base = (U)a;
    for (U e = (U)b; e; e >>= 1) {
        if (e & 1) result = (U)(result * base);
        base = (U)(base * base);
    }
    return (T)result;
}

/* A shift by the width or more, or by a negative count, has shifted everything out. */
static inline T FN(shl)(T a, T b) {
    return (U)b >= 8 * sizeof(T) ? 0 : (T)((U)a << ((U)b & (8 * sizeof(T) - 1)));
}
static inline T FN(shr)(T a, T b) {
    U count = (U)b >= 8 * sizeof(T) ? (U)(8 * sizeof(T) - 1) : (U)b;
    return !SIGNED && (U)b >= 8 * sizeof(T) ? 0 : (T)(a >> count);
}

#undef FN2
#undef FN1
#undef FN
#undef T
#undef U
#undef S
#undef SIGNED
