/* The scalar functions of one integer type: pk.py prints this once per dtype in use, with T the
 * type and U the unsigned type its arithmetic wraps in.
 */
DEVFN T pk_neg_T(T a) { return (T)((U)0 - (U)a); }
DEVFN T pk_add_T(T a, T b) { return (T)((U)a + (U)b); }
DEVFN T pk_sub_T(T a, T b) { return (T)((U)a - (U)b); }
DEVFN T pk_mul_T(T a, T b) { return (T)((U)a * (U)b); }
DEVFN T pk_abs_T(T a) { return a < 0 ? pk_neg_T(a) : a; }

/* Floored; 0 for a zero divisor. Dividing by -1 is a negation: the least number has no opposite. */
DEVFN T pk_idiv_T(T a, T b) {
    if (b == 0) return 0;
    if ((T)-1 < 0 && b == (T)-1) return pk_neg_T(a);
    const T q = a / b, r = a % b;
    return q - (T)(r != 0 && (r < 0) != (b < 0));
}
DEVFN T pk_mod_T(T a, T b) {
    if (b == 0 || ((T)-1 < 0 && b == (T)-1)) return 0;
    const T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;
}

/* The remainder with the dividend's sign. */
DEVFN T pk_fmod_T(T a, T b) { return b == 0 || ((T)-1 < 0 && b == (T)-1) ? (T)0 : (T)(a % b); }

/* Euclid's algorithm on magnitudes. */
DEVFN T pk_gcd_T(T a, T b) {
    U x = (U)pk_abs_T(a), y = (U)pk_abs_T(b);
    while (y) {
        const U r = x % y;
        x = y;
        y = r;
    }
    return (T)x;
}

/* Exact modulo the type's range; a negative exponent leaves 0 unless the base is 1 or -1. */
DEVFN T pk_pow_T(T base, T exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == (T)-1 ? (exponent & 1 ? base : (T)1) : 0;
    U result = 1, square = (U)base;
    for (U left = (U)exponent; left; left >>= 1) {
        if (left & 1) result *= square;
        square *= square;
    }
    return (T)result;
}

/* A shift by a negative count or by the type's width and more leaves nothing but the sign. */
DEVFN T pk_shl_T(T a, T count) {
    return count < 0 || count >= (T)(8 * sizeof(T)) ? (T)0 : (T)((U)a << count);
}
DEVFN T pk_shr_T(T a, T count) {
    return count < 0 || count >= (T)(8 * sizeof(T)) ? (T)(a < 0 ? -1 : 0) : (T)(a >> count);
}
