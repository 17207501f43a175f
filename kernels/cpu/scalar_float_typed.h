/* Floating functions for one dtype: T its type, S the suffix, F(name) the libm spelling. */
#define FN2(name, s) pk_##name##_##s
#define FN1(name, s) FN2(name, s)
#define FN(name) FN1(name, S)

static inline T FN(sqrt)(T a) { return F(sqrt)(a); }
static inline T FN(floor)(T a) { return F(floor)(a); }
static inline T FN(trunc)(T a) { return F(trunc)(a); }
static inline T FN(round)(T a) { return F(rint)(a); }
static inline T FN(abs)(T a) { return F(fabs)(a); }
static inline T FN(tan)(T a) { return F(tan)(a); }
static inline T FN(asin)(T a) { return F(asin)(a); }
static inline T FN(acos)(T a) { return F(acos)(a); }
static inline T FN(atan)(T a) { return F(atan)(a); }
static inline T FN(sinh)(T a) { return F(sinh)(a); }
static inline T FN(cosh)(T a) { return F(cosh)(a); }
static inline T FN(asinh)(T a) { return F(asinh)(a); }
static inline T FN(acosh)(T a) { return F(acosh)(a); }
static inline T FN(atanh)(T a) { return F(atanh)(a); }
static inline T FN(exp2)(T a) { return F(exp2)(a); }
static inline T FN(log2)(T a) { return F(log2)(a); }
static inline T FN(log10)(T a) { return F(log10)(a); }
static inline T FN(erf)(T a) { return F(erf)(a); }
static inline T FN(erfc)(T a) { return F(erfc)(a); }
static inline T FN(ceil)(T a) { return F(ceil)(a); }
static inline T FN(atan2)(T a, T b) { return F(atan2)(a, b); }
static inline T FN(fmod)(T a, T b) { return F(fmod)(a, b); }
static inline T FN(copysign)(T a, T b) { return F(copysign)(a, b); }
static inline T FN(hypot)(T a, T b) { return F(hypot)(a, b); }
static inline T FN(nextafter)(T a, T b) { return F(nextafter)(a, b); }
/* lgamma itself writes a global sign; in float it would be 7 ulp off. */
static inline T FN(lgamma)(T a) {
    int sign;
    return (T)lgamma_r(a, &sign);
}
/* A NaN in b makes the comparison false, so only a's needs a test. */
static inline T FN(max)(T a, T b) { return (a > b) | (a != a) ? a : b; }
static inline T FN(min)(T a, T b) { return (a < b) | (a != a) ? a : b; }

/* Squares are frequent, exact this way, and far cheaper than pow. */
static inline T FN(pow)(T a, T b) { return b == 2 ? a * a : F(pow)(a, b); }

static inline T FN(mod)(T a, T b) {
    T r = F(fmod)(a, b);
    return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}

/* Python's float floor division: the quotient is corrected from the exact remainder. */
static inline T FN(idiv)(T a, T b) {
    if (b == 0) return a / b;
    T r = F(fmod)(a, b);
    T q = (a - r) / b;
    if (r != 0 && ((b < 0) != (r < 0))) q -= 1;
    if (q == 0) return F(copysign)(0, a / b);
    T down = F(floor)(q);
    return q - down > (T)0.5 ? down + 1 : down;
}

#undef FN2
#undef FN1
#undef FN
#undef T
#undef S
#undef F
